"""The shape of each answer of the daemon, and of its announcements: what its methods return, and what others read.

They are plain JSON once they are sent, so a reader takes them as they are: the command line without a decoder, since
that would cost its start, and the dashboard through one.  `hooklatch schema` makes JSON Schemas of them.  Fires are
apart: their answer is a decision (`core/messages.py`), or what a host prints (`hosts/host.py`).

Times are seconds since 1970 and durations seconds, unless a name ends in `_ms`; sizes are bytes.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from hooklatch.core.hooks.catalogue import Combine, EventSpec, Flow, Model, View
from hooklatch.core.hooks.registry import HookState
from hooklatch.core.messages import Cause, ChainHead
from hooklatch.core.status_answers import (
    ChangeWarnings,
    HookTimings,
    ReportedDiagnostic,
    RevisionAnswer,
    SuspensionFacts,
)

__all__ = [
    "AcceptedFire", "AnnouncedChange", "AnnouncedOperation", "Ask", "AskAnnounced", "AskAnswer", "AskEnd", "AskReason",
    "AsksAnswer", "BriefHook", "CallCounts", "ChangeAnswer", "ClosedAsk", "CountedName", "CountsAnswer", "EndedSession",
    "EventField", "EventStatus", "EventsAnswer", "ExplainAnswer", "GuardCounts", "HelloAnswer", "HookFailure",
    "HookLoad", "HookStatus", "HooksAnswer", "HourOfDecisions", "InsteadCounts", "LastRefusal", "MissedLines",
    "ProtocolLimits", "Refusals", "RefusedDefinition", "ReportedSession", "ResumeAnswer", "ResyncLine", "ServerName",
    "SessionAnswer", "SessionStatus", "SessionsAnswer", "SettingsAnswer", "SettingsNote", "ShownHook", "ShownHooks",
    "SuspendAnswer", "TrustAnswer", "TrustedHook", "UntrustAnswer", "describe_event",
]  # fmt: skip


# -- sessions ----------------------------------------------------------------------------------------------------------


class ServerName(TypedDict):
    """The program that answers."""

    name: str
    version: str


class ProtocolLimits(TypedDict):
    """The limits of the protocol, which a client keeps."""

    payload_bytes: int
    frame_bytes: int
    in_flight: int
    in_flight_bytes: int


class RefusedDefinition(TypedDict):
    """A definition that was refused: its index in the call, the id of its stand-in, its event, and the reason."""

    at: int
    id: str | None
    event: Any
    reason: str


class Refusals(TypedDict):
    """The definitions that were refused, if the client wants each to be registered by itself."""

    refused: NotRequired[list[RefusedDefinition]]


class HelloAnswer(RevisionAnswer, Refusals):
    """`hello`: the session and its proofs, the hooks that it has, and what the client may rely on."""

    protocol: int
    server: ServerName
    session_id: str | None
    resume_token: str | None
    hooks: list[str]
    child_token: str | None
    digest: str
    record: ChainHead | None
    limits: ProtocolLimits
    budgets: dict[str, float]
    warnings: list[str]


class SessionAnswer(RevisionAnswer):
    """A session has the settings that it asked for."""

    warnings: list[str]


class EndedSession(TypedDict):
    """A session is closed on this connection; `ended` if that was its last one."""

    ended: bool


class SessionStatus(TypedDict):
    """An agent that is connected."""

    id: str
    parent: str | None
    client: str | None
    host: str | None
    cwd: str | None
    personality: str | None
    plugins: list[str] | None
    connections: int
    created_at: float
    fires: int
    hooks: int
    revision: int
    digest: str
    calls: NotRequired[CallCounts]


class CallCounts(TypedDict):
    """The tool calls that ran in a session: how many were asked about, and ran as they were judged.

    The last three are there only where there is such a call.
    """

    ran: int
    asked: int
    as_judged: int
    overruled: NotRequired[int]
    unasked: NotRequired[int]
    altered: NotRequired[int]


class ReportedSession(TypedDict):
    """A session of an agent's program, which asks by one connection for each event, and the calls that it reported."""

    host: str
    id: str
    calls: CallCounts


class SessionsAnswer(TypedDict):
    """`sessions`: agents that are connected, and those whose programs report their calls one by one."""

    sessions: list[SessionStatus]
    reported: list[ReportedSession]


# -- hooks and events --------------------------------------------------------------------------------------------------


class HookLoad(TypedDict):
    """The load of one hook and of its source's workers.  All values but `in_flight` are those of the source.

    `workers` are idle or `busy`. `memory_bytes` is what these use, with their share of pages that several use, so that
    those of all sources add up; null if it cannot be read. `waiting` calls have no worker yet. `in_flight` are the
    calls of this hook that run.
    """

    workers: int
    busy: int
    memory_bytes: int | None
    waiting: int
    in_flight: int


class HookStatus(TypedDict):
    """A hook: its definition, where it is declared, and its calls since the daemon started.

    `failing`: each of its last five calls failed, or each of its newest version.  `counts` are of the whole record, and
    only in `--json`.
    """

    id: str
    name: str
    layer: str
    project: str | None
    plugin: str | None
    event: str
    match: str
    where: str | None
    target: str
    kind: Literal["python", "shell", "served"]
    origin: str | None
    digests: dict[str, str] | None
    state: HookState
    problem: str | None
    failing: bool
    enabled: bool
    observe: bool
    optional: bool
    amends: bool
    only_judges: bool
    priority: int
    timeout: float | None
    description: str
    timings: HookTimings
    load: HookLoad | None
    counts: NotRequired[GuardCounts | None]


class HooksAnswer(RevisionAnswer):
    """`hooks` and `hooks list`: in firing order."""

    digest: str
    hooks: list[HookStatus]


class HookFailure(TypedDict):
    """A call that failed, with its time, its event, what was judged and the details of the cause."""

    at: float
    decision_id: str
    event: str
    subject: str
    session: str | None
    cause: Cause
    message: str
    traceback: str
    stdout: str
    stderr: str
    exit_code: int | None
    duration_ms: float


class ShownHook(HookStatus):
    """A hook and its last failures, the newest first; `owner` is the session that it belongs to.

    The failures are null for a session that asks about a hook of somebody else's.
    """

    owner: str | None
    command: str | None
    last_failures: list[HookFailure] | None


class ShownHooks(RevisionAnswer):
    """`hooks show`: every hook of that id."""

    hooks: list[ShownHook]


class BriefHook(TypedDict):
    """A hook in an explanation; `why` is the reason if it would not be called."""

    name: str
    layer: str
    hook: str
    match: str
    where: str | None
    state: HookState
    priority: int
    amends: bool
    only_judges: bool
    why: NotRequired[str]


class ExplainAnswer(RevisionAnswer):
    """`hooks explain`: the hooks that would be called, in their order, and the others."""

    event: str
    budget: float
    refusal: str | None
    tool_kind: str | None
    fires: list[BriefHook]
    others: list[BriefHook]


class EventField(TypedDict):
    """A key of an event's payload."""

    name: str
    type: str


class EventStatus(TypedDict):
    """An event.  Without a daemon its hooks and counts are null; in a dialect it has the events that it `feeds`."""

    name: str
    model: Model
    flow: Flow
    view: View
    combine: Combine | None
    verdicts: list[str]
    outputs: list[str]
    patch: list[str]
    on_refusal: str | None
    match: str | None
    timeout: float
    budget: float
    fails: Literal["closed", "open"]
    when: str
    fields: list[EventField]
    hooks: int | None
    fired: int | None
    last_fired: float | None
    timings: HookTimings | None
    aliases: NotRequired[tuple[str, ...]]
    feeds: NotRequired[list[str]]


def describe_event(spec: EventSpec) -> EventStatus:
    """Return an event as it is reported; its hooks and counts are unknown."""
    return {
        "name": spec.name, "model": spec.model, "flow": spec.flow, "view": spec.view, "combine": spec.combine,
        "verdicts": sorted(spec.verdicts), "outputs": sorted(spec.outputs), "patch": sorted(spec.patch),
        "on_refusal": spec.on_refusal, "match": spec.match, "timeout": spec.timeout, "budget": spec.timeout,
        "fails": "closed" if spec.fails_closed else "open", "when": spec.when,
        "fields": [{"name": field.name, "type": field.type} for field in spec.fields],
        "hooks": None, "fired": None, "last_fired": None, "timings": None,
    }  # fmt: skip


class EventsAnswer(TypedDict):
    """The events that the asking session can fire, and the dialect that names them so."""

    dialect: NotRequired[str]
    events: list[EventStatus]


class ChangeAnswer(RevisionAnswer, ChangeWarnings, Refusals):
    """A change of the hooks and the revision after it; `ids` were added (null: `refused`), `removed` removed.

    `accepted` are the files and plugins that had vanished, and are removed with all of their hooks.
    """

    ids: NotRequired[list[str | None]]
    removed: NotRequired[list[str]]
    accepted: NotRequired[list[str]]


class SettingsNote(TypedDict):
    """A lost or different part of a settings file; `red` if gates deny for it."""

    place: str
    line: int
    text: str
    red: bool


class SettingsAnswer(TypedDict):
    """`settings`: definitions of the hooks in a settings file, for a client that registers them."""

    hooks: list[dict[str, Any]]
    notes: list[SettingsNote]


class AcceptedFire(TypedDict):
    """A fire whose decision no client waits for."""

    accepted: bool
    decision_id: str


class SuspendAnswer(ChangeWarnings):
    """`suspend`."""

    suspended: SuspensionFacts


class ResumeAnswer(ChangeWarnings):
    """`resume`; `suspended` are those that remain."""

    was_suspended: bool
    suspended: list[SuspensionFacts]


class TrustedHook(TypedDict):
    """A hook of a project."""

    id: str
    event: str
    problem: str | None


class TrustAnswer(RevisionAnswer, ChangeWarnings):
    """`trust`: the files that are pinned, by the sha256 of each, and the hooks in them."""

    folder: str
    files: dict[str, str]
    hooks: list[TrustedHook]
    diagnostics: list[ReportedDiagnostic]


class UntrustAnswer(RevisionAnswer, ChangeWarnings):
    """`trust --revoke`."""

    folder: str
    was_trusted: bool


# -- counts ------------------------------------------------------------------------------------------------------------


class LastRefusal(TypedDict):
    """The last decision by which a guard refused: its time and id, what was judged, and the reason."""

    at: str
    decision_id: str
    subject: str
    reason: str


class InsteadCounts(TypedDict):
    """The denials of a guard that named a command to run instead, and those after which it was run.

    `taken`: a later gate event of the same session passed, whose shell command is that text, but for blanks around it.
    `unknown`: the record keeps too little of one of the two to compare them.
    """

    offered: int
    taken: int
    unknown: int


class GuardCounts(TypedDict):
    """The counts of one hook, by its full name: its calls, what it decided by verdict, and its failed calls.

    `verdicts` are of decisions that were its own; `ask` has its asks that waited for a person too.  `would` are the
    verdicts of a hook that only observes.  `warnings` are its calls that added some.  `instead` is null where it was
    not worked out.
    """

    name: str
    calls: int
    failures: int
    warnings: int
    verdicts: dict[str, int]
    would: dict[str, int]
    last_refusal: LastRefusal | None
    instead: InsteadCounts | None


class CountedName(TypedDict):
    """The decisions about one tool, of one agent, in one folder, or for one reason, in all and by verdict."""

    name: str
    decisions: int
    verdicts: dict[str, int]


class HourOfDecisions(TypedDict):
    """The decisions of an hour that had some, by verdict; `at` is its beginning (UTC)."""

    at: str
    verdicts: dict[str, int]


class CountsAnswer(TypedDict):
    """`counts`: the decisions on record since a moment.  Those who refused or decided most come first.

    `first` is the time of the oldest one, since retention may have removed those before it.  `never` are the hooks that
    were not called (null: not known which there are).  `reasons` are of refusals and asks.  `unread` lines of the
    record could not be read.  A name of an agent's making, such as of a tool, may be anything.
    """

    since: str | None
    first: str | None
    decisions: int
    verdicts: dict[str, int]
    guards: list[GuardCounts]
    never: list[str] | None
    tools: list[CountedName]
    agents: list[CountedName]
    projects: list[CountedName]
    reasons: list[CountedName]
    hours: list[HourOfDecisions]
    unread: int


# -- asks --------------------------------------------------------------------------------------------------------------


class AskReason(TypedDict):
    """The question of one hook: its full name, and its reason."""

    hook: str
    reason: str


class Ask(TypedDict):
    """An open ask.  Its id is that of the decision that waits for it; times are texts as in the record.

    `subject` is what is judged.  `cwd` is the agent's folder, clipped like a reason.  `questions` are those of all
    hooks that ask, in firing order, the agent's own last (without `questions_omitted` of them); a yes is an answer to
    each.  `hook` and `reason` are those of the first.  `instead` is what the agent is told to run after a no, redacted.
    `payload_digest` is that of the payload after all hooks, `excerpt` its contents without secrets (`excerpt_cut`, as
    text, where more is missing), and `patch` (`patch_cut`) the keys that hooks have changed.
    """

    id: str
    at: str
    expires_at: str
    session_id: str | None
    host: str | None
    cwd: str | None
    event: str
    tool: str | None
    subject: str
    hook: str
    reason: str
    questions: list[AskReason]
    questions_omitted: int
    instead: str | None
    payload_digest: str
    payload_bytes: int
    excerpt: Any
    excerpt_cut: str | None
    patch: Any
    patch_cut: str | None


class AskEnd(TypedDict):
    """The resolution of an ask; `by` is null if no person answered."""

    id: str
    verdict: Literal["allow", "deny"]
    cause: Cause
    reason: str
    by: str | None


class ClosedAsk(AskEnd):
    """The resolution of an ask by a person; `uid` and `pid` are of the process that sent the answer."""

    uid: int | None
    pid: int | None


class AsksAnswer(TypedDict):
    """`asks`: the asks that wait for a person, the oldest first."""

    asks: list[Ask]


class AskAnswer(TypedDict):
    """`asks answer`."""

    closed: ClosedAsk


# -- announcements -----------------------------------------------------------------------------------------------------


class AskAnnounced(TypedDict):
    """An ask that opened or closed, or the number of lines that were `missed`."""

    topic: Literal["asks"]
    opened: NotRequired[Ask]
    closed: NotRequired[AskEnd]
    missed: NotRequired[int]


class AnnouncedChange(TypedDict):
    """A change of the global hooks: their ids."""

    topic: Literal["registry"]
    previous: int
    revision: int
    digest: str
    added: list[str]
    removed: list[str]
    changed: list[str]


class AnnouncedOperation(TypedDict):
    """An act of an operator or an event of the daemon; its fields depend on `kind` (docs/reference/protocol.md)."""

    topic: Literal["operations"]
    at: str
    kind: Literal["suspended", "resumed", "quarantined", "released", "reloaded", "fault", "mended", "acknowledged"]
    hook: NotRequired[str]
    until: NotRequired[float]
    reason: NotRequired[str]
    why: NotRequired[str]
    text: NotRequired[str]
    previous: NotRequired[int]
    revision: NotRequired[int]
    added: NotRequired[list[str]]
    removed: NotRequired[list[str]]
    changed: NotRequired[list[str]]
    diagnostics: NotRequired[list[ReportedDiagnostic]]
    accepted: NotRequired[list[str]]


class MissedLines(TypedDict):
    """The number of lines of a topic that were left out, since this reader was too slow."""

    topic: Literal["decisions", "operations"]
    missed: int


class ResyncLine(TypedDict):
    """The revision of the hooks now, whose changes were left out, since this reader was too slow."""

    topic: Literal["registry"]
    resync: int

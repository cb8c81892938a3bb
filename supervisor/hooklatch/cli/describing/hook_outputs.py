"""What commands about hooks, events and payloads print with `--json`.  Shapes alone.

Times are seconds since 1970 and durations seconds, unless a name ends in `_ms`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hooklatch.cli.describing.daemon_outputs import ProjectStatus
from hooklatch.cli.replaying.record_cases import CasesWritten
from hooklatch.cli.replaying.replay import ReplayReport
from hooklatch.cli.testing.cases import ExpectedDecision
from hooklatch.cli.testing.coverage import HookCoverage
from hooklatch.client.protocol.decisions import Decision
from hooklatch.core.decisions.asks import Ask, AskResolution
from hooklatch.core.hooks.registry import HookState
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.core.messages import Cause
from hooklatch.processes.pool_limits import HookLoad
from hooklatch.service.config.toml_document import Diagnostic
from hooklatch.service.registry.failure_log import HookFailure
from hooklatch.service.registry.statistics import HookTimings

__all__ = ["OUTPUTS"]


class HookStatus(msgspec.Struct):
    """A hook: what it is, where it is declared, and how its calls went since the daemon started.

    `failing`: each of its last calls failed, five or more.
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


class HookList(msgspec.Struct):
    """`hooks` and `hooks list`: in firing order."""

    revision: int
    digest: str
    hooks: list[HookStatus]


class ShownHook(HookStatus, kw_only=True):
    """A hook and its last failures, the newest first; `owner` is the session that it belongs to."""

    owner: str | None
    command: str | None
    last_failures: list[HookFailure]


class ShownHooks(msgspec.Struct):
    """`hooks show`: every hook of that id."""

    revision: int
    hooks: list[ShownHook]


class RegistryChangeOutput(msgspec.Struct, kw_only=True):
    """A change of the hooks: the revision since; `ids` were added, `removed` removed.

    `accepted` are the files and plugins that had vanished, and are removed with all of their hooks.
    """

    revision: int
    ids: list[str] = []
    removed: list[str] = []
    accepted: list[str] = []
    warnings: list[str] = []


class BriefHook(msgspec.Struct, kw_only=True):
    """A hook in an explanation; `why` says why it would not be asked."""

    name: str
    layer: str
    hook: str
    match: str
    where: str | None
    state: str
    priority: int
    amends: bool
    only_judges: bool
    why: str | None = None


class ExplainOutput(msgspec.Struct):
    """`hooks explain`: those that would be asked, in their order, and the others."""

    event: str
    revision: int
    budget: float
    refusal: str | None
    tool_kind: str | None
    fires: list[BriefHook]
    others: list[BriefHook]


class EventField(msgspec.Struct):
    """A key of an event's payload."""

    name: str
    type: str


class EventStatus(msgspec.Struct):
    """An event; without a daemon its hooks and counts are null."""

    name: str
    model: str
    flow: str
    view: str
    combine: str | None
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


class EventList(msgspec.Struct):
    """`events`; `live` is false for the standard catalogue, without a daemon."""

    events: list[EventStatus]
    live: bool


class SuspensionMade(msgspec.Struct, kw_only=True):
    """`suspend`."""

    suspended: Suspension
    warnings: list[str] = []


class SuspensionEnded(msgspec.Struct, kw_only=True):
    """`resume`; `suspended` are those that remain."""

    was_suspended: bool
    suspended: list[Suspension]
    warnings: list[str] = []


class OpenAsksShown(msgspec.Struct):
    """`asks`: what waits for a person, the oldest first."""

    asks: list[Ask]


class AskAnnounced(msgspec.Struct, kw_only=True):
    """A line of `asks --follow`: one that opened or closed, or how many such lines were `missed`."""

    topic: Literal["asks"]
    opened: Ask | msgspec.UnsetType = msgspec.UNSET
    closed: AskEnd | msgspec.UnsetType = msgspec.UNSET
    missed: int | msgspec.UnsetType = msgspec.UNSET


class AskEnd(msgspec.Struct):
    """How an ask ended; `by` is null if nobody answered."""

    id: str
    verdict: Literal["allow", "deny"]
    by: str | None
    reason: str
    cause: Cause


class AskAnswered(msgspec.Struct):
    """`asks answer`."""

    closed: AskResolution


class TrustedHook(msgspec.Struct):
    """A hook of a project."""

    id: str
    event: str
    problem: str | None


class TrustOutput(msgspec.Struct):
    """`trust`: the files that are pinned, by the sha256 of each, and the hooks in them."""

    folder: str
    files: dict[str, str]
    hooks: list[TrustedHook]
    diagnostics: list[Diagnostic]
    revision: int


class UntrustOutput(msgspec.Struct):
    """`trust --revoke`."""

    folder: str
    was_trusted: bool
    revision: int


class TrustedProjects(msgspec.Struct):
    """`trust --list`."""

    projects: list[ProjectStatus]


class CaseResultOutput(msgspec.Struct):
    """A case of `test`: what was expected, and what came of it."""

    name: str
    file: str
    line: int
    event: str
    passed: bool
    expected: ExpectedDecision
    differences: list[str]
    failures: list[str]
    decision: Decision


class TestReport(msgspec.Struct):
    """`test`."""

    passed: int
    failed: int
    diagnostics: list[str]
    cases: list[CaseResultOutput]
    coverage: list[HookCoverage] = []  # with --coverage


class CheckedHooks(msgspec.Struct):
    """A configuration, or Python files: what it holds, and what is wrong with it.

    `unread` is what nothing reads in a folder of hooks.  `dangers` are what commands run although an agent can write
    it, and `notes` what guards nothing and may be meant so: neither is a problem.
    """

    what: str
    hooks: int
    sources: list[str]
    dangers: list[Diagnostic]
    unread: list[Diagnostic]
    notes: list[Diagnostic]
    diagnostics: list[Diagnostic]


class CheckReport(msgspec.Struct):
    """`check`."""

    ok: bool
    checked: list[CheckedHooks]


class DevOutput(msgspec.Struct):
    """`dev`, for each payload; `differences` from what a case expects."""

    title: str
    decision: Decision
    differences: list[str]


class NotLoaded(msgspec.Struct):
    """`dev`, of a file that does not load."""

    diagnostics: list[Diagnostic]


# A command, and what it prints: one of these shapes.
OUTPUTS: dict[str, tuple[Any, ...]] = {
    "hooks": (HookList,),
    "hooks list": (HookList,),
    "hooks show": (ShownHooks,),
    "hooks add": (RegistryChangeOutput,),
    "hooks remove": (RegistryChangeOutput,),
    "hooks enable": (RegistryChangeOutput,),
    "hooks disable": (RegistryChangeOutput,),
    "hooks explain": (ExplainOutput,),
    "events": (EventList,),
    "suspend": (SuspensionMade,),
    "resume": (SuspensionEnded,),
    "asks": (OpenAsksShown, AskAnnounced),
    "asks answer": (AskAnswered,),
    "trust": (TrustOutput, UntrustOutput, TrustedProjects),
    "fire": (Decision,),
    "test": (TestReport,),
    "check": (CheckReport,),
    "dev": (DevOutput, NotLoaded),
    "guards test": (TestReport,),
    "replay": (ReplayReport,),
    "record cases": (CasesWritten,),
}

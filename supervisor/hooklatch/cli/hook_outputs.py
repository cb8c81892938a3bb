"""The shapes that commands about hooks, events and payloads print with `--json`.

Times are seconds since 1970 and durations seconds, unless a name ends in `_ms`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hooklatch.cli.daemon_outputs import ProjectStatus
from hooklatch.cli.testing.cases import ExpectedDecision
from hooklatch.cli.testing.coverage import HookCoverage
from hooklatch.cli.testing.record_cases import CasesWritten
from hooklatch.cli.testing.replay import ReplayReport
from hooklatch.client.protocol.decisions import Decision
from hooklatch.core.asks import Ask, AskResolution
from hooklatch.core.hooks.registry import HookState
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.core.messages import Cause
from hooklatch.processes.pool_limits import HookLoad
from hooklatch.service.config.toml_document import Diagnostic
from hooklatch.service.registry.failure_log import HookFailure
from hooklatch.service.registry.statistics import HookTimings

__all__ = ["OUTPUTS"]


class HookStatus(msgspec.Struct):
    """A hook: its definition, where it is declared, and its calls since the daemon started.

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
    """A change of the hooks and the revision after it; `ids` were added, `removed` removed.

    `accepted` are the files and plugins that had vanished, and are removed with all of their hooks.
    """

    revision: int
    ids: list[str] = []
    removed: list[str] = []
    accepted: list[str] = []
    warnings: list[str] = []


class BriefHook(msgspec.Struct, kw_only=True):
    """A hook in an explanation; `why` is the reason if it would not be called."""

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
    """`hooks explain`: the hooks that would be called, in their order, and the others."""

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
    """`asks`: the asks that wait for a person, the oldest first."""

    asks: list[Ask]


class AskAnnounced(msgspec.Struct, kw_only=True):
    """A line of `asks --follow`: an ask that opened or closed, or the number of lines that were `missed`."""

    topic: Literal["asks"]
    opened: Ask | msgspec.UnsetType = msgspec.UNSET
    closed: AskEnd | msgspec.UnsetType = msgspec.UNSET
    missed: int | msgspec.UnsetType = msgspec.UNSET


class AskEnd(msgspec.Struct):
    """The resolution of an ask; `by` is null if no person answered."""

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
    """A case of `test`: the expected decision, the real one, and their differences."""

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
    """A configuration, or Python files: their content, and the findings.

    `unread` are files in a folder of hooks that nothing reads.  `dangers` are commands that run a file which an agent
    can write, and `notes` are hooks that guard nothing and may be meant so: neither is a problem.
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
    """`dev`, for each payload; `differences` are those from the decision that a case expects."""

    title: str
    decision: Decision
    differences: list[str]


class NotLoaded(msgspec.Struct):
    """`dev`, for a file that does not load."""

    diagnostics: list[Diagnostic]


# A command and the shapes of its output: it prints one of them.
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

"""The shapes of the daemon's responses, as far as pages show them.

A field that a page needs has no default. A response without it cannot be understood, and the page says so, instead of
showing that nothing is wrong.  Other fields are left out, and words stay texts, since a daemon of another version may
have more.  An ask is the exception: the person who answers has to see all of it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hooklatch.core.asks import Ask
from hooklatch.core.messages import ChainHead

__all__ = [
    "OpenAskList", "FailingHookSummary", "FailureSummary", "FindingSummary", "HookSummary", "HookAnswer",
    "HooksAnswer", "WorkerLoad", "RecordPage", "RecordSummary",
    "SessionSummary", "SessionsAnswer", "ShownAsk", "SourceSummary", "StatusSummary", "SuspensionSummary",
    "TimingSummary",
]  # fmt: skip


class FindingSummary(msgspec.Struct, frozen=True):
    """A finding of the daemon's health, with its remedy."""

    reason: str
    what: str
    do: str


class SuspensionSummary(msgspec.Struct, frozen=True):
    """A suspension of a hook or a plugin, or (None) of every hook."""

    hook: str | None
    since: float
    until: float
    reason: str
    seconds_left: float


class FailingHookSummary(msgspec.Struct, frozen=True):
    """A hook whose last calls all failed."""

    hook: str
    count: int
    cause: str
    origin: str | None


class RecordSummary(msgspec.Struct, frozen=True):
    """The state of the decision record. `stage` is that of the disk's free space."""

    folder: str
    durability: str
    head: ChainHead
    stage: str
    unrecorded: dict[str, int]


class SourceSummary(msgspec.Struct, frozen=True):
    """The workers of one source."""

    source: str
    idle: int
    busy: int
    waiting: int


class StatusSummary(msgspec.Struct, frozen=True):
    """The status of the daemon."""

    version: str
    pid: int
    uptime_s: float
    health: Literal["green", "red"]
    draining: bool
    wrong: list[FindingSummary]
    suspended: list[SuspensionSummary]
    quarantined: list[str]
    failing: list[FailingHookSummary]
    warnings: list[str]
    revision: int
    digest: str
    hooks: int
    sessions: int
    connections: int
    fired: int
    verdicts: dict[str, int]
    failures: dict[str, int]
    dropped: dict[str, int]
    record: RecordSummary
    sources: list[SourceSummary]


class TimingSummary(msgspec.Struct, frozen=True):
    """The durations of a hook's calls, in milliseconds, and the number of failures."""

    count: int
    failures: dict[str, int]
    min_ms: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


class WorkerLoad(msgspec.Struct, frozen=True):
    """The load of the workers of a hook's source. `in_flight` are calls of this hook."""

    workers: int
    busy: int
    memory_bytes: int | None
    waiting: int
    in_flight: int


class FailureSummary(msgspec.Struct, frozen=True):
    """A failed call of a hook, with the known details of its cause."""

    at: float
    decision_id: str
    event: str
    session: str | None
    cause: str
    message: str
    traceback: str
    stderr: str
    exit_code: int | None
    duration_ms: float


class HookSummary(msgspec.Struct, frozen=True):
    """A hook. The last three fields are only in the response about one hook."""

    id: str
    name: str
    layer: str
    event: str
    match: str
    state: str
    enabled: bool
    timings: TimingSummary
    problem: str | None
    target: str
    kind: str
    origin: str | None
    digests: dict[str, str] | None
    observe: bool
    optional: bool
    priority: int
    timeout: float | None
    description: str | None
    load: WorkerLoad | None
    plugin: str | None = None
    owner: str | None = None
    command: str | None = None
    last_failures: list[FailureSummary] | None = None

    @property
    def can_be_switched(self) -> bool:
        """Return whether an administrator may disable it, which is never allowed for a hook of the fleet."""
        return self.layer != "fleet"


class HooksAnswer(msgspec.Struct, frozen=True):
    """All hooks, in firing order."""

    revision: int
    digest: str
    hooks: list[HookSummary]


class HookAnswer(msgspec.Struct, frozen=True):
    """Every hook that one id may mean."""

    revision: int
    hooks: list[HookSummary]


class SessionSummary(msgspec.Struct, frozen=True):
    """An agent that is connected."""

    id: str
    parent: str | None
    client: str | None
    host: str | None
    cwd: str | None
    connections: int
    created_at: float
    fires: int
    hooks: int


class SessionsAnswer(msgspec.Struct, frozen=True):
    """The live sessions."""

    sessions: list[SessionSummary]


class RecordPage(msgspec.Struct, frozen=True):
    """Records, newest last. `more` says that older ones match too."""

    records: list[dict[str, Any]]
    more: bool


class ShownAsk(Ask, frozen=True, kw_only=True):
    """An ask, with its JSON read."""

    excerpt: Any
    patch: Any


class OpenAskList(msgspec.Struct, frozen=True):
    """All asks that are open."""

    asks: list[ShownAsk]

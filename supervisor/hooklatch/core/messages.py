"""The core's input and output: outcomes of calls, and decisions.  Knows data; decides nothing."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "FindingReason", "HealthWord", "RETRYABLE", "Cause", "FireDecision", "DecisionVerdict", "ChainHead", "CallOutcome",
    "EngineFaultKind", "Mismatch",
]  # fmt: skip

DecisionVerdict = Literal["pass", "allow", "deny", "ask", "halt", "claim"]
Cause = Literal[
    "policy", "crash", "timeout", "overload", "protocol", "quarantined", "load", "payload", "unsettled", "unanswered",
    "draining", "no_daemon", "abandoned", "audit",
]  # fmt: skip
# What ran otherwise than it was judged: see `call_ledger`.
Mismatch = Literal["overruled", "unasked", "altered"]
HealthWord = Literal["ready", "red", "draining"]
EngineFaultKind = Literal[
    "away", "refused", "empty", "behind", "rewritten", "shared"
]  # of a fleet's engine, by a link's word
FindingReason = Literal[
    "parts", "zygote", "record", "isolation", "files", "hooks", "faults", "quarantined", "failing", "state",
    "suspended", "fleet", "calls",
]  # fmt: skip
# Causes that may pass: the fault is temporary, not the hook's or the request's.
RETRYABLE: frozenset[Cause] = frozenset({"timeout", "overload", "quarantined", "draining", "no_daemon", "abandoned"})


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one call.

    The part that ran the call sets the `cause`, and if that is "policy" the `answer` (JSON, empty for no opinion).
    Then the machine reads the answer, and adds the hook and its verdict.  Until then the outcome is "unread"; without
    an opinion it may be "answered" at once.  A decision that did not wait for it lists it as "unawaited".

    `last` says that the answer ended the chain.  `message` is then its reason.  `name` is the hook's full name, if its
    layer and id are ambiguous.  `command` is a shell hook's.  `began_ms` is when it was called, from the fire's begin.
    `unneeded` says that an earlier hook in the firing order, called at the same time, had already ended the chain, so
    this outcome has no part in the decision.  `warned` says that the hook added to the warnings.

    The last five fields are for the daemon alone, and are removed when the answer is read: the answer, a crash's
    `traceback`, `is_lost` (the worker died, or must), `is_orphaned` (but not because of the hook) and `earlier_ms`.
    Where the outcome is that of a hook in the call's `following`, `earlier_ms` has the durations of the calls before
    it, none of which had an opinion.
    """

    layer: str = ""
    hook: str = ""
    outcome: Literal["unread", "answered", "failed", "dropped", "unawaited"] = "unread"
    verdict: str | None = None
    cause: Cause
    message: str = ""
    patch: dict[str, msgspec.Raw] | None = None
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    truncated: bool = False
    duration_ms: float = 0.0
    began_ms: float = 0
    reinvoked: bool = False
    observed: bool = False
    command: str = ""
    last: bool = False
    name: str = ""
    unneeded: bool = False
    warned: bool = False
    answer: bytes = b""
    traceback: str = ""
    is_lost: bool = False
    is_orphaned: bool = False
    earlier_ms: tuple[float, ...] = ()

    def with_duration(self, seconds: float) -> CallOutcome:
        """Return a copy with the time that the call took."""
        return msgspec.structs.replace(self, duration_ms=round(seconds * 1000, 3))


class ChainHead(msgspec.Struct, frozen=True):
    """The number of the newest entry of the decision record, and the first half of its sha256, in hexadecimal.

    A head that is kept shows later whether the record up to this entry was changed.
    """

    seq: int
    hash: str


class FireDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one answer to a fire.  Denied by default; only the combining rules can change that.

    `layer` and `hook` name the hook that decided; `name` is its full name, if these are ambiguous.
    `instead` is the shell command that it names in place of what it refuses, or asks about.
    Scalars are always present on the wire (null if empty), lists and maps may be absent if empty.
    """

    decision_id: str
    event: str
    verdict: DecisionVerdict
    cause: Cause | None
    reason: str | None
    layer: str | None
    hook: str | None
    retryable: bool
    patch: dict[str, msgspec.Raw] | None
    payload_digest: str | None
    append: str | None
    resume: str | None
    value: msgspec.Raw | None
    revision: int | None
    duration_ms: float
    inject: list[dict[str, Any]] = []
    name: str = ""
    context: dict[str, Any] = {}
    outcomes: list[CallOutcome] = []
    warnings: list[str] = []
    instead: str | None = None
    record: ChainHead | None = None

    @property
    def is_refusal(self) -> bool:
        return self.verdict in ("deny", "halt")

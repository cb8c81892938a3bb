"""What the core says and hears: hooks' outcomes, decisions, commands.  Knows data; decides nothing."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "RETRYABLE",
    "CallOutcome",
    "Cause",
    "Decision",
    "DecisionVerdict",
    "Head",
    "HookOutcome",
]

DecisionVerdict = Literal["pass", "allow", "deny", "ask", "halt", "claim"]
Cause = Literal[
    "policy",
    "crash",
    "timeout",
    "overload",
    "protocol",
    "quarantined",
    "load",
    "payload",
    "unsettled",
    "draining",
    "no_daemon",
    "abandoned",
    "audit",
]
# Asking again may help: the fault was one of the moment, not of the hook or of the request.
RETRYABLE: frozenset[Cause] = frozenset({"timeout", "overload", "quarantined", "draining", "no_daemon", "abandoned"})


class CallOutcome(msgspec.Struct, frozen=True):
    """What came of one call: an answer's JSON, or the cause for which there is none.

    `traceback` is a crash's, for the operator: it goes neither into the decision nor into the record.
    """

    cause: Cause = "policy"
    answer: bytes = b""
    message: str = ""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    duration_ms: float = 0.0
    exit_code: int | None = None
    traceback: str = ""

    def lasting(self, seconds: float) -> CallOutcome:
        """Return the same, with the time that it took."""
        return msgspec.structs.replace(self, duration_ms=round(seconds * 1000, 3))


class HookOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One hook's part in a decision, as it is shown to hosts and operators.  A shell hook tells its `command`.

    `last` says that its answer ended the chain; `message` is then its reason.  `name` is the hook's in full, where its
    layer and its id may be several hooks'.
    """

    layer: str
    hook: str
    outcome: Literal["answered", "failed", "dropped"]
    verdict: str | None = None
    cause: Cause | None = None
    message: str = ""
    patch: dict[str, msgspec.Raw] | None = None
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    truncated: bool = False
    duration_ms: float = 0.0
    reinvoked: bool = False
    observed: bool = False
    command: str = ""
    last: bool = False
    name: str = ""


class Head(msgspec.Struct, frozen=True):
    """The end of the decision record's chain: a record's number, and the first half of its sha256, in hexadecimal.

    Who keeps it can show later that the record up to there was changed, if it was.
    """

    seq: int
    hash: str


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The one answer to a fire.  It is born denied: only what the combining rules add makes it anything else.

    `layer` and `hook` name who decided; `name` does in full, where these may be several hooks'.
    Scalars are always present on the wire (null where empty), lists and maps may be absent where empty.
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
    outcomes: list[HookOutcome] = []
    warnings: list[str] = []
    record: Head | None = None

    @property
    def is_refusal(self) -> bool:
        return self.verdict in ("deny", "halt")

"""The context of a call for the hook that it runs: the time left, and what it produces besides its verdict.

Does not know sockets or kinds of hooks: Python, shell and language-server hooks get it from their event (`find_call`).
"""

from __future__ import annotations

import time
from math import inf

import msgspec

from hooklatch_worker.author.state import StateChannel

__all__ = ["MAX_EMITTED", "MAX_EMITTED_BYTES", "CallContext", "EmittedTelemetry", "CapturedOutput"]

MAX_EMITTED = 16  # pieces of telemetry in one call
MAX_EMITTED_BYTES = 64 * 2**10  # size limit of one of them


class EmittedTelemetry(msgspec.Struct, frozen=True):
    """One piece of telemetry of a built-in hook.  `data` is a JSON object."""

    event_type: str
    data: bytes


class CapturedOutput(msgspec.Struct, frozen=True):
    """The captured standard output and standard error; for a program also its exit code."""

    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    exit_code: int | None = None


class CallContext(msgspec.Struct, eq=False):
    """One call of a worker; without arguments, no call: no deadline, and no state to ask for.

    `deadline` is a moment of the monotonic clock.  `printed` replaces the captured output if a program ran as the hook.
    """

    call_id: int | None = None
    deadline: float = inf
    line: StateChannel | None = None
    emitted: list[EmittedTelemetry] = []
    printed: CapturedOutput | None = None

    @property
    def remaining(self) -> float:
        """Return the seconds until the daemon ends the call."""
        return self.deadline - time.monotonic()

    def emit(self, event_type: str, data: dict[str, object]) -> None:
        """Add telemetry, which is sent with the answer; drop what cannot be encoded or exceeds the limits."""
        try:
            body = msgspec.json.encode(data)
        except ValueError:  # a path that is not UTF-8
            return
        if len(self.emitted) < MAX_EMITTED and len(body) <= MAX_EMITTED_BYTES:
            self.emitted.append(EmittedTelemetry(event_type, body))

    def __deepcopy__(self, memo: object) -> CallContext:
        """Return itself: a copy of an event belongs to the same call."""
        return self

    def __reduce__(self) -> tuple[type[CallContext], tuple[()]]:
        """Pickle as no call: in another process an event has no call."""
        return CallContext, ()

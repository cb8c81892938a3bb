"""The last failures of each hook, for whoever looks for the cause.  Knows hooks and outcomes; bounds their size.

A failure may contain parts of the payload, so it is neither logged nor recorded.  Who may read it is decided elsewhere.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

import msgspec

from hooklatch.core.hooks.registry import Hook, PythonTarget, ServedTarget
from hooklatch.core.messages import CallOutcome, Cause

__all__ = ["STREAK", "FailingHook", "HookFailure", "Failures"]

KEPT = 5  # per hook
UNASKED = ("overload", "quarantined")  # not called at all: keeping these would push out the failures that caused them
STREAK = 5  # consecutive failed calls of a hook before it is reported
MAX_TEXT = 16 * 2**10  # characters of a message, or of what was printed to one of the two streams
MAX_BYTES = 4 * 2**20  # for all failures; the hook whose last failure is the oldest is dropped first
OVERHEAD = 300  # bytes of a failure without any text


class HookFailure(msgspec.Struct, frozen=True):
    """A call that failed: when, for which event, and what is known of the cause."""

    at: float
    decision_id: str
    event: str
    session: str | None
    cause: Cause
    message: str
    traceback: str
    stdout: str
    stderr: str
    exit_code: int | None
    duration_ms: float

    @property
    def size(self) -> int:
        return OVERHEAD + len(self.message) + len(self.traceback) + len(self.stdout) + len(self.stderr)


class FailingHook(msgspec.Struct, frozen=True):
    """A hook all of whose last calls failed."""

    hook: str
    count: int
    cause: Cause
    origin: str | None


class FailureHistory:
    """What is kept of one hook: its last failures, and how many there were since its last successful call."""

    def __init__(self) -> None:
        self.failures: deque[HookFailure] = deque()
        self.streak = 0
        self.cause: Cause = "policy"
        self.target: PythonTarget | ServedTarget | None = None  # what failed; a new version starts without failures


class Failures:
    """The failures of all hooks, by name and by the session that registered them: sessions may use the same names."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], FailureHistory] = {}
        self._bytes = 0

    def succeeded(self, hook: Hook) -> None:
        """End the streak of a hook's failures."""
        if self._kept and (kept := self._kept.get((hook.name, hook.owner))) is not None:
            kept.streak = 0

    def failed(self, hook: Hook, outcome: CallOutcome, *, decision_id: str, event: str, session: str | None) -> None:
        """Keep a failed call."""
        key = (hook.name, hook.owner)
        kept = self._kept.pop(key, None) or FailureHistory()
        self._kept[key] = kept  # moves to the end: the newest
        kept.streak = kept.streak + 1 if kept.target == hook.target else 1
        kept.target, kept.cause = hook.target, outcome.cause
        if outcome.cause in UNASKED:
            return
        failure = HookFailure(
            time.time(), decision_id, event, session, outcome.cause, outcome.message[:MAX_TEXT],
            outcome.traceback[:MAX_TEXT], outcome.stdout[-MAX_TEXT:], outcome.stderr[-MAX_TEXT:],
            outcome.exit_code, round(outcome.duration_ms, 3),
        )  # fmt: skip
        kept.failures.append(failure)
        self._bytes += failure.size
        if len(kept.failures) > KEPT:
            self._bytes -= kept.failures.popleft().size
        while self._bytes > MAX_BYTES:
            self._drop(next(iter(self._kept)))

    def of(self, hook: Hook) -> list[HookFailure]:
        """Return the last failures of a hook, newest first."""
        kept = self._kept.get((hook.name, hook.owner))
        return [*reversed(kept.failures)] if kept is not None else []

    def failing(self, hooks: Iterable[Hook]) -> list[FailingHook]:
        """Return the hooks that have failed at every one of their last calls."""
        found: list[FailingHook] = []
        for hook in hooks:
            kept = self._kept.get((hook.name, hook.owner))
            if kept is not None and kept.streak >= STREAK and kept.target == hook.target:
                origin = str(hook.origin) if hook.origin else None
                found.append(
                    FailingHook(
                        hook.name, kept.streak, kept.failures[-1].cause if kept.failures else kept.cause, origin
                    )
                )
        return found

    def forget(self, owner: str) -> None:
        """Forget the failures of what a session registered, once it has ended."""
        for key in [key for key in self._kept if key[1] == owner]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._bytes -= sum(failure.size for failure in self._kept.pop(key).failures)

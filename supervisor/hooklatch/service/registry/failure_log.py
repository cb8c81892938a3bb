"""The last failures of each hook, for an operator who looks for the cause, within a bound of size.

A failure may contain parts of the payload, so it is neither logged nor recorded.  The API decides who may read it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hooklatch.core.hooks.registry import Hook, PythonTarget, ServedTarget
from hooklatch.core.messages import CallOutcome, Cause

if TYPE_CHECKING:
    from hooklatch.core.answers import HookFailure
    from hooklatch.core.status_answers import FailingHook

__all__ = ["DROPPED", "STREAK", "Failures"]

KEPT_FAILURES = 5  # per hook
DROPPED = ("overload", "quarantined")  # not called at all: keeping these would push out the failures that caused them
STREAK = 5  # consecutive failed calls of a hook before it is red; one of a version that never answered is reported
MAX_TEXT = 16 * 2**10  # characters of a message, or of what was printed to one of the two streams
MAX_BYTES = 4 * 2**20  # for all failures; the hook whose last failure is the oldest is dropped first
OVERHEAD = 700  # bytes of a failure without any text


class FailureHistory:
    """The last failures of one hook, and their number since its last successful call."""

    def __init__(self) -> None:
        self.failures: deque[HookFailure] = deque()
        self.streak = 0
        self.is_new = False  # no call before the streak was answered by that version
        self.cause: Cause = "policy"
        self.target: PythonTarget | ServedTarget | None = None  # of the streak: a new version starts without failures


class Failures:
    """The failures of all hooks, by name and by the session that registered them: sessions may use the same names."""

    def __init__(self) -> None:
        self._histories: dict[tuple[str, str], FailureHistory] = {}
        self._bytes = 0

    @property
    def has_any(self) -> bool:
        return bool(self._histories)

    def note_success(self, hook: Hook) -> None:
        """End the streak of a hook's failures."""
        if (history := self._histories.get((hook.name, hook.owner))) is not None:
            history.streak = 0

    def note_failure(
        self, hook: Hook, outcome: CallOutcome, *, decision_id: str, event: str, subject: str, session: str | None,
        is_new: bool,
    ) -> None:  # fmt: skip
        """Keep a failed call, and drop the oldest ones beyond the bounds."""
        key = (hook.name, hook.owner)
        history = self._histories.pop(key, None) or FailureHistory()
        self._histories[key] = history  # moves to the end: the newest
        if history.target != hook.target or not history.streak:
            history.streak, history.is_new = 0, is_new
        history.streak += 1
        history.target, history.cause = hook.target, outcome.cause
        if outcome.cause in DROPPED:
            return
        failure: HookFailure = {
            "at": time.time(), "decision_id": decision_id, "event": event, "subject": subject, "session": session,
            "cause": outcome.cause, "message": outcome.message[:MAX_TEXT],
            "traceback": outcome.traceback[:MAX_TEXT], "stdout": outcome.stdout[-MAX_TEXT:],
            "stderr": outcome.stderr[-MAX_TEXT:], "exit_code": outcome.exit_code,
            "duration_ms": round(outcome.duration_ms, 3),
        }  # fmt: skip
        history.failures.append(failure)
        self._bytes += estimate_size(failure)
        if len(history.failures) > KEPT_FAILURES:
            self._bytes -= estimate_size(history.failures.popleft())
        while self._bytes > MAX_BYTES:
            self._drop(next(iter(self._histories)))

    def of(self, hook: Hook) -> list[HookFailure]:
        """Return the last failures of a hook, newest first."""
        history = self._histories.get((hook.name, hook.owner))
        return [*reversed(history.failures)] if history is not None else []

    def find_failing(self, hooks: Iterable[Hook]) -> list[FailingHook]:
        """Return the hooks that have failed at every one of their last calls, or of all calls of their version."""
        failing: list[FailingHook] = []
        for hook in hooks if self._histories else ():
            history = self._histories.get((hook.name, hook.owner))
            if history is None or history.target != hook.target or not hook.enabled:
                continue
            if history.streak >= STREAK or (history.streak and history.is_new):
                origin = str(hook.origin) if hook.origin else None
                cause = history.failures[-1]["cause"] if history.failures else history.cause
                failing.append({"hook": hook.name, "count": history.streak, "cause": cause, "origin": origin})
        return failing

    def forget(self, owner: str) -> None:
        """Forget the failures of a session's own hooks, once it has ended."""
        for key in [key for key in self._histories if key[1] == owner]:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._bytes -= sum(map(estimate_size, self._histories.pop(key).failures))


def estimate_size(failure: HookFailure) -> int:
    return OVERHEAD + sum(len(failure[text]) for text in ("message", "traceback", "stdout", "stderr"))

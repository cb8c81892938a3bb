"""Suspensions, the break-glass of an operator: hooks that are left out until a moment.  Has no clock.

A suspension is temporary and needs a reason.  Fires that start while it is active skip its hooks.  A decision for which
a suspended hook would have been called has a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from hooklatch.core.hooks.names import name_whole_plugin
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.text import format_duration

if TYPE_CHECKING:
    from hooklatch.core.status_answers import SuspensionFacts

__all__ = [
    "MAX_SUSPENSION", "Suspension", "SuspensionError", "validate_suspension", "find_suspension",
    "format_suspension_note", "split_suspended",
]  # fmt: skip

MAX_SUSPENSION = 24 * 3600.0  # seconds; for longer, disable the hook, which stays visible as disabled
MAX_REASON = 500  # characters


class SuspensionError(ValueError):
    """A suspension that is rejected; the text says what is wrong and what to write instead."""


class Suspension(msgspec.Struct, frozen=True):
    """A suspension of one hook or one whole plugin by its full name, or (None) of all hooks; times are Unix times.

    It never covers a hook that is not `suspendable`.
    """

    hook: str | None
    since: float
    until: float
    reason: str

    def describe(self) -> SuspensionFacts:
        """Return it as answers report it."""
        return {"hook": self.hook, "since": self.since, "until": self.until, "reason": self.reason}

    def covers(self, hook: Hook) -> bool:
        if not hook.suspendable:
            return False
        return self.hook in (None, hook.name) or (
            hook.plugin is not None and self.hook == name_whole_plugin(hook.plugin)
        )


def validate_suspension(seconds: float, reason: str) -> str:
    """Return the normalized reason.

    Raises:
        SuspensionError: the duration is not positive or too long, or the reason is empty.
    """
    if not 0 < seconds <= MAX_SUSPENSION:
        raise SuspensionError(
            f"a suspension lasts at most {format_duration(MAX_SUSPENSION)}, and more than 0 s, not "
            f"{format_duration(seconds)}; for longer, disable the hook"
        )
    text = " ".join(reason.split())
    if not text:
        raise SuspensionError("a suspension needs a reason; it is recorded and shown in the status")
    return text[:MAX_REASON]


def find_suspension(suspensions: Iterable[Suspension], hook: Hook) -> Suspension | None:
    """Return the longest-lasting suspension that covers a hook, or None."""
    covering = [suspension for suspension in suspensions if suspension.covers(hook)]
    return max(covering, key=lambda suspension: suspension.until, default=None)


def format_suspension_note(suspensions: Iterable[Suspension], hook: Hook) -> str:
    """Return the warning that a hook was skipped, why, and until when."""
    suspension = find_suspension(suspensions, hook)
    assert suspension is not None
    until = datetime.fromtimestamp(suspension.until, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{hook.name} is suspended until {until} and was not asked: {suspension.reason}"


def split_suspended(
    suspensions: Iterable[Suspension], hooks: Iterable[Hook]
) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
    """Split hooks into those that fire and those that are suspended."""
    known = tuple(suspensions)
    firing: list[Hook] = []
    suspended: list[Hook] = []
    for hook in hooks:
        (firing if find_suspension(known, hook) is None else suspended).append(hook)
    return tuple(firing), tuple(suspended)

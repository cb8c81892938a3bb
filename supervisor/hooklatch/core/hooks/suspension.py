"""Break-glass: which hooks an operator has suspended, and until when.  Knows hooks and moments; has no clock.

A suspension is for a limited time and has a reason.  It takes hooks out of every fire that starts while it lasts; a
decision in which that mattered says so in its warnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from hooklatch.core.hooks.names import whole
from hooklatch.core.hooks.registry import Hook

__all__ = ["MAX_SUSPENSION", "Suspension", "SuspensionError", "check", "find", "note", "parted"]

MAX_SUSPENSION = 24 * 3600.0  # seconds; who wants it longer disables the hook, which stays visible as disabled
MAX_REASON = 500  # characters


class SuspensionError(ValueError):
    """A suspension that is not accepted: what is wrong, and what to write instead."""


class Suspension(msgspec.Struct, frozen=True):
    """One hook or one whole plugin by its name in full, or (None) all hooks; moments are seconds since 1970."""

    hook: str | None
    since: float
    until: float
    reason: str

    def covers(self, hook: Hook) -> bool:
        return self.hook in (None, hook.name) or (hook.plugin is not None and self.hook == whole(hook.plugin))


def check(seconds: float, reason: str) -> str:
    """Return the reason as it is kept.

    Raises:
        SuspensionError: it is for too long, for no time, or without a reason.
    """
    if not 0 < seconds <= MAX_SUSPENSION:
        raise SuspensionError(
            f"a suspension lasts at most {MAX_SUSPENSION / 3600:.0f} h, and more than 0 s, not {seconds:g} s;"
            " for longer, disable the hook"
        )
    text = " ".join(reason.split())
    if not text:
        raise SuspensionError("a suspension needs a reason; it is recorded and shown in the status")
    return text[:MAX_REASON]


def find(suspensions: Iterable[Suspension], hook: Hook) -> Suspension | None:
    """Return the suspension that covers a hook and lasts longest."""
    covering = [one for one in suspensions if one.covers(hook)]
    return max(covering, key=lambda one: one.until, default=None)


def note(suspensions: Iterable[Suspension], hook: Hook) -> str:
    """Say in a decision's warnings that a hook was left out, why, and until when."""
    one = find(suspensions, hook)
    assert one is not None
    until = datetime.fromtimestamp(one.until, UTC).isoformat(timespec="seconds")
    return f"{hook.name} is suspended until {until} and was not asked: {one.reason}"


def parted(suspensions: Iterable[Suspension], hooks: Iterable[Hook]) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
    """Part hooks into those that fire and those that are suspended."""
    known = tuple(suspensions)
    firing: list[Hook] = []
    suspended: list[Hook] = []
    for hook in hooks:
        (firing if find(known, hook) is None else suspended).append(hook)
    return tuple(firing), tuple(suspended)

"""Phrases shared by messages: a count with its noun, and the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["counted", "did_you_mean"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 hook`, `2 hooks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the nearest known name as the end of a message, or an empty string if none is similar enough."""
    from difflib import get_close_matches  # imported here: few commands and requests have something to suggest

    near = get_close_matches(name, list(known), 1, cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""

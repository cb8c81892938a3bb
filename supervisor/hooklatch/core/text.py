"""Phrases shared by messages: a count with its noun, the nearest known name, and durations in their one notation.

That is a number with its unit: `500ms`, `90s`, `15m`, `24h`, `7d`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["counted", "did_you_mean", "read_duration", "shown"]

UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}  # `min` too: that is how minutes are shown
DURATION = re.compile(rf"(\d+(?:\.\d+)?|\.\d+) ?({'|'.join(UNITS)})?", re.ASCII)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 hook`, `2 hooks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the nearest known name as the end of a message, or an empty string if none is similar enough."""
    from difflib import get_close_matches  # imported here: few commands and requests have something to suggest

    near = get_close_matches(name, list(known), 1, cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def read_duration(text: str) -> float:
    """Return the seconds of a duration over 0; a bare number is one of seconds.

    Raises:
        ValueError: it is none; the text says how to write one.
    """
    match = DURATION.fullmatch(text)
    seconds = float(match[1]) * UNITS[match[2] or "s"] if match is not None else 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is not a duration over 0; write it like 90s, 15m, 2h or 7d")
    return seconds


def shown(seconds: float) -> str:
    """Format a duration for people."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"

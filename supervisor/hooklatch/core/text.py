"""Phrases shared by messages: a count with its noun, the nearest known name, and durations in their one notation.

That is a number with its unit: `500ms`, `90s`, `15m`, `24h`, `7d`.  And whether a text can be written at all, and what
stands in the place of one that must not be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

__all__ = ["INVISIBLE", "REDACTED", "counted", "did_you_mean", "is_unicode", "read_duration", "shown"]

REDACTED = "[redacted]"  # what stands in the place of a secret
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")  # letters and marks to Unicode, and nothing to the eye
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}  # `min` too: that is how minutes are shown
LONG = ((86400, "d"), (3600, "h"), (60, "min"))  # what is shown in a unit is at least two of it
DURATION = re.compile(rf"(\d+(?:\.\d+)?|\.\d+) ?({'|'.join(UNITS)})?", re.ASCII)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 hook`, `2 hooks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the nearest known name as the end of a message, or an empty string if none is similar enough."""
    from difflib import get_close_matches  # imported here: few commands and requests have something to suggest

    names = list(known)
    near = get_close_matches(name, names, 1, cutoff) or [one for one in names if one.endswith((f":{name}", f"/{name}"))]
    return f"; did you mean {near[0]!r}?" if near else ""


def is_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode, so that it can be written as UTF-8: a name of a file may not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    """Format a duration for people, wherever they read one: `300 ms`, `2.5 s`, `90 s`, `15 min`, `24.5 h`, `99 d`."""
    if 0 < seconds < 1:
        return f"{math.ceil(seconds * 1000)} ms"
    length, unit = next((one for one in LONG if seconds >= 2 * one[0]), (1, "s"))
    number = seconds / length
    return f"{number:.0f} {unit}" if length == 1 and number >= 10 else f"{number:.1f} {unit}".replace(".0 ", " ")

"""How long: a length of time as it is written on a command line, and as it is shown.  One spelling for every command.

A number with its unit (`90s`, `15m`, `2h`, `7d`), or a bare number of seconds, as in a file of hooks.
"""

from __future__ import annotations

import argparse
import re

__all__ = ["shown", "span"]

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}  # `min`, since that is how they are shown
SPAN = re.compile(rf"(\d+(?:\.\d+)?|\.\d+) ?({'|'.join(UNITS)})?")


def span(text: str) -> float:
    """Read a length of time over 0 as seconds, as argparse wants its types."""
    found = SPAN.fullmatch(text)
    seconds = float(found[1]) * UNITS[found[2] or "s"] if found is not None else 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time over 0; write it like 90s, 15m, 2h or 7d")
    return seconds


def shown(seconds: float) -> str:
    """Put a length of time into words."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"

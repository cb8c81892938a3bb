"""Durations on the command line and in output, in one notation for every command.

A number with its unit (`90s`, `15m`, `2h`, `7d`), or a bare number of seconds, as in a file of hooks.
"""

from __future__ import annotations

import argparse
import re

__all__ = ["shown", "span"]

UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}  # `min` too, since that is how minutes are shown
SPAN = re.compile(rf"(\d+(?:\.\d+)?|\.\d+) ?({'|'.join(UNITS)})?")


def span(text: str) -> float:
    """Parse a positive duration; an argparse type that returns seconds."""
    match = SPAN.fullmatch(text)
    seconds = float(match[1]) * UNITS[match[2] or "s"] if match is not None else 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration over 0; write it like 90s, 15m, 2h or 7d")
    return seconds


def shown(seconds: float) -> str:
    """Format a duration for people."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"

"""How much work of Python something takes, which no other load on the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

__all__ = ["work_of"]


def work_of(act: Callable[[], object]) -> int:
    """Count the lines and calls of Python that something takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return count

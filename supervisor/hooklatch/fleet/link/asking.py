"""Asking an engine under a deadline of our own: an answer that stays away is a connection that is gone."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import trio

from hooklatch.core.text import format_duration
from hooklatch.fleet.engine.engine import UnreachableError

__all__ = ["PATIENCE", "await_answer"]

T = TypeVar("T")
PATIENCE = 20.0  # seconds; the engine's own time limit is shorter, and this one is for when that fails


async def await_answer(answer: Awaitable[T], seconds: float = PATIENCE) -> T:
    """Return an engine's answer.

    Raises:
        UnreachableError: it did not come in time.
        EngineError: as the engine says.
    """
    with trio.move_on_after(seconds):
        return await answer
    raise UnreachableError(f"the engine did not answer within {format_duration(seconds)}")

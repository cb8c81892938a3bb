"""Waiting for an engine under a deadline of our own: an answer that stays away means that the connection is gone."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import trio

from hooklatch.core.text import format_duration
from hooklatch.fleet.engine.engine import UnreachableError

__all__ = ["TIMEOUT", "await_answer"]

T = TypeVar("T")
TIMEOUT = 20.0  # seconds; the engine's own limit is shorter, and this limit is for the case that it fails


async def await_answer(answer: Awaitable[T], seconds: float = TIMEOUT) -> T:
    """Return an engine's answer.

    Raises:
        UnreachableError: it did not come in time.
        EngineError: the engine raises it.
    """
    with trio.move_on_after(seconds):
        return await answer
    raise UnreachableError(f"the engine did not answer within {format_duration(seconds)}")

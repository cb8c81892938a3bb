"""Hooks that the client itself runs: from the daemon's call to the answer.  Does not know tasks or threads."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from hooklatch.client.protocol.exchange import CallRequested
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.errors import InvalidPayloadError
from hooklatch_worker.author import events
from hooklatch_worker.author.verdicts import GarbageError, Verdict, encode_verdict

__all__ = ["ServedFunction", "describe_exception", "encode_answer", "is_async", "make_served_event"]

ServedFunction: TypeAlias = Callable[[Any], "Verdict[Any] | Awaitable[Verdict[Any] | None] | None"]


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a call returns an awaitable: an async def, or an object whose `__call__` is one."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object may be called like an async def
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def make_served_event(call: CallRequested) -> events.Event:
    """Return the event that the served function is called with."""
    return events.build_event(call.event, call.payload, call.envelope, call.config, call.merged, call.reinvoked)


def encode_answer(answer: object, *, is_native: bool = False) -> bytes:
    """Encode what a served function returned as JSON; an invalid answer stays one, so that the daemon sees that.

    A native answer, in the format of the session's dialect, is sent unchanged: the daemon reads it.
    """
    try:
        if is_native and is_in_other_words(answer):
            return bytes(encode_plain(answer, "the answer"))
        return encode_verdict(answer)
    except (GarbageError, InvalidPayloadError) as error:
        # An error would read as a crash. No verdict has this key, and it puts the problem in the daemon's record.
        return msgspec.json.encode({"garbage": str(error)})


def is_in_other_words(answer: object) -> bool:
    return not isinstance(answer, Verdict | None)


def describe_exception(error: BaseException) -> str:
    """Describe an exception in one line, even if its own text cannot be read."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__

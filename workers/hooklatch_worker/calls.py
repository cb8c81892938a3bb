"""Runs one callback and says what came of it.  Knows functions and verdicts; knows no socket.

This is the boundary that must catch all: whatever a callback does short of ending the process becomes a reply.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from hooklatch_worker import events, verdicts
from hooklatch_worker.wire import MAX_CAPTURE, Answered, Call, Failed

__all__ = ["Caller", "Capture"]


class Capture:
    """What callbacks print, kept in two files in memory (memfd_create(2)) that stand behind descriptors 1 and 2.

    Nobody has to drain them, so a flood blocks nobody, and the daemon can still read them when the worker is dead.
    """

    def __init__(self, stdout: int, stderr: int) -> None:
        self._fds = (stdout, stderr)

    def take(self) -> tuple[bytes, bytes, bool]:
        """Give what was printed since the last time (the last MAX_CAPTURE bytes of each) and if more was cut off."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                continue  # the callback closed or replaced it: then there is nothing of ours in it
        stdout, stderr = (self._take_one(fd) for fd in self._fds)
        return stdout[0], stderr[0], stdout[1] or stderr[1]

    def _take_one(self, fd: int) -> tuple[bytes, bool]:
        try:
            size = os.fstat(fd).st_size
            if size == 0:
                return b"", False
            data = os.pread(fd, MAX_CAPTURE, max(0, size - MAX_CAPTURE))
            os.ftruncate(fd, 0)
        except OSError:
            return b"", False
        return data, size > MAX_CAPTURE


class Caller:
    """Calls the functions of one source."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], capture: Capture) -> None:
        self._functions = functions
        self._capture = capture
        self._pid = os.getpid()

    def run(self, call: Call) -> Answered | Failed:
        """Run one call; never raises."""
        cause, message, answer = "", "", b""
        try:
            answer = verdicts.encode(self._invoke(call))
        except verdicts.GarbageError as error:
            cause, message = "protocol", str(error)
        except BaseException as error:
            cause, message = "crash", describe(error)
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the callback forked came back here; only the worker may answer
        stdout, stderr, truncated = self._capture.take()
        if cause:
            return Failed(call.generation, call.call_id, cause, message, stdout, stderr, truncated)
        return Answered(call.generation, call.call_id, answer, stdout, stderr, truncated)

    def _invoke(self, call: Call) -> object:
        function = self._functions.get(call.function)
        if function is None:
            raise LookupError(f"the source has no function {call.function!r}")
        result = function(read_event(call))
        if isinstance(result, types.CoroutineType):
            return run_coroutine(cast("Awaitable[object]", result), call.runtime)
        return cast("object", result)


def read_event(call: Call) -> events.Event:
    decode = msgspec.json.decode
    try:
        payload = decode(call.payload)
        envelope = decode(call.envelope)
        config = decode(call.config) if call.config else None
        merged = decode(call.merged) if call.merged else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise verdicts.GarbageError(f"the payload could not be read: {error}") from None
    return events.build(call.event, payload, envelope, config, merged, call.reinvoked)


def run_coroutine(awaitable: Awaitable[object], runtime: str) -> object:
    async def main() -> object:
        return await awaitable

    if runtime == "asyncio":
        import asyncio

        return asyncio.run(main())
    import trio

    return trio.run(main)


def describe(error: BaseException) -> str:
    """Put an exception in one line, and its traceback on the captured standard error."""
    import traceback

    try:
        traceback.print_exception(error)
        text = str(error)
    except Exception:
        text = "(its text could not be read)"
    trace = error.__traceback__
    place = ""
    while trace is not None:
        place = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {text}{place}"

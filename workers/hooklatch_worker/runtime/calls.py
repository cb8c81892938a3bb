"""The caller of hooks, which reports their outcomes.  Knows functions and verdicts, but no sockets.

This is the boundary that must catch everything: any act of a hook short of ending the process becomes an answer.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Awaitable, Callable, Mapping
from mmap import mmap
from time import monotonic
from typing import Any, Protocol, TextIO, cast

import msgspec
from msgspec.structs import replace

from hooklatch_worker.author import verdicts
from hooklatch_worker.author.call_context import CallContext, CapturedOutput
from hooklatch_worker.author.events import EVENT_CLASSES, CustomEvent, Event
from hooklatch_worker.author.failures import AuthorFrames, CallFailed, explain_exception, format_error
from hooklatch_worker.author.state import StateChannel
from hooklatch_worker.runtime.loader import suggest_package
from hooklatch_worker.wire import MAX_CAPTURE, MAX_RUN_SECONDS, PROGRESS, CallAnswered, CallSilent, RunCall

__all__ = ["CallLine", "Caller", "OutputCapture"]

decode = msgspec.json.Decoder().decode
MAX_ANSWER = 8 * 2**20  # bytes; an answer may replace a payload, which is not longer


class OutputCapture:
    """The output of hooks, in two files in memory (memfd_create(2)) behind descriptors 1 and 2.

    They need no reader, so a flood blocks nothing, and the daemon can still read them when the worker is dead.
    """

    def __init__(self, stdout: int, stderr: int) -> None:
        self._stdout, self._stderr = stdout, stderr
        self._files = [(fd, name, file_identity(os.fstat(fd))) for fd, name in ((stdout, "stdout"), (stderr, "stderr"))]

    def take(self) -> CapturedOutput:
        """Return the output since the last call of this: the last MAX_CAPTURE bytes of each stream."""
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            # Nearly always nothing was printed.  pread(2) moves no position, even if the descriptor is another file by
            # now.  For fstat(2) Python makes an object of 20 numbers, which took 3 % of the worker's time.
            if not os.pread(self._stdout, 1, 0) and not os.pread(self._stderr, 1, 0):
                return NO_OUTPUT
        except BaseException:  # closed, removed or replaced by the hook: each stream is checked below
            pass
        return self._take_printed()

    def _take_printed(self) -> CapturedOutput:
        for fd, name, _ in self._files:
            flush_stream(fd, name)
        stdout, stderr = [(fd, measure_printed(fd, identity)) for fd, _, identity in self._files]
        if not stdout[1] and not stderr[1]:
            return NO_OUTPUT
        return CapturedOutput(take_end(*stdout), take_end(*stderr), max(stdout[1], stderr[1]) > MAX_CAPTURE)


NO_OUTPUT = CapturedOutput()


def measure_printed(fd: int, identity: tuple[int, int]) -> int:
    try:
        status = os.fstat(fd)
    except OSError:
        keep_open(fd)
        return 0
    # The hook may have closed our descriptor and opened a file under its number, which must not be emptied.
    return status.st_size if status.st_size and file_identity(status) == identity else 0


def take_end(fd: int, size: int) -> bytes:
    """Empty a file; return its last bytes."""
    if not size:
        return b""
    try:
        data = os.pread(fd, MAX_CAPTURE, max(0, size - MAX_CAPTURE))
        os.ftruncate(fd, 0)
    except OSError:
        return b""
    return data


def file_identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def flush_stream(fd: int, name: str) -> None:
    """Flush the output; reopen the stream for the next call if this one closed or removed it."""
    try:
        getattr(sys, name).flush()
    except BaseException:  # an object that the hook has put there may raise anything
        keep_open(fd)
        setattr(sys, name, open_stream(fd))


def keep_open(fd: int) -> None:
    """Open the null device in place of a descriptor that the hook closed.

    Otherwise the next file that is opened would receive the output.
    """
    try:
        os.fstat(fd)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        if null != fd:
            os.dup2(null, fd)
            os.close(null)


def open_stream(fd: int) -> TextIO:
    return open(fd, "w", buffering=1, errors="backslashreplace", closefd=False)


def clip_output(printed: CapturedOutput) -> CapturedOutput:
    """Return the part of a program's output that an outcome shows: the last bytes."""
    stdout, stderr = printed.stdout[-MAX_CAPTURE:], printed.stderr[-MAX_CAPTURE:]
    is_cut = len(stdout) < len(printed.stdout) or len(stderr) < len(printed.stderr)
    return CapturedOutput(stdout, stderr, printed.truncated or is_cut, printed.exit_code)


class OutputReader(Protocol):
    """A source of the output of hooks."""

    def take(self) -> CapturedOutput:
        """Return the output since the last call of this."""
        ...


class CallLine(StateChannel, Protocol):
    """The channel for state requests, one call after the other."""

    def begin(self, call_id: int) -> None:
        """Record the call that runs from now on."""
        ...

    def end(self) -> None:
        """Refuse further requests."""
        ...


class Caller:
    """Calls the functions of one source, the file `path`."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        path: str,
        capture: OutputReader,
        line: CallLine,
        progress: mmap,
        refusals: list[str],
    ) -> None:
        self._functions = functions
        self._author = AuthorFrames(path)
        self._capture = capture
        self._line = line
        self._progress = progress
        self._refusals = refusals  # of modules outside of the build, also where the hook caught the ImportError
        self._pid = os.getpid()

    def run_in_order(self, call: RunCall, check: Callable[[], None]) -> CallAnswered | CallSilent:
        """Run a call and its following hooks, while none of them has an opinion; return the result of the last one.

        Before the next hook begins, `check` ends this process if the last one left it unable to answer.
        """
        began = ended = monotonic()
        answered, earlier_seconds = self.run(call), list[float]()
        for number, following in enumerate(call.following):
            last_end, ended = ended, monotonic()
            spent = ended - began
            if not isinstance(answered, CallSilent) or spent >= MAX_RUN_SECONDS or spent >= call.limit:
                break
            check()
            earlier_seconds.append(ended - last_end)
            PROGRESS.pack_into(self._progress, number * PROGRESS.size, ended, following.call_id)
            answered = self.run(
                replace(
                    call, call_id=following.call_id, timeout=min(following.timeout, call.limit - spent),
                    function=following.function, config=following.config, runtime=following.runtime,
                )
            )  # fmt: skip
        if not earlier_seconds:
            return answered
        if isinstance(answered, CallSilent):
            answered = CallAnswered(call.generation, answered.call_id)
        return replace(answered, earlier_seconds=earlier_seconds)

    def run(self, call: RunCall) -> CallAnswered | CallSilent:
        """Run one call; never raises."""
        context = CallContext(call.call_id, monotonic() + call.timeout, self._line)
        self._line.begin(call.call_id)
        cause, message, answer, trace = "", "", b"", ""
        try:
            function = self._functions.get(call.function)
            if function is None:
                raise LookupError(f"the source has no function {call.function!r}")
            result: object = function(read_event(call, context))
            if result is not None:
                if isinstance(result, types.CoroutineType):
                    result = run_coroutine(cast("Awaitable[object]", result), call.runtime)
                if result is not None:
                    answer = limit_answer_size(encode_answer(result, is_native=call.is_native))
        except verdicts.GarbageError as error:
            cause, message = "protocol", str(error)
        except CallFailed as error:
            cause, message = error.cause, error.message
        except BaseException as error:
            explanation = explain_exception(error, self._author, self._functions.get(call.function), call.runtime)
            cause, message = "crash", explanation + suggest_package(error)
            trace = write_traceback(error, self._author)
        if self._refusals:
            cause, message, answer = "load", "; ".join(dict.fromkeys(self._refusals)), b""
            self._refusals.clear()
        if os.getpid() != self._pid:
            os._exit(0)  # the hook forked, and this is its child; only the worker may answer
        printed = self._capture.take()  # in any case: otherwise it would count as the next call's output
        if context.printed is not None:
            printed = clip_output(context.printed)
        self._line.end()
        if printed is NO_OUTPUT and not (answer or cause or context.emitted):
            return CallSilent(call.generation, call.call_id)
        return CallAnswered(
            call.generation, call.call_id, answer, cause, message, trace, printed.stdout, printed.stderr,
            printed.truncated, printed.exit_code, context.emitted,
        )  # fmt: skip


def encode_answer(answer: object, *, is_native: bool) -> bytes:
    if is_native and not is_verdict_answer(answer):
        verdicts.check_plain(answer, "the answer")
        return msgspec.json.encode(answer)
    return verdicts.encode_verdict(answer)


def is_verdict_answer(answer: object) -> bool:
    return answer is None or isinstance(answer, verdicts.Verdict)


def limit_answer_size(answer: bytes) -> bytes:
    if len(answer) > MAX_ANSWER:
        raise verdicts.GarbageError(f"the answer's {len(answer)} bytes are over the limit of {MAX_ANSWER}")
    return answer


def read_event(call: RunCall, context: CallContext) -> Event:
    try:
        payload = decode(call.payload)
        config = decode(call.config) if call.config else None
        merged = decode(call.merged) if call.merged else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise verdicts.GarbageError(f"the payload could not be read: {error}") from None
    event_class = EVENT_CLASSES.get(call.event, CustomEvent)
    return event_class(call.event, payload, call.envelope, config, merged, call.reinvoked, context)


def run_coroutine(awaitable: Awaitable[object], runtime: str) -> object:
    async def main() -> object:
        return await awaitable

    if runtime == "asyncio":
        import asyncio

        return asyncio.run(main())
    import trio

    return trio.run(main)


def write_traceback(error: BaseException, author: AuthorFrames) -> str:
    """Write an exception's traceback to the captured standard error; return the part that the outcome shows."""
    full_text, shown_text = format_error(error, author)
    try:
        sys.stderr.write(full_text)
    except BaseException:  # an object that the hook has put there may raise anything
        return shown_text
    return shown_text

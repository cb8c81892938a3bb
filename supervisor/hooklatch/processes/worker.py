"""One worker as an actor: its socket, its pidfd, one call at a time.  Does not know the registry.

    starting ──Loaded──▶ idle ◀──────▶ busy          any state ──pidfd readable──▶ dead (reaped by its zygote)

The task that calls also reads the answer, so a fire crosses no other task.  The pool alone waits on the pidfd. When
the process is dead, `mark_dead()` shuts the socket down, which wakes the task that waits for an answer, even if a child
of the callback still holds the other end open.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import select
import signal
import socket
import struct
import time
from typing import Protocol, TypeAlias

import msgspec
import trio

from hooklatch.core.call import Call
from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.core.messages import CallOutcome, Cause
from hooklatch.processes.fire_context import FireContext
from hooklatch.processes.pool_limits import IN_PLACE
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import MAX_EMITTED, MAX_EMITTED_BYTES
from hooklatch_worker.author.failures import MAX_TRACEBACK
from hooklatch_worker.author.state import MAX_STEPS, StateRequest
from hooklatch_worker.systems import system

__all__ = [
    "Answered", "SourceLoadError", "PoolWorker", "WorkerProcess", "call_ids", "compute_deadline", "build_call_outcome",
]  # fmt: skip

EXIT_NOTICE = 1.0  # seconds in which its zygote reports an exit code, on a busy machine too; only the text needs it
# For an answer in place: many looks, if the worker has a core of its own, since a process is woken only after longer.
WAITS = (*(0,) * (40 if system.count_cores() > 1 else 0), IN_PLACE)
ENVELOPES = msgspec.json.Encoder()
ANSWERS = (wire.CallAnswered, wire.CallSilent)
Answered: TypeAlias = wire.CallAnswered | wire.CallSilent | CallOutcome  # an answer, or the outcome without one
BATCH = struct.Struct("=512Q")  # call ids are drawn in batches, which saves a system call per id


# Numbers of 64 random bits, so that no worker can guess the id of a call that was not sent to it.
call_ids = itertools.chain.from_iterable(map(BATCH.unpack, map(os.urandom, itertools.repeat(BATCH.size))))


class SourceLoadError(Exception):
    """A worker could not import its source. `is_outside` says that it met files that are not those of its build."""

    def __init__(self, message: str, file: str = "", line: int = 0, *, is_outside: bool = False) -> None:
        super().__init__(f"{file}:{line}: {message}" if file else message)
        self.message = message
        self.file = file
        self.line = line
        self.is_outside = is_outside


class ForkingProcess(Protocol):
    """The zygote process that has forked a worker."""

    is_over: bool
    pidfd: int

    @property
    def is_alive(self) -> bool: ...


class WorkerProcess:
    """The daemon's handle on a forked worker: five descriptors, and its exit code once that is known."""

    def __init__(self, zygote: ForkingProcess, generation: int, pid: int, fds: list[int]) -> None:
        self._zygote = zygote
        self.generation = generation
        self.pid = pid
        socket_fd, self.stdout_fd, self.stderr_fd, self.progress_fd, self.pidfd = fds
        self.socket = socket.socket(fileno=socket_fd)
        self.socket.setblocking(False)
        self._poll = select.poll()  # select(2) is limited to descriptors up to 1023
        for fd in (self.pidfd, zygote.pidfd, socket_fd):
            self._poll.register(fd, select.POLLIN)
        self.exit_code: int | None = None
        self.exit_known = trio.Event()

    @property
    def fault(self) -> str | None:
        """Return why no call may be sent to it now, or None if it and its zygote live and nothing is to be read."""
        if self._zygote.is_over:
            return "its zygote ended"
        ready = self._poll.poll(0)
        if not ready:
            return None
        has_message = all(fd == self.socket.fileno() for fd, _ in ready)
        return "it broke the protocol between two calls" if has_message else "it ended between two calls"

    def has_said(self) -> bool:
        """Return whether something is to be read, or it has ended; the whole loop waits for that for a moment."""
        return any(map(self._poll.poll, WAITS))

    @property
    def is_orphaned(self) -> bool:
        """Return whether it died because its zygote did."""
        return not self._zygote.is_alive

    def kill(self) -> None:
        try:
            system.signal_process(self.pidfd, self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it is dead already, and its zygote has reaped it

    def close(self) -> None:
        self.socket.close()
        for fd in (self.pidfd, self.stdout_fd, self.stderr_fd, self.progress_fd):
            os.close(fd)


class PoolWorker:
    """A live worker process, and the call that it runs."""

    def __init__(self, process: WorkerProcess, *, may_emit: bool = False) -> None:
        self.process = process
        self._may_emit = may_emit
        self.generation = process.generation
        self.pid = process.pid
        self.calls = 0
        self.measured_calls = -1  # how many it had run when it was measured at rest
        self.has_children = self.has_threads = False  # then it may grow while it runs no call
        self.is_being_measured = False
        self.started_at = trio.current_time()
        # By generation, so that workers which started together are not recycled together.
        self.endurance = random.Random(process.generation).uniform(0.9, 1.1)
        self.is_dead = False
        self.kill_reason: str | None = None
        self._reader = wire.FrameReader()
        self._call_id = 0  # of the callback that runs, as far as we know
        self.serving: tuple[Call, FireContext] | None = None  # the call under way; an idle worker keeps no payload
        self._following: list[wire.FollowingCall] = []  # the callbacks that it may run after that
        self._begun = 0  # how many of these have begun, as far as we know
        self._granted = 0  # how many of these have got their time
        self._requests = 0  # for state, of the callback that runs
        self._is_cut_short = False
        self._unsent: memoryview | None = None  # of the call
        self._said: wire.FromWorker | Exception | None = None  # what was read of it before its `end`
        self.is_expired = False
        self.ends = math.inf  # when the time of the running callback is over, as far as we know
        self.deadline = math.inf  # when to check that, if a call waits for it

    @property
    def is_doomed(self) -> bool:
        """Return whether it is dead, or killed and about to be."""
        return self.is_dead or self.kill_reason is not None

    @property
    def hook(self) -> Hook | None:
        """Return the hook that it is running, or None if it is idle."""
        if self.serving is None:
            return None
        call, _ = self.serving
        begun = len(self._starts())
        return call.following[begun - 1] if begun else call.hook

    async def load(self, code: wire.LoadCode) -> wire.SourceLoaded:
        """Have the worker import its source.

        Raises:
            SourceLoadError: its code failed, or the process died while importing.
        """
        try:
            await self._send_rest(memoryview(wire.encode_frame(code)))
            message = await self._receive()
            if self._reader.held:
                raise SourceLoadError("the worker sent an unexpected message")
        except (EOFError, wire.FrameError) as error:
            explanation = self.kill_reason or await self._explain_exit() or error
            raise SourceLoadError(f"the worker died while importing: {explanation}") from None
        match message:
            case wire.SourceLoaded(generation) if generation == self.generation:
                return message
            case wire.LoadFailed(generation) if generation == self.generation:
                raise SourceLoadError(message.message, message.file, message.line, is_outside=message.is_outside)
            case _:
                raise SourceLoadError("the worker sent an unexpected message")

    def begin(self, call: Call, fire: FireContext, timeout: float) -> CallOutcome | None:
        """Send a call, to run one callback within `timeout` seconds, and those after it; or return why it is not sent.

        The worker stays busy until `end` has returned, or `drain_answer` if no fire waits for the answer any more.
        """
        target = call.hook.target
        assert isinstance(target, PythonTarget)
        self._call_id = number = next(call_ids)
        self.calls += 1
        self.serving = call, fire
        self._requests = self._begun = self._granted = 0
        self._following = self._list_following(call, fire) if call.following else []
        envelope = fire.envelope
        if call.context is not envelope.context:
            envelope = envelope.with_context(call.context)
        message = wire.RunCall(
            self.generation, number, timeout, target.function, fire.spec.name,
            memoryview(call.payload.data), ENVELOPES.encode(envelope), call.hook.config,
            msgspec.json.encode(call.merged) if call.merged else b"", call.reinvoked, target.runtime,
            bool(target.native), fire.deadline - trio.current_time() if call.following else math.inf, self._following,
        )  # fmt: skip
        data = wire.encode_frame(message)
        if len(data) > wire.MAX_FRAME:
            if self._following:
                self._following = []  # they are then called one by one
                data = wire.encode_frame(msgspec.structs.replace(message, following=[]))
            if len(data) > wire.MAX_FRAME:
                text = f"its {len(data)} bytes with all patches are over the limit"
                return CallOutcome(cause="payload", message=text)
        try:
            sent = self._send_now(data)
        except EOFError:
            sent = 0  # `end` finds that again
        if sent < len(data):
            self._unsent, self._is_cut_short = memoryview(data)[sent:], True
        return None

    async def end(self, fire: FireContext, *, in_place: bool = False) -> Answered:
        """Return the answer to the call that was sent, or the worker's failure.

        With `in_place` the whole loop waits for the answer first: a turn of it costs more than most callbacks take.
        `silent_durations` tells which callback it is of.
        """
        try:
            if (unsent := self._unsent) is not None:
                self._unsent = None
                await self._send_rest(unsent)
            fire.prepare_record()  # after the sending: the daemon's work overlaps with the worker's
            answered = await self._receive_answer(in_place)
        except EOFError:
            return await self._build_crash()
        except wire.FrameError as error:
            return self._break_off(str(error))
        if answered.emitted:
            fire.take(answered.emitted)
        return answered

    def has_answered(self, *, in_place: bool) -> bool:
        """Return whether the answer to the call is here, or comes while the loop waits, so that `end` is quick."""
        if self._unsent is None:
            try:
                self._said = self._look(in_place)
            except (EOFError, wire.FrameError) as error:
                self._said = error
        return isinstance(self._said, ANSWERS)

    def _list_following(self, call: Call, fire: FireContext) -> list[wire.FollowingCall]:
        return [
            wire.FollowingCall(
                next(call_ids), hook.timeout or fire.spec.timeout, target.function, hook.config, target.runtime
            )
            for hook in call.following
            if isinstance(target := hook.target, PythonTarget)
        ]

    def silent_durations(self, answered: Answered, elapsed: float) -> list[float]:
        """Return how long each callback took that ran without an answer before the one that `answered` is of.

        `elapsed` is the duration of the whole call, which bounds their sum: a worker is not trusted with numbers.
        """
        if not isinstance(answered, CallOutcome) and not self.is_expired:
            reported = answered.earlier_seconds
        else:
            reported, last = list[float](), time.monotonic() - elapsed
            for moment in self._starts():
                reported.append(moment - last)
                last = moment
        durations: list[float] = []
        for seconds in reported:
            durations.append(seconds if 0.0 <= seconds <= elapsed else elapsed)
            elapsed -= durations[-1]
        return durations

    def next_check(self, now: float) -> float:
        """Return when to check again whether the running callback is late. It is late if that moment has passed.

        No later callback of the call can be late before it has had its time from now on.
        """
        assert self.serving is not None
        call, fire = self.serving
        if len(starts := self._starts()) > self._granted:  # once for each: else a worker could put its end off
            self._granted = len(starts)
            began = min(now - (time.monotonic() - starts[-1]), self.ends)
            self.ends = compute_deadline(call.following[self._granted - 1], fire, began)
        return min([self.ends, *(compute_deadline(hook, fire, now) for hook in call.following[self._granted :])])

    def _starts(self) -> list[float]:
        """Return when each callback after the first began, on the monotonic clock."""
        following = self._following
        data = os.pread(self.process.progress_fd, wire.PROGRESS.size * len(following), 0) if following else b""
        moments: list[float] = []
        for following_call, (moment, number) in zip(following, wire.PROGRESS.iter_unpack(data), strict=False):
            if number != following_call.call_id:
                break  # of an earlier call: the file is written over from its start
            moments.append(moment)
        return moments

    async def drain_answer(self) -> bool:
        """Read the answer of an abandoned call. Return whether the worker can take another."""
        if self._is_cut_short:
            return False  # it waits for the rest of a call that will never come
        try:
            await self._receive_answer()
        except (EOFError, wire.FrameError):
            return False
        return True

    async def _receive_answer(self, in_place: bool = False) -> wire.CallAnswered | wire.CallSilent:
        """Receive the answer to a call. Serve the callback's requests for state that come before it.

        Raises:
            EOFError: the worker is gone.
            FrameError: the message is not an answer to this call.
        """
        while not isinstance(message := await self._receive(in_place), ANSWERS):
            if not isinstance(message, StateRequest):
                raise wire.FrameError("no answer to a call")
            await self._answer_state(message)
        if self._reader.held:
            raise wire.FrameError("more than one answer to a call")
        if message.generation != self.generation:
            raise wire.FrameError("an answer to the call of another worker")
        if message.earlier_seconds:
            self._advance(message.call_id)
        if message.call_id != self._call_id or len(message.earlier_seconds) != self._begun:
            raise wire.FrameError("an answer to another call")
        if emitted := message.emitted:
            if not self._may_emit:
                raise wire.FrameError("unexpected telemetry")
            if len(emitted) > MAX_EMITTED or any(len(item.data) > MAX_EMITTED_BYTES for item in emitted):
                raise wire.FrameError("more telemetry than a call may send")
        return message

    def _advance(self, call_id: int) -> None:
        """Note that a later callback has begun, if this is the id of one."""
        for number, following in enumerate(self._following[self._begun :], self._begun + 1):
            if following.call_id == call_id:
                self._call_id, self._begun, self._requests = call_id, number, 0

    async def _answer_state(self, request: StateRequest) -> None:
        """Perform one state operation for the call under way, and let all other tasks run before the next one.

        Raises:
            FrameError: it is not the next request of that call, or it was sent before the last response.
        """
        if request.call_id != self._call_id:
            self._advance(request.call_id)
        self._requests += 1
        expected = self.generation, self._call_id, self._requests
        is_next = (request.generation, request.call_id, request.number) == expected and self._requests <= MAX_STEPS
        if self.serving is None or not is_next or self._reader.held:
            raise wire.FrameError("an unexpected question about state")
        call, fire = self.serving
        if self._begun:
            call = msgspec.structs.replace(call, hook=call.following[self._begun - 1])
        response = fire.answer(call, request)
        await self._send_rest(memoryview(wire.encode_frame(response)))
        # Not read at once: a callback that sends requests without end takes one turn of the loop for each.
        await trio.lowlevel.wait_readable(self.process.socket)

    def _break_off(self, message: str) -> CallOutcome:
        # A stream that once held garbage cannot be trusted to be in sync again.
        self.kill("it broke the protocol")
        return self.lost_outcome("protocol", message)

    async def _build_crash(self) -> CallOutcome:
        if self.is_expired:
            return CallOutcome(cause="timeout", is_lost=True)
        text = self.kill_reason or await self._explain_exit() or "the worker died"
        self.kill("its socket ended")
        is_orphaned = self.process.is_orphaned
        text = "the zygote died, and the worker with it" if is_orphaned else text
        return self.lost_outcome("crash", text, is_orphaned=is_orphaned)

    def lost_outcome(self, cause: Cause, message: str, *, is_orphaned: bool = False) -> CallOutcome:
        """Return the outcome of a call whose worker is dead or about to be, with its output so far."""
        stdout, out_cut = read_output_tail(self.process.stdout_fd)
        stderr, err_cut = read_output_tail(self.process.stderr_fd)
        return CallOutcome(
            cause=cause, message=message, stdout=decode_output(stdout), stderr=decode_output(stderr),
            truncated=out_cut or err_cut, is_lost=True, is_orphaned=is_orphaned,
        )  # fmt: skip

    async def _explain_exit(self) -> str:
        with trio.move_on_after(EXIT_NOTICE):
            await self.process.exit_known.wait()
        code = self.process.exit_code
        if code is None:
            return ""
        return f"the worker exited with code {code}" if code >= 0 else f"the worker was killed by signal {-code}"

    def kill(self, reason: str) -> None:
        """Kill the worker now.  Its pool notices its death, and its descriptors are closed after that."""
        if not self.is_dead:
            self.kill_reason = self.kill_reason or reason
            self.process.kill()

    def mark_dead(self) -> None:
        """Mark the worker as dead, and wake the task that waits for its answer, if any."""
        self.is_dead = True
        self._hang_up()

    def expire(self) -> None:
        """End the worker's call, whose deadline has passed."""
        self.is_expired = True
        self._following = self._following[: len(self._starts())]  # a callback that begins before the death is too late
        self.kill("its call's deadline passed")
        self._hang_up()

    def _hang_up(self) -> None:
        try:
            self.process.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Close the worker's descriptors. Only when no call uses it any more."""
        self.is_dead = True
        trio.lowlevel.notify_closing(self.process.socket)
        trio.lowlevel.notify_closing(self.process.pidfd)
        self.process.close()

    async def _send_rest(self, data: memoryview) -> None:
        """Send the bytes that the worker's socket did not take at once, without which the worker waits endlessly."""
        self._is_cut_short = True  # first: a cancelled send leaves half a frame in the socket
        while data := data[self._send_now(data) :]:
            await trio.lowlevel.wait_writable(self.process.socket)
        self._is_cut_short = False

    def _send_now(self, data: bytearray | memoryview) -> int:
        """Send what the worker's socket takes at once. Return the number of bytes.

        Raises:
            EOFError: it is closed.
        """
        try:
            return self.process.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            raise EOFError("its socket is closed") from None

    async def _receive(self, in_place: bool = False) -> wire.FromWorker:
        """Receive the next message.

        Raises:
            EOFError: the stream has ended.
            FrameError: it is too long, or not a message.
        """
        message, self._said = self._said, None
        while message is None:
            message = self._look(in_place)
            if message is None:
                await trio.lowlevel.wait_readable(self.process.socket)
                in_place = False
        if isinstance(message, Exception):
            raise message
        return message

    def _look(self, in_place: bool) -> wire.FromWorker | None:
        """Return the next message if it is here, or comes while the loop waits for it; raise as `_receive` does."""
        message = wire.take_from_worker(self._reader) if self._reader.held else None
        # Before any look: nearly always the worker is not that quick, and a look in vain is an exception.
        if message is None and in_place and not self.process.has_said():
            return None
        while message is None:
            try:
                data = self.process.socket.recv(2**16)
            except BlockingIOError:
                return None
            except OSError:
                raise EOFError("its socket broke") from None
            if not data:
                raise EOFError("its socket ended")
            message = wire.take_from_worker(self._reader, data)
        return message


def compute_deadline(hook: Hook, fire: FireContext, began: float) -> float:
    """Return the deadline of a callback that begins at the given moment."""
    return min(began + (hook.timeout or fire.spec.timeout), fire.deadline)


# The outcomes that a worker may report; anything else it sends is a crash.
CAUSES: dict[str, Cause] = {
    "": "policy", "protocol": "protocol", "timeout": "timeout", "load": "load", "overload": "overload"
}  # fmt: skip


def build_call_outcome(answered: Answered, hook: Hook, seconds: float) -> CallOutcome:
    """Return the outcome that a worker reported, with whose length it is not trusted either, or that of its failure."""
    if isinstance(answered, wire.CallSilent):
        return msgspec.structs.replace(hook.silence, duration_ms=round(seconds * 1000, 3))
    if isinstance(answered, CallOutcome):
        return answered.with_duration(seconds)
    return CallOutcome(
        cause=CAUSES.get(answered.cause, "crash"), message=answered.message,
        stdout=decode_output(answered.stdout) if answered.stdout else "",
        stderr=decode_output(answered.stderr) if answered.stderr else "", exit_code=answered.exit_code,
        truncated=answered.truncated,
        duration_ms=round(seconds * 1000, 3), answer=b"" if answered.cause else answered.answer,
        traceback=answered.traceback[:MAX_TRACEBACK],
    )  # fmt: skip


def decode_output(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_output_tail(fd: int) -> tuple[bytes, bool]:
    size = os.fstat(fd).st_size
    return os.pread(fd, wire.MAX_CAPTURE, max(0, size - wire.MAX_CAPTURE)), size > wire.MAX_CAPTURE

"""One worker as an actor: its socket, its pidfd, one call at a time.  Knows frames and outcomes; knows no registry.

    starting ──Loaded──▶ idle ◀──────▶ busy          any state ──pidfd readable──▶ dead (reaped by its zygote)

The task that calls also reads the answer: a fire crosses no other task.  `watch()` is the one owner of the pidfd;
when the process is dead, `bury()` shuts the socket down, which wakes whoever waits for an answer, even where a child
of the callback still holds the other end open.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Callable

import msgspec
import trio

from hooklatch.core.messages import CallOutcome, Cause
from hooklatch.processes.zygote import WorkerProcess
from hooklatch_worker import wire
from hooklatch_worker.author.call_context import MAX_EMITTED, MAX_EMITTED_BYTES, Emitted
from hooklatch_worker.author.failures import MAX_TRACEBACK
from hooklatch_worker.author.state import MAX_STEPS, Asked

__all__ = ["Invocation", "LoadError", "Reply", "Worker"]

EXIT_NOTICE = 0.02  # seconds to wait for the news how a worker died; only the text of a crash depends on it
LOAD_NOTICE = 1.0  # the same while importing, when nobody waits for a decision
BATCH = struct.Struct("=512Q")  # call ids that are drawn at once, so that one costs no system call


class Invocation(msgspec.Struct, frozen=True):
    """One callback and what it is given; payload, envelope, config and merged are JSON objects.

    `share` tells whose turn it takes: its session.  `on_asked` does what the callback asks of its source's state, at
    once; it raises FrameError where that is nothing that our own code in the worker would send.
    """

    function: str
    event: str
    payload: bytes
    envelope: bytes
    config: bytes = b""
    merged: bytes = b""
    reinvoked: bool = False
    runtime: str = "trio"
    is_gate: bool = True
    share: str = ""
    is_native: bool = False
    on_asked: Callable[[Asked], wire.Told] | None = None


class CallIds:
    """Numbers of 64 random bits each, so that nobody can answer a call that it was not given."""

    def __init__(self) -> None:
        self._drawn: list[int] = []

    def draw(self) -> int:
        if not self._drawn:
            self._drawn = list(BATCH.unpack(os.urandom(BATCH.size)))
        return self._drawn.pop()


call_ids = CallIds()


class LoadError(Exception):
    """A worker could not import its source."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(f"{file}:{line}: {message}" if file else message)
        self.message = message
        self.file = file
        self.line = line


class Reply:
    """What came of a call, and whether the worker can be used again (`is_lost`: it died, or must).

    `is_orphaned` tells a death that was the zygote's, not the callback's doing.
    """

    __slots__ = ("emitted", "is_lost", "is_orphaned", "outcome")

    def __init__(self, outcome: CallOutcome, *, is_lost: bool = False, is_orphaned: bool = False) -> None:
        self.outcome = outcome
        self.is_lost = is_lost
        self.is_orphaned = is_orphaned
        self.emitted: list[Emitted] = []


class Worker:
    """A live worker process."""

    def __init__(self, process: WorkerProcess, *, may_emit: bool = False) -> None:
        self.process = process
        self._may_emit = may_emit
        self.generation = process.generation
        self.pid = process.pid
        self.calls = 0
        self.measured_calls = 0
        self.has_children = False
        self.is_being_measured = False
        self.started_at = trio.current_time()
        # By generation, so that workers which started together do not leave together.
        self.endurance = random.Random(process.generation).uniform(0.9, 1.1)
        self.is_dead = False
        self.kill_reason: str | None = None
        self._reader = wire.FrameReader()
        self._call_id = 0
        self._on_asked: Callable[[Asked], wire.Told] | None = None  # of the last call
        self._asked = 0
        self._is_cut_short = False
        self.is_expired = False

    @property
    def fault(self) -> str | None:
        """Return why no call may be sent to it now: what is there before a call is no answer to it."""
        return self.process.fault

    @property
    def is_doomed(self) -> bool:
        """It is dead, or killed and about to be."""
        return self.is_dead or self.kill_reason is not None

    async def load(self, code: bytes) -> wire.Loaded:
        """Have it import its source, whose file (if it is one) holds `code`.

        Raises:
            LoadError: its code failed, or the process died over it.
        """
        try:
            await self._send(wire.frame(wire.Code(code)))
            message = wire.decode_from_worker(await self._receive())
            if not self._reader.is_empty:
                raise LoadError("the worker spoke out of turn")
        except (EOFError, wire.FrameError) as error:
            how = self.kill_reason or await self._how_it_died(LOAD_NOTICE) or error
            raise LoadError(f"the worker died while importing: {how}") from None
        match message:
            case wire.Loaded(generation) if generation == self.generation:
                return message
            case wire.LoadFailed(generation) if generation == self.generation:
                raise LoadError(message.message, message.file, message.line)
            case _:
                raise LoadError("the worker spoke out of turn")

    async def call(self, asked: Invocation, timeout: float) -> Reply:
        """Run one callback; `timeout` is the seconds that it has.

        Cancelling leaves the worker busy: then `settle` or kill it.
        """
        self._call_id = number = call_ids.draw()
        self.calls += 1
        self._on_asked, self._asked = asked.on_asked, 0
        message = wire.Call(
            self.generation, number, timeout, asked.function, asked.event, asked.payload, asked.envelope, asked.config,
            asked.merged, asked.reinvoked, asked.runtime, asked.is_native,
        )  # fmt: skip
        data = wire.frame(message)
        if len(data) > wire.MAX_FRAME:
            return Reply(CallOutcome("payload", message=f"its {len(data)} bytes with all patches are over the limit"))
        try:
            self._is_cut_short = True
            await self._send(data)
            self._is_cut_short = False
            return self._read(await self._answer(number))
        except EOFError:
            return await self._crashed()
        except wire.FrameError as error:
            return self._garbage(str(error))

    async def settle(self) -> bool:
        """Read the answer of a call that nobody waits for any more; say whether the worker is fit for another."""
        if self._is_cut_short:
            return False  # it waits for the rest of a call that will never come
        try:
            await self._answer(self._call_id)
        except (EOFError, wire.FrameError):
            return False
        return True

    async def _answer(self, number: int) -> wire.Answered:
        """Receive the answer to a call; serve what the callback asks of its state before it.

        Raises:
            EOFError: the worker is gone.
            FrameError: what came is not that.
        """
        while isinstance(message := wire.decode_from_worker(await self._receive()), Asked):
            await self._tell(message, number)
        if not self._reader.is_empty:
            raise wire.FrameError("more than one answer to a call")
        if not isinstance(message, wire.Answered) or (message.generation, message.call_id) != (self.generation, number):
            raise wire.FrameError("an answer to another call")
        if message.emitted and not self._may_emit:
            raise wire.FrameError("telemetry that nobody asked for")
        if len(message.emitted) > MAX_EMITTED or any(len(one.data) > MAX_EMITTED_BYTES for one in message.emitted):
            raise wire.FrameError("more telemetry than a call may send")
        return message

    async def _tell(self, asked: Asked, number: int) -> None:
        """Do one step on the state for the call that is under way, and let everybody else go on before the next one.

        Raises:
            FrameError: it is not that call's next question, or it did not wait for the answer to the one before.
        """
        self._asked += 1
        expected = self.generation, number, self._asked
        is_next = (asked.generation, asked.call_id, asked.number) == expected and self._asked <= MAX_STEPS
        if self._on_asked is None or not is_next or not self._reader.is_empty:
            raise wire.FrameError("a question about state out of turn")
        told = self._on_asked(asked)
        self._is_cut_short = True
        await self._send(wire.frame(told))
        self._is_cut_short = False
        # Not tried at once: a callback that asks without end takes one turn of the loop for each question.
        await trio.lowlevel.wait_readable(self.process.socket)

    def _read(self, said: wire.Answered) -> Reply:
        cause: Cause = CAUSES.get(said.cause, "crash")
        # The worker is not trusted, with the length of what it tells neither.
        trace = said.traceback[:MAX_TRACEBACK]
        reply = Reply(
            CallOutcome(
                cause, b"" if said.cause else said.answer, said.message, said.stdout, said.stderr, said.truncated,
                exit_code=said.exit_code, traceback=trace,
            )
        )  # fmt: skip
        reply.emitted = said.emitted
        return reply

    def _garbage(self, message: str) -> Reply:
        # A stream that once held garbage cannot be trusted to be in step again.
        self.kill("it broke the protocol")
        return Reply(self.lost_outcome("protocol", message), is_lost=True)

    async def _crashed(self) -> Reply:
        if self.is_expired:
            return Reply(CallOutcome("timeout"), is_lost=True)
        text = self.kill_reason or await self._how_it_died() or "the worker died"
        self.kill("its socket ended")
        is_orphaned = self.process.is_orphaned
        text = "the zygote died, and the worker with it" if is_orphaned else text
        return Reply(self.lost_outcome("crash", text), is_lost=True, is_orphaned=is_orphaned)

    def lost_outcome(self, cause: Cause, message: str) -> CallOutcome:
        """Make the outcome of a call whose worker is dead or about to be, with what it had printed so far."""
        stdout, out_cut = tail(self.process.stdout_fd)
        stderr, err_cut = tail(self.process.stderr_fd)
        return CallOutcome(cause, b"", message, stdout, stderr, out_cut or err_cut)

    async def _how_it_died(self, line_timeouts: float = EXIT_NOTICE) -> str:
        with trio.move_on_after(line_timeouts):
            await self.process.exit_known.wait()
        code = self.process.exit_code
        if code is None:
            return ""
        return f"the worker exited with code {code}" if code >= 0 else f"the worker was killed by signal {-code}"

    def kill(self, reason: str) -> None:
        """Kill it now.  Its death is noticed, and its descriptors are closed, by `watch`."""
        if not self.is_dead:
            self.kill_reason = self.kill_reason or reason
            self.process.kill()

    async def watch(self) -> None:
        """Wait for the process's death."""
        await trio.lowlevel.wait_readable(self.process.pidfd)

    def bury(self) -> None:
        """Make it known dead, and wake the task that waits for its answer, if there is one."""
        self.is_dead = True
        self._hang_up()

    def expire(self) -> None:
        """End its call: the deadline has passed."""
        self.is_expired = True
        self.kill("its call's deadline passed")
        self._hang_up()

    def _hang_up(self) -> None:
        try:
            self.process.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Let go of its descriptors; only when nobody calls it any more."""
        self.is_dead = True
        trio.lowlevel.notify_closing(self.process.socket)
        trio.lowlevel.notify_closing(self.process.pidfd)
        self.process.close()

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.process.socket.send(view) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.process.socket)
            except OSError:
                raise EOFError("its socket is closed") from None

    async def _receive(self) -> bytes:
        while (body := self._reader.take()) is None:
            try:
                data = self.process.socket.recv(2**14)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.process.socket)
                continue
            except OSError:
                raise EOFError("its socket broke") from None
            if not data:
                raise EOFError("its socket ended")
            self._reader.feed(data)
        return body


# What a worker may say of how a call ended; any other word of its is a crash.
CAUSES: dict[str, Cause] = {
    "": "policy", "protocol": "protocol", "timeout": "timeout", "load": "load", "overload": "overload"
}  # fmt: skip


def tail(fd: int) -> tuple[bytes, bool]:
    size = os.fstat(fd).st_size
    return os.pread(fd, wire.MAX_CAPTURE, max(0, size - wire.MAX_CAPTURE)), size > wire.MAX_CAPTURE

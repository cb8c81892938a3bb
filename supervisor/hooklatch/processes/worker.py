"""One worker as an actor: its socket, its pidfd, one call at a time.  Knows frames and outcomes; knows no registry.

    starting ──Loaded──▶ idle ◀──────▶ busy          any state ──pidfd readable──▶ dead (reaped by its zygote)

The task that calls also reads the answer: a fire crosses no other task.  `watch()` is the one owner of the pidfd;
when the process is dead, `bury()` shuts the socket down, which wakes whoever waits for an answer, even where a child
of the callback still holds the other end open.
"""

from __future__ import annotations

import os
import socket

import trio

from hooklatch.core.messages import CallOutcome, Cause
from hooklatch.processes.zygote import WorkerProcess
from hooklatch_worker import wire

__all__ = ["LoadError", "Reply", "Worker"]

EXIT_NOTICE = 0.02  # seconds to wait for the news how a worker died; only the text of a crash depends on it


class LoadError(Exception):
    """A worker could not import its source."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(f"{file}:{line}: {message}" if file else message)
        self.message = message
        self.file = file
        self.line = line


class Reply:
    """What came of a call, and whether the worker can be used again (`is_lost`: it died, or must)."""

    __slots__ = ("is_lost", "outcome")

    def __init__(self, outcome: CallOutcome, *, is_lost: bool = False) -> None:
        self.outcome = outcome
        self.is_lost = is_lost


class Worker:
    """A live worker process."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        self.generation = process.generation
        self.pid = process.pid
        self.calls = 0
        self.measured_calls = 0
        self.started_at = trio.current_time()
        self.is_dead = False
        self.kill_reason: str | None = None
        self._reader = wire.FrameReader()
        self._last_call = 0

    async def load(self) -> wire.Loaded:
        """Wait until the source is imported.

        Raises:
            LoadError: its code failed, or the process died over it.
        """
        try:
            message = wire.decode_from_worker(await self._receive())
        except (EOFError, wire.FrameError) as error:
            raise LoadError(f"the worker died while importing: {await self._how_it_died() or error}") from None
        match message:
            case wire.Loaded():
                return message
            case wire.LoadFailed():
                raise LoadError(message.message, message.file, message.line)
            case _:
                raise LoadError("the worker spoke out of turn")

    async def call(
        self, function: str, event: str, payload: bytes, envelope: bytes, config: bytes, merged: bytes, *,
        reinvoked: bool, runtime: str,
    ) -> Reply:  # fmt: skip
        """Run one callback.  Cancelling leaves the worker busy: then `settle` or kill it."""
        self._last_call = number = self._last_call + 1
        self.calls += 1
        message = wire.Call(
            self.generation, number, function, event, payload, envelope, config, merged, reinvoked, runtime
        )
        try:
            await self._send(wire.frame(message))
            body = await self._receive()
        except EOFError:
            return await self._crashed()
        except wire.FrameError as error:
            return self._garbage(str(error))
        return self._read(body, number)

    async def settle(self) -> bool:
        """Read the answer of a call that nobody waits for any more; say whether the worker is fit for another."""
        try:
            return not self._read(await self._receive(), self._last_call).is_lost
        except (EOFError, wire.FrameError):
            return False

    def _read(self, body: bytes, number: int) -> Reply:
        try:
            message = wire.decode_from_worker(body)
        except wire.FrameError as error:
            return self._garbage(str(error))
        match message:
            case wire.Answered(generation, call_id) if (generation, call_id) == (self.generation, number):
                return Reply(
                    CallOutcome("policy", message.answer, "", message.stdout, message.stderr, message.truncated)
                )
            case wire.Failed(generation, call_id) if (generation, call_id) == (self.generation, number):
                cause: Cause = "protocol" if message.cause == "protocol" else "crash"
                return Reply(
                    CallOutcome(cause, b"", message.message, message.stdout, message.stderr, message.truncated)
                )
            case _:
                return self._garbage("an answer to another call")

    def _garbage(self, message: str) -> Reply:
        # A stream that once held garbage cannot be trusted to be in step again.
        self.kill("it broke the protocol")
        return Reply(self.lost_outcome("protocol", message), is_lost=True)

    async def _crashed(self) -> Reply:
        text = self.kill_reason or await self._how_it_died() or "the worker died"
        self.kill("its socket ended")
        return Reply(self.lost_outcome("crash", text), is_lost=True)

    def lost_outcome(self, cause: Cause, message: str) -> CallOutcome:
        """Make the outcome of a call whose worker is dead or about to be, with what it had printed so far."""
        stdout, out_cut = tail(self.process.stdout_fd)
        stderr, err_cut = tail(self.process.stderr_fd)
        return CallOutcome(cause, b"", message, stdout, stderr, out_cut or err_cut)

    async def _how_it_died(self) -> str:
        with trio.move_on_after(EXIT_NOTICE):
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
                raise EOFError from None

    async def _receive(self) -> bytes:
        while (body := self._reader.take()) is None:
            try:
                data = self.process.socket.recv(2**18)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.process.socket)
                continue
            except OSError:
                raise EOFError from None
            if not data:
                raise EOFError
            self._reader.feed(data)
        return body


def tail(fd: int) -> tuple[bytes, bool]:
    size = os.fstat(fd).st_size
    return os.pread(fd, wire.MAX_CAPTURE, max(0, size - wire.MAX_CAPTURE)), size > wire.MAX_CAPTURE

"""One zygote process and the workers that it forked: messages, descriptors and exit codes."""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import suppress

import trio

from hooklatch.processes.guardian import STOP_TIMEOUT, Guardian
from hooklatch_worker import wire
from hooklatch_worker.sandbox import linux

__all__ = ["ForkError", "ZygoteProcess", "ForkRequest", "WorkerProcess", "ZygoteLostError"]

BOOT_TIMEOUT = 20.0  # seconds; enough for a cold import on a busy machine


class ForkError(Exception):
    """No worker could be forked."""


class ZygoteLostError(ForkError):
    """The zygote died or fell silent during the request. The next zygote may succeed."""


class WorkerProcess:
    """The daemon's handle on a forked worker: five descriptors, and its exit code once that is known."""

    def __init__(self, zygote: ZygoteProcess, generation: int, pid: int, fds: list[int]) -> None:
        self._zygote = zygote
        self.generation = generation
        self.pid = pid
        socket_fd, self.pidfd, self.stdout_fd, self.stderr_fd, self.progress_fd = fds
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

    @property
    def is_orphaned(self) -> bool:
        """Return whether it died because its zygote did."""
        return not self._zygote.is_alive

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return  # it is dead already, and its zygote has reaped it

    def close(self) -> None:
        self.socket.close()
        for fd in (self.pidfd, self.stdout_fd, self.stderr_fd, self.progress_fd):
            os.close(fd)


class ForkRequest:
    """A fork that was requested, and its result."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result: WorkerProcess | ForkError = ZygoteLostError("the zygote died")


class ZygoteProcess:
    """One zygote process, from its start to its death."""

    def __init__(self, guardian: Guardian) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setblocking(False)
        self.requests: dict[int, ForkRequest] = {}
        self.workers: dict[int, WorkerProcess] = {}
        self.is_over = False
        self.pid = self.pidfd = 0  # until its greeting has arrived
        try:
            with theirs:
                guardian.fork(theirs)
            # The socket alone would not show every death: another process may still have its other end, such as a
            # guardian that was stopped right after it forked. So the process is watched too, once its pidfd is known.
            self._events = select.epoll()
        except OSError:
            self.control.close()
            raise
        self._events.register(self.control, select.EPOLLIN)

    async def greet(self) -> None:
        """Wait until the zygote is ready to fork.

        Raises:
            ForkError: it ended, or was not ready in time.
        """
        with trio.move_on_after(BOOT_TIMEOUT):
            match await self.receive():
                case wire.ZygoteReady(pid), [pidfd]:
                    self.pid, self.pidfd = pid, pidfd
                    self._events.register(pidfd, select.EPOLLIN)
                    return
                case _:
                    pass
        raise ForkError("the zygote ended before it was ready; its output is in the daemon's log, above this line")

    @property
    def is_alive(self) -> bool:
        return not self.is_over and not linux.has_ended(self.pidfd)

    async def receive(self) -> tuple[wire.FromZygote, list[int]] | None:
        """Wait for the zygote's next message. Return None when it is dead.

        Raises:
            FrameError: its messages cannot be trusted any more.
        """
        while True:
            has_ended = self.pid != 0 and linux.has_ended(self.pidfd)  # before the read: its last messages come first
            try:
                data, fds, _, _ = socket.recv_fds(self.control, 2**16, 5, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                if has_ended:
                    return None
                await trio.lowlevel.wait_readable(self._events.fileno())
                continue
            except OSError:
                return None
            return (wire.decode_from_zygote(data), fds) if data else None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the zygote, if its pid is known."""
        if self.pid:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    async def aclose(self) -> None:
        """Stop the zygote: close its control socket, so that it kills its workers, then kill it if it still lives."""
        with trio.CancelScope(shield=True):
            trio.lowlevel.notify_closing(self._events.fileno())
            self._events.close()
            trio.lowlevel.notify_closing(self.control)
            self.control.close()
            if not self.pid:
                self.is_over = True
                return
            self.kill(signal.SIGCONT)  # a stopped process does not see that its socket ended
            with trio.move_on_after(STOP_TIMEOUT):
                await trio.lowlevel.wait_readable(self.pidfd)
            self.kill()
            await trio.lowlevel.wait_readable(self.pidfd)
            self.is_over = True
            os.close(self.pidfd)

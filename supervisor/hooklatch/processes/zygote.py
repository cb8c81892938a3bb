"""The daemon's handle on its zygote.  Knows two processes and a control socket; does not know hooks or verdicts.

guard() ─ starts a guardian, and fails when it dies: its supervisor then runs another
run() ─── has the guardian fork a zygote, reads its messages, and fails when it dies: likewise
fork() ── requests a worker, waits for a new zygote if there is none, kills one that is silent for 2 s
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio

from hooklatch.core.restarts import RestartPolicy
from hooklatch.processes.environment import allowed
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch_worker import wire
from hooklatch_worker.sandbox import linux

__all__ = ["ForkError", "WorkerProcess", "Zygote", "ZygoteLostError", "open_zygote", "reap_strangers"]

logger = logging.getLogger("hooklatch.zygote")
BOOT_TIMEOUT = 20.0  # seconds; enough for a cold import on a busy machine
SILENCE = 2.0  # seconds without an answer to a fork, after which the zygote is stuck
STOP_TIMEOUT = 5.0  # seconds that it may take to kill everything below it
RESTARTS = RestartPolicy(intensity=5, period=5.0, waits=(0.0, 0.1, 0.5, 1.0, 2.0))  # without it nothing can be called
SWEEP_TIMEOUT = 5.0  # seconds for killing what a dead zygote left; what lives on after that cannot be killed
SWEEP_INTERVAL = 0.002  # seconds between two checks for what is left
GUARDIAN = """import gc, sys
gc.disable()  # until what all workers share is loaded and frozen
sys.path[:] = {path}
from hooklatch_worker.runtime import guardian
guardian.live({line}, {daemon})
"""


class ForkError(Exception):
    """No worker could be forked."""


class ZygoteLostError(ForkError):
    """The zygote died or fell silent during the request; the next one may succeed."""


class WorkerProcess:
    """The daemon's handle on a forked worker: five descriptors, and how it ended once that is known."""

    def __init__(self, life: Life, generation: int, pid: int, fds: list[int]) -> None:
        self._life = life
        self.generation = generation
        self.pid = pid
        socket_fd, self.pidfd, self.stdout_fd, self.stderr_fd, self.progress_fd = fds
        self.socket = socket.socket(fileno=socket_fd)
        self.socket.setblocking(False)
        self._poll = select.poll()  # select(2) is limited to descriptors up to 1023
        for fd in (self.pidfd, life.pidfd, socket_fd):
            self._poll.register(fd, select.POLLIN)
        self.exit_code: int | None = None
        self.exit_known = trio.Event()

    @property
    def fault(self) -> str | None:
        """Return why no call may be sent to it now; None if it and its zygote live and nothing is to be read."""
        if self._life.is_over:
            return "its zygote ended"
        ready = self._poll.poll(0)
        if not ready:
            return None
        has_spoken = all(fd == self.socket.fileno() for fd, _ in ready)
        return "it broke the protocol between two calls" if has_spoken else "it ended between two calls"

    @property
    def is_orphaned(self) -> bool:
        """Return whether it died because its zygote did."""
        return not self._life.is_alive

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return  # it is dead already

    def close(self) -> None:
        self.socket.close()
        for fd in (self.pidfd, self.stdout_fd, self.stderr_fd, self.progress_fd):
            os.close(fd)


class Order:
    """A requested fork."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result: WorkerProcess | ForkError = ZygoteLostError("the zygote died")


class Guardian:
    """The process that forks zygotes, and outlives them."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = start_guardian(theirs.fileno())
            self.pid = self._process.pid
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._line.close()
            raise

    @property
    def has_ended(self) -> bool:
        return self._pidfd < 0 or linux.has_ended(self._pidfd)

    async def wait(self) -> None:
        """Wait until it ends."""
        await trio.lowlevel.wait_readable(self._pidfd)

    def kill(self) -> None:
        self._process.kill()

    def fork(self, control: socket.socket) -> None:
        """Have it fork a zygote with this control socket.

        Raises:
            OSError: it has ended.
        """
        self._wake()
        socket.send_fds(self._line, [b"zygote"], [control.fileno()])

    def _wake(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)  # it may have been stopped

    async def aclose(self) -> None:
        """End it, which it does by itself when its line ends; one that is stuck is killed."""
        with trio.CancelScope(shield=True):
            self._line.close()
            self._wake()
            with trio.move_on_after(STOP_TIMEOUT):
                await self.wait()
            self.kill()
            await self.wait()
            self._process.wait()
            os.close(self._pidfd)
            self._pidfd = -1


class Life:
    """One zygote process, from its start to its death."""

    def __init__(self, guardian: Guardian) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setblocking(False)
        self.orders: dict[int, Order] = {}
        self.workers: dict[int, WorkerProcess] = {}
        self.is_over = False
        self.pid = self.pidfd = 0  # until it has greeted
        try:
            with theirs:
                guardian.fork(theirs)
        except OSError:
            self.control.close()
            raise

    async def greet(self) -> None:
        """Wait until it listens.

        Raises:
            ForkError: it does not.
        """
        with trio.move_on_after(BOOT_TIMEOUT):
            match await self.receive():
                case wire.Ready(pid), [pidfd]:
                    self.pid, self.pidfd = pid, pidfd
                    return
                case _:
                    pass
        raise ForkError("its process ended before it was ready; what it said is in the log above")

    @property
    def is_alive(self) -> bool:
        return not self.is_over and not linux.has_ended(self.pidfd)

    async def receive(self) -> tuple[wire.FromZygote, list[int]] | None:
        """Wait for its next message; return None when it is dead.

        Raises:
            FrameError: its messages cannot be trusted any more.
        """
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.control, 2**16, 5, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.control)
                continue
            except OSError:
                return None
            return (wire.decode_from_zygote(data), fds) if data else None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the zygote, if it has greeted."""
        if self.pid:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    async def aclose(self) -> None:
        """End it: it kills its workers when its control socket ends; a stuck one is killed."""
        with trio.CancelScope(shield=True):
            trio.lowlevel.notify_closing(self.control)
            self.control.close()
            if not self.pid:
                self.is_over = True
                return
            self.kill(signal.SIGCONT)  # it may have been stopped
            with trio.move_on_after(STOP_TIMEOUT):
                await trio.lowlevel.wait_readable(self.pidfd)
            self.kill()
            await trio.lowlevel.wait_readable(self.pidfd)
            self.is_over = True
            os.close(self.pidfd)


class Zygote:
    """Forks workers, through one zygote after another."""

    def __init__(self, *, owns_process: bool = False) -> None:
        self._life: Life | None = None
        self._latest: Life | None = None  # from its start until it is gone
        self._guardian: Guardian | None = None  # from its start until everything that it left is gone
        self._guarded = trio.Event()
        self._ready = trio.Event()
        self._generation = 0
        self._owns_process = owns_process
        self._lives = 0

    @property
    def specs(self) -> tuple[ChildSpec, ChildSpec]:
        """Return how the guardian and the zygote are supervised."""
        return (
            ChildSpec("guardian", self.guard, policy=RESTARTS, reports_start=True),
            ChildSpec("zygote", self.run, policy=RESTARTS, reports_start=True),
        )

    @property
    def restarts(self) -> int:
        """Return how often the zygote was restarted, or should have been."""
        return max(self._lives - 1, 0)

    @property
    def pid(self) -> int | None:
        return self._life.pid if self._life else None

    @property
    def is_alive(self) -> bool:
        return self._life is not None and self._life.is_alive

    def roots(self) -> frozenset[int]:
        """Return the processes below which everything that runs hooks is.

        The daemon's own process is one, since it adopts what a zygote and its guardian leave if both are killed; but as
        process 1 of a container it also adopts the orphans of anything else there.
        """
        found = {one.pid for one in (self._latest, self._guardian) if one is not None} - {0}
        return frozenset(found | {os.getpid()} if self._owns_process and os.getpid() != 1 else found)

    async def fork(self, source: wire.Source, limits: wire.WorkerLimits) -> WorkerProcess:
        """Fork a worker that will import `source`; wait for a zygote if there is none just now.

        Raises:
            ForkError: the system refuses, or the zygote died or fell silent meanwhile.
        """
        while (life := self._life) is None:  # it may be gone again before a task that waited for it runs
            await self._ready.wait()
        self._generation += 1
        generation = self._generation
        order = life.orders[generation] = Order()
        try:
            with trio.move_on_after(SILENCE):
                await self._send(life, wire.encode(wire.Fork(generation, source, limits)))
                await order.done.wait()
        except BaseException:
            # Cancelled; the worker may have come at the same moment, and then nothing else knows of it.
            if isinstance(order.result, WorkerProcess):
                order.result.kill()
                order.result.close()
            raise
        finally:
            # What comes later finds nobody waiting; `_hear` then kills it.
            life.orders.pop(generation, None)
        if not order.done.is_set():
            logger.error("zygote silent for %.0f s, killing it", SILENCE, extra={"pid": life.pid})
            life.kill()
            self._lose(life)
        if isinstance(order.result, ForkError):
            raise order.result
        return order.result

    async def _send(self, life: Life, data: bytes) -> None:
        while True:
            try:
                life.control.send(data)
                return
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_writable(life.control)
                except trio.ClosedResourceError:
                    raise ZygoteLostError("the zygote is gone") from None
            except OSError as error:
                self._lose(life)
                raise ZygoteLostError(f"the zygote is gone: {error.strerror}") from None

    def _lose(self, life: Life) -> None:
        """Make new forks wait for the next life, even if the end of this one was not received yet."""
        if self._life is life:
            self._life = None
            self._ready = trio.Event()

    async def guard(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run one guardian, from its start to its death.

        Raises:
            ForkError: it could not be started, or has died.
        """
        try:
            guardian = self._guardian = Guardian()
        except OSError as error:
            raise ForkError(f"the guardian could not be started: {error.strerror}") from None
        self._guarded.set()
        try:
            task_status.started()
            await guardian.wait()
        finally:
            self._guarded = trio.Event()
            await guardian.aclose()
            await self._sweep()
            self._guardian = None
        raise ForkError(f"the guardian died, pid {guardian.pid}")

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run one zygote, from its start to its death.

        Raises:
            ForkError: it did not start, or has died.
        """
        self._lives += 1
        while (guardian := self._guardian) is None or guardian.has_ended:  # both may have died, and we hear of it first
            await self._guarded.wait()
        try:
            life = self._latest = Life(guardian)
        except OSError as error:
            raise ForkError(f"the zygote could not be started: {error.strerror}") from None
        try:
            await life.greet()
            self._life = life
            self._ready.set()
            task_status.started()
            await self._hear(life)
        except wire.FrameError as error:
            life.kill()
            raise ZygoteLostError(f"the zygote broke the protocol and was killed, pid {life.pid}: {error}") from None
        finally:
            self._lose(life)
            for order in life.orders.values():
                order.done.set()
            if not life.pid:
                guardian.kill()  # it may be stuck
            await life.aclose()
            self._latest = None
        raise ZygoteLostError(f"the zygote died, pid {life.pid}")

    async def _hear(self, life: Life) -> None:
        while (received := await life.receive()) is not None:
            message, fds = received
            match message:
                case wire.Forked(generation, pid) if len(fds) == 5:
                    worker = WorkerProcess(life, generation, pid, fds)
                    life.workers[generation] = worker
                    self._deliver(life, generation, worker)
                case wire.Forked(generation, pid):
                    # The kernel drops the descriptors that we have no room for (MSG_CTRUNC of recvmsg(2)).
                    for fd in fds:
                        os.close(fd)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    self._deliver(life, generation, ForkError("the daemon has no descriptor left"))
                case wire.ForkFailed(generation, text):
                    self._deliver(life, generation, ForkError(text))
                case wire.Exited(generation, _, code):
                    ended = life.workers.pop(generation, None)
                    if ended is not None:
                        ended.exit_code = code
                        ended.exit_known.set()
                case wire.Ready():
                    continue

    def _deliver(self, life: Life, generation: int, result: WorkerProcess | ForkError) -> None:
        order = life.orders.get(generation)
        if order is not None:
            order.result = result
            order.done.set()
        elif isinstance(result, WorkerProcess):
            result.kill()
            result.close()

    async def _sweep(self) -> None:
        """Kill what the dead guardian left, whose orphans we adopt if this process is the daemon's own."""
        if not self._owns_process:
            return
        with trio.move_on_after(SWEEP_TIMEOUT, shield=True) as scope:
            while linux.kill_children():  # noqa: ASYNC110  (each death may hand us the next generation)
                await trio.sleep(SWEEP_INTERVAL)
        if scope.cancelled_caught:
            logger.error("processes that a dead guardian left cannot be killed: %s", linux.children())


def start_guardian(line: int) -> subprocess.Popen[bytes]:
    """Start an interpreter like this one, with an environment that has none of this one's secrets, as the guardian.

    It is in a session of its own: Ctrl-C in the daemon's terminal must only reach the daemon.
    """
    path = [os.fspath(entry) or os.getcwd() for entry in sys.path]  # not made absolute: it may be one of an import hook
    code = GUARDIAN.format(path=path, line=line, daemon=os.getpid())
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing takes them
    command: list[str] = [sys.executable, *flags, "-c", code]
    return subprocess.Popen(command, env=allowed(os.environ), pass_fds=[line], start_new_session=True)


def reap_strangers() -> None:
    """Reap each dead child.

    The daemon adopts orphans: as a subreaper those that a dead zygote left, and as process 1 of a container those of
    everything else there, such as what a health check or `docker exec` left behind.  Without this they stay as zombies.
    """
    for pid in linux.children():
        linux.reap(pid)


@asynccontextmanager
async def open_zygote(*, owns_process: bool = False) -> AsyncGenerator[Zygote]:
    """Run a zygote while the block runs."""
    async with Supervisor("zygote").open() as supervisor:
        zygote = Zygote(owns_process=owns_process)
        for spec in zygote.specs:
            await supervisor.start(spec)
        yield zygote

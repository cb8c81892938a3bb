"""The daemon's zygote, and the workers that it forked: messages, descriptors and exit codes.

Knows processes and a control socket; does not know hooks or verdicts.  A ZygoteProcess is one process, from its start
to its death.  The ZygoteClient replaces it:

guard() ─ starts a guardian, and fails when it dies. Its supervisor then runs it again
run() ─── has the guardian fork a zygote, reads its messages, and fails when it dies. The supervisor runs it again
fork() ── requests a worker, waits for a new zygote if there is none, kills a zygote that is silent for 2 s

    async with open_zygote() as zygote:
        process = await zygote.fork(source, wire.WorkerLimits())
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import msgspec
import trio

from hooklatch.core.restarts import RestartPolicy
from hooklatch.processes.guardian import OWNED, STOP_TIMEOUT, Guardian, Interpreter
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.processes.worker import WorkerProcess
from hooklatch_worker import wire
from hooklatch_worker.systems import system

__all__ = [
    "ZygoteClient", "open_zygote", "reap_strangers", "run_zygote", "ForkError", "ZygoteProcess", "ForkRequest",
    "ZygoteLostError",
]  # fmt: skip

logger = logging.getLogger("hooklatch.zygote")
SILENCE = 2.0  # seconds without an answer to a fork, after which the zygote counts as stuck
RESTARTS = RestartPolicy(intensity=5, period=5.0, waits=(0.0, 0.1, 0.5, 1.0, 2.0))  # without it no hook can be called
SWEEP_TIMEOUT = 5.0  # seconds for killing what a dead zygote left; a process that lives after that cannot be killed
SWEEP_INTERVAL = 0.002  # seconds between two checks for what is left
BOOT_TIMEOUT = 20.0  # seconds; enough for a cold import on a busy machine


class ForkError(Exception):
    """No worker could be forked."""


class ZygoteLostError(ForkError):
    """The zygote died or fell silent during the request. The next zygote may succeed."""


class ForkRequest(msgspec.Struct, eq=False):
    """A fork that was requested, and its result: without one, the zygote died."""

    done: trio.Event = msgspec.field(default_factory=trio.Event)
    result: WorkerProcess | ForkError | None = None


class ZygoteProcess:
    """One zygote process, from its start to its death."""

    def __init__(self, guardian: Guardian) -> None:
        self.control, theirs = system.make_message_pair()
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
            self._events = system.EventSet()
        except OSError:
            self.control.close()
            raise
        self._events.add(self.control.fileno())

    async def greet(self) -> None:
        """Wait until the zygote is ready to fork.

        Raises:
            ForkError: it ended, or was not ready in time.
        """
        with trio.move_on_after(BOOT_TIMEOUT):
            match await self.receive():
                case wire.ZygoteReady(pid), [pidfd]:
                    self.pid, self.pidfd = pid, pidfd
                    self._events.add(pidfd)
                    return
                case _:
                    pass
        raise ForkError("the zygote ended before it was ready; its output is in the daemon's log, above this line")

    @property
    def is_alive(self) -> bool:
        return not self.is_over and not system.has_ended(self.pidfd)

    async def receive(self) -> tuple[wire.FromZygote, list[int]] | None:
        """Wait for the zygote's next message. Return None when it is dead.

        Raises:
            FrameError: its messages cannot be trusted any more.
        """
        has_ended = False
        while True:
            try:
                data, fds = system.receive_message(self.control, 5)
            except BlockingIOError:
                if has_ended:
                    return None
                has_ended = self.pid != 0 and system.has_ended(self.pidfd)
                if not has_ended:  # otherwise its last messages are read first
                    await trio.lowlevel.wait_readable(self._events.fileno())
                continue
            except OSError:
                return None
            message = wire.decode_from_zygote(data) if data else None
            if isinstance(message, wire.WorkerForked | wire.ZygoteReady):
                fds = system.receive_process(message.pid, fds)
            return (message, fds) if message is not None else None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal the zygote, if its pid is known."""
        if self.pid:
            with suppress(ProcessLookupError):
                system.signal_process(self.pidfd, self.pid, number)

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


class ZygoteClient:
    """The daemon's side of the zygotes of one interpreter, its own if none is given. It outlives each of them."""

    def __init__(self, *, owns_process: bool = False, interpreter: Interpreter | None = None) -> None:
        self._interpreter = interpreter
        self._zygote: ZygoteProcess | None = None
        self._latest: ZygoteProcess | None = None  # from its start until it is gone
        self._guardian: Guardian | None = None  # from its start until everything that it left is gone
        self._guarded = trio.Event()
        self._ready = trio.Event()
        self._generation = 0
        self.owns_process = owns_process
        self._zygotes_started = 0

    @property
    def specs(self) -> tuple[ChildSpec, ChildSpec]:
        """Return how the guardian and the zygote are supervised."""
        return (
            ChildSpec("guardian", self.guard, policy=RESTARTS, reports_start=True),
            ChildSpec("zygote", self.run, policy=RESTARTS, reports_start=True),
        )

    @property
    def restarts(self) -> int:
        """Return how often a zygote was started after the first, or should have been."""
        return max(self._zygotes_started - 1, 0)

    @property
    def pid(self) -> int | None:
        return self._zygote.pid if self._zygote else None

    @property
    def is_alive(self) -> bool:
        return self._zygote is not None and self._zygote.is_alive

    def roots(self) -> frozenset[int]:
        """Return the processes that have everything that runs hooks below them.

        The daemon's own process is one of them, since it adopts the orphans of a zygote and its guardian if both are
        killed. As process 1 of a container it also adopts all other orphans there, and is then left out.
        """
        pids = {process.pid for process in (self._latest, self._guardian) if process is not None} - {0}
        return frozenset(pids | {os.getpid()} if self.owns_process and os.getpid() != 1 else pids)

    async def fork(self, source: wire.Source, limits: wire.WorkerLimits) -> WorkerProcess:
        """Fork a worker that will import `source`. Wait for a zygote if there is none now.

        Raises:
            ForkError: the system refuses, or the zygote died or fell silent during the request.
        """
        while (zygote := self._zygote) is None:  # it may be gone again before a task that waited for it runs
            await self._ready.wait()
        self._generation += 1
        generation = self._generation
        request = zygote.requests[generation] = ForkRequest()
        try:
            with trio.move_on_after(SILENCE):
                await self._send(zygote, wire.encode_body(wire.ForkWorker(generation, source, limits)))
                await request.done.wait()
        except BaseException:
            # Cancelled. The worker may have arrived in the same turn of the loop, and then only this task can end it.
            if isinstance(request.result, WorkerProcess):
                request.result.kill()
                request.result.close()
            raise
        finally:
            # A worker that arrives later has no request any more, so `_deliver` kills it.
            zygote.requests.pop(generation, None)
        if not request.done.is_set():
            logger.error("zygote silent for %.0f s, killing it", SILENCE, extra={"pid": zygote.pid})
            zygote.kill()
            self._lose(zygote)
        if not isinstance(request.result, WorkerProcess):
            raise request.result or ZygoteLostError("the zygote died")
        return request.result

    async def _send(self, zygote: ZygoteProcess, data: bytes) -> None:
        while True:
            try:
                system.send_message(zygote.control, data)
                return
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_writable(zygote.control)
                except trio.ClosedResourceError:
                    raise ZygoteLostError("the zygote is gone") from None
            except OSError as error:
                zygote.kill()  # it may live, if the kernel has no memory, and would have no successor
                self._lose(zygote)
                raise ZygoteLostError(f"the zygote is gone: {error.strerror}") from None

    def _lose(self, zygote: ZygoteProcess) -> None:
        """Make new forks wait for the next zygote, even if the end of this one was not received yet."""
        if self._zygote is zygote:
            self._zygote = None
            self._ready = trio.Event()

    async def guard(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run one guardian, from its start to its death.

        Raises:
            ForkError: it could not be started, or has died.
        """
        try:
            guardian = self._guardian = Guardian(self._interpreter)
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
        self._zygotes_started += 1
        # Both may have died, and this task may run before `guard` does.
        while (guardian := self._guardian) is None or guardian.has_ended:
            await self._guarded.wait()
        try:
            zygote = self._latest = ZygoteProcess(guardian)
        except OSError as error:
            raise ForkError(f"the zygote could not be started: {error.strerror}") from None
        try:
            await zygote.greet()
            self._zygote = zygote
            self._ready.set()
            task_status.started()
            await self._read_messages(zygote)
        except wire.FrameError as error:
            zygote.kill()
            raise ZygoteLostError(f"the zygote broke the protocol and was killed, pid {zygote.pid}: {error}") from None
        finally:
            self._lose(zygote)
            for request in zygote.requests.values():
                request.done.set()
            for worker in zygote.workers.values():
                worker.exit_known.set()  # its exit code will never arrive
            if not zygote.pid:
                guardian.kill()  # it may be stuck: no greeting came from the zygote that it should have forked
            await zygote.aclose()
            self._latest = None
        raise ZygoteLostError(f"the zygote died, pid {zygote.pid}")

    async def _read_messages(self, zygote: ZygoteProcess) -> None:
        while (received := await zygote.receive()) is not None:
            message, fds = received
            match message:
                case wire.WorkerForked(generation, pid) if len(fds) == 5:
                    worker = WorkerProcess(zygote, generation, pid, fds)
                    zygote.workers[generation] = worker
                    self._deliver(zygote, generation, worker)
                case wire.WorkerForked(generation, pid):
                    # The kernel drops the descriptors that we have no room for (MSG_CTRUNC of recvmsg(2)).
                    for fd in fds:
                        os.close(fd)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    self._deliver(zygote, generation, ForkError("the daemon has no descriptor left"))
                case wire.ForkFailed(generation, text):
                    self._deliver(zygote, generation, ForkError(text))
                case wire.WorkerExited(generation, _, code):
                    ended = zygote.workers.pop(generation, None)
                    if ended is not None:
                        ended.exit_code = code
                        ended.exit_known.set()
                case wire.ZygoteReady():
                    continue

    def _deliver(self, zygote: ZygoteProcess, generation: int, result: WorkerProcess | ForkError) -> None:
        request = zygote.requests.get(generation)
        if request is not None:
            request.result = result
            request.done.set()
        elif isinstance(result, WorkerProcess):
            result.kill()
            result.close()

    async def _sweep(self) -> None:
        """Kill the processes that the dead guardian left, which this process adopts if it is the daemon's own."""
        if not self.owns_process:
            return
        with trio.move_on_after(SWEEP_TIMEOUT, shield=True) as scope:
            while system.kill_children(keep=frozenset(OWNED)):  # noqa: ASYNC110  (each death may hand us the next generation)
                await trio.sleep(SWEEP_INTERVAL)
        if scope.cancelled_caught:
            left_pids = sorted({*system.list_children()} - OWNED)
            logger.error("processes that a dead guardian left cannot be killed: %s", left_pids)


def reap_strangers() -> None:
    """Reap each dead child that no task waits for.

    The daemon adopts orphans. As a subreaper it gets those of a dead zygote, and as process 1 of a container those of
    everything else there, such as a health check or `docker exec`.  Without this they stay as zombies.
    """
    for pid in system.list_children():
        if pid not in OWNED:
            system.reap_child(pid)


@asynccontextmanager
async def open_zygote(
    *, owns_process: bool = False, interpreter: Interpreter | None = None
) -> AsyncGenerator[ZygoteClient]:
    """Run a guardian and a zygote for the duration of the block."""
    zygote = ZygoteClient(owns_process=owns_process, interpreter=interpreter)
    async with run_zygote(zygote, Supervisor("zygote")):
        yield zygote


@asynccontextmanager
async def run_zygote(zygote: ZygoteClient, supervisor: Supervisor) -> AsyncGenerator[None]:
    """Run a not yet started zygote for the duration of the block, under the given supervisor."""
    async with supervisor.open():
        for spec in zygote.specs:
            await supervisor.start(spec)
        yield

"""The daemon's handle on its zygote.  Knows two processes and a control socket; does not know hooks or verdicts.

guard() ─ starts a guardian, and fails when it dies: its supervisor then runs another
run() ─── has the guardian fork a zygote, reads its messages, and fails when it dies: likewise
fork() ── requests a worker, waits for a new zygote if there is none, kills one that is silent for 2 s
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio

from hooklatch.core.restarts import RestartPolicy
from hooklatch.processes.guardian import OWNED, Guardian, Interpreter
from hooklatch.processes.life import ForkError, ForkRequest, WorkerProcess, ZygoteLostError, ZygoteProcess
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch_worker import wire
from hooklatch_worker.sandbox import linux

__all__ = ["ZygoteClient", "open_zygote", "reap_strangers", "run_zygote"]

logger = logging.getLogger("hooklatch.zygote")
SILENCE = 2.0  # seconds without an answer to a fork, after which the zygote is stuck
RESTARTS = RestartPolicy(intensity=5, period=5.0, waits=(0.0, 0.1, 0.5, 1.0, 2.0))  # without it nothing can be called
SWEEP_TIMEOUT = 5.0  # seconds for killing what a dead zygote left; what lives on after that cannot be killed
SWEEP_INTERVAL = 0.002  # seconds between two checks for what is left


class ZygoteClient:
    """Forks workers of one interpreter, through one zygote after another; without one, of that of this process."""

    def __init__(self, *, owns_process: bool = False, interpreter: Interpreter | None = None) -> None:
        self._interpreter = interpreter
        self._life: ZygoteProcess | None = None
        self._latest: ZygoteProcess | None = None  # from its start until it is gone
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
        order = life.orders[generation] = ForkRequest()
        try:
            with trio.move_on_after(SILENCE):
                await self._send(life, wire.encode_body(wire.ForkWorker(generation, source, limits)))
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

    async def _send(self, life: ZygoteProcess, data: bytes) -> None:
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

    def _lose(self, life: ZygoteProcess) -> None:
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
        self._lives += 1
        while (guardian := self._guardian) is None or guardian.has_ended:  # both may have died, and we hear of it first
            await self._guarded.wait()
        try:
            life = self._latest = ZygoteProcess(guardian)
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
            for worker in life.workers.values():
                worker.exit_known.set()  # nobody will say how it ended
            if not life.pid:
                guardian.kill()  # it may be stuck
            await life.aclose()
            self._latest = None
        raise ZygoteLostError(f"the zygote died, pid {life.pid}")

    async def _hear(self, life: ZygoteProcess) -> None:
        while (received := await life.receive()) is not None:
            message, fds = received
            match message:
                case wire.WorkerForked(generation, pid) if len(fds) == 5:
                    worker = WorkerProcess(life, generation, pid, fds)
                    life.workers[generation] = worker
                    self._deliver(life, generation, worker)
                case wire.WorkerForked(generation, pid):
                    # The kernel drops the descriptors that we have no room for (MSG_CTRUNC of recvmsg(2)).
                    for fd in fds:
                        os.close(fd)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    self._deliver(life, generation, ForkError("the daemon has no descriptor left"))
                case wire.ForkFailed(generation, text):
                    self._deliver(life, generation, ForkError(text))
                case wire.WorkerExited(generation, _, code):
                    ended = life.workers.pop(generation, None)
                    if ended is not None:
                        ended.exit_code = code
                        ended.exit_known.set()
                case wire.ZygoteReady():
                    continue

    def _deliver(self, life: ZygoteProcess, generation: int, result: WorkerProcess | ForkError) -> None:
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
            while linux.kill_children(keep=frozenset(OWNED)):  # noqa: ASYNC110  (each death may hand us the next generation)
                await trio.sleep(SWEEP_INTERVAL)
        if scope.cancelled_caught:
            left = sorted({*linux.list_children()} - OWNED)
            logger.error("processes that a dead guardian left cannot be killed: %s", left)


def reap_strangers() -> None:
    """Reap each dead child that nobody waits for.

    The daemon adopts orphans: as a subreaper those that a dead zygote left, and as process 1 of a container those of
    everything else there, such as what a health check or `docker exec` left behind.  Without this they stay as zombies.
    """
    for pid in linux.list_children():
        if pid not in OWNED:
            linux.reap_child(pid)


@asynccontextmanager
async def open_zygote(
    *, owns_process: bool = False, interpreter: Interpreter | None = None
) -> AsyncGenerator[ZygoteClient]:
    """Run a zygote while the block runs."""
    zygote = ZygoteClient(owns_process=owns_process, interpreter=interpreter)
    async with run_zygote(zygote, Supervisor("zygote")):
        yield zygote


@asynccontextmanager
async def run_zygote(zygote: ZygoteClient, supervisor: Supervisor) -> AsyncGenerator[None]:
    """Run a zygote that nobody runs yet while the block runs, under a supervisor of its own."""
    async with supervisor.open():
        for spec in zygote.specs:
            await supervisor.start(spec)
        yield

"""The daemon's handle on its zygote.  Knows one process and its control socket; knows no hook and no verdict.

run() ── starts the zygote, hears it, and when it dies starts another (rest for one: its workers died with it)
fork() ─ asks for a worker, waits for a new zygote if there is none, kills a silent one after 2 s
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from hooklatch.processes.environment import allowed, only
from hooklatch_worker import linux, wire
from hooklatch_worker import zygote as child

__all__ = ["ForkError", "WorkerProcess", "Zygote", "open_zygote"]

logger = logging.getLogger("hooklatch.zygote")
BOOT_TIMEOUT = 20.0  # seconds; a cold import on a busy machine, not a promise
SILENCE = 2.0  # seconds without an answer to a fork, after which the zygote is stuck
STOP_TIMEOUT = 5.0  # seconds that it may take to kill all that is below it
RESTART_WAITS = (0.0, 0.1, 0.5, 1.0, 2.0)  # seconds before each further restart; the last one repeats


class ForkError(Exception):
    """No worker could be forked."""


class WorkerProcess:
    """A forked worker as the daemon holds it: four descriptors, and how it ended once that is known."""

    def __init__(self, generation: int, pid: int, fds: list[int]) -> None:
        self.generation = generation
        self.pid = pid
        socket_fd, self.pidfd, self.stdout_fd, self.stderr_fd = fds
        self.socket = socket.socket(fileno=socket_fd)
        self.socket.setblocking(False)
        self.exit_code: int | None = None
        self.exit_known = trio.Event()

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return  # it is dead already

    def close(self) -> None:
        self.socket.close()
        for fd in (self.pidfd, self.stdout_fd, self.stderr_fd):
            os.close(fd)


class Order:
    """A fork that was asked for."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result: WorkerProcess | str = "the zygote died"


class Life:
    """One zygote process, from its start to its death."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, only(allowed(os.environ)):
            self.process = multiprocessing.get_context("spawn").Process(
                target=child.live, args=(theirs,), name="hooklatch-zygote"
            )
            self.process.start()
        self.control.setblocking(False)
        assert self.process.pid is not None
        self.pid = self.process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.orders: dict[int, Order] = {}
        self.workers: dict[int, WorkerProcess] = {}

    @property
    def is_alive(self) -> bool:
        return not select.select([self.pidfd], [], [], 0)[0]

    async def receive(self) -> tuple[wire.FromZygote, list[int]] | None:
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.control, 2**16, 4)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self.control)
                continue
            except OSError:
                return None
            return (wire.decode_from_zygote(data), fds) if data else None

    def kill(self) -> None:
        self.process.kill()

    async def aclose(self) -> None:
        """End it: it sweeps when its control socket ends; a stuck one is killed."""
        with trio.CancelScope(shield=True):
            trio.lowlevel.notify_closing(self.control)
            self.control.close()
            with trio.move_on_after(STOP_TIMEOUT) as scope:
                await trio.lowlevel.wait_readable(self.pidfd)
            if scope.cancelled_caught:
                self.kill()
                await trio.lowlevel.wait_readable(self.pidfd)
            self.process.join()
            self.process.close()
            os.close(self.pidfd)


class Zygote:
    """Forks workers, through one zygote after another."""

    def __init__(self, *, owns_process: bool = False) -> None:
        self._life: Life | None = None
        self._ready = trio.Event()
        self._generation = 0
        self._owns_process = owns_process
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        return self._life.pid if self._life else None

    @property
    def is_alive(self) -> bool:
        return self._life is not None and self._life.is_alive

    async def fork(self, source: wire.Source, limits: wire.WorkerLimits) -> WorkerProcess:
        """Fork a worker that will import `source`; waits for a zygote if there is none just now.

        Raises:
            ForkError: the system refuses, or the zygote died or fell silent over it.
        """
        await self._ready.wait()
        life = self._life
        assert life is not None
        self._generation += 1
        generation = self._generation
        order = life.orders[generation] = Order()
        try:
            await self._send(life, wire.encode(wire.Fork(generation, source, limits)))
            with trio.move_on_after(SILENCE) as scope:
                await order.done.wait()
            if scope.cancelled_caught:
                logger.error("zygote silent for %.0f s, killing it pid=%d", SILENCE, life.pid)
                life.kill()
        finally:
            # A cancelled order may still be served; `_hear` then finds nobody waiting and kills the worker.
            life.orders.pop(generation, None)
        if isinstance(order.result, str):
            raise ForkError(order.result)
        return order.result

    async def _send(self, life: Life, data: bytes) -> None:
        while True:
            try:
                life.control.send(data)
                return
            except BlockingIOError:
                await trio.lowlevel.wait_writable(life.control)
            except OSError as error:
                raise ForkError(f"the zygote is gone: {error.strerror}") from None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a zygote alive until cancelled."""
        while True:
            life = Life()
            try:
                with trio.fail_after(BOOT_TIMEOUT):
                    greeting = await life.receive()
                if greeting is None or not isinstance(greeting[0], wire.Ready):
                    raise ForkError("the zygote did not start")
                self._life = life
                self._ready.set()
                task_status.started()
                started = trio.current_time()
                await self._hear(life)
                logger.error("zygote died pid=%d", life.pid)
            finally:
                self._life = None
                self._ready = trio.Event()
                for order in life.orders.values():
                    order.done.set()
                await life.aclose()
                self._sweep()
            self.restarts = self.restarts + 1 if trio.current_time() - started < 60.0 else 1
            await trio.sleep(RESTART_WAITS[min(self.restarts, len(RESTART_WAITS)) - 1])

    async def _hear(self, life: Life) -> None:
        while (received := await life.receive()) is not None:
            message, fds = received
            match message:
                case wire.Forked(generation, pid):
                    worker = WorkerProcess(generation, pid, fds)
                    life.workers[generation] = worker
                    self._deliver(life, generation, worker)
                case wire.ForkFailed(generation, text):
                    self._deliver(life, generation, text)
                case wire.Exited(generation, _, code):
                    ended = life.workers.pop(generation, None)
                    if ended is not None:
                        ended.exit_code = code
                        ended.exit_known.set()
                case wire.Ready():
                    continue

    def _deliver(self, life: Life, generation: int, result: WorkerProcess | str) -> None:
        order = life.orders.get(generation)
        if order is not None:
            order.result = result
            order.done.set()
        elif isinstance(result, WorkerProcess):
            result.kill()
            result.close()

    def _sweep(self) -> None:
        """Kill what the dead zygote left to us, who adopt its orphans when this process is the daemon's own."""
        if not self._owns_process:
            return
        keep = (
            frozenset(process.pid for process in multiprocessing.active_children() if process.pid is not None)
            | resource_tracker_pids()
        )
        for _ in range(256):
            if not linux.kill_children(keep=keep):
                return


def resource_tracker_pids() -> frozenset[int]:
    """Name the helper process that multiprocessing starts beside a spawned one; it holds no lock and no hook."""
    from multiprocessing import resource_tracker

    pid = getattr(resource_tracker, "_resource_tracker", None)
    tracker = getattr(pid, "_pid", None)
    return frozenset({tracker} if isinstance(tracker, int) else ())


@asynccontextmanager
async def open_zygote(*, owns_process: bool = False) -> AsyncGenerator[Zygote]:
    """Run a zygote for as long as the block lasts."""
    async with trio.open_nursery() as nursery:
        zygote = Zygote(owns_process=owns_process)
        await nursery.start(zygote.run)
        yield zygote
        nursery.cancel_scope.cancel()

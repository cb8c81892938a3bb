"""The process that forks workers, and reaps and sweeps.  It imports no user code and decides nothing.

It is single-threaded and clean, so forking it is safe; forking the trio daemon is not (trio #1614).  It is a child
subreaper: processes that a dead worker left running are reparented to it.  Its only legitimate children are workers, so
every other child is killed on sight, after stopping it and all its descendants.  The end of its control socket means
that the daemon is gone, and the end of its parent that the guardian is: then it kills all descendants, and exits.

    daemon ──ForkWorker──▶ zygote ──ForkWorker──▶ spare (forked after the order before)
           ◀──ZygoteReady + [pidfd]──  (once)            ◀──WorkerExited── (when one dies; best effort)
           ◀──WorkerForked + [socket, output, error, progress, pidfd]──

One spare always waits for an order, forked and confined, and knows no source.  So the common beginning of all workers,
which is half of the time that a replacement takes, is over when the order comes.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import multiprocessing
import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import msgspec

from hooklatch_worker import wire
from hooklatch_worker.runtime import child
from hooklatch_worker.sandbox import temporary
from hooklatch_worker.systems import system

__all__ = ["run_zygote"]

REAP_TIMEOUT = 0.5  # seconds of killing orphans at a time: forks are waiting
RETRY = 200  # milliseconds until the next attempt to kill the remaining ones, if none of them dies before
PAUSE = 20  # milliseconds without an order until the next spare is forked: the worker before needs the processor now
SWEEP_TIMEOUT = 5.0  # seconds; a child in uninterruptible sleep must not block the zygote
FORKS = msgspec.msgpack.Decoder(wire.ForkWorker)
# Each worker or most hooks import them.
COMMON = ("hashlib", "json", "pathlib", "shlex", "subprocess")
OF_AUTHORS = ("hooklatch_worker.author.composition", "hooklatch_worker.author.decorator")
for common in (*COMMON, *OF_AUTHORS):
    importlib.import_module(common)


class SpareWorker(NamedTuple):
    """A worker that waits for its order."""

    process: BaseProcess
    pid: int
    fds: list[int]  # the other end of its socket, its output, its error, its progress, and its pidfd

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


def run_zygote(control: socket.socket, guardian_pid: int) -> None:
    """Run the zygote until the daemon or the guardian is gone; never return."""
    system.become_subreaper()
    system.wake_when_orphaned()
    if threading.active_count() != 1:
        raise RuntimeError("the zygote has more than one thread; forking it would not be safe")
    gc.freeze()  # a collection then never copies the pages of objects that exist now into the workers
    gc.enable()
    zygote = Zygote(control, guardian_pid)
    try:
        zygote.run()
    finally:
        kill_descendants()
        for folder in zygote.temporary:
            temporary.remove_tree(folder)
        os._exit(0)


class Zygote:
    def __init__(self, control: socket.socket, guardian_pid: int) -> None:
        self._control = control
        self._pid, self._guardian_pid = os.getpid(), guardian_pid
        self._workers: dict[int, tuple[int, BaseProcess]] = {}  # the generation and the process, by pid
        self._context = multiprocessing.get_context("fork")
        self._spare: SpareWorker | None = None
        self._needs_spare = True  # a spare is missing, and is forked as soon as there is time
        self.temporary: set[str] = set()  # the folders of the workers' temporary directories

    def run(self) -> None:
        wake_r, wake_w = system.make_wakeup_pipe()
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        guardian = system.watch_process(self._guardian_pid)
        if os.getppid() != self._guardian_pid:
            return
        poll = select.poll()
        for fd in (self._control.fileno(), wake_r, guardian):
            poll.register(fd, select.POLLIN)
        self._send_ready()
        self._fork_spare()
        is_clean = True
        while True:
            ready = {fd for fd, _ in poll.poll(PAUSE if self._needs_spare else None if is_clean else RETRY)}
            if guardian in ready:
                return
            if wake_r in ready:
                os.read(wake_r, 4096)
            if wake_r in ready or not is_clean:
                is_clean = self._reap()
            if self._control.fileno() in ready and not self._handle_request():
                return
            if not ready and self._needs_spare:
                self._fork_spare()

    def _send_ready(self) -> None:
        own = system.send_process(os.getpid())
        self._send(wire.ZygoteReady(os.getpid()), own)
        for fd in own:
            os.close(fd)

    def _handle_request(self) -> bool:
        data, _ = system.receive_message(self._control)
        if not data:
            return False
        request = FORKS.decode(data)
        try:
            worker = self._spare or self._fork()
            self._spare, self._needs_spare = None, True
            self._hand_over(worker, request)
        except OSError as error:
            self._send(wire.ForkFailed(request.generation, f"fork failed: {error.strerror}"))
        return True

    def _fork_spare(self) -> None:
        """Fork a spare for the next order.  If that fails, the order tries again, and its answer has the reason."""
        self._needs_spare = False
        with suppress(OSError):
            self._spare = self._fork()

    def _fork(self) -> SpareWorker:
        ours, theirs = socket.socketpair()
        fds = [ours.detach()]
        try:
            with theirs:
                fds.extend(append_only(name) for name in ("stdout", "stderr"))
                fds.append(make_shared_memory("progress"))
                arguments = self._pid, theirs.fileno(), *fds[1:]
                process = self._context.Process(target=child.run_worker, args=arguments)
                process.start()
            pid = process.pid
            assert pid is not None
            fds += system.send_process(pid)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return SpareWorker(process, pid, fds)

    def _hand_over(self, worker: SpareWorker, request: wire.ForkWorker) -> None:
        if request.limits.isolation.temporary:
            self.temporary.add(request.limits.isolation.temporary)
        self._workers[worker.pid] = request.generation, worker.process
        try:
            rest = memoryview(wire.encode_frame(request))
            while rest:  # a signal may cut a write short
                rest = rest[os.write(worker.fds[0], rest) :]
            self._send(wire.WorkerForked(request.generation, worker.pid), worker.fds)
        finally:
            worker.close()

    def _reap(self) -> bool:
        """Record the workers that have died, and kill their processes; return whether all of these are gone."""
        for pid, (generation, process) in list(self._workers.items()):
            if process.exitcode is not None:
                del self._workers[pid]
                self._send(wire.WorkerExited(generation, pid, process.exitcode), wait=False)
        if self._spare is not None and self._spare.process.exitcode is not None:
            self._spare.close()
            self._spare = None
        rightful = frozenset(self._workers if self._spare is None else {*self._workers, self._spare.pid})
        deadline = time.monotonic() + REAP_TIMEOUT
        while system.kill_children(keep=rightful):
            if time.monotonic() > deadline:
                return False
        return True

    def _send(self, message: msgspec.Struct, fds: list[int] | None = None, *, wait: bool = True) -> None:
        try:
            system.send_message(self._control, wire.encode_body(message), fds, wait=wait)
        except BlockingIOError:
            return  # an exit notice is for diagnostics; a full socket must not stop the forking
        except (BrokenPipeError, ConnectionResetError):
            return  # the daemon is gone; the next recv reports that, and then we sweep


def append_only(name: str) -> int:
    fd = system.make_anonymous_file(name)
    # O_APPEND, because otherwise a truncation would leave a hole of the old size before the next output.
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def make_shared_memory(name: str) -> int:
    fd = system.make_anonymous_file(name)
    os.ftruncate(fd, wire.PROGRESS_BYTES)
    return fd


def kill_descendants() -> bool:
    """Kill every descendant; return whether all are gone.

    Each death reparents the next generation to us, so continue until there is none.
    """
    wait = select.poll()
    deadline = time.monotonic() + SWEEP_TIMEOUT
    while system.kill_children():
        if time.monotonic() > deadline:
            return False
        wait.poll(1)
    return True

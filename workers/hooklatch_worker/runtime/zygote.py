"""The process that forks workers.  Knows how to fork, reap and sweep; imports no user code, decides nothing.

It is single-threaded and clean, so forking it is safe; forking the trio daemon is not (trio #1614).  It is a child
subreaper: whatever a dead worker left running is reparented to it.  Its only legitimate children are workers, so every
other child is killed on sight, after stopping it and everything below it.  The end of its control socket means that the
daemon is gone, and the end of its parent that the guardian is: then it kills everything below it, and exits.

    daemon ──Fork──▶ zygote ──Fork──▶ worker that waits (forked after the order before)
           ◀──Ready + [pidfd]──  (once)                     ◀──Exited── (when one dies; best effort)
           ◀──Forked + [socket, pidfd, output, error, progress]──

One worker always waits for an order, forked and confined, and knows no source: what every worker begins with is then no
part of the time that a replacement takes, which is half of it.
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
from hooklatch_worker.sandbox import linux, temporary

__all__ = ["run_zygote"]

REAP_TIMEOUT = 0.5  # seconds of killing orphans at a time: forks are waiting
RETRY = 200  # milliseconds until we continue with the remaining ones, if none of them dies before
PAUSE = 20  # milliseconds without an order until the next worker is forked: the one before needs the processor now
SWEEP_TIMEOUT = 5.0  # seconds; a child in uninterruptible sleep must not keep the zygote for ever
FORKS = msgspec.msgpack.Decoder(wire.ForkWorker)
for common in "hashlib", "json", "pathlib", "shlex", "subprocess":  # each worker or most hooks import them
    importlib.import_module(common)


class SpareWorker(NamedTuple):
    """A worker that waits for its order."""

    process: BaseProcess
    pid: int
    fds: list[int]  # its socket's other end, its pidfd, its output and its error

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


def run_zygote(control: socket.socket, guardian_pid: int) -> None:
    """Run the zygote until the daemon or the guardian is gone; never return."""
    linux.become_subreaper()
    linux.wake_when_orphaned()
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
        self._next: SpareWorker | None = None
        self._is_due = True  # the next worker is to be forked, as soon as there is time
        self.temporary: set[str] = set()  # where workers have their temporary directories

    def run(self) -> None:
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        guardian = os.pidfd_open(self._guardian_pid)
        if os.getppid() != self._guardian_pid:
            return
        poll = select.poll()
        for fd in (self._control.fileno(), wake_r, guardian):
            poll.register(fd, select.POLLIN)
        self._greet()
        self._prepare()
        is_clean = True
        while True:
            ready = {fd for fd, _ in poll.poll(PAUSE if self._is_due else None if is_clean else RETRY)}
            if guardian in ready:
                return
            if wake_r in ready:
                os.read(wake_r, 4096)
            if wake_r in ready or not is_clean:
                is_clean = self._reap()
            if self._control.fileno() in ready and not self._obey():
                return
            if not ready and self._is_due:
                self._prepare()

    def _greet(self) -> None:
        own = os.pidfd_open(os.getpid())
        self._tell(wire.ZygoteReady(os.getpid()), [own])
        os.close(own)

    def _obey(self) -> bool:
        data = self._control.recv(2**16)
        if not data:
            return False
        request = FORKS.decode(data)
        try:
            worker = self._next or self._fork()
            self._next, self._is_due = None, True
            self._order(worker, request)
        except OSError as error:
            self._tell(wire.ForkFailed(request.generation, f"fork failed: {error.strerror}"))
        return True

    def _prepare(self) -> None:
        """Have a worker wait for the next order.  If it cannot be forked, that order tries again, and is told why."""
        self._is_due = False
        with suppress(OSError):
            self._next = self._fork()

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
            fds.insert(1, os.pidfd_open(pid))
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        return SpareWorker(process, pid, fds)

    def _order(self, worker: SpareWorker, request: wire.ForkWorker) -> None:
        if request.limits.isolation.temporary:
            self.temporary.add(request.limits.isolation.temporary)
        self._workers[worker.pid] = request.generation, worker.process
        try:
            os.write(worker.fds[0], wire.encode_frame(request))
            self._tell(wire.WorkerForked(request.generation, worker.pid), worker.fds)
        finally:
            worker.close()

    def _reap(self) -> bool:
        """Record which workers have died, and kill what they left; return whether all of it is gone."""
        for pid, (generation, process) in list(self._workers.items()):
            if process.exitcode is not None:
                del self._workers[pid]
                self._tell(wire.WorkerExited(generation, pid, process.exitcode), wait=False)
        if self._next is not None and self._next.process.exitcode is not None:
            self._next.close()
            self._next = None
        rightful = frozenset(self._workers if self._next is None else {*self._workers, self._next.pid})
        deadline = time.monotonic() + REAP_TIMEOUT
        while linux.kill_children(keep=rightful):
            if time.monotonic() > deadline:
                return False
        return True

    def _tell(self, message: msgspec.Struct, fds: list[int] | None = None, *, wait: bool = True) -> None:
        try:
            flags = 0 if wait else socket.MSG_DONTWAIT
            socket.send_fds(self._control, [wire.encode_body(message)], fds or [], flags)
        except BlockingIOError:
            return  # an exit notice is for diagnostics; a full socket must not stop the forking
        except (BrokenPipeError, ConnectionResetError):
            return  # the daemon is gone; the next recv reports that, and we sweep


def append_only(name: str) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    # O_APPEND, because otherwise a truncation would leave a hole of the old size before the next output.
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def make_shared_memory(name: str) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(fd, wire.PROGRESS_BYTES)
    return fd


def kill_descendants() -> bool:
    """Kill every descendant; return whether all are gone.

    Each death reparents the next generation to us, so go on until there is none.
    """
    wait = select.poll()
    deadline = time.monotonic() + SWEEP_TIMEOUT
    while linux.kill_children():
        if time.monotonic() > deadline:
            return False
        wait.poll(1)
    return True

"""The process that forks workers.  Knows how to fork, reap and sweep; imports no user code, decides nothing.

It is single-threaded and clean, so forking it is safe; forking the trio daemon is not (trio #1614).  It is a child
subreaper: whatever a dead worker left running is reparented to it.  Its only legitimate children are workers, so every
other child is killed on sight, after stopping it and everything below it.  The end of its control socket means that the
daemon is gone, and the end of its parent that the guardian is: then it kills everything below it, and exits.

    daemon ──Fork──▶ zygote ──fork──▶ worker
           ◀──Ready + [pidfd]──  (once)                     ◀──Exited── (when one dies; best effort)
           ◀──Forked + [socket, pidfd, output, error, progress]──
"""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import select
import signal
import socket
import threading
import time
from multiprocessing.process import BaseProcess

import msgspec

from hooklatch_worker import wire
from hooklatch_worker.runtime import child
from hooklatch_worker.sandbox import linux, temporary

__all__ = ["live"]

REAP_TIMEOUT = 0.5  # seconds of killing orphans at a time: forks are waiting
RETRY = 200  # milliseconds until we continue with the remaining ones, if none of them dies before
SWEEP_TIMEOUT = 5.0  # seconds; a child in uninterruptible sleep must not keep the zygote for ever
FORKS = msgspec.msgpack.Decoder(wire.Fork)


def live(control: socket.socket, guardian_pid: int) -> None:
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
        sweep()
        for folder in zygote.temporary:
            temporary.remove_tree(folder)
        os._exit(0)


class Zygote:
    def __init__(self, control: socket.socket, guardian_pid: int) -> None:
        self._control = control
        self._pid, self._guardian_pid = os.getpid(), guardian_pid
        self._workers: dict[int, tuple[int, BaseProcess]] = {}  # the generation and the process, by pid
        self._context = multiprocessing.get_context("fork")
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
        is_clean = True
        while True:
            ready = {fd for fd, _ in poll.poll(None if is_clean else RETRY)}
            if guardian in ready:
                return
            if wake_r in ready:
                os.read(wake_r, 4096)
            if wake_r in ready or not is_clean:
                is_clean = self._reap()
            if self._control.fileno() in ready and not self._obey():
                return

    def _greet(self) -> None:
        own = os.pidfd_open(os.getpid())
        self._tell(wire.Ready(os.getpid()), [own])
        os.close(own)

    def _obey(self) -> bool:
        data = self._control.recv(2**16)
        if not data:
            return False
        request = FORKS.decode(data)
        try:
            self._fork(request)
        except OSError as error:
            self._tell(wire.ForkFailed(request.generation, f"fork failed: {error.strerror}"))
        return True

    def _fork(self, request: wire.Fork) -> None:
        if request.limits.isolation.temporary:
            self.temporary.add(request.limits.isolation.temporary)
        fds: list[int] = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                fds = [append_only(name) for name in ("stdout", "stderr")]
                fds.append(shared("progress"))
                process = self._context.Process(target=child.live, args=(request, self._pid, theirs.fileno(), *fds))
                process.start()
                pid = process.pid
                assert pid is not None
                self._workers[pid] = (request.generation, process)
                fds.insert(0, os.pidfd_open(pid))
                self._tell(wire.Forked(request.generation, pid), [ours.fileno(), *fds])
            finally:
                for fd in fds:
                    os.close(fd)

    def _reap(self) -> bool:
        """Record which workers have died, and kill what they left; return whether all of it is gone."""
        for pid, (generation, process) in list(self._workers.items()):
            if process.exitcode is not None:
                del self._workers[pid]
                self._tell(wire.Exited(generation, pid, process.exitcode), wait=False)
        rightful = frozenset(self._workers)
        deadline = time.monotonic() + REAP_TIMEOUT
        while linux.kill_children(keep=rightful):
            if time.monotonic() > deadline:
                return False
        return True

    def _tell(self, message: msgspec.Struct, fds: list[int] | None = None, *, wait: bool = True) -> None:
        try:
            flags = 0 if wait else socket.MSG_DONTWAIT
            socket.send_fds(self._control, [wire.encode(message)], fds or [], flags)
        except BlockingIOError:
            return  # an exit notice is for diagnostics; a full socket must not stop the forking
        except (BrokenPipeError, ConnectionResetError):
            return  # the daemon is gone; the next recv reports that, and we sweep


def append_only(name: str) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    # O_APPEND, because otherwise a truncation would leave a hole of the old size before the next output.
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def shared(name: str) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(fd, wire.PROGRESS_BYTES)
    return fd


def sweep() -> None:
    """Kill every descendant.  Each death reparents the next generation to us, so go on until there is none."""
    wait = select.poll()
    deadline = time.monotonic() + SWEEP_TIMEOUT
    while linux.kill_children() and time.monotonic() < deadline:
        wait.poll(1)

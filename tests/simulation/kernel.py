"""The kernel of the simulated machine: its time, processes, strands and descriptors.  Knows nothing of a daemon.

One seed decides all: the kernel draws delays from its own `Random`, and runs what is due in the order of time, then of
number.

    loop        the trio loop of the process under test runs in the real main thread; `Kernel.run` is called by its I/O
                manager when it waits, and moves the clock to the next thing that is due
    strand      blocking code (a worker, a zygote, what the daemon gives to a thread) runs in a real thread of its own,
                but of all these threads and the loop only the one that has the baton runs.  It hands the baton back
                where it waits: for a descriptor, for time, for a lock

A process that is killed gets `Killed` at its next call of the kernel.
"""

from __future__ import annotations

import _thread
import errno
import heapq
import itertools
import math
import os
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

__all__ = [
    "COMPUTE", "DAEMON_FDS", "DISK_FDS", "File", "Kernel", "Killed", "Process", "Strand", "Stuck", "UnknownCallError",
    "make_error",
]  # fmt: skip

allocate_lock, start_new_thread = _thread.allocate_lock, _thread.start_new_thread
DAEMON_FDS = 500_000  # the first descriptor of the process whose other ones are real
DISK_FDS = 2**24  # the first one of a file of the disk, in any process
COMPUTE = 0.0004  # seconds that what a strand does between two waits takes at most
TURN = 20e-6  # seconds that a turn of the loop takes at most


TEXTS = {number: os.strerror(number) for number in errno.errorcode}


def make_error(number: int, *paths: object) -> OSError:
    """Return the error of a call for a path, or for two."""
    return OSError(number, TEXTS[number], *paths[:1], *[None for _ in paths[1:]], *paths[1:])


class Killed(BaseException):
    """Raised in a strand whose process has ended."""


class UnknownCallError(BaseException):
    """A call that the machine does not simulate: it ends the run, also where its process ends at once."""


class Stuck(Exception):
    """Nothing can ever happen again, or the clock stands still while tasks run."""


class File:
    """What a descriptor stands for. It is closed when no descriptor refers to it any more."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.references = 0
        self.waiting: dict[object, Callable[[], object]] = {}  # who waits for a change, and what tells it
        self._is_changed = False

    def is_readable(self) -> bool:
        return False

    def is_writable(self) -> bool:
        return False

    def is_hung_up(self) -> bool:
        return False

    def on_close(self) -> None:
        """Take note that the last descriptor is closed."""

    def changed(self) -> None:
        """Tell whoever waits for this, as soon as the main thread has the baton."""
        if self.waiting and not self._is_changed:
            self._is_changed = True
            self.kernel.at(0.0, self._tell)

    def _tell(self) -> None:
        self._is_changed = False
        for tell in list(self.waiting.values()):
            tell()

    def drop(self) -> None:
        """Take note that one descriptor less refers to this, or one message on its way."""
        self.references -= 1
        if not self.references:
            self.on_close()


class Process:
    """A process: its descriptors, its strands, its end."""

    def __init__(self, kernel: Kernel, parent: Process | None, name: str) -> None:
        self.kernel, self.parent, self.name = kernel, parent, name
        self.pid = next(kernel.pids)
        self.fds: dict[int, File] = {}
        self.first_fd = 3
        self.strands: dict[Strand, None] = {}
        self.is_dead = False
        self.is_reaped = False
        self.is_stopped = False
        self.exit_code = 0
        self.started = kernel.now
        self.resident = 12 * 2**20
        self.child_ended: Callable[[], None] | None = None  # its handler of SIGCHLD
        self.wake_fd = -1
        self.interpreter: Any = None  # what its Python has for itself, exchanged as its strands run
        self.endings: list[Callable[[], None]] = []
        self.children: dict[Process, None] = {}
        kernel.processes[self.pid] = self
        if parent is not None:
            parent.children[self] = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.pid}>"

    def install(self, file: File, at: int | None = None) -> int:
        """Give the file a descriptor, the lowest that is free or `at`."""
        if self.is_dead:  # its loop still turns until all of its tasks have ended
            raise make_error(errno.EBADF)
        if at is None:
            at = self.first_fd
            while at in self.fds:
                at += 1
        elif at in self.fds:
            self.close(at)
        file.references += 1
        self.fds[at] = file
        return at

    def find(self, fd: int) -> File:
        self.kernel.alive()
        file = self.fds.get(fd)
        if file is None:
            raise make_error(errno.EBADF)
        return file

    def close(self, fd: int) -> None:
        file = self.fds.pop(fd, None)
        if file is None:
            raise make_error(errno.EBADF)
        file.drop()

    def end(self, code: int) -> None:
        """End the process: a negative code is a signal's number."""
        if self.is_dead:
            return
        self.is_dead, self.exit_code = True, code
        for fd in list(self.fds):
            with suppress(OSError):
                self.close(fd)
        heir = self.parent
        while heir is not None and heir.is_dead:
            heir = heir.parent
        for child in self.children:
            child.parent = heir
            if heir is not None:
                heir.children[child] = None
            if child.name == "worker" and not child.is_dead:
                child.kernel.at(0.0, child.end, -9)  # its PR_SET_PDEATHSIG
            elif not child.is_dead:
                child.go_on()  # that of a zygote and a guardian
        self.children = {}
        for ending in self.endings:
            ending()
        for strand in list(self.strands):
            if strand is not self.kernel.current:
                strand.wake()
        if self.parent is None:
            self.reap()
        else:
            self.kernel.at(0.0, self.parent.notice_child)

    def go_on(self) -> None:
        """Get SIGCONT."""
        self.is_stopped = False
        for strand in self.strands:
            strand.wake()

    def notice_child(self) -> None:
        """Get SIGCHLD."""
        if not self.is_dead and self.wake_fd in self.fds:
            with suppress(OSError):
                self.fds[self.wake_fd].write(b"\x11")
        if not self.is_dead and self.child_ended is not None:
            self.child_ended()

    def reap(self) -> int:
        """Remove a dead process from its parent's list. Return its exit code."""
        self.is_reaped = True
        self.kernel.processes.pop(self.pid, None)
        if self.parent is not None:
            self.parent.children.pop(self, None)
        return self.exit_code


class Strand:
    """A thread that runs only while it has the baton."""

    def __init__(self, process: Process, function: Callable[[], object], delay: float = 0.0) -> None:
        self.process, self.kernel = process, process.kernel
        self._function = function
        self._go = allocate_lock()
        self._go.acquire()
        self._back = allocate_lock()
        self._back.acquire()
        self._is_due = False
        self._has_thread = False
        self.is_over = False
        self.thread = 0
        self._may_go_on: Callable[[], bool] | None = None  # while it waits: whether that is over
        self.error: BaseException | None = None
        self.on_end: Callable[[], None] | None = None
        process.strands[self] = None
        self.wake(delay)

    def wake(self, delay: float | None = None) -> None:
        """Have it run soon."""
        if not self._is_due and not self.is_over:
            self._is_due = True
            delay = self.kernel.random.random() ** 3 * COMPUTE if delay is None else delay
            self.kernel.at(delay, self._run)

    def _run(self) -> None:
        self._is_due = False
        if self.is_over:
            return
        process = self.process
        if process.is_stopped and not process.is_dead:
            return  # SIGCONT wakes it
        if self._may_go_on is not None and not process.is_dead and not self._may_go_on():
            return  # asked here: to hand it the baton costs more
        before, self.kernel.current = self.kernel.current, self
        if process.interpreter is not None:
            process.interpreter.enter()
        try:
            if self._has_thread:
                self._go.release()
            else:
                self._has_thread = True
                start_new_thread(self._main, ())
            self._back.acquire()
        finally:
            if process.interpreter is not None:
                process.interpreter.leave()
            self.kernel.current = before
        error = self.error.__context__ if isinstance(self.error, Killed) else self.error  # then it was in os._exit
        if isinstance(error, UnknownCallError):
            raise error
        if self.is_over and self.on_end is not None:
            self.on_end()
        elif self.is_over and isinstance(self.error, Exception):
            trace = traceback.format_exception(self.error)
            self.kernel.report(f"C: {self.process} has failed: {''.join(trace)}")

    def _main(self) -> None:
        self.thread = _thread.get_ident()
        try:
            if not self.process.is_dead:
                self._function()
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True
            self.process.strands.pop(self, None)
            self._back.release()

    def park(self) -> None:
        """Hand the baton back, from within the strand, until it is woken."""
        self._back.release()
        self._go.acquire()
        if self.process.is_dead:
            raise Killed

    def wait(self, *files: File, is_over: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until it is over, asked whenever one of the files has changed, for so many seconds at most."""
        kernel = self.kernel
        end = math.inf if timeout is None else kernel.now + timeout
        if timeout is not None:
            kernel.at(timeout, self.wake, 0.0)
        for file in files:
            file.waiting[self] = self.wake
        self._may_go_on = lambda: kernel.now >= end or is_over()
        try:
            while not self._may_go_on():
                self.park()
        finally:
            self._may_go_on = None
            for file in files:
                file.waiting.pop(self, None)


class Kernel:
    """The clock, what is due, and the processes."""

    def __init__(self, seed: object) -> None:
        self.random = Random(f"{seed} kernel")
        self.now = 1000.0
        self.skew = 1_800_000_000.0  # what the wall clock is ahead of `now`
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self.numbers, self.pids = itertools.count(1), itertools.count(101)
        self.processes: dict[int, Process] = {}
        self.current: Strand | None = None
        self._acting: Process | None = None
        self.init = Process(self, None, "init")
        self.daemon = Process(self, self.init, "program")  # the process whose loop runs in the main thread
        self.daemon.first_fd = DAEMON_FDS
        self.turns = 0
        self.is_full = False  # no process can be forked
        self.has_woken = False  # a task of the loop, which can run
        self.report: Callable[[str], None] = lambda text: None  # what went wrong in a process

    @property
    def wall(self) -> float:
        return self.now + self.skew

    @property
    def process(self) -> Process:
        """Return the process whose code runs now."""
        current = self.current
        return current.process if current is not None else self._acting or self.daemon

    @contextmanager
    def acting_as(self, process: Process) -> Generator[None]:
        """Make what the loop calls in this block calls of another process."""
        before, self._acting = self._acting, process
        try:
            yield
        finally:
            self._acting = before

    def at(self, delay: float, function: Callable[..., object], *arguments: Any) -> None:
        """Have the main thread call a function after so many seconds."""
        heapq.heappush(self._due, (self.now + delay, next(self.numbers), function, arguments))

    def alive(self) -> None:
        """Raise Killed in a strand of a dead process: each call of the kernel begins with this."""
        if self.current is not None and self.current.process.is_dead:
            raise Killed

    def sleep(self, seconds: float) -> None:
        """Let a strand, or all of the loop, do nothing for a while."""
        self.alive()
        if self.current is None:
            self.run(seconds, lambda: False)
            return
        self.current.wait(is_over=lambda: False, timeout=seconds)

    def run(self, seconds: float, is_enough: Callable[[], bool]) -> None:
        """Do what is due within the next seconds, in the main thread, until it is enough; then it is so much later.

        With no seconds, a turn of a busy loop passes.
        """
        if seconds <= 0.0:
            self.turns += 1
            if self.turns > 100_000:
                raise Stuck("the clock stands still while tasks run")
            end = self.now + self.random.random() * TURN
        else:
            self.turns = 0
            end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            when, _, function, arguments = heapq.heappop(self._due)
            self.now, self.turns = max(self.now, when), 0
            function(*arguments)
            if seconds > 0.0 and is_enough():
                return
        self.now = max(self.now, end)

    def block(self, is_ready: Callable[[], bool]) -> None:
        """Block the whole loop until something is so, as a lock that a thread holds does."""
        while not is_ready():
            if not self._due:
                raise Stuck("the loop waits for something that never happens")
            self.run(max(self._due[0][0] - self.now, 1e-9), is_ready)

    @property
    def is_empty(self) -> bool:
        return not self._due

    @property
    def is_in_strand(self) -> bool:
        """Return whether this is the thread of the strand that has the baton.

        It is not where the main thread, which waits for the baton, collects garbage that closes a file.
        """
        return self.current is not None and self.current.thread == _thread.get_ident()

    def send_signal(self, pid: int, number: int) -> None:
        """Send a signal to a process."""
        self.alive()
        process = self.processes.get(pid)
        if process is None:
            raise make_error(errno.ESRCH)
        if number == 9:
            process.end(-9)
        elif number == 19:
            process.is_stopped = True
        elif number == 18:
            process.go_on()


class Lock(File):
    """`threading.Lock` for strands and the loop, as it is used: without a timeout."""

    _is_held = False

    def __enter__(self) -> None:
        strand = self.kernel.current
        if strand is None:
            self.kernel.block(lambda: not self._is_held)
        elif self._is_held:
            strand.wait(self, is_over=lambda: not self._is_held)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        self.changed()

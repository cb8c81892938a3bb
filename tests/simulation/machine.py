"""The machine: what the standard library's functions do in a process of the simulation, in one table.

Guardian and zygote run their real loops, a worker its real `serve_calls`, each in a strand.  What is left out of them
is what only a real process can show: confinement, descriptors 0 to 3, limits, warming up.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import io
import multiprocessing
import os
import random
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any

import trio

from simulation import standard_library
from simulation.calls import Calls, replace
from simulation.descriptors import ProcessHandle
from simulation.disk import Disk
from simulation.kernel import Kernel, Killed, Lock, Process, Strand, make_error
from simulation.loop import run_in_strand

__all__ = ["Machine"]

USER = 1000
FILES = 65_536  # RLIMIT_NOFILE
PAGE = 4096
REAL_SIGNAL = signal.signal
FORMAT_EXCEPTION = traceback.format_exception
ROOTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), sys.prefix, sys.base_prefix
WORDS_OF_STAT = 52


class Interpreter:
    """What one worker's Python has for itself: it is put in place while a strand of it runs."""

    def __init__(self, process: Process, folder: str, builds: list[Any]) -> None:
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}
        self._lists = [
            [sys.path, []], [sys.path_hooks, sys.path_hooks[:]], [sys.meta_path, sys.meta_path[:]],
            [builds, builds[:]],
        ]  # fmt: skip
        self._streams = PrintedText(process, 1), PrintedText(process, 2)
        self._count = 0

    def enter(self) -> None:
        sys.modules.update(self._modules)
        self._count = len(sys.modules)
        self._exchange()

    def leave(self) -> None:
        if len(sys.modules) != self._count:
            for name in list(sys.modules)[self._count - len(self._modules) :]:
                file = getattr(sys.modules[name], "__file__", None)
                if isinstance(file, str) and file.startswith(self._folder):
                    self._modules[name] = sys.modules[name]
            for path in [path for path in sys.path_importer_cache if path.startswith(self._folder)]:
                del sys.path_importer_cache[path]
        for name in self._modules:
            sys.modules.pop(name, None)
        self._exchange()

    def _exchange(self) -> None:
        for pair in self._lists:
            live, kept = pair
            if live != kept:
                pair[1], live[:] = live[:], kept
        streams, self._streams = self._streams, (sys.stdout, sys.stderr)  # type: ignore[assignment]
        sys.stdout, sys.stderr = streams  # type: ignore[assignment]


class PrintedText(io.TextIOBase):
    """The standard output or error of a worker: a file in memory."""

    def __init__(self, process: Process, fd: int) -> None:
        self._process, self._fd = process, fd

    def write(self, text: str) -> int:
        self._process.find(self._fd).write(text.encode(errors="backslashreplace"))
        return len(text)


class NoBuild:
    """Stands in the list of builds so that the import system is taken over once, by the first worker."""

    names: tuple[str, ...] = ()

    def key_of(self, path: str) -> None:
        return None


class ForkedProcess:
    """`multiprocessing.Process` of a fork: the child gets all descriptors of its parent."""

    def __init__(self, machine: Machine, arguments: tuple[Any, ...]) -> None:
        self._machine, self._arguments = machine, arguments
        self.pid: int | None = None

    def start(self) -> None:
        machine, arguments = self._machine, self._arguments
        process = self._process = machine.fork("worker")
        self.pid, process.interpreter = process.pid, Interpreter(process, machine.folder, machine.builds)
        Strand(process, lambda: machine.run_worker(process, *arguments))

    @property
    def exitcode(self) -> int | None:
        return self._process.reap() if self._process.is_dead else None


class StartedProgram:
    """`subprocess.Popen` of the one program that a daemon starts here: its guardian."""

    def __init__(self, machine: Machine, command: list[str], pass_fds: tuple[int, ...] = (), **_: Any) -> None:
        found = re.search(r"guardian\.run_guardian\((\d+), (\d+)\)", command[-1])
        assert found is not None, f"a program that the simulation does not know: {command}"
        kernel = machine.kernel
        if kernel.is_full or kernel.process.is_dead:
            raise make_error(errno.EAGAIN)
        process = self.process = Process(kernel, kernel.process, "guardian")
        for fd in pass_fds:
            process.install(kernel.process.find(fd), fd)
        kernel.process.child_ended = machine.signal_daemon
        self.pid = process.pid

        def run() -> None:
            from hooklatch_worker.runtime import guardian

            try:
                guardian.run_guardian(int(found[1]), int(found[2]))
            except OSError:
                pass  # the daemon is gone already
            finally:
                process.end(1)

        Strand(process, run, kernel.random.random() * 0.05)

    def kill(self) -> None:
        self.process.end(-9)

    def wait(self, timeout: float | None = None) -> int:
        assert self.process.is_dead
        return self.process.reap()


def format_exception(*arguments: Any, **named: Any) -> list[str]:
    """Do what the one of `traceback` does, without where this machine has its modules: their length would count."""
    lines = FORMAT_EXCEPTION(*arguments, **named)
    for root in ROOTS:
        lines = [line.replace(root, "") for line in lines]
    return lines


def look_now(lane: object, look: Callable[[], Any], answering: tuple[str, ...] = ()) -> Any:
    """Do what `LookupThread.look` does, without its thread, whose patience is that of a real clock."""
    return look()


class Library:
    """The C library, of which the daemon calls what Python does not have."""

    def prctl(self, *_: object) -> int:
        return 0

    capset = prctl

    def __getattr__(self, name: str) -> Callable[..., int]:
        def refuse(*_: object) -> int:
            ctypes.set_errno(errno.ENOSYS)
            return -1

        return refuse


class ProcessFiles:
    """/proc."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._kernel = machine, machine.kernel

    def _find(self, name: str) -> Process | None:
        return self._kernel.process if name == "self" else self._kernel.processes.get(int(name))

    def _read(self, path: str) -> str:
        if path == "/proc/sys/kernel/random/boot_id":
            return f"{self._machine.boot:08x}-0000-4000-8000-000000000000\n"
        if path == "/proc/stat":
            return "btime 1800000000\n"
        _, _, name, rest = path.split("/", 3)
        process = self._find(name)
        if process is None or process.is_reaped:
            raise make_error(errno.ENOENT, path)
        if rest == "stat":
            words = ["0"] * WORDS_OF_STAT
            words[0] = "Z" if process.is_dead else "T" if process.is_stopped else "S"
            words[1], words[19] = str(process.parent.pid if process.parent else 0), str(int(process.started * 100))
            return f"{process.pid} ({process.name}) {' '.join(words)}\n"
        if rest == "statm":
            return "{0} {0} 0 0 0 0 0\n".format(process.resident // PAGE)
        if rest.endswith("/children"):
            return "".join(f"{child.pid} " for child in process.children)
        raise make_error(errno.ENOENT, path)

    def open_text(self, path: str, mode: str) -> Any:
        if "w" in mode:
            return io.StringIO()
        text = self._read(path)
        return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)

    def listdir(self, path: str) -> list[str]:
        process = self._find(path.split("/")[2])
        if process is None or not path.endswith("/task"):
            raise make_error(errno.ENOENT, path)
        return [str(process.pid)]

    def stat(self, path: str) -> os.stat_result:
        self._read(path)
        return os.stat_result((0o100444, 1, 1, 1, 0, 0, 0, 0, 0, 0))


class Machine:
    """The functions that stand for those of the standard library."""

    def __init__(self, kernel: Kernel, seed: object, folder: str) -> None:
        self.kernel, self.folder = kernel, folder
        self.disk = Disk(kernel, seed, folder, uid=USER)
        self.memory = Disk(kernel, seed, "/memory", uid=USER)  # of the files of memfd_create(2)
        self.proc = ProcessFiles(self)
        self.secrets = random.Random(f"{seed} secrets")
        self.boot = 1
        self.builds: list[Any] = []

    # -- processes -------------------------------------------------------------------------------------------

    def fork(self, name: str) -> Process:
        if self.kernel.is_full:
            raise make_error(errno.EAGAIN)
        parent = self.kernel.process
        process = Process(self.kernel, parent, name)
        for fd, file in parent.fds.items():
            process.install(file, fd)
        return process

    def fork_zygote(self, control: Any, line: Any) -> int:
        from hooklatch_worker.runtime import zygote

        self.kernel.alive()
        with control:
            guardian_pid, fd = self.kernel.process.pid, control.fileno()
            process = self.fork("zygote")
            process.close(line.fileno())

            def run() -> None:
                zygote.run_zygote(socket.socket(fileno=fd), guardian_pid)

            Strand(process, run, self.kernel.random.random() * 0.02)
            return process.pid

    def run_worker(
        self, process: Process, zygote_pid: int, socket_fd: int, stdout_fd: int, stderr_fd: int, progress_fd: int
    ) -> None:
        from hooklatch_worker.runtime import child

        kept = [process.find(fd) for fd in (stdout_fd, stderr_fd, socket_fd)]
        progress = process.find(progress_fd)
        for at, file in enumerate(kept, 1):
            process.install(file, at)
        for fd in [fd for fd in process.fds if fd > child.SOCKET_FD]:
            process.close(fd)
        code = 1
        try:
            code = child.serve_calls(socket.socket(fileno=child.SOCKET_FD), progress.inode.data)  # type: ignore[attr-defined]
        except OSError:
            code = 1  # the daemon is gone
        finally:
            process.end(code)

    def exit(self, code: int) -> None:
        if self.kernel.current is None:
            raise AssertionError("the daemon must not end by os._exit")
        self.kernel.process.end(code)
        raise Killed

    def send_pidfd_signal(self, fd: int, number: int) -> None:
        process = self.kernel.process.find(fd).process  # type: ignore[attr-defined]
        if process.is_reaped:
            raise make_error(errno.ESRCH)
        if not process.is_dead:
            self.kernel.send_signal(process.pid, number)

    def wait_pid(self, pid: int, options: int) -> tuple[int, int]:
        process = self.kernel.processes.get(pid)
        if process is None or process.parent is not self.kernel.process:
            raise make_error(errno.ECHILD)
        if not process.is_dead:
            return 0, 0
        return pid, process.reap() & 0xFF

    def open_pidfd(self, pid: int, flags: int = 0) -> int:
        process = self.kernel.processes.get(pid)
        if process is None:
            raise make_error(errno.ESRCH)
        return self.kernel.process.install(ProcessHandle(self.kernel, process))

    def set_signal(self, number: int, handler: Any) -> Any:
        if self.kernel.current is not None:
            return signal.SIG_DFL  # a strand's process: it has none that matter here
        return REAL_SIGNAL(number, handler)

    def set_wakeup_fd(self, fd: int, **_: object) -> int:
        if self.kernel.current is not None:
            self.kernel.process.wake_fd = fd
        return -1

    def signal_daemon(self) -> None:
        """Tell the daemon that a child of it has died."""
        handler = signal.getsignal(signal.SIGCHLD)
        if callable(handler):
            handler(signal.SIGCHLD, None)

    # -- the table ---------------------------------------------------------------------------------------------

    def list_draws(self) -> Generator[tuple[Any, str, Any]]:
        """Yield the functions of time and chance: before anything of the daemon is imported, which may bind them."""
        kernel = self.kernel
        yield time, "monotonic", lambda: kernel.now
        yield time, "monotonic_ns", lambda: int(kernel.now * 1e9)
        yield time, "perf_counter", lambda: kernel.now
        yield time, "time", lambda: kernel.wall
        yield time, "time_ns", lambda: int(kernel.wall * 1e9)
        yield time, "clock_gettime", lambda which: kernel.wall if which == time.CLOCK_REALTIME else kernel.now
        yield time, "sleep", kernel.sleep
        yield os, "urandom", lambda size: self.secrets.randbytes(size)
        yield random, "_urandom", lambda size: self.secrets.randbytes(size)

    def list_functions(self) -> Generator[tuple[Any, str, Any]]:
        """Yield each other function that is replaced: its module, its name, what stands there."""
        kernel = self.kernel
        yield os, "getpid", lambda: kernel.process.pid
        yield os, "getppid", lambda: kernel.process.parent.pid if kernel.process.parent is not None else 0
        for name in ("getuid", "geteuid", "getgid", "getegid"):
            yield os, name, lambda: USER
        yield os, "setsid", lambda: None
        yield os, "_exit", self.exit
        yield os, "kill", kernel.send_signal
        yield os, "waitpid", self.wait_pid
        yield os, "pidfd_open", self.open_pidfd
        yield os, "sched_getaffinity", lambda pid: {0}
        yield os, "pipe2", lambda flags: tuple(end.detach() for end in standard_library.make_pair(kernel))
        yield os, "memfd_create", lambda name, flags=0: kernel.process.install(self.memory.open_nameless())
        yield signal, "pidfd_send_signal", self.send_pidfd_signal
        yield signal, "signal", self.set_signal
        yield signal, "set_wakeup_fd", self.set_wakeup_fd
        yield resource, "getrlimit", lambda which: (FILES, FILES)
        yield resource, "setrlimit", lambda which, limits: None
        yield gc, "freeze", lambda: None
        yield gc, "enable", lambda: None
        yield gc, "set_threshold", lambda *_: None
        yield traceback, "format_exception", format_exception
        yield threading, "active_count", lambda: 1
        yield threading, "Lock", lambda: Lock(kernel)
        yield subprocess, "Popen", lambda command, **named: StartedProgram(self, command, **named)
        context = SimpleNamespace(Process=lambda target, args: ForkedProcess(self, args))
        yield multiprocessing, "get_context", lambda method=None: context
        yield select, "epoll", lambda *_, **__: standard_library.Epoll(kernel)
        yield select, "poll", lambda: standard_library.Poll(kernel)
        standard_library.Socket.kernel, standard_library.Socket.listening = kernel, {}
        yield socket, "socket", standard_library.Socket
        yield socket, "socketpair", lambda family=1, kind=1, proto=0: standard_library.make_pair(kernel, kind)
        yield socket, "send_fds", standard_library.send_files
        yield socket, "recv_fds", standard_library.receive_files

        async def run_sync(function: Any, *arguments: Any, abandon_on_cancel: bool = False, limiter: Any = None) -> Any:
            async with limiter or nullcontext():
                return await run_in_strand(kernel, function, *arguments, may_abandon=abandon_on_cancel)

        yield trio.to_thread, "run_sync", run_sync

    def list_parts(self) -> Generator[tuple[Any, str, Any]]:
        """Yield what is replaced in the program itself: what only a real process can do."""
        from hooklatch_worker.runtime import child, guardian, importers
        from hooklatch_worker.systems import linux

        functions = Library()
        yield linux, "LIBC", functions
        from hooklatch import disks
        from hooklatch.record.storage import chain

        yield disks.LookupThread, "look", look_now
        # It depends on its line alone, and each line is read at each start, and of each disk that a crash may leave.
        yield chain, "read_link", lru_cache(maxsize=2**15)(chain.read_link)
        yield guardian, "fork_zygote", self.fork_zygote
        yield child, "rehearse_call", lambda *_: None
        importers.installed.append(NoBuild())  # type: ignore[arg-type]
        importers.take_over_loaders()
        self.builds = importers.installed
        from hooklatch_worker.systems import linux_watches

        yield linux_watches, "LIBC", functions

    @contextmanager
    def install(self) -> Generator[None]:
        """Put the machine, and its disk, in place of the real one for the duration of the block."""
        with ExitStack() as stack:

            def replace_all(functions: Iterable[tuple[Any, str, Any]]) -> None:
                for owner, name, value in functions:
                    replace(stack, owner, name, value)

            replace_all(self.list_draws())
            Calls(self.kernel, self.disk, self.proc).install(stack)
            replace_all(self.list_functions())
            replace_all(self.list_parts())
            yield

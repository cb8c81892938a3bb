"""How a call of the program finds what it leads to: the disk in memory, a descriptor of a process, or the real system.

`Calls.install` has the one list of these functions.  It comes before hooklatch is imported, which binds some of them.
"""

from __future__ import annotations

import _io
import _pyio
import builtins
import ctypes
import errno
import fcntl
import importlib
import io
import os
import posix
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from simulation.kernel import DAEMON_FDS, File, Kernel, UnknownCallError, make_error

__all__ = ["Calls", "Entry", "Listing", "replace"]

PATHS = "listdir", "lstat", "mkdir", "mknod", "open", "remove", "rmdir", "scandir", "stat", "statvfs", "unlink"
DESCRIPTORS = (
    "close", "fchmod", "fdatasync", "fstat", "fsync", "ftruncate", "lseek", "pread", "pwrite", "read", "write"
)  # fmt: skip
OPENAT2 = 437
KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE


class Entry:
    """What os.scandir yields."""

    def __init__(self, name: str, path: str, mode: int) -> None:
        self.name, self.path, self._mode = name, path, mode

    def is_symlink(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self._mode)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path)


class Listing:
    """What os.scandir returns."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Listing:
        return self

    def close(self, *error: object) -> None:
        """Do nothing: it holds no descriptor."""

    __exit__ = close


Function = Callable[..., Any]


def replace(stack: ExitStack, owner: object, name: str, value: object) -> None:
    """Put a value in place of another one, until the stack is closed."""
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


class Calls:
    """The functions that stand in for those of the system, for one disk, and for the descriptors of processes."""

    def __init__(self, kernel: Kernel, disk: Any, proc: Any = None) -> None:
        """Make them for a disk, and perhaps for /proc, which have a method for each function of paths they answer."""
        self._kernel, self._disk, self._proc = kernel, disk, proc

    def install(self, stack: ExitStack) -> None:
        """Put them in place of those of the system."""
        makers = {
            **dict.fromkeys(PATHS, self._make_path_call), **dict.fromkeys(DESCRIPTORS, self._make_descriptor_call),
            **dict.fromkeys(("rename", "replace"), self._make_two_paths_call),
        }  # fmt: skip
        for name, make in makers.items():
            made = make(name, getattr(posix, name))
            for module in (posix, os):
                replace(stack, module, name, made)
        for name in ("flock", "fcntl"):
            replace(stack, fcntl, name, self._make_descriptor_call(name, getattr(fcntl, name)))
        made = self._make_open(builtins.open)
        for module in (builtins, io, _io):
            replace(stack, module, "open", made)
        for module in (io, _io):
            replace(stack, module, "open_code", lambda path: open(path, "rb"))  # noqa: SIM115
        disks = importlib.import_module("hooklatch_worker.systems.linux_disks")
        replace(stack, disks, "FALLOCATE", self._make_fallocate(disks.FALLOCATE))
        replace(stack, disks, "SYSCALL", self._make_syscall(disks.SYSCALL))

    def find(self, fd: int) -> File | None:
        """Return what a descriptor stands for; None if it is one of the real process.

        Raises:
            OSError: it is closed.
        """
        file = self._disk.files.get(fd) or self._kernel.process.fds.get(fd)
        if file is None and fd >= DAEMON_FDS:
            raise make_error(errno.EBADF)
        return file

    def _make_path_call(self, call: str, real: Function) -> Function:
        kernel, disk, method = self._kernel, self._disk, getattr(self._disk, call)
        of_proc = getattr(self._proc, call, None)

        def function(path: Any = ".", *arguments: Any, dir_fd: int | None = None, **named: Any) -> Any:
            kernel.alive()
            text = path if type(path) is str else "" if isinstance(path, int) else os.fsdecode(path)
            if dir_fd is not None:
                named["dir_fd"] = dir_fd
            if not disk.leads_here(text, dir_fd):
                if of_proc is not None and text.startswith("/proc/"):
                    return of_proc(text)
                return real(path, *arguments, **named)
            if isinstance(path, bytes) and call in ("listdir", "scandir"):
                raise UnknownCallError(f"{call} of {path!r}")
            disk.begin(call, disk.describe(text, dir_fd), text)
            return method(text, *arguments, **named)

        return function

    def _make_descriptor_call(self, call: str, real: Function) -> Function:
        kernel, disk = self._kernel, self._disk

        def function(fd: Any, *arguments: Any) -> Any:
            kernel.alive()
            fd = fd if isinstance(fd, int) else fd.fileno()
            file = self.find(fd)
            if file is None:
                return real(fd, *arguments)
            if call == "close":
                return (disk if fd in disk.files else kernel.process).close(fd)
            if fd in disk.files:
                disk.begin(call, file.path, file=file)
            return getattr(file, call)(*arguments)

        return function

    def _make_two_paths_call(self, call: str, real: Function) -> Function:
        disk = self._disk

        def function(src: Any, dst: Any) -> None:
            src, dst = os.fsdecode(src), os.fsdecode(dst)
            here = disk.leads_here(src), disk.leads_here(dst)
            if not any(here):
                return real(src, dst)
            if not all(here):
                raise make_error(errno.EXDEV, src, dst)
            disk.begin(call, dst, src, dst)
            try:
                return disk.rename(src, dst)
            except OSError as error:
                raise make_error(error.errno or 0, src, dst) from None

        return function

    # -- what is not a function of os ----------------------------------------------------------------------------

    def _make_open(self, real: Function) -> Function:
        def function(
            file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
            newline: str | None = None, closefd: bool = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            self._kernel.alive()
            file = file if isinstance(file, int) else os.fsdecode(file)
            if not (file in self._disk.files if isinstance(file, int) else self._disk.leads_here(file)):
                if self._proc is not None and str(file).startswith("/proc/"):
                    return self._proc.open_text(file, mode)
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
            raw = _pyio.FileIO(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            if buffering == 0:
                return raw
            kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
            buffered = kind(raw, buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE)  # type: ignore[arg-type]
            if "b" in mode:
                return buffered
            text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
            text.mode = mode  # type: ignore[misc]
            return text

        return function

    def _make_fallocate(self, real: Function) -> Function:
        def fallocate(fd: int, mode: int, start: Any, length: Any) -> int:
            file = self._disk.files.get(fd)
            if file is None:
                return int(real(fd, mode, start, length))
            if mode != KEEP_SIZE:
                raise UnknownCallError(f"fallocate of {file.path} in mode {mode}")
            return self._answer("fallocate", file.path, lambda: file.allocate(start.value, length.value))

        return fallocate

    def _make_syscall(self, real: Function) -> Function:
        def syscall(number: int, dir_fd: int, path: bytes, how: Any, size: int) -> int:
            text = os.fsdecode(path)
            if not self._disk.leads_here(text):
                return int(real(number, dir_fd, path, how, size))
            if number != OPENAT2:
                raise UnknownCallError(f"system call {number} of {text}")
            return self._answer("open", text, lambda: self._disk.open(text, os.O_PATH))

        return syscall

    def _answer(self, call: str, path: str, act: Callable[[], int]) -> int:
        """Do something, and return what a function of the C library does."""
        try:
            self._disk.begin(call, path)
            return act()
        except OSError as error:
            ctypes.set_errno(error.errno or 0)
            return -1

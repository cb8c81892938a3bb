"""The functions of the system that a disk in memory stands in for, and how a call finds its way to one of the two.

`Calls.install` has the one list of them.  It comes before anything of hooklatch is imported, which binds some of them.
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
from typing import Any

from simulation.kernel import make_error

__all__ = ["Calls", "Entry", "Listing", "UnknownCallError"]

PATHS = [
    "listdir", "lstat", "mkdir", "mknod", "open", "remove", "rmdir", "scandir", "stat", "statvfs", "unlink",
]  # fmt: skip
DESCRIPTORS = [
    "close", "fchmod", "fdatasync", "fstat", "fstatvfs", "fsync", "ftruncate", "lseek", "pread", "pwrite", "read",
    "write",
]  # fmt: skip
TWO_PATHS = ["rename", "replace"]
QUIET = {  # with what they answer
    "device_encoding": None, "get_blocking": True, "get_inheritable": False, "isatty": False, "posix_fadvise": None,
    "set_blocking": None, "set_inheritable": None,
}  # fmt: skip
OPENAT2 = 437
KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE


class UnknownCallError(BaseException):
    """A call that leads to the disk, and that it does not simulate."""


class Entry:
    """What os.scandir yields."""

    def __init__(self, name: str, path: str, mode: int) -> None:
        self.name, self.path, self._mode = name, path, mode

    def __fspath__(self) -> str:
        return self.path

    def is_symlink(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self._mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISREG(self._mode)

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
        self._entries = iter(())

    __exit__ = close


Function = Callable[..., Any]


class Calls:
    """The functions that stand in for those of the system, for one disk."""

    def __init__(self, disk: Any) -> None:
        """Make them for a disk, which has a method for each function that it answers."""
        self._disk, self._files = disk, disk.files
        self._before: list[tuple[object, str, object]] = []
        self._made: list[object] = []

    def install(self) -> None:
        """Put them in place of those of the system."""
        makers: dict[str, Callable[[str, Function], Function]] = {
            **dict.fromkeys(PATHS, self._make_path_call),
            **dict.fromkeys(DESCRIPTORS, self._make_descriptor_call),
            **dict.fromkeys(TWO_PATHS, self._make_two_paths_call),
            **dict.fromkeys(QUIET, self._make_quiet_call),
            "umask": lambda name, real: self._disk.umask,
        }
        for name, make in makers.items():
            if (real := getattr(posix, name, None)) is not None:
                self._put(make(name, real), name, posix, os)
                for functions in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
                    if real in functions:
                        functions.add(getattr(os, name))
        self._put(self._make_descriptor_call("flock", fcntl.flock), "flock", fcntl)
        self._put(self._make_descriptor_call("fcntl", fcntl.fcntl), "fcntl", fcntl)
        self._put(self._make_open(builtins.open), "open", builtins, io, _io)
        self._put(lambda path: open(path, "rb"), "open_code", io, _io)  # noqa: SIM115
        disks = importlib.import_module("hooklatch_worker.systems.linux_disks")
        self._put(self._make_fallocate(disks.FALLOCATE), "FALLOCATE", disks)
        self._put(self._make_syscall(disks.SYSCALL), "SYSCALL", disks)

    def uninstall(self) -> None:
        """Put those of the system back."""
        for where, name, real in reversed(self._before):
            setattr(where, name, real)
        for functions in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            functions.difference_update(self._made)  # type: ignore[arg-type]

    def _put(self, made: object, name: str, *places: object) -> None:
        self._made.append(made)
        for where in places:
            self._before.append((where, name, getattr(where, name)))
            setattr(where, name, made)

    def _make_path_call(self, call: str, real: Function) -> Function:
        disk, files, method = self._disk, self._files, getattr(self._disk, call)

        def function(path: Any = None, *arguments: Any, dir_fd: int | None = None, **named: Any) -> Any:
            if isinstance(path, int):
                if path in files:
                    raise UnknownCallError(f"{call} of a descriptor")
                return real(path, *arguments, **named)
            if dir_fd is not None:
                named["dir_fd"] = dir_fd
            text = path if type(path) is str else "" if path is None else os.fsdecode(path)
            if path is None or not disk.leads_here(text, dir_fd):
                return real(path, *arguments, **named)
            if isinstance(path, bytes) and call in ("listdir", "scandir"):
                raise UnknownCallError(f"{call} of {path!r}")
            disk.begin(call, text if dir_fd is None else disk.describe(text, dir_fd), None, (text,))
            return method(text, *arguments, **named)

        return function

    def _make_descriptor_call(self, call: str, real: Function) -> Function:
        files, method, disk = self._files, getattr(self._disk, call), self._disk
        if call == "close":  # never fails

            def close(fd: int) -> None:
                if (file := files.get(fd)) is None:
                    return real(fd)
                disk.before(call, file.path)
                return method(fd)

            return close

        def function(fd: Any, *arguments: Any, **named: Any) -> Any:
            if type(fd) is not int:
                fd = fd if isinstance(fd, int) else fd.fileno()
            if (file := files.get(fd)) is None:
                return real(fd, *arguments, **named)
            disk.begin(call, file.path, fd)
            return method(fd, *arguments, **named)

        return function

    def _make_two_paths_call(self, call: str, real: Function) -> Function:
        disk, method = self._disk, getattr(self._disk, call)

        def function(src: Any, dst: Any, *arguments: Any, **named: Any) -> Any:
            src, dst = os.fsdecode(src), os.fsdecode(dst)
            fds = named.get("src_dir_fd"), named.get("dst_dir_fd")
            here = disk.leads_here(src, fds[0]), disk.leads_here(dst, fds[1])
            if not any(here):
                return real(src, dst, *arguments, **named)
            if not all(here):
                raise make_error(errno.EXDEV, src, dst)
            disk.begin(call, disk.describe(dst, fds[1]), None, (src, dst))
            try:
                return method(src, dst, *arguments, **named)
            except OSError as error:
                raise make_error(error.errno or 0, src, dst) from None

        return function

    def _make_quiet_call(self, call: str, real: Function) -> Function:
        def function(fd: Any, *arguments: Any) -> Any:
            return QUIET[call] if fd in self._files else real(fd, *arguments)

        return function

    # -- what is not a function of os ----------------------------------------------------------------------------

    def _make_open(self, real: Function) -> Function:
        def function(
            file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
            newline: str | None = None, closefd: bool = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            file = file if isinstance(file, int) else os.fsdecode(file)
            if not (file in self._files if isinstance(file, int) else self._disk.leads_here(file)):
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
            raw_mode = mode.replace("b", "").replace("t", "")
            raw = _pyio.FileIO(file, raw_mode, closefd, opener)
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
            if fd not in self._files:
                return int(real(fd, mode, start, length))
            if mode != KEEP_SIZE:
                raise UnknownCallError(f"fallocate of {self._files[fd].path} in mode {mode}")
            try:
                self._disk.begin("fallocate", self._files[fd].path, fd)
                self._disk.allocate(fd, start.value, length.value)
            except OSError as error:
                ctypes.set_errno(error.errno)
                return -1
            return 0

        return fallocate

    def _make_syscall(self, real: Function) -> Function:
        def syscall(number: int, dir_fd: int, path: bytes, how: Any, size: int) -> int:
            text = os.fsdecode(path)
            if not self._disk.leads_here(text):
                return int(real(number, dir_fd, path, how, size))
            if number != OPENAT2:
                raise UnknownCallError(f"system call {number} of {text}")
            try:
                self._disk.begin("open", text)
                return int(self._disk.open_plain(text))
            except OSError as error:
                ctypes.set_errno(error.errno)
                return -1

        return syscall

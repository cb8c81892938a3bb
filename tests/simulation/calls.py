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

from simulation.inodes import Inode, SymbolicLink
from simulation.lookup import OutsideError, UnknownCallError, make_error

__all__ = ["Calls", "Entry", "Listing"]

PATHS = [  # of which some take a descriptor too
    "chmod", "listdir", "lstat", "mkdir", "mknod", "open", "readlink", "remove", "rmdir", "scandir", "stat", "statvfs",
    "unlink", "utime",
]  # fmt: skip
DESCRIPTORS = [
    "close", "dup", "fchmod", "fdatasync", "fstat", "fstatvfs", "fsync", "ftruncate", "lseek", "pread", "pwrite",
    "read", "write",
]  # fmt: skip
TWO_PATHS = ["link", "rename", "replace", "symlink"]
QUIET = {  # with what they answer
    "device_encoding": None, "get_blocking": True, "get_inheritable": False, "isatty": False, "posix_fadvise": None,
    "set_blocking": None, "set_inheritable": None,
}  # fmt: skip
REFUSED = [
    "access", "chdir", "chown", "chroot", "copy_file_range", "dup2", "eventfd_read", "eventfd_write", "execv", "execve",
    "fchdir", "fchown", "fpathconf", "getxattr", "lchown", "listxattr", "lockf", "login_tty", "mkfifo", "pathconf",
    "posix_fallocate", "posix_spawn", "posix_spawnp", "preadv", "pwritev", "readv", "removexattr", "sendfile",
    "setxattr", "splice", "tcgetpgrp", "tcsetpgrp", "truncate", "ttyname", "writev",
]  # fmt: skip
OPENAT2 = 437
KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE


class Entry:
    """What os.scandir yields; of a descriptor, its path is the name."""

    def __init__(self, name: str, path: str, inode: Inode, dir_fd: int | None = None) -> None:
        self.name, self.path = name, path
        self._inode, self._dir_fd = inode, dir_fd

    def __fspath__(self) -> str:
        return self.path

    def inode(self) -> int:
        return self._inode.number

    def is_symlink(self) -> bool:
        return isinstance(self._inode, SymbolicLink)

    def is_junction(self) -> bool:
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFDIR, is_followed=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_IFREG, is_followed=follow_symlinks)

    def _is(self, kind: int, *, is_followed: bool) -> bool:
        try:
            mode = self.stat().st_mode if is_followed and self.is_symlink() else self._inode.mode
        except FileNotFoundError:
            return False
        return stat.S_IFMT(mode) == kind

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, dir_fd=self._dir_fd, follow_symlinks=follow_symlinks)


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

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


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
            **dict.fromkeys(REFUSED, self._make_refusal),
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
        self._put(self._make_refusal("lockf", fcntl.lockf), "lockf", fcntl)
        self._put(self._make_refusal("ioctl", fcntl.ioctl), "ioctl", fcntl)
        self._put(self._make_open(builtins.open), "open", builtins, io, _io)
        self._put(lambda path: open(path, "rb"), "open_code", io, _io)  # noqa: SIM115
        journal, disks = map(importlib.import_module, ("hooklatch.record.storage.journal", "hooklatch.disks"))
        self._put(self._make_fallocate(journal.FALLOCATE), "FALLOCATE", journal)
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

    def _begin(self, call: str, path: str, fd: int | None, *names: object) -> None:
        number = self._disk.begin(call, path, fd)
        if number is not None:
            raise make_error(number, *names)

    def _make_path_call(self, call: str, real: Function) -> Function:
        disk, files, method = self._disk, self._files, getattr(self._disk, call)

        def function(path: Any = None, *arguments: Any, dir_fd: int | None = None, **named: Any) -> Any:
            if isinstance(path, int):
                if path not in files:
                    return real(path, *arguments, **named)
                self._begin(call, files[path].path, path, path)
                return method(path, *arguments, **named)
            if dir_fd is not None:
                named["dir_fd"] = dir_fd
            text = path if type(path) is str else "" if path is None else os.fsdecode(path)
            if path is None or not disk.leads_here(text, dir_fd):
                return real(path, *arguments, **named)
            if isinstance(path, bytes) and call in ("listdir", "scandir", "readlink"):
                raise UnknownCallError(f"{call} of {path!r}")
            self._begin(call, text if dir_fd is None else disk.describe(text, dir_fd), None, text)
            try:
                return method(text, *arguments, **named)
            except OutsideError as outside:
                named.pop("dir_fd", None)
                return real(outside.path, *arguments, **named)

        return function

    def _make_descriptor_call(self, call: str, real: Function) -> Function:
        files, method, begin = self._files, getattr(self._disk, call), self._disk.begin
        if call == "close":  # never fails

            def close(fd: int) -> None:
                if (file := files.get(fd)) is None:
                    return real(fd)
                begin(call, file.path, fd)
                return method(fd)

            return close

        def function(fd: Any, *arguments: Any, **named: Any) -> Any:
            if type(fd) is not int:
                fd = fd if isinstance(fd, int) else fd.fileno()
            if (file := files.get(fd)) is None:
                return real(fd, *arguments, **named)
            if (number := begin(call, file.path, fd)) is not None:
                raise make_error(number)
            return method(fd, *arguments, **named)

        return function

    def _make_two_paths_call(self, call: str, real: Function) -> Function:
        disk, method = self._disk, getattr(self._disk, call)

        def function(src: Any, dst: Any, *arguments: Any, **named: Any) -> Any:
            src, dst = os.fsdecode(src), os.fsdecode(dst)
            fds = named.get("src_dir_fd"), named.get("dst_dir_fd", named.get("dir_fd"))
            here = disk.leads_here(src, fds[0]), disk.leads_here(dst, fds[1])
            if not here[1] and (call == "symlink" or not here[0]):
                return real(src, dst, *arguments, **named)
            if call != "symlink" and not all(here):
                raise make_error(errno.EXDEV, src, dst)
            self._begin(call, disk.describe(dst, fds[1]), None, src, dst)
            try:
                return method(src, dst, *arguments, **named)
            except OSError as error:
                raise make_error(error.errno or 0, src, dst) from None
            except OutsideError as outside:
                raise UnknownCallError(f"{call} from {src} to {dst}, of which one leads out: {outside}") from None

        return function

    def _make_quiet_call(self, call: str, real: Function) -> Function:
        def function(fd: Any, *arguments: Any) -> Any:
            return QUIET[call] if fd in self._files else real(fd, *arguments)

        return function

    def _make_refusal(self, call: str, real: Function) -> Function:
        def function(*arguments: Any, **named: Any) -> Any:
            for one in (*arguments[:2], *named.values()):
                is_path = isinstance(one, (str, bytes, os.PathLike))
                if self._disk.leads_here(os.fsdecode(one)) if is_path else isinstance(one, int) and one in self._files:
                    raise UnknownCallError(f"{call} of {one!r} is not simulated")
            return real(*arguments, **named)

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
            try:
                raw = _pyio.FileIO(file, raw_mode, closefd, opener)
            except OutsideError as outside:
                return real(outside.path, mode, buffering, encoding, errors, newline, closefd, opener)
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
                self._begin("fallocate", self._files[fd].path, fd)
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
                self._begin("open", text, None, text)
                return int(self._disk.open_plain(text))
            except OSError as error:
                ctypes.set_errno(error.errno)
                return -1

        return syscall

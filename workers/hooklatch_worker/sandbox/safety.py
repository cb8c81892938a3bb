"""Which files may hold hooks: what another user could have written must not run.  Knows owners and modes only.

The rule is that of sshd's StrictModes: the file and each folder above it belong to the user or to root and are not
writable by others; a sticky folder (/tmp) is accepted above, but never as the file's own.  A symbolic link belongs to
the user or root too, and is followed by the same rule.

A path is walked from `/`, each step from the descriptor of the one before (openat(2)), and what is read is the very
file that was looked at: nothing that is renamed or replaced meanwhile is ever followed.
"""

from __future__ import annotations

import os
import stat

__all__ = ["MAX_FILE", "UnsafeFileError", "check_file", "check_folders", "guards", "read_safely"]

MAX_FILE = 4 * 2**20  # bytes of a file that holds hooks
MAX_LINKS = 40  # on one path, as in the kernel (path_resolution(7))
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeFileError(Exception):
    """A file that must not be run, with the command that mends it."""


def read_safely(path: str, *, most: int = MAX_FILE) -> bytes:
    """Read a file that nobody but the user and root could have written.

    Raises:
        UnsafeFileError: somebody else could have.
        OSError: it cannot be read.
    """
    looked_at = walk(path, is_file=True)
    try:
        # The file itself, whatever its name leads to by now.
        with open(f"/proc/self/fd/{looked_at}", "rb", buffering=0) as file:
            data = file.read(most + 1)
            while len(data) <= most and (more := file.read(most + 1 - len(data))):
                data += more
    except OSError as error:
        raise named(error, path) from None
    finally:
        os.close(looked_at)
    if len(data) > most:
        raise UnsafeFileError(f"{path} is over {most // 2**20} MiB")
    return data


def check_file(path: str) -> None:
    """Hold a file to the rule without reading it.

    Raises:
        UnsafeFileError: somebody else could have written it.
        OSError: it is not there.
    """
    os.close(walk(path, is_file=True))


def check_folders(path: str) -> None:
    """Hold a folder, and each above it, to the rule.

    Raises:
        UnsafeFileError: somebody else could have put something there.
        OSError: it is not there.
    """
    os.close(walk(path, is_file=False))


def guards(path: str) -> tuple[int, ...]:
    """Return the modes and owners of all folders above, which tell whether the rule may have a new answer."""
    found: list[int] = []
    folder = path
    while folder != (folder := os.path.dirname(folder)):
        try:
            status = os.stat(folder)
        except OSError:
            continue
        found += (status.st_mode, status.st_uid)
    return tuple(found)


def walk(path: str, *, is_file: bool) -> int:
    if "\0" in path:
        raise UnsafeFileError(f"{path!r} is no path")
    try:
        return Walk(path, is_file=is_file).run()
    except UnsafeFileError:
        os.lstat(path)  # what is not there is that first of all
        raise
    except OSError as error:
        raise named(error, path) from None


def named(error: OSError, path: str) -> OSError:
    return OSError(error.errno, error.strerror, path)


class Walk:
    """One way down from the root."""

    def __init__(self, path: str, *, is_file: bool) -> None:
        self._path = path
        self._is_file = is_file
        self._names = parts_of(os.path.join(os.getcwd(), path))
        self._links = 0

    def run(self) -> int:
        """Return a descriptor (O_PATH) of what is at the end of it."""
        self._to_root()
        try:
            check("/", os.fstat(self._fd), is_above=True)
            while self._names:
                self._step(self._names.pop())
        except BaseException:
            os.close(self._fd)
            raise
        return self._fd

    def _to_root(self) -> None:
        self._where, self._fd = "/", os.open("/", LOOK)

    def _step(self, name: str) -> None:
        is_last = not self._names
        if is_last and self._is_file:
            check(self._where, os.fstat(self._fd))
        where = os.path.dirname(self._where) if name == ".." else os.path.join(self._where, name)
        fd = os.open(name, LOOK, dir_fd=self._fd)
        try:
            status = os.fstat(fd)
            if stat.S_ISLNK(status.st_mode):
                self._follow(where, fd, status)
                return
            if is_last and self._is_file and not stat.S_ISREG(status.st_mode):
                raise UnsafeFileError(f"{self._path} is no regular file")
            check(where, status, is_above=not is_last)
            self._where, self._fd, fd = where, fd, self._fd
        finally:
            os.close(fd)

    def _follow(self, where: str, fd: int, status: os.stat_result) -> None:
        check_owner(where, status)
        self._links += 1
        if self._links > MAX_LINKS:
            raise UnsafeFileError(f"{self._path} leads through more than {MAX_LINKS} links")
        target = os.readlink("", dir_fd=fd)
        self._names += parts_of(target)
        if target.startswith("/"):
            before = self._fd
            self._to_root()
            os.close(before)


def parts_of(path: str) -> list[str]:
    """Return the names on a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def check(path: str, status: os.stat_result, *, is_above: bool = False) -> None:
    check_owner(path, status)
    if is_above and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFileError(f"{path} is writable by others; mend it with: chmod go-w {path}")


def check_owner(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeFileError(f"{path} belongs to user {status.st_uid}; mend it with: chown {os.geteuid()} {path}")

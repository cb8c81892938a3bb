"""The check of files that may hold hooks: a file that another user could have written must not run.

The rule is that of sshd's StrictModes: the file and every folder above it must belong to the user or root and must not
be writable by others.  A sticky folder (/tmp) is accepted as an ancestor, but not as the file's own folder.  A symbolic
link must belong to the user or root too, and its target must follow the same rule.

A path is resolved from `/`, each step relative to the descriptor of the previous one (openat(2)), and the file that is
read is the very file that was checked.  So renaming or replacing a part of the path during the check has no effect.
"""

from __future__ import annotations

import os
import stat

__all__ = ["MAX_FILE", "UnsafeFileError", "check_file", "check_folders", "stamp_parent_folders", "read_safely"]

MAX_FILE = 4 * 2**20  # bytes of a file that holds hooks
MAX_LINKS = 40  # symbolic links per path, as in the kernel (path_resolution(7))
LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeFileError(Exception):
    """A file must not be run; the text contains the command that fixes it."""


def read_safely(path: str, *, maximum: int = MAX_FILE) -> bytes:
    """Read a file that only the user and root can have written.

    Raises:
        UnsafeFileError: another user could have written it.
        OSError: it cannot be read.
    """
    checked_fd = resolve_safely(path, is_file=True)
    try:
        # Open the checked file itself: its path may lead to another file by now.
        with open(f"/proc/self/fd/{checked_fd}", "rb", buffering=0) as file:
            data = file.read(maximum + 1)
            while len(data) <= maximum and (more := file.read(maximum + 1 - len(data))):
                data += more
    except OSError as error:
        raise add_error_path(error, path) from None
    finally:
        os.close(checked_fd)
    if len(data) > maximum:
        raise UnsafeFileError(f"{path} is over {maximum // 2**20} MiB")
    return data


def check_file(path: str) -> None:
    """Check a file without reading it.

    Raises:
        UnsafeFileError: another user could have written it.
        OSError: it does not exist.
    """
    os.close(resolve_safely(path, is_file=True))


def check_folders(path: str) -> None:
    """Check a folder and every folder above it.

    Raises:
        UnsafeFileError: another user could have put a file there.
        OSError: it does not exist.
    """
    os.close(resolve_safely(path, is_file=False))


def stamp_parent_folders(path: str) -> tuple[int, ...]:
    """Return modes and owners of all folders above.  While they are unchanged, so is the result of the check."""
    facts: list[int] = []
    folder = path
    while folder != (folder := os.path.dirname(folder)):
        try:
            status = os.stat(folder)
        except OSError:
            continue
        facts += (status.st_mode, status.st_uid)
    return tuple(facts)


def resolve_safely(path: str, *, is_file: bool) -> int:
    if "\0" in path:
        raise UnsafeFileError(f"{path!r} is not a path")
    try:
        return PathResolution(path, is_file=is_file).run()
    except UnsafeFileError:
        os.lstat(path)  # raises if it does not exist, which is the better error
        raise
    except OSError as error:
        raise add_error_path(error, path) from None


def add_error_path(error: OSError, path: str) -> OSError:
    return OSError(error.errno, error.strerror, path)


class PathResolution:
    """The resolution of one path from the root."""

    def __init__(self, path: str, *, is_file: bool) -> None:
        self._path = path
        self._is_file = is_file
        self._names = split_reversed(os.path.join(os.getcwd(), path))
        self._links = 0

    def run(self) -> int:
        """Return an O_PATH descriptor of the final component."""
        self._go_to_root()
        try:
            validate_mode("/", os.fstat(self._fd), is_above=True)
            while self._names:
                self._descend(self._names.pop())
        except BaseException:
            os.close(self._fd)
            raise
        return self._fd

    def _go_to_root(self) -> None:
        self._position, self._fd = "/", os.open("/", LOOK)

    def _descend(self, name: str) -> None:
        is_last = not self._names
        if is_last and self._is_file:
            validate_mode(self._position, os.fstat(self._fd))
        where = os.path.dirname(self._position) if name == ".." else os.path.join(self._position, name)
        fd = os.open(name, LOOK, dir_fd=self._fd)
        try:
            status = os.fstat(fd)
            if stat.S_ISLNK(status.st_mode):
                self._follow(where, fd, status)
                return
            if is_last and self._is_file and not stat.S_ISREG(status.st_mode):
                raise UnsafeFileError(f"{self._path} is not a regular file")
            validate_mode(where, status, is_above=not is_last)
            self._position, self._fd, fd = where, fd, self._fd
        finally:
            os.close(fd)

    def _follow(self, where: str, fd: int, status: os.stat_result) -> None:
        check_owner(where, status)
        self._links += 1
        if self._links > MAX_LINKS:
            raise UnsafeFileError(f"{self._path} leads through more than {MAX_LINKS} links")
        target = os.readlink("", dir_fd=fd)
        self._names += split_reversed(target)
        if target.startswith("/"):
            old_fd = self._fd
            self._go_to_root()
            os.close(old_fd)


def split_reversed(path: str) -> list[str]:
    """Return the names in a path, last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def validate_mode(path: str, status: os.stat_result, *, is_above: bool = False) -> None:
    check_owner(path, status)
    if is_above and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeFileError(f"{path} is writable by others; fix it with: chmod go-w {path}")


def check_owner(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeFileError(f"{path} belongs to user {status.st_uid}; fix it with: chown {os.geteuid()} {path}")

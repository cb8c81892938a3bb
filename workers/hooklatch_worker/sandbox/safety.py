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

from hooklatch_worker.systems import system

__all__ = ["MAX_FILE", "UnsafeFileError", "check_file", "check_folders", "stamp_parent_folders", "read_safely"]

MAX_FILE = 4 * 2**20  # bytes of a file that holds hooks
MAX_LINKS = 40  # symbolic links per path, as in the kernel (path_resolution(7))


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
        with system.open_looked(checked_fd) as file:
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
    """Return a descriptor of the end of a path (`look_at`), each entry on the way to which is checked by one."""
    if "\0" in path:
        raise UnsafeFileError(f"{path!r} is not a path")
    where, links, own, held = "/", 0, os.geteuid(), list[int]()
    try:
        names = split_reversed(os.path.join(os.getcwd(), path))
        fd, status, target = system.look_at("/")
        held.append(fd)  # an entry; of a link the folder from which it leads on
        while True:
            is_last, is_link = not names, stat.S_ISLNK(status.st_mode)
            if is_last and is_file and not is_link and not stat.S_ISREG(status.st_mode):
                raise UnsafeFileError(f"{path} is not a regular file")
            if status.st_uid not in (0, own):
                raise UnsafeFileError(f"{where} belongs to user {status.st_uid}; fix it with: chown {own} {where}")
            if is_link:
                links += 1
                if links > MAX_LINKS:
                    raise UnsafeFileError(f"{path} leads through more than {MAX_LINKS} links")
                names += split_reversed(target)
                where = os.path.dirname(where)
                if target.startswith("/"):
                    where = "/"
                    held.append(system.look_at("/")[0])
                    os.close(held.pop(0))
                status = os.fstat(held[-1])
                continue
            is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
            is_accepted = is_sticky and len(names) > is_file  # neither the end, nor the file's own folder
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_accepted:
                raise UnsafeFileError(f"{where} is writable by others; fix it with: chmod go-w {where}")
            if is_last:
                return held.pop()
            name = names.pop()
            fd, status, target = system.look_at(name, held[-1])
            if fd >= 0:
                held.append(fd)
                os.close(held.pop(0))
            where = os.path.dirname(where) if name == ".." else os.path.join(where, name)
    except UnsafeFileError:
        os.lstat(path)  # raises if it does not exist, which is the better error
        raise
    except OSError as error:
        raise add_error_path(error, path) from None
    finally:
        for fd in held:
            os.close(fd)


def split_reversed(path: str) -> list[str]:
    """Return the names in a path, last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def add_error_path(error: OSError, path: str) -> OSError:
    return OSError(error.errno, error.strerror, path)

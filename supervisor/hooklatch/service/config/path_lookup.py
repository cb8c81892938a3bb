"""What is at a path: nothing, something, or unknown.  Knows paths and errors; reads no file and decides nothing.

    absent   the entry does not exist, and we have the permissions to see that
    found    the entry exists; for a directory, with the names in it
    fault    anything else: no permission, a dangling link or a loop of links, a file where a directory should be, no
             file descriptor left, a disk that does not respond

This is the one place that tells the three apart.  What cannot be looked up may hold a guard, so nothing else in the
service turns an OSError into "does not exist" on the way to a gate.
"""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from hooklatch.disks import in_time
from hooklatch.errors import trouble, why
from hooklatch.service.config.file_safety import guards

__all__ = [
    "LATE", "Absent", "Fault", "Found", "Names", "Stamp", "is_passing", "look", "names_in", "stamp", "status_at",
]  # fmt: skip

# Faults of the path itself: `stamp` changes when they do.  Any other error may be temporary and is tried again.
LASTING = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
                     errno.EINVAL})  # fmt: skip
Stamp = tuple[int, ...]
LATE: Stamp = (-errno.ETIMEDOUT,)  # of what is on a disk that does not answer in time


class Absent(msgspec.Struct, frozen=True):
    """The entry does not exist."""


class Found(msgspec.Struct, frozen=True):
    """The entry exists; `is_folder` says whether it is a directory, after following links."""

    is_folder: bool


class Names(msgspec.Struct, frozen=True):
    """The names in a directory, sorted."""

    names: list[str]


class Fault(msgspec.Struct, frozen=True):
    """It is unknown what is there, and why; `is_passing` if a later look may succeed without anybody's help."""

    reason: str
    is_passing: bool = False


def look(path: str) -> Absent | Found | Fault:
    """Look up an absolute path."""
    try:
        status = status_at(path, follow_symlinks=False)
    except FileNotFoundError:
        return absent_below(path)
    except (OSError, ValueError) as error:
        return fault(path, error)
    if not stat.S_ISLNK(status.st_mode):
        return Found(stat.S_ISDIR(status.st_mode))
    try:
        return Found(stat.S_ISDIR(status_at(path).st_mode))
    except FileNotFoundError:
        return Fault(f"{path} is a link that leads nowhere; fix the link, or remove it")
    except (OSError, ValueError) as error:
        return fault(path, error)


def names_in(folder: str) -> Absent | Names | Fault:
    """List a directory."""
    try:
        return Names(sorted(listed(folder)))
    except FileNotFoundError:
        seen = look(folder)
        return seen if not isinstance(seen, Found) else fault(folder, OSError(errno.ESTALE, "it has just been made"))
    except (OSError, ValueError) as error:
        return fault(folder, error)


status_at = in_time(os.stat)


@in_time
def listed(folder: str) -> list[str]:
    return os.listdir(folder)


def absent_below(path: str) -> Absent | Fault:
    """Report an entry as absent, unless the error was really about a dangling link above it."""
    parent = os.path.dirname(path)
    if parent == path:
        return Absent()
    above = look(parent)
    return Absent() if isinstance(above, Found) else above


def fault(path: str, error: OSError | ValueError) -> Fault:
    if not isinstance(error, OSError):
        return Fault(f"{path} cannot be accessed: {error}; fix it, or remove it", is_passing(error))
    return Fault(trouble(type(error)(error.errno, why(error), path)), is_passing(error))


def is_passing(error: BaseException) -> bool:
    """Return whether an error may go away: a shortage can end (EMFILE), and a silent disk may respond again."""
    return isinstance(error, OSError) and error.errno not in LASTING


def stamp(path: str) -> Stamp:
    """Return a value that changes with what is at a path, or with the reason why it cannot be looked up.

    It reads no content.  For an entry that exists: mtime in ns, size, inode; mode and owner of it and of each directory
    above.
    """
    try:
        return stamp_of(path)
    except OSError:
        return LATE


@in_time
def stamp_of(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError as error:
        return (-(error.errno or 0), *of_link(path))
    except ValueError:  # a name with a null byte
        return (-errno.EINVAL,)
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid, *guards(path)


def of_link(path: str) -> Stamp:
    """Tell a dangling link from no entry at all."""
    try:
        status = status_at(path, follow_symlinks=False)
    except OSError:
        return ()  # then `stat` has reported it
    return status.st_mtime_ns, status.st_ino

"""The lookup of a path: the entry exists, is absent, or is unknown.  Reads no file and decides nothing.

    absent   the entry does not exist, and we have the permissions to see that
    found    the entry exists; for a directory, with the names in it
    fault    anything else: no permission, a dangling link or a loop of links, a file where a directory should be, no
             file descriptor left, a disk that does not respond

Only this module distinguishes the three.  A path that cannot be looked up may be a guard's, so nothing else in the
service turns an OSError into "does not exist" on the way to a gate.
"""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from hooklatch.disks import limit_look
from hooklatch.errors import describe_error, explain_error
from hooklatch.service.config.file_safety import stamp_parent_folders

__all__ = [
    "LATE", "PathAbsent", "PathFault", "PathFound", "DirectoryNames", "Stamp", "is_passing", "look_up_path",
    "list_directory", "stamp_path", "status_at",
]  # fmt: skip

# Faults of the path itself: `stamp_path` changes when they do.  Any other error may be temporary and is tried again.
LASTING = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
                     errno.EINVAL})  # fmt: skip
Stamp = tuple[int, ...]
LATE: Stamp = (-errno.ETIMEDOUT,)  # of a path whose disk does not answer in time


class PathAbsent(msgspec.Struct, frozen=True):
    """The entry does not exist."""


class PathFound(msgspec.Struct, frozen=True):
    """The entry exists; `is_folder` says whether it is a directory, after following links."""

    is_folder: bool


class DirectoryNames(msgspec.Struct, frozen=True):
    """The names in a directory, sorted."""

    names: list[str]


class PathFault(msgspec.Struct, frozen=True):
    """It is unknown what is there, for this reason; `is_passing` if a later lookup may succeed by itself."""

    reason: str
    is_passing: bool = False


def look_up_path(path: str) -> PathAbsent | PathFound | PathFault:
    """Look up an absolute path."""
    try:
        status = status_at(path, follow_symlinks=False)
    except FileNotFoundError:
        return report_absent(path)
    except (OSError, ValueError) as error:
        return make_path_fault(path, error)
    if not stat.S_ISLNK(status.st_mode):
        return PathFound(stat.S_ISDIR(status.st_mode))
    try:
        return PathFound(stat.S_ISDIR(status_at(path).st_mode))
    except FileNotFoundError:
        return PathFault(f"{path} is a link that leads nowhere; fix the link, or remove it")
    except (OSError, ValueError) as error:
        return make_path_fault(path, error)


def list_directory(folder: str) -> PathAbsent | DirectoryNames | PathFault:
    """List a directory."""
    try:
        return DirectoryNames(sorted(list_names(folder)))
    except FileNotFoundError:
        entry = look_up_path(folder)
        if isinstance(entry, PathFound):  # created since; a later lookup lists it
            return make_path_fault(folder, OSError(errno.ESTALE, "it has just been created"))
        return entry
    except (OSError, ValueError) as error:
        return make_path_fault(folder, error)


status_at = limit_look(os.stat)


@limit_look
def list_names(folder: str) -> list[str]:
    return os.listdir(folder)


def report_absent(path: str) -> PathAbsent | PathFault:
    """Return that an entry is absent, unless the error was really about a dangling link above it."""
    parent = os.path.dirname(path)
    if parent == path:
        return PathAbsent()
    parent_entry = look_up_path(parent)
    return PathAbsent() if isinstance(parent_entry, PathFound) else parent_entry


def make_path_fault(path: str, error: OSError | ValueError) -> PathFault:
    if not isinstance(error, OSError):
        return PathFault(f"{path} cannot be accessed: {error}; fix it, or remove it", is_passing(error))
    return PathFault(describe_error(type(error)(error.errno, explain_error(error), path)), is_passing(error))


def is_passing(error: BaseException) -> bool:
    """Return whether an error may end by itself: a shortage (EMFILE) can, and a silent disk may respond again."""
    return isinstance(error, OSError) and error.errno not in LASTING


def stamp_path(path: str) -> Stamp:
    """Return a value that changes with what is at a path, or with the reason why it cannot be looked up.

    It reads no content.  For an entry that exists: mtime in ns, size, inode; mode and owner of it and of each directory
    above.
    """
    try:
        return read_stamp(path)
    except OSError:
        return LATE


@limit_look
def read_stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError as error:
        return (-(error.errno or 0), *stamp_link(path))
    except ValueError:  # a name with a null byte
        return (-errno.EINVAL,)
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid, *stamp_parent_folders(path)


def stamp_link(path: str) -> Stamp:
    """Return a stamp of a dangling link; empty if there is no entry at all."""
    try:
        status = status_at(path, follow_symlinks=False)
    except OSError:
        return ()  # then `stat` has reported it
    return status.st_mtime_ns, status.st_ino

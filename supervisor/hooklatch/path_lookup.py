"""The lookup of a path: the entry exists, is absent, or is unknown.  Decides nothing.

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
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import attrgetter
from typing import TypeAlias

import msgspec

from hooklatch.disks import away_now, is_plain, limit_look, look_here, resolve_path
from hooklatch.errors import describe_error, explain_error
from hooklatch.file_safety import UnsafeFileError, stamp_parent_folders
from hooklatch_worker.sandbox import safety

__all__ = [
    "LATE", "TICK_NS", "DirectoryNames", "Listing", "PathAbsent", "PathFault", "PathFound", "Stamp", "is_at_rest",
    "is_passing", "list_directory", "look_up_path", "make_path_fault", "read_if_changed", "stamp_path", "stamp_paths",
    "stamp_status", "status_at",
]  # fmt: skip

# Faults of the path itself: `stamp_path` changes when they do.  Any other error may be temporary and is tried again.
LASTING = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
                     errno.EINVAL})  # fmt: skip
Stamp = tuple[int, ...]
TICK_NS = 10_000_000  # the kernel stamps files by a clock that is up to a tick (10 ms at 100 Hz) behind
COARSE_TICK_NS = 2_000_000_000  # of file systems that keep whole seconds (ext2, ext3), or two of them (FAT)
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


Listing: TypeAlias = DirectoryNames | PathAbsent | PathFault


def look_up_path(path: str) -> PathAbsent | PathFound | PathFault:
    """Look up an absolute path."""
    try:
        found = look_up_entry(path)
    except (OSError, ValueError) as error:
        return make_path_fault(path, error)
    assert not isinstance(found, DirectoryNames)
    return found


def list_directory(folder: str) -> Listing:
    """List a directory."""
    try:
        found = look_up_entry(folder, is_listed=True)
    except (OSError, ValueError) as error:
        return make_path_fault(folder, error)
    if isinstance(found, PathFound):  # created since; a later lookup lists it
        return make_path_fault(folder, OSError(errno.ESTALE, "it has just been created"))
    return found


status_at = limit_look(os.stat)


@limit_look
def look_up_entry(path: str, *, is_listed: bool = False) -> PathAbsent | PathFound | DirectoryNames | PathFault:
    """Look up a path, and list it on request.

    Without an entry, the first one above it counts: a dangling link there may lead to anything.
    """
    if is_listed:
        with suppress(FileNotFoundError):
            return DirectoryNames(sorted(os.listdir(path)))
    entry = path
    while True:
        try:
            mode = os.lstat(entry).st_mode
            mode = os.stat(entry).st_mode if stat.S_ISLNK(mode) else mode
        except FileNotFoundError:
            if os.path.islink(entry):
                return PathFault(f"{entry} is a link that leads nowhere; fix the link, or remove it")
            if entry == (entry := os.path.dirname(entry)):
                return PathAbsent()
        except (OSError, ValueError) as error:
            return make_path_fault(entry, error)
        else:
            return PathFound(stat.S_ISDIR(mode)) if entry == path else PathAbsent()


def make_path_fault(path: str, error: OSError | ValueError) -> PathFault:
    if not isinstance(error, OSError):
        return PathFault(f"{path} cannot be accessed: {error}; fix it, or remove it", is_passing(error))
    return PathFault(describe_error(type(error)(error.errno, explain_error(error), path)), is_passing(error))


def is_passing(error: BaseException) -> bool:
    """Return whether an error may end by itself: a shortage (EMFILE) can, and a silent disk may respond again."""
    return isinstance(error, OSError) and error.errno not in LASTING


def stamp_path(path: str) -> Stamp:
    """Return a value that changes with what is at a path, or with the reason why it cannot be looked up.

    It reads no content.  For an entry that exists: its own stamp, and mode and owner of each directory above, and of
    each link on the way and each directory above its target.
    """
    try:
        return read_stamp(path)
    except OSError:
        return LATE


def stamp_paths(paths: Iterable[str]) -> dict[str, Stamp]:
    """Return the stamp of each path.  What is above several of them is looked at once, if it is local without links."""
    above, stamps, away = dict[str, Stamp | None](), dict[str, Stamp](), away_now()
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in above:
            above[folder] = look_here(stamp_parent_folders, path) if folder and is_plain(folder, away) else None
        parents, status = above[folder], None
        if parents is not None and name not in ("", ".", "..") and path not in away:
            with suppress(OSError, ValueError):
                status = look_here(os.lstat, path)
        if parents is None or status is None or stat.S_ISLNK(status.st_mode):
            stamps[path] = stamp_path(path)
        else:
            stamps[path] = *stamp_status(status), *parents
    return stamps


@limit_look
def read_stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError as error:
        with suppress(OSError):  # of a dangling link
            status = os.lstat(path)
            return -(error.errno or 0), status.st_mtime_ns, status.st_ino
        return (-(error.errno or 0),)
    except ValueError:  # a name with a null byte
        return (-errno.EINVAL,)
    return *stamp_status(status), *stamp_parent_folders(path), *(() if is_plain(path) else stamp_steps(path))


@limit_look
def stamp_steps(path: str) -> Stamp:
    """Return mode and owner of each step on the way to a path, links followed."""
    found = [os.lstat(os.path.join(*step)) for step in resolve_path(path, {}).steps]
    return tuple(fact for status in found for fact in (status.st_mode, status.st_uid))


# The value changes with an entry: with what it is, its content, its mode and its owner.  The change time is a part of
# it, since a program without privileges cannot set it.
stamp_status: Callable[[os.stat_result], Stamp] = attrgetter(
    "st_mtime_ns", "st_ctime_ns", "st_size", "st_ino", "st_dev", "st_mode", "st_uid"
)


def is_at_rest(status: os.stat_result, now_ns: int) -> bool:
    """Return whether any change after `now_ns` shows in an entry's stamp, though clocks of file systems have ticks.

    A change behind a link does not show, and a change time in the future says nothing.
    """
    tick = TICK_NS if status.st_ctime_ns % 1_000_000 else COARSE_TICK_NS
    return status.st_ctime_ns + tick < now_ns and not stat.S_ISLNK(status.st_mode)


@limit_look
def read_if_changed(
    path: str, known: Stamp | None, now_ns: int
) -> tuple[Stamp | None, bytes | PathAbsent | PathFound | PathFault | None]:
    """Read a file whose stamp is not the `known` one.  Return its stamp, and what was read, or None for what is known.

    The stamp is one that every change after `now_ns` changes, also one of who may write the file.  It is None if there
    is no such stamp: the path does not exist, leads over a link or to another machine, or has just been changed.  A
    Python file is not read, but looked up.
    """
    stamp = None
    with suppress(OSError):
        # Before the bytes: a change in between must make the stamp look old.
        if is_plain(path) and is_at_rest(status := os.lstat(path), now_ns):
            stamp = (*stamp_status(status), *stamp_parent_folders(path))
    if stamp is not None and stamp == known:
        return stamp, None
    if path.endswith(".py"):
        return stamp, look_up_path(path)
    try:
        return stamp, safety.read_safely(path)
    except (UnsafeFileError, OSError) as error:
        found = look_up_path(path)  # which alone tells what is absent from what is unknown
        return stamp, PathFault(describe_error(error), is_passing(error)) if isinstance(found, PathFound) else found

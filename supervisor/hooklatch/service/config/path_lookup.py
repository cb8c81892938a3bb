"""What is at a path: nothing, something, or nobody can tell.  Knows paths and errors; reads no file, decides nothing.

    absent   the entry itself is not there, and whoever looked could have seen it
    found    it is there; of a folder, these are the names in it
    fault    anything else: no permission, a link that leads nowhere or in a circle, a file where a folder should be, no
             descriptor left, a disk that does not answer

This is the one place that tells them apart.  What cannot be looked at may hold a guard, so nothing else in the service
turns an OSError into "not there" on the way to a gate.
"""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from hooklatch.service.config.file_safety import guards

__all__ = ["Absent", "Fault", "Found", "Names", "Stamp", "is_passing", "look", "names_in", "stamp", "why"]

# What `stamp` shows when it changes.  Any other error says something of this moment: it is tried again.
LASTING = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG,
                     errno.EINVAL})  # fmt: skip
Stamp = tuple[int, ...]


class Absent(msgspec.Struct, frozen=True):
    """There is no such entry."""


class Found(msgspec.Struct, frozen=True):
    """There is something; `is_folder` says what, links followed."""

    is_folder: bool


class Names(msgspec.Struct, frozen=True):
    """What a folder holds, sorted."""

    names: list[str]


class Fault(msgspec.Struct, frozen=True):
    """Nobody can tell what is there, and why; `is_passing` where a later look may say otherwise by itself."""

    reason: str
    is_passing: bool = False


def look(path: str) -> Absent | Found | Fault:
    """Return whether there is something at an absolute path."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return absent_below(path)
    except (OSError, ValueError) as error:
        return fault(path, error)
    if not stat.S_ISLNK(status.st_mode):
        return Found(stat.S_ISDIR(status.st_mode))
    try:
        return Found(stat.S_ISDIR(os.stat(path).st_mode))
    except FileNotFoundError:
        return Fault(f"{path} is a link that leads nowhere; mend the link, or remove it")
    except (OSError, ValueError) as error:
        return fault(path, error)


def names_in(folder: str) -> Absent | Names | Fault:
    """List a folder."""
    try:
        return Names(sorted(os.listdir(folder)))
    except FileNotFoundError:
        seen = look(folder)
        return seen if not isinstance(seen, Found) else fault(folder, OSError(errno.ESTALE, "it has just been made"))
    except (OSError, ValueError) as error:
        return fault(folder, error)


def absent_below(path: str) -> Absent | Fault:
    """Say that an entry is absent, unless that was said of what a broken link above it should lead to."""
    parent = os.path.dirname(path)
    if parent == path:
        return Absent()
    above = look(parent)
    return Absent() if isinstance(above, Found) else above


def fault(path: str, error: OSError | ValueError) -> Fault:
    return Fault(f"{path} cannot be looked at: {why(error)}; mend that, or remove it", is_passing(error))


def why(error: BaseException) -> str:
    """Return an error's own words, without its number and its path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_passing(error: BaseException) -> bool:
    """Return whether an error may pass: what was short may be there again (EMFILE), what was silent may answer."""
    return isinstance(error, OSError) and error.errno not in LASTING


def stamp(path: str) -> Stamp:
    """Tell versions of what is at a path apart without reading it, and each reason why it cannot be looked at.

    Of what is there: mtime in ns, size, inode; mode and owner of it and of each folder above.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        return (-(error.errno or 0), *of_link(path))
    except ValueError:  # a name with a null byte
        return (-errno.EINVAL,)
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_uid, *guards(path)


def of_link(path: str) -> Stamp:
    """Tell a link that leads nowhere from nothing at all."""
    try:
        status = os.lstat(path)
    except OSError:
        return ()  # then `stat` has said the same
    return status.st_mtime_ns, status.st_ino

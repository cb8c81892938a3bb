"""What is in a project's .hooklatch directory, pinned by its hashes.  Knows files; does not know hooks or sessions.

Every file below it is pinned, whatever its name: a worker imports from there.  Links are refused, since the target of a
link could change while the link stays the same.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping

from hooklatch.core.text import is_unicode
from hooklatch.disks import in_time, in_time_below
from hooklatch.service.config.file_safety import UnsafeFileError, guards, read_safely

__all__ = ["Pins", "Stamps", "difference", "folder_of", "pin", "pin_below", "stamps", "stamps_below"]

FOLDER = ".hooklatch"
MAX_FILES = 1000  # below one project's directory
Pins = dict[str, str]  # sha256 by the path below .hooklatch
Stamps = dict[str, tuple[int, ...]]


def folder_of(project: str) -> str:
    """Return the directory that holds a project's hooks."""
    return os.path.join(project, FOLDER)


def pin(project: str) -> Pins:
    """Hash every file below a project's .hooklatch directory; return no pins if there is no such directory.

    Raises:
        UnsafeFileError: somebody else could have written one of them, or it is not a regular file.
        OSError: it cannot be read.
    """
    return pin_below(folder_of(project))


def pin_below(root: str) -> Pins:
    """Hash every file below a directory, as `pin` does."""
    pins = {os.path.relpath(path, root): hashlib.sha256(read_safely(path)).hexdigest() for path in files_below(root)}
    return dict(sorted(pins.items()))


def files_below(root: str) -> Iterator[str]:
    count = 0
    for entry in entries(root):
        if entry.is_symlink():
            raise UnsafeFileError(f"{entry.path} is a link; put there what it leads to")
        if entry.is_dir(follow_symlinks=False):
            continue
        count += 1
        if count > MAX_FILES:
            raise UnsafeFileError(f"{root} holds more than {MAX_FILES} files")
        if not is_unicode(entry.path):
            raise UnsafeFileError(f"{os.fsencode(entry.path)!r} is not UTF-8; rename it")
        yield entry.path


def entries(root: str) -> Iterator[os.DirEntry[str]]:
    try:
        status = lstat(root)
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(status.st_mode):
        raise UnsafeFileError(f"{root} is a link; put there what it leads to")
    pending = [root] if stat.S_ISDIR(status.st_mode) else []
    while pending:
        for entry in listed(pending.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)


lstat = in_time(os.lstat)


@in_time
def listed(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def stamps(project: str) -> Stamps | None:
    """Return a value that changes with any of these files, without reading them; None if that cannot be determined.

    It includes the change time, which a program without privileges cannot set, and who may write to the directories.
    """
    return stamps_below(folder_of(project))


def stamps_below(root: str) -> Stamps | None:
    """Return the stamps of everything below a directory, as `stamps` does."""
    try:
        return stamps_of_tree(root)
    except OSError:  # its disk is late
        return None


@in_time_below
def stamps_of_tree(root: str) -> Stamps | None:
    found: Stamps = {root: guards(os.path.join(root, FOLDER))}
    try:
        for entry in entries(root):
            status = entry.stat(follow_symlinks=False)
            found[entry.path] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)
            if len(found) > 2 * MAX_FILES:
                return None
    except (UnsafeFileError, OSError):
        return None
    return found


def difference(pinned: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return how files differ from those that were pinned; None if they do not."""
    kinds = (
        ("changed", [path for path in pinned if path in now and pinned[path] != now[path]]),
        ("missing", [path for path in pinned if path not in now]),
        ("added", [path for path in now if path not in pinned]),
    )
    told = [f"{kind} {shortened(paths)}" for kind, paths in kinds if paths]
    return "; ".join(told) or None


def shortened(paths: list[str]) -> str:
    shown = sorted(paths)[:3]
    return ", ".join(shown) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")

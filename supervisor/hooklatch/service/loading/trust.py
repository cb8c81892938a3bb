"""The pins of a project's .hooklatch directory: the hashes of its files.  Does not know hooks or sessions.

Every file below it is pinned, of any name, since a worker imports from there.  Links are refused: the target of a
link could change while the link stays the same.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping

from hooklatch.core.text import is_unicode
from hooklatch.disks import limit_look, limit_tree_look
from hooklatch.file_safety import UnsafeFileError, read_safely, stamp_parent_folders
from hooklatch.path_lookup import Stamp, stamp_status

__all__ = [
    "Pins", "Stamps", "compare_pinned_files", "project_hooks_folder", "pin_files", "pin_below", "stamp_project",
    "stamp_tree",
]  # fmt: skip

FOLDER = ".hooklatch"
MAX_FILES = 1000  # below one project's directory
Pins = dict[str, str]  # sha256 by the path below .hooklatch
Stamps = dict[str, Stamp]


def project_hooks_folder(project: str) -> str:
    """Return the directory that holds a project's hooks."""
    return os.path.join(project, FOLDER)


def pin_files(project: str) -> Pins:
    """Hash every file below a project's .hooklatch directory; return no pins if there is no such directory.

    Raises:
        UnsafeFileError: another user could have written one of them, or it is not a regular file.
        OSError: it cannot be read.
    """
    return pin_below(project_hooks_folder(project))


def pin_below(root: str) -> Pins:
    """Hash every file below a directory, as `pin_files` does."""
    pins = {
        os.path.relpath(path, root): hashlib.sha256(read_safely(path)).hexdigest() for path in list_files_below(root)
    }
    return dict(sorted(pins.items()))


def list_files_below(root: str) -> Iterator[str]:
    count = 0
    for entry in list_entries_below(root):
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


def list_entries_below(root: str) -> Iterator[os.DirEntry[str]]:
    try:
        status = lstat(root)
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(status.st_mode):
        raise UnsafeFileError(f"{root} is a link; put there what it leads to")
    pending = [root] if stat.S_ISDIR(status.st_mode) else []
    while pending:
        for entry in list_folder(pending.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)


lstat = limit_look(os.lstat)


@limit_look
def list_folder(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def stamp_project(project: str) -> Stamps | None:
    """Return a value that changes with any of these files, without reading them, or None if that is unknown.

    It includes the change time, which a program without privileges cannot set, and the modes of the directories.
    """
    return stamp_tree(project_hooks_folder(project))


def stamp_tree(root: str) -> Stamps | None:
    """Return the stamps of everything below a directory, as `stamp_project` does."""
    try:
        return stamp_tree_now(root)
    except OSError:  # its disk is late
        return None


@limit_tree_look
def stamp_tree_now(root: str) -> Stamps | None:
    found: Stamps = {root: stamp_parent_folders(os.path.join(root, FOLDER))}
    try:
        for entry in list_entries_below(root):
            found[entry.path] = stamp_status(entry.stat(follow_symlinks=False))
            if len(found) > 2 * MAX_FILES:
                return None
    except (UnsafeFileError, OSError):
        return None
    return found


def compare_pinned_files(pinned: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return a text of how files differ from those that were pinned, or None if they do not."""
    kinds = (
        ("changed", [path for path in pinned if path in now and pinned[path] != now[path]]),
        ("missing", [path for path in pinned if path not in now]),
        ("added", [path for path in now if path not in pinned]),
    )
    parts = [f"{kind} {clip_path_list(paths)}" for kind, paths in kinds if paths]
    return "; ".join(parts) or None


def clip_path_list(paths: list[str]) -> str:
    shown = sorted(paths)[:3]
    return ", ".join(shown) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")

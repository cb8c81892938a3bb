"""The lookup of paths on a disk in memory, as path_resolution(7) has it, and its open files.

Knows no function of `os` that it stands in for.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from simulation.inodes import Folder, Inode, SymbolicLink, Tree

__all__ = ["SEARCH", "WRITE", "Lookup", "OpenFile", "OutsideError", "Place", "UnknownCallError", "make_error"]

MAX_LINKS = 40
WRITE, SEARCH = 2, 1
OWN = "/proc/self/fd/"


class UnknownCallError(BaseException):
    """A call that leads to the disk, and that it does not simulate."""


class OutsideError(Exception):
    """A link leads out of the disk, to `path`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Place(NamedTuple):
    """Where a path leads: the last folder, the name in it, and what has it."""

    folder: Folder
    name: str
    inode: Inode | None


class OpenFile:
    """An open file; several descriptors may stand for it."""

    __slots__ = ("count", "flags", "inode", "is_readable", "is_writable", "path", "position")

    def __init__(self, inode: Inode, path: str, flags: int) -> None:
        self.inode, self.path, self.flags = inode, path, flags
        self.position, self.count = 0, 0
        is_open = not flags & os.O_PATH
        self.is_readable = is_open and flags & os.O_ACCMODE != os.O_WRONLY
        self.is_writable = is_open and flags & os.O_ACCMODE != os.O_RDONLY


def make_error(number: int, *paths: object) -> OSError:
    """Return the error of a call."""
    return OSError(number, os.strerror(number), *paths[:1], *[None for _ in paths[1:]], *paths[1:])


class Lookup:
    """The paths and open files of a disk that is mounted on some folders."""

    def __init__(self, root_folders: Sequence[str], now_ns: Callable[[], int], tree: Tree, uid: int) -> None:
        self._now, self._uid = now_ns, uid
        self._roots = [os.path.normpath(folder) for folder in root_folders]
        self._inside = tuple(f"{folder}/" for folder in self._roots)
        self.files: dict[int, OpenFile] = {}
        # What paths lead to, links at their ends followed or not, until any name or mode changes.
        self._found: dict[bool, dict[str, Inode | None]] = {True: {}, False: {}}
        self._above: dict[Folder, str] = {}  # the folders above those of the disk, with their paths
        self._exact: dict[str, None] = {}
        self.mount(tree)

    def mount(self, tree: Tree) -> None:
        """Have this tree, in which the folders are made if they are not there."""
        self.tree = tree
        self._forget()
        self._above.clear()
        for path in self._roots:
            self._mount(path)

    def _forget(self) -> None:
        for found in self._found.values():
            found.clear()

    def _mount(self, path: str) -> None:
        at, where = self.tree.root, ""
        for name in path.split("/")[1:]:
            self._above[at], self._exact[where or "/"] = where, None
            where = f"{where}/{name}"
            if name not in at.names:
                uid, mode = (self._uid, 0o700) if where == path else (0, 0o755)
                self.tree.change((at, name, Folder(self.tree.take_number(), mode, uid, self._now(), at)))
                self.tree.sync_names(at)
            below = at.names[name]
            assert isinstance(below, Folder), where
            at = below
        self._exact[where] = None

    @property
    def open_paths(self) -> list[str]:
        """The paths of all open descriptors, in the order in which they were opened."""
        return [file.path for file in self.files.values()]

    def leads_here(self, text: str, dir_fd: int | None = None) -> bool:
        """Return whether a path is one of the disk."""
        if text.startswith(self._inside) or text in self._exact:
            return True
        if text[:1] != "/":
            if dir_fd is not None:
                return dir_fd in self.files
            text = os.path.join(os.getcwd(), text)
            if text.startswith(self._inside) or text in self._exact:
                return True
        if text.startswith(OWN):
            number = text[len(OWN) :].partition("/")[0]
            return number.isdecimal() and int(number) in self.files
        if "//" in text or "/." in text or text[-1] == "/":
            text = "/" + os.path.normpath(text).lstrip("/")
            return text.startswith(self._inside) or text in self._exact
        return False

    def describe(self, path: str, dir_fd: int | None = None) -> str:
        """Return the text of a path for people and hooks."""
        return path if dir_fd is None else os.path.join(self.files[dir_fd].path, path)

    def _walk(self, path: str, dir_fd: int | None = None, *, is_followed: bool = True) -> Place:
        """Follow a path, as path_resolution(7) has it.

        Raises:
            OSError: there is no way.
            OutsideError: it leads out of the disk.
        """
        if "\0" in path:
            raise ValueError("embedded null byte")
        if not path or len(path) > 4095:
            raise make_error(errno.ENAMETOOLONG if path else errno.ENOENT, path)
        at, rest = self._begin(path, dir_fd)
        if rest is None:
            return Place(self.tree.root, "", at)
        must_be_folder = rest.endswith(("/", "/.", "/..")) or rest in (".", "..")
        names = [name for name in reversed(rest.split("/")) if name not in ("", ".")]
        links, last = 0, ""
        folder = at.above if isinstance(at, Folder) else self.tree.root
        while names:
            if not isinstance(at, Folder):
                raise make_error(errno.ENOTDIR, path)
            self._check(at, SEARCH, path)
            name = names.pop()
            if name == "..":
                at, folder, last = at.above, at.above.above, ".."
                continue
            if len(name) > 63 and len(os.fsencode(name)) > 255:
                raise make_error(errno.ENAMETOOLONG, path)
            found = at.names.get(name)
            if found is None:
                if (where := self._above.get(at)) is not None:
                    raise OutsideError("/".join([where, name, *reversed(names)]))
                if names:
                    raise make_error(errno.ENOENT, path)
                return Place(at, name, None)
            if isinstance(found, SymbolicLink) and (names or is_followed or must_be_folder):
                links += 1
                if links > MAX_LINKS:
                    raise make_error(errno.ELOOP, path)
                names += [name for name in reversed(found.target.split("/")) if name not in ("", ".")]
                if found.target[:1] == "/":
                    at = folder = self.tree.root
                    last = "."
                continue
            folder, last, at = at, name, found
        if must_be_folder and not isinstance(at, Folder):
            raise make_error(errno.ENOTDIR, path)
        return Place(folder, last, at)

    def _own(self, path: str) -> OpenFile | None:
        """Return the open file that a path of /proc stands for."""
        number = path.removeprefix(OWN)
        return self.files.get(int(number)) if number != path and number.isdecimal() else None

    def _begin(self, text: str, dir_fd: int | None) -> tuple[Inode, str | None]:
        """Return where a path begins, and the rest of it; no rest if it is an open file itself."""
        if text.startswith(OWN):
            number, slash, rest = text[len(OWN) :].partition("/")
            return self.files[int(number)].inode, rest or "." if slash else None
        if text[0] == "/":
            return self.tree.root, text
        if dir_fd is not None:
            return self.files[dir_fd].inode, text
        return self.tree.root, os.path.join(os.getcwd(), text)

    def _existing(self, path: str | int, dir_fd: int | None = None, *, is_followed: bool = True) -> Inode:
        """Return what a path, or a descriptor, stands for.

        Raises:
            OSError: there is nothing.
        """
        if isinstance(path, int):
            return self.files[path].inode
        found = self._found[is_followed]
        if path in found:
            inode = found[path]
        else:
            inode = self._walk(path, dir_fd, is_followed=is_followed).inode
            if path[0] == "/" and not path.startswith(OWN):
                found[path] = inode
        if inode is None:
            raise make_error(errno.ENOENT, path)
        return inode

    def _plain(self, path: str) -> Inode:
        """Return what an absolute path stands for, of which no step may be a link.

        Raises:
            OSError: a step is a link, or missing.
        """
        at: Inode | None = self.tree.root
        for name in path.split("/")[1:]:
            at = at.names.get(name) if isinstance(at, Folder) else None
        if at is None:
            raise make_error(errno.ELOOP, path)
        return at

    def _check(self, inode: Inode, bits: int, path: object = None) -> None:
        if self._uid:
            shift = 6 if inode.uid == self._uid else 0
            if ~(inode.mode >> shift) & bits:
                raise make_error(errno.EACCES, path)

    def _change(self, path: str, *change: tuple[Folder, str, Inode | None]) -> None:
        """Change names by a call for a path, with the times of their folders."""
        now = self._now()
        for folder, _, _ in change:
            if folder in self._above:
                raise UnknownCallError(f"a change of {folder.path}, which is above the disk, by {path!r}")
            self._check(folder, WRITE | SEARCH, path)
        for folder, name, inode in change:
            folder.mtime = folder.ctime = now
            if (replaced := folder.names.get(name)) is not None:
                replaced.ctime = now
            if inode is not None:
                inode.ctime = now
        self._forget()
        self.tree.change(*change)

    def _entry(self, path: str, dir_fd: int | None) -> Place:
        """Return the place of a name itself."""
        text = path.rstrip("/")
        if os.path.basename(text) in ("", ".", ".."):
            raise UnknownCallError(f"a change of {path!r}")
        return self._walk(text, dir_fd, is_followed=False)

    def _existing_entry(self, path: str, dir_fd: int | None) -> tuple[Place, Inode]:
        place = self._entry(path, dir_fd)
        if place.inode is None:
            raise make_error(errno.ENOENT, path)
        return place, place.inode

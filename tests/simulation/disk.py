"""A disk in memory, in place of the real one below some folders: what of `os`, `open` and `fcntl` leads there.

What leads elsewhere reaches the real system.  The folders above those of the disk are simulated too, up to `/`: they
belong to root, so a check of a path from `/` on sees the same on each machine, and the folders need not exist.

    fail(call, path)    returns an errno with which the call fails, and has had no effect; None for no failure
    before(call, path)  is called first, when nothing is decided yet: it may wait in a thread, and let others run

`call` is the name of the function in `os`, or `flock`, `fcntl`, `fallocate`.  `close` never fails.  One call at a time.
It has what a daemon and its workers do: no links, no changes of times, no refusals by modes.  What is not
simulated raises UnknownCallError, which no handler of errors takes for one of the system.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from simulation.calls import Calls, Entry, Listing, UnknownCallError
from simulation.inodes import PAGE, Folder, Inode, RegularFile, Tree
from simulation.kernel import make_error

__all__ = ["Disk"]

DEVICE = 0x801
OWN = "/proc/self/fd/"
KNOWN_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_PATH
    | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOATIME
)  # fmt: skip


class Place(NamedTuple):
    """Where a path leads: the last folder, the name in it, and what has it."""

    folder: Folder
    name: str
    inode: Inode | None


class OpenFile:
    """An open file."""

    __slots__ = ("flags", "inode", "is_readable", "is_writable", "path", "position")

    def __init__(self, inode: Inode, path: str, flags: int) -> None:
        self.inode, self.path, self.flags, self.position = inode, path, flags, 0
        is_open = not flags & os.O_PATH
        self.is_readable = is_open and flags & os.O_ACCMODE != os.O_WRONLY
        self.is_writable = is_open and flags & os.O_ACCMODE != os.O_RDONLY


class Disk:
    """A disk that is mounted on some folders."""

    def __init__(
        self,
        root_folders: Sequence[str],
        now_ns: Callable[[], int],
        random: Random,
        *,
        tree: Tree | None = None,
        size: int = 2**36,
        uid: int | None = None,
    ) -> None:
        """Make an empty disk of so many bytes, or one with what `image` has left of another one.

        All folders and files belong to `uid`, the effective user if it is not given.
        """
        self._now, self._uid = now_ns, os.geteuid() if uid is None else uid
        self._roots = [os.path.normpath(folder) for folder in root_folders]
        self._inside = tuple(f"{folder}/" for folder in self._roots)
        self.files: dict[int, OpenFile] = {}
        self._found: dict[str, Inode] = {}  # what paths lead to, until any name changes
        self._above: dict[Folder, str] = {}  # the folders above those of the disk, with their paths
        self._exact: dict[str, None] = {}
        self.become(tree or Tree())
        self.size = size
        self.fail: Callable[[str, str], int | None] = lambda call, path: None
        self.before: Callable[[str, str], None] = lambda call, path: None
        self.shorten: Callable[[int], int] = lambda size: size  # how much of so many bytes a write takes
        self._random, self._salt = random, b"%08x" % random.getrandbits(32)
        self._umask = 0o022
        # None that the kernel would give, and none twice: what a killed daemon left may still close its own.
        self._numbers = itertools.count(2**24)

    @contextmanager
    def install(self) -> Generator[None]:
        """Put the disk in place of the functions of the system for as long as the block runs."""
        calls = Calls(self)
        calls.install()
        try:
            yield
        finally:
            calls.uninstall()

    def image(self, *, is_power_lost: bool) -> Tree:
        """Return what a new disk finds after a kill of all that use this one, or after a loss of power."""
        return self.tree.image(self._random if is_power_lost else None)

    def become(self, tree: Tree) -> None:
        """Be the disk that a new system finds: with what `image` has left, nothing open, and no lock held."""
        self.tree = tree
        self._locks: dict[Inode, OpenFile] = {}
        for kept in (self.files, self._found, self._above):
            kept.clear()
        for path in self._roots:
            self._mount(path)

    def _mount(self, path: str) -> None:
        at, where = self.tree.root, ""
        for name in path.split("/")[1:]:
            self._above[at], self._exact[where or "/"] = where, None
            where = f"{where}/{name}"
            if name not in at.names:
                uid, mode = (self._uid, 0o700) if where == path else (0, 0o755)
                self.tree.change((at, name, Folder(self.tree.take_number(), mode, uid, self._now())))
                self.tree.sync_names(at)
            below = at.names[name]
            assert isinstance(below, Folder), where
            at = below
        self._exact[where] = None

    def begin(self, call: str, path: str, fd: int | None = None, names: tuple[str, ...] = ()) -> None:
        """Begin a call.

        Raises:
            OSError: it fails before it does anything.
        """
        self.before(call, path)
        if (number := self.fail(call, path)) is None:
            return
        if call in ("fsync", "fdatasync") and fd is not None:
            inode = self.files[fd].inode
            if isinstance(inode, RegularFile):
                inode.fail_sync()
        raise make_error(number, *names)

    # -- paths ---------------------------------------------------------------------------------------------------

    @property
    def open_paths(self) -> list[str]:
        """The paths of all open descriptors, in the order in which they were opened."""
        return [file.path for file in self.files.values()]

    def leads_here(self, text: str, dir_fd: int | None = None) -> bool:
        """Return whether a path is one of the disk."""
        if text.startswith(self._inside) or text in self._exact:
            return True
        if text[:1] != "/":
            return dir_fd in self.files
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

    def _walk(self, path: str, dir_fd: int | None = None) -> Place:
        """Follow a path.

        Raises:
            OSError: there is no way.
        """
        at: Inode | None = self.tree.root
        rest = path
        if path.startswith(OWN):
            number, _, rest = path[len(OWN) :].partition("/")
            at = self.files[int(number)].inode
        elif path[:1] != "/" and dir_fd is not None:
            at = self.files[dir_fd].inode
        folder, last = self.tree.root, ""
        names = [name for name in rest.split("/") if name not in ("", ".")]
        for left, name in zip(range(len(names) - 1, -1, -1), names, strict=True):
            if name == ".." or not isinstance(at, Folder):
                raise UnknownCallError(f"a step up in {path!r}") if name == ".." else make_error(errno.ENOTDIR, path)
            folder, last, at = at, name, at.names.get(name)
            if at is None and folder in self._above:
                raise UnknownCallError(f"{path!r}, which leads out of the disk")
            if at is None and left:
                raise make_error(errno.ENOENT, path)
        return Place(folder, last, at)

    def _existing(self, path: str, dir_fd: int | None = None) -> Inode:
        """Return what a path stands for.

        Raises:
            OSError: there is nothing.
        """
        found = self._found.get(path)
        if found is None:
            found = self._walk(path, dir_fd).inode
            if found is None:
                raise make_error(errno.ENOENT, path)
            if path[0] == "/" and not path.startswith(OWN):
                self._found[path] = found
        return found

    def _change(self, path: str, *change: tuple[Folder, str, Inode | None]) -> None:
        """Change names by a call for a path, with the times of their folders."""
        now = self._now()
        for folder, name, inode in change:
            if folder in self._above:
                raise UnknownCallError(f"a change above the disk, by {path!r}")
            folder.mtime = folder.ctime = now
            for one in (folder.names.get(name), inode):
                if one is not None:
                    one.ctime = now
        self._found.clear()
        self.tree.change(*change)

    def _existing_place(self, path: str, dir_fd: int | None) -> tuple[Place, Inode]:
        place = self._walk(path, dir_fd)
        if place.inode is None:
            raise make_error(errno.ENOENT, path)
        return place, place.inode

    # -- files ---------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & ~KNOWN_FLAGS or (flags & os.O_CREAT and flags & os.O_DIRECTORY):  # the kernels differ
            raise UnknownCallError(f"open of {path!r} with flags {flags:#o}")
        if not flags & os.O_CREAT:
            inode = self._existing(path, dir_fd)
            self._check_open(inode, flags, path)
        else:
            place = self._walk(path, dir_fd)
            if place.inode is None:
                inode = RegularFile(self.tree.take_number(), mode & ~self._umask & 0o7777, self._uid, self._now())
                self._change(path, (place.folder, place.name, inode))
            else:
                inode = place.inode
                self._check_open(inode, flags, path)
        if flags & os.O_TRUNC and isinstance(inode, RegularFile) and not flags & os.O_PATH:  # also for O_RDONLY
            self._cut(inode, 0)
        return self._number(OpenFile(inode, self.describe(path, dir_fd), flags))

    def open_plain(self, path: str) -> int:
        """Open a path for nothing if no step of it is a link, as openat2(2) does: there are none."""
        return self._number(OpenFile(self._existing(path), path, os.O_PATH))

    def _check_open(self, inode: Inode, flags: int, path: str) -> None:
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise make_error(errno.EEXIST, path)
        is_folder = isinstance(inode, Folder)
        if flags & os.O_DIRECTORY and not is_folder:
            raise make_error(errno.ENOTDIR, path)
        if flags & os.O_PATH:
            return
        if is_folder and (flags & os.O_ACCMODE != os.O_RDONLY or flags & (os.O_CREAT | os.O_TRUNC)):
            raise make_error(errno.EISDIR, path)
        if stat.S_ISSOCK(inode.mode):
            raise make_error(errno.ENXIO, path)

    def _number(self, file: OpenFile) -> int:
        number = next(self._numbers)
        self.files[number] = file
        file.inode.opens += 1
        return number

    def close(self, fd: int) -> None:
        file = self.files.pop(fd)
        if self._locks.get(file.inode) is file:
            del self._locks[file.inode]
        file.inode.opens -= 1
        self.tree.release(file.inode)

    def _data(self, fd: int, *, is_written: bool = False) -> RegularFile:
        """Return the file behind a descriptor that is open for this."""
        file = self.files[fd]
        if not (file.is_writable if is_written else file.is_readable):
            raise make_error(errno.EBADF)
        if not isinstance(file.inode, RegularFile):
            raise make_error(errno.EISDIR)
        return file.inode

    def read(self, fd: int, length: int) -> bytes:
        file, inode = self.files[fd], self._data(fd)
        data = bytes(inode.data[file.position : file.position + length])
        file.position += len(data)
        return data

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._data(fd).data[offset : offset + length])

    def write(self, fd: int, data: Any) -> int:
        file, inode = self.files[fd], self._data(fd, is_written=True)
        at = len(inode.data) if file.flags & os.O_APPEND else file.position
        written = self._put(inode, at, data)
        file.position = at + written
        return written

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        inode = self._data(fd, is_written=True)
        return self._put(inode, len(inode.data) if self.files[fd].flags & os.O_APPEND else offset, data)

    def _put(self, inode: RegularFile, at: int, data: Any) -> int:
        if type(data) is not bytes:
            data = memoryview(data).cast("B")
        if not data:
            return 0
        data = data[: self.shorten(len(data))]
        if (end := at + len(data)) > inode.allocated and (room := self._allocate(inode, end)) < end:
            if room <= at:
                raise make_error(errno.ENOSPC)
            data = data[: room - at]
        inode.put(at, data)
        inode.mtime = inode.ctime = self._now()
        return len(data)

    def _allocate(self, inode: RegularFile, end: int) -> int:
        """Take blocks for a file up to an offset; return how far there are some."""
        wanted = -(-end // PAGE) * PAGE - inode.allocated
        if wanted > 0:
            wanted = min(wanted, max(0, self.size - self.tree.used) // PAGE * PAGE)
            inode.allocated += wanted
            self.tree.used += wanted
        return inode.allocated

    def _cut(self, inode: RegularFile, length: int) -> None:
        inode.cut(length)
        kept = min(inode.allocated, -(-length // PAGE) * PAGE)
        self.tree.used -= inode.allocated - kept
        inode.allocated = kept
        inode.mtime = inode.ctime = self._now()

    def ftruncate(self, fd: int, length: int) -> None:
        if not self.files[fd].is_writable:
            raise make_error(errno.EINVAL)
        self._cut(self._data(fd, is_written=True), length)

    def lseek(self, fd: int, position: int, whence: int) -> int:
        file = self.files[fd]
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise UnknownCallError(f"lseek of {file.path} from {whence}")
        size = len(file.inode.data) if isinstance(file.inode, RegularFile) else 0
        at = (0, file.position, size)[whence] + position
        if at < 0:
            raise make_error(errno.EINVAL)
        file.position = at
        return at

    def allocate(self, fd: int, offset: int, length: int) -> None:
        """Take blocks for a file, all or none, without changing its size."""
        inode = self._data(fd, is_written=True)
        before = inode.allocated
        if self._allocate(inode, offset + length) < offset + length:
            self.tree.used -= inode.allocated - before
            inode.allocated = before
            raise make_error(errno.ENOSPC)

    def fsync(self, fd: int) -> None:
        inode = self.files[fd].inode
        if isinstance(inode, RegularFile):
            inode.sync()
        elif isinstance(inode, Folder):
            self.tree.sync_names(inode)

    fdatasync = fsync

    def flock(self, fd: int, operation: int) -> None:
        if operation != fcntl.LOCK_EX | fcntl.LOCK_NB:
            raise UnknownCallError(f"flock of {self.files[fd].path} in mode {operation}")
        if self._locks.setdefault(self.files[fd].inode, self.files[fd]) is not self.files[fd]:
            raise make_error(errno.EAGAIN)

    def fcntl(self, fd: int, command: int, argument: int = 0) -> int:
        file = self.files[fd]
        match command:
            case fcntl.F_GETFD | fcntl.F_SETFD | fcntl.F_SETSIG:
                return fcntl.FD_CLOEXEC if command == fcntl.F_GETFD else 0
            case fcntl.F_SETLEASE if argument == fcntl.F_RDLCK:
                if any(one.is_writable and one.inode is file.inode for one in self.files.values()):
                    raise make_error(errno.EAGAIN)
                return 0  # a writer breaks it at once
            case _:
                raise UnknownCallError(f"fcntl({command}) of {file.path}")

    # -- names ---------------------------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._make(path, dir_fd, Folder, mode & ~self._umask & 0o1777)

    def mknod(self, path: str, mode: int = 0o600, device: int = 0, *, dir_fd: int | None = None) -> None:
        """Make a socket, which bind(2) would make."""
        if not stat.S_ISSOCK(mode):
            raise UnknownCallError(f"mknod of {path!r} with mode {mode:#o}")
        self._make(path, dir_fd, Inode, mode & ~self._umask)

    def _make(self, path: str, dir_fd: int | None, kind: type[Inode], mode: int) -> None:
        """Make a new file of some kind with a name of its own."""
        place = self._walk(path, dir_fd)
        if place.inode is not None:
            raise make_error(errno.EEXIST, path)
        self._change(path, (place.folder, place.name, kind(self.tree.take_number(), mode, self._uid, self._now())))

    def rename(self, src: str, dst: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        old, new = self._walk(src, src_dir_fd), self._walk(dst, dst_dir_fd)
        if (moved := old.inode) is None:
            raise make_error(errno.ENOENT)
        if isinstance(moved, Folder) or isinstance(new.inode, Folder):
            raise UnknownCallError(f"rename of a folder, or over one: {src} to {dst}")
        if moved is not new.inode:
            self._change(dst, (old.folder, old.name, None), (new.folder, new.name, moved))

    replace = rename

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        place, inode = self._existing_place(path, dir_fd)
        if isinstance(inode, Folder):
            raise make_error(errno.EISDIR, path)
        self._change(path, (place.folder, place.name, None))

    remove = unlink

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        place, inode = self._existing_place(path, dir_fd)
        if not isinstance(inode, Folder):
            raise make_error(errno.ENOTDIR, path)
        if inode.names:
            raise make_error(errno.ENOTEMPTY, path)
        self._change(path, (place.folder, place.name, None))

    def _list(self, path: str) -> list[tuple[str, Inode]]:
        """Return what a folder has, in an order that no caller should rely on."""
        inode = self._existing(path)
        if not isinstance(inode, Folder):
            raise make_error(errno.ENOTDIR, path)
        return sorted(inode.names.items(), key=lambda entry: (zlib.crc32(entry[0].encode() + self._salt), entry[0]))

    def listdir(self, path: str) -> list[str]:
        return [name for name, _ in self._list(path)]

    def scandir(self, path: str) -> Listing:
        return Listing([Entry(name, os.path.join(path, name), inode.mode) for name, inode in self._list(path)])

    # -- status --------------------------------------------------------------------------------------------------

    def stat(self, path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        return self._status(self._existing(path, dir_fd))

    lstat = stat

    def fstat(self, fd: int) -> os.stat_result:
        return self._status(self.files[fd].inode)

    def fchmod(self, fd: int, mode: int) -> None:
        inode = self.files[fd].inode
        inode.mode, inode.ctime = stat.S_IFMT(inode.mode) | mode & 0o7777, self._now()

    def _status(self, inode: Inode) -> os.stat_result:
        links, size, allocated = inode.links, 0, 0
        if isinstance(inode, RegularFile):
            size, allocated = len(inode.data), inode.allocated
        elif isinstance(inode, Folder):
            links, size = 2 + sum(isinstance(below, Folder) for below in inode.names.values()), PAGE
        read, written, changed = inode.atime, inode.mtime, inode.ctime
        return os.stat_result((
            inode.mode, inode.number, DEVICE, links, inode.uid, inode.uid, size,
            read // 10**9, written // 10**9, changed // 10**9, read / 1e9, written / 1e9, changed / 1e9,
            read, written, changed, PAGE, allocated // 512, 0,
        ))  # fmt: skip

    def statvfs(self, path: str) -> os.statvfs_result:
        self._existing(path)
        return self._measure()

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        return self._measure()

    def _measure(self) -> os.statvfs_result:
        free = max(0, self.size - self.tree.used) // PAGE
        return os.statvfs_result((PAGE, PAGE, self.size // PAGE, free, free, 2**20, 2**20, 2**20, 0, 255))

    def umask(self, mask: int) -> int:
        before, self._umask = self._umask, mask & 0o777
        return before

"""A disk in memory, in place of the real one below a folder: what of `os`, `open` and `fcntl` leads there.

What leads elsewhere reaches the real system.  The folders above that of the disk are simulated too, up to `/`: they
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
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, NamedTuple

from simulation.calls import Calls, Entry, Listing
from simulation.inodes import PAGE, Folder, Inode, RegularFile, Tree
from simulation.kernel import DISK_FDS, File, Kernel, UnknownCallError, make_error

__all__ = ["Disk"]

DEVICE = 0x801
OWN = "/proc/self/fd/"
UMASK = 0o022
KNOWN_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_PATH
    | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOATIME
)  # fmt: skip


class OpenFile(File):
    """An open file: what a call does with its descriptor."""

    def __init__(self, disk: Disk, inode: Inode, path: str, flags: int) -> None:
        super().__init__(disk.kernel)
        self.disk, self.inode, self.path, self._flags, self._position = disk, inode, path, flags, 0
        is_open = not flags & os.O_PATH
        self._can_read = is_open and flags & os.O_ACCMODE != os.O_WRONLY
        self.can_write = is_open and flags & os.O_ACCMODE != os.O_RDONLY
        inode.opens += 1

    def on_close(self) -> None:
        if self.disk.locks.get(self.inode) is self:
            del self.disk.locks[self.inode]
        self.inode.opens -= 1
        self.disk.tree.release(self.inode)

    def _regular(self, *, is_written: bool = False) -> RegularFile:
        """Return the file, if it is open for this."""
        if not (self.can_write if is_written else self._can_read):
            raise make_error(errno.EBADF)
        if not isinstance(self.inode, RegularFile):
            raise make_error(errno.EISDIR)
        return self.inode

    def read(self, length: int) -> bytes:
        data = self.pread(length, self._position)
        self._position += len(data)
        return data

    def pread(self, length: int, offset: int) -> bytes:
        return bytes(self._regular().data[offset : offset + length])

    def write(self, data: Any) -> int:
        inode = self._regular(is_written=True)
        at = len(inode.data) if self._flags & os.O_APPEND else self._position
        written = self.disk.put(inode, at, data)
        self._position = at + written
        return written

    def pwrite(self, data: Any, offset: int) -> int:
        inode = self._regular(is_written=True)
        return self.disk.put(inode, len(inode.data) if self._flags & os.O_APPEND else offset, data)

    def ftruncate(self, length: int) -> None:
        if not self.can_write:
            raise make_error(errno.EINVAL)
        self.disk.cut(self._regular(is_written=True), length)

    def lseek(self, position: int, whence: int) -> int:
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise UnknownCallError(f"lseek of {self.path} from {whence}")
        size = len(self.inode.data) if isinstance(self.inode, RegularFile) else 0
        at = (0, self._position, size)[whence] + position
        if at < 0:
            raise make_error(errno.EINVAL)
        self._position = at
        return at

    def allocate(self, offset: int, length: int) -> int:
        """Take blocks, all or none, without changing the size."""
        inode = self._regular(is_written=True)
        before = inode.allocated
        if self.disk.allocate(inode, offset + length) < offset + length:
            self.disk.tree.used -= inode.allocated - before
            inode.allocated = before
            raise make_error(errno.ENOSPC)
        return 0

    def fsync(self) -> None:
        if isinstance(self.inode, RegularFile):
            self.inode.sync()
        elif isinstance(self.inode, Folder):
            self.disk.tree.sync_names(self.inode)

    fdatasync = fsync

    def flock(self, operation: int) -> None:
        if operation != fcntl.LOCK_EX | fcntl.LOCK_NB:
            raise UnknownCallError(f"flock of {self.path} in mode {operation}")
        if self.disk.locks.setdefault(self.inode, self) is not self:
            raise make_error(errno.EAGAIN)

    def fcntl(self, command: int, argument: int = 0) -> int:
        match command:
            case fcntl.F_SETLEASE if argument == fcntl.F_RDLCK:  # a writer breaks it at once
                if any(one.can_write and one.inode is self.inode for one in self.disk.files.values()):
                    raise make_error(errno.EAGAIN)
            case fcntl.F_GETFL:
                return self._flags
            case fcntl.F_SETFL:
                self._flags = argument
            case fcntl.F_SETSIG | fcntl.F_ADD_SEALS:
                pass
            case _:
                raise UnknownCallError(f"fcntl({command}) of {self.path}")
        return 0

    def fstat(self) -> os.stat_result:
        return describe(self.inode)

    def fchmod(self, mode: int) -> None:
        self.inode.mode, self.inode.ctime = stat.S_IFMT(self.inode.mode) | mode & 0o7777, self.disk.now()


class Place(NamedTuple):
    """Where a path leads: the last folder, the name in it, and what has it."""

    folder: Folder
    name: str
    inode: Inode | None


class Disk:
    """A disk that is mounted on a folder."""

    def __init__(self, kernel: Kernel, seed: object, folder: str, *, size: int = 2**36, uid: int | None = None) -> None:
        """Make an empty disk of so many bytes, on which all belongs to a user: the effective one if none is given."""
        self.kernel, self.size, self._uid = kernel, size, os.geteuid() if uid is None else uid
        self._folder, self._inside = folder, f"{folder}/"
        self.files: dict[int, OpenFile] = {}
        self.locks: dict[Inode, OpenFile] = {}
        self._found: dict[str, Inode] = {}  # what paths lead to, until any name changes
        self._above: dict[str, Folder] = {}  # the folders above that of the disk
        self.become(Tree())
        self.fail: Callable[[str, str], int | None] = lambda call, path: None
        self.before: Callable[[str, str], None] = lambda call, path: None
        self.shorten: Callable[[int], int] = lambda size: size  # how much of so many bytes a write takes
        self._random = Random(f"{seed} disk")
        self._salt = b"%08x" % self._random.getrandbits(32)
        # None that the kernel would give, and none twice: what a killed daemon left may still close its own.
        self._numbers = itertools.count(DISK_FDS)

    @contextmanager
    def install(self) -> Generator[None]:
        """Put the disk in place of the functions of the system for as long as the block runs."""
        with ExitStack() as stack:
            Calls(self.kernel, self).install(stack)
            yield

    def image(self, *, is_power_lost: bool) -> Tree:
        """Return what a new disk finds after a kill of all that use this one, or after a loss of power."""
        return self.tree.image(self._random if is_power_lost else None)

    def become(self, tree: Tree) -> None:
        """Be the disk that a new system finds: with what `image` has left, nothing open, and no lock held."""
        self.tree = tree
        for kept in (self.files, self.locks, self._found, self._above):
            kept.clear()
        at, path = tree.root, ""
        for name in self._folder.split("/")[1:]:
            self._above[path or "/"] = at
            path = f"{path}/{name}"
            if name not in at.names:
                uid, mode = (self._uid, 0o700) if path == self._folder else (0, 0o755)
                tree.change((at, name, Folder(tree.take_number(), mode, uid, self.now())))
                tree.sync_names(at)
            at = at.names[name]  # type: ignore[assignment]

    def now(self) -> int:
        return int(self.kernel.wall * 1e9)

    def begin(self, call: str, path: str, *names: str, file: OpenFile | None = None) -> None:
        """Begin a call.

        Raises:
            OSError: it fails before it does anything.
        """
        self.before(call, path)
        if (number := self.fail(call, path)) is None:
            return
        if call in ("fsync", "fdatasync") and file is not None and isinstance(file.inode, RegularFile):
            file.inode.fail_sync()
        raise make_error(number, *names)

    # -- paths ---------------------------------------------------------------------------------------------------

    @property
    def open_paths(self) -> list[str]:
        """The paths of all open descriptors, in the order in which they were opened."""
        return [file.path for file in self.files.values()]

    def leads_here(self, text: str, dir_fd: int | None = None) -> bool:
        """Return whether a path is one of the disk."""
        if text.startswith(self._inside) or text == self._folder or text in self._above:
            return True
        if text[:1] != "/":
            return dir_fd in self.files
        return text.startswith(OWN) and int(text[len(OWN) :].partition("/")[0]) in self.files

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
        now = self.now()
        for folder, name, inode in change:
            if folder in self._above.values():
                raise UnknownCallError(f"a change above the disk, by {path!r}")
            folder.mtime = folder.ctime = now
            for one in (folder.names.get(name), inode):
                if one is not None:
                    one.ctime = now
        self._found.clear()
        self.tree.change(*change)

    # -- files ---------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & ~KNOWN_FLAGS or (flags & os.O_CREAT and flags & os.O_DIRECTORY):  # the kernels differ
            raise UnknownCallError(f"open of {path!r} with flags {flags:#o}")
        place = self._walk(path, dir_fd) if flags & os.O_CREAT else None
        if place is not None and place.inode is None:
            inode: Inode = RegularFile(self.tree.take_number(), mode & ~UMASK & 0o7777, self._uid, self.now())
            self._change(path, (place.folder, place.name, inode))
        else:
            inode = self._existing(path, dir_fd)
            check_open(inode, flags, path)
        if flags & os.O_TRUNC and isinstance(inode, RegularFile) and not flags & os.O_PATH:  # also for O_RDONLY
            self.cut(inode, 0)
        file = self.files[number := next(self._numbers)] = OpenFile(self, inode, self.describe(path, dir_fd), flags)
        file.references = 1
        return number

    def open_nameless(self) -> OpenFile:
        """Return a new file without a name, as memfd_create(2) makes it."""
        return OpenFile(self, RegularFile(self.tree.take_number(), 0o600, self._uid, self.now()), "", os.O_RDWR)

    def close(self, fd: int) -> None:
        self.before("close", self.files[fd].path)
        self.files.pop(fd).drop()

    def put(self, inode: RegularFile, at: int, data: Any) -> int:
        """Write as much as there is room for. Return how much."""
        data = memoryview(data).cast("B")
        if not data:
            return 0
        data = data[: self.shorten(len(data))]
        if (end := at + len(data)) > inode.allocated and (room := self.allocate(inode, end)) < end:
            if room <= at:
                raise make_error(errno.ENOSPC)
            data = data[: room - at]
        inode.put(at, data)
        inode.mtime = inode.ctime = self.now()
        return len(data)

    def allocate(self, inode: RegularFile, end: int) -> int:
        """Take blocks for a file up to an offset; return how far there are some."""
        wanted = -(-end // PAGE) * PAGE - inode.allocated
        if wanted > 0:
            wanted = min(wanted, max(0, self.size - self.tree.used) // PAGE * PAGE)
            inode.allocated += wanted
            self.tree.used += wanted
        return inode.allocated

    def cut(self, inode: RegularFile, length: int) -> None:
        inode.cut(length)
        kept = min(inode.allocated, -(-length // PAGE) * PAGE)
        self.tree.used -= inode.allocated - kept
        inode.allocated = kept
        inode.mtime = inode.ctime = self.now()

    # -- names ---------------------------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._make(path, Folder, mode & ~UMASK & 0o1777)

    def mknod(self, path: str, mode: int = 0o600) -> None:
        """Make a socket, which bind(2) would make."""
        if not stat.S_ISSOCK(mode):
            raise UnknownCallError(f"mknod of {path!r} with mode {mode:#o}")
        self._make(path, Inode, mode & ~UMASK)

    def _make(self, path: str, kind: type[Inode], mode: int) -> None:
        """Make a new file of some kind with a name of its own."""
        place = self._walk(path)
        if place.inode is not None:
            raise make_error(errno.EEXIST, path)
        self._change(path, (place.folder, place.name, kind(self.tree.take_number(), mode, self._uid, self.now())))

    def rename(self, src: str, dst: str) -> None:
        old, new = self._walk(src), self._walk(dst)
        if (moved := old.inode) is None:
            raise make_error(errno.ENOENT)
        if isinstance(moved, Folder) or isinstance(new.inode, Folder):
            raise UnknownCallError(f"rename of a folder, or over one: {src} to {dst}")
        if moved is not new.inode:
            self._change(dst, (old.folder, old.name, None), (new.folder, new.name, moved))

    def unlink(self, path: str) -> None:
        if isinstance(self._existing(path), Folder):
            raise make_error(errno.EISDIR, path)
        self._remove(path)

    remove = unlink

    def rmdir(self, path: str) -> None:
        if self._names(path):
            raise make_error(errno.ENOTEMPTY, path)
        self._remove(path)

    def _remove(self, path: str) -> None:
        place = self._walk(path)
        self._change(path, (place.folder, place.name, None))

    def _names(self, path: str) -> dict[str, Inode]:
        inode = self._existing(path)
        if not isinstance(inode, Folder):
            raise make_error(errno.ENOTDIR, path)
        return inode.names

    def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, in an order that no caller should rely on."""
        return sorted(self._names(path), key=lambda name: (zlib.crc32(name.encode() + self._salt), name))

    def scandir(self, path: str) -> Listing:
        names = self._names(path)
        return Listing([Entry(name, os.path.join(path, name), names[name].mode) for name in self.listdir(path)])

    # -- status --------------------------------------------------------------------------------------------------

    def stat(self, path: str, *, follow_symlinks: bool = True) -> os.stat_result:
        return describe(self._existing(path))

    lstat = stat

    def statvfs(self, path: str) -> os.statvfs_result:
        self._existing(path)
        free = max(0, self.size - self.tree.used) // PAGE
        return os.statvfs_result((PAGE, PAGE, self.size // PAGE, free, free, 2**20, 2**20, 2**20, 0, 255))


def check_open(inode: Inode, flags: int, path: str) -> None:
    """Check that what is there can be opened so.

    Raises:
        OSError: it cannot.
    """
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


def describe(inode: Inode) -> os.stat_result:
    """Return the status of a file."""
    links, size, allocated = inode.links, 0, 0
    if isinstance(inode, RegularFile):
        size, allocated = len(inode.data), inode.allocated
    elif isinstance(inode, Folder):
        links, size = 2 + sum(isinstance(below, Folder) for below in inode.names.values()), PAGE
    times = inode.mtime, inode.mtime, inode.ctime
    return os.stat_result((
        inode.mode, inode.number, DEVICE, links, inode.uid, inode.uid, size,
        *(time // 10**9 for time in times), *(time / 1e9 for time in times), *times, PAGE, allocated // 512, 0,
    ))  # fmt: skip

"""A disk in memory, in place of the real one below some folders: all of `os`, `open`, `fcntl` that leads there.

What leads elsewhere reaches the real system.  The folders above those of the disk are simulated too, up to `/`: they
belong to root, nobody else can write to them, and names in them that do not lead to the disk lead to the real one.  So
a check of a path from `/` on sees the same on each machine, and the folders need not exist.

    fail(call, path)    returns an errno with which the call fails, and has had no effect; None for no failure
    before(call, path)  is called first, when nothing is decided yet: it may wait in a thread, and let others run

`call` is the name of the function in `os`, or `flock`, `fcntl`, `fallocate`.  `close` never fails.  One call at a time.
What is not simulated raises UnknownCallError, which no handler of errors takes for one of the system.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from simulation.calls import Calls, Entry, Listing
from simulation.inodes import PAGE, Folder, Inode, InodeT, RegularFile, SymbolicLink, Tree
from simulation.lookup import WRITE, Lookup, OpenFile, UnknownCallError, make_error

__all__ = ["Disk"]

DEVICE = 0x801
READ = 4
KNOWN_FLAGS = (
    os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_PATH
    | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOATIME
)  # fmt: skip


class Disk(Lookup):
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
        fail: Callable[[str, str], int | None] = lambda call, path: None,
        before: Callable[[str, str], None] = lambda call, path: None,
    ) -> None:
        """Make an empty disk of so many bytes, or one with what `image` has left of another one.

        All folders and files belong to `uid`, the effective user if it is not given; modes bind all but root.
        """
        super().__init__(root_folders, now_ns, tree or Tree(), os.geteuid() if uid is None else uid)
        self.size, self.fail, self.before = size, fail, before
        self.shorten: Callable[[int], int] = lambda size: size  # how much of so many bytes a write takes
        self._random, self._salt = random, b"%08x" % random.getrandbits(32)
        self._umask = 0o022
        self._locks: dict[Inode, dict[OpenFile, int]] = {}

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
        self.files.clear()
        self._locks.clear()
        self.mount(tree)

    def begin(self, call: str, path: str, fd: int | None = None) -> int | None:
        """Return the errno with which a call fails before it does anything."""
        self.before(call, path)
        number = self.fail(call, path)
        if number is not None and call in ("fsync", "fdatasync") and fd is not None:
            inode = self.files[fd].inode
            if isinstance(inode, RegularFile):
                inode.fail_sync()
        return number

    # -- files ---------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & ~KNOWN_FLAGS or (flags & os.O_CREAT and flags & os.O_DIRECTORY):  # the kernels differ
            raise UnknownCallError(f"open of {path!r} with flags {flags:#o}")
        is_followed = not (flags & os.O_NOFOLLOW or (flags & os.O_CREAT and flags & os.O_EXCL))
        if not flags & os.O_CREAT:
            inode: Inode | None = self._existing(path, dir_fd, is_followed=is_followed)
        else:
            place = self._walk(path, dir_fd, is_followed=is_followed)
            inode = place.inode
        if inode is None:
            if path.endswith("/"):
                raise make_error(errno.EISDIR, path)
            inode = RegularFile(self.tree.take_number(), mode & ~self._umask & 0o7777, self._uid, self._now())
            self._change(path, (place.folder, place.name, inode))
        else:
            self._check_open(inode, flags, path)
        if flags & os.O_TRUNC and isinstance(inode, RegularFile) and not flags & os.O_PATH:  # also for O_RDONLY
            self._cut(inode, 0)
        return self._number(OpenFile(inode, self.describe(path, dir_fd), flags))

    def open_plain(self, path: str) -> int:
        """Open a path for nothing if no step of it is a link, as openat2(2) does."""
        return self._number(OpenFile(self._plain(path), path, os.O_PATH))

    def _check_open(self, inode: Inode, flags: int, path: str) -> None:
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise make_error(errno.EEXIST, path)
        is_folder, kind = isinstance(inode, Folder), stat.S_IFMT(inode.mode)
        if flags & os.O_DIRECTORY and not is_folder:
            raise make_error(errno.ENOTDIR, path)
        if flags & os.O_PATH:
            return
        if kind == stat.S_IFLNK:
            raise make_error(errno.ELOOP, path)
        access = flags & os.O_ACCMODE
        if is_folder and (access != os.O_RDONLY or flags & (os.O_CREAT | os.O_TRUNC)):
            raise make_error(errno.EISDIR, path)
        self._check(inode, (READ if access != os.O_WRONLY else 0) | (WRITE if access != os.O_RDONLY else 0), path)
        if kind == stat.S_IFSOCK or (kind == stat.S_IFIFO and access == os.O_WRONLY and flags & os.O_NONBLOCK):
            raise make_error(errno.ENXIO, path)
        if kind == stat.S_IFIFO and not flags & os.O_NONBLOCK:
            raise UnknownCallError(f"open of the pipe {path!r} waits for ever")

    def _number(self, file: OpenFile) -> int:
        number = self.tree.next_descriptor
        self.tree.next_descriptor += 1
        self.files[number] = file
        file.count += 1
        file.inode.opens += file.count == 1
        return number

    def close(self, fd: int) -> None:
        file = self.files.pop(fd)
        file.count -= 1
        if not file.count:
            if (locks := self._locks.get(file.inode)) is not None:
                locks.pop(file, None)
            file.inode.opens -= 1
            if not file.inode.links:
                self._locks.pop(file.inode, None)
                self.tree.release(file.inode)

    def dup(self, fd: int) -> int:
        return self._number(self.files[fd])

    def _data(self, fd: int, *, is_written: bool = False) -> RegularFile:
        """Return the file behind a descriptor that is open for this."""
        file = self.files[fd]
        if not (file.is_writable if is_written else file.is_readable):
            raise make_error(errno.EBADF)
        if not isinstance(file.inode, RegularFile):
            if isinstance(file.inode, Folder):
                raise make_error(errno.EISDIR)
            raise UnknownCallError(f"reading or writing {file.path}, which is not a regular file")
        return file.inode

    def read(self, fd: int, length: int) -> bytes:
        file, inode = self.files[fd], self._data(fd)
        data = bytes(inode.data[file.position : file.position + length])
        file.position += len(data)
        return data

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        if offset < 0:
            raise make_error(errno.EINVAL)
        return bytes(self._data(fd).data[offset : offset + length])

    def write(self, fd: int, data: Any) -> int:
        file, inode = self.files[fd], self._data(fd, is_written=True)
        at = len(inode.data) if file.flags & os.O_APPEND else file.position
        written = self._put(inode, at, data)
        file.position = at + written
        return written

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        if offset < 0:
            raise make_error(errno.EINVAL)
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
        if length > len(inode.data) and length - len(inode.data) > 2**30:
            raise UnknownCallError(f"a file of {length} bytes")
        inode.cut(length)
        kept = min(inode.allocated, -(-length // PAGE) * PAGE)
        self.tree.used -= inode.allocated - kept
        inode.allocated = kept
        inode.mtime = inode.ctime = self._now()

    def ftruncate(self, fd: int, length: int) -> None:
        file = self.files[fd]
        if length < 0 or not file.is_writable:
            raise make_error(errno.EINVAL)
        self._cut(self._data(fd, is_written=True), length)

    def lseek(self, fd: int, position: int, whence: int) -> int:
        file = self.files[fd]
        if file.flags & os.O_PATH:
            raise make_error(errno.EBADF)
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
        file = self.files[fd]
        if file.flags & os.O_PATH:
            raise make_error(errno.EBADF)
        if isinstance(file.inode, RegularFile):
            file.inode.sync()
        elif isinstance(file.inode, Folder):
            self.tree.sync_names(file.inode)

    fdatasync = fsync

    def flock(self, fd: int, operation: int) -> None:
        file, how = self.files[fd], operation & ~fcntl.LOCK_NB
        locks = self._locks.setdefault(file.inode, {})
        if how != fcntl.LOCK_UN:
            if any(how == fcntl.LOCK_EX or held == fcntl.LOCK_EX for one, held in locks.items() if one is not file):
                if not operation & fcntl.LOCK_NB:
                    raise UnknownCallError(f"flock of {file.path} waits: another open file holds it")
                raise make_error(errno.EAGAIN)
            locks[file] = how
        else:
            locks.pop(file, None)

    def fcntl(self, fd: int, command: int, argument: int = 0) -> int:
        file = self.files[fd]
        match command:
            case fcntl.F_GETFL:
                return file.flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY)
            case fcntl.F_SETFL:
                changing = os.O_APPEND | os.O_NONBLOCK
                file.flags = file.flags & ~changing | argument & changing
                return 0
            case fcntl.F_GETFD | fcntl.F_SETFD | fcntl.F_SETSIG:
                return fcntl.FD_CLOEXEC if command == fcntl.F_GETFD else 0
            case fcntl.F_DUPFD | fcntl.F_DUPFD_CLOEXEC:
                return self.dup(fd)
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
        """Make a pipe, or a socket, which bind(2) would make."""
        if stat.S_IFMT(mode) not in (stat.S_IFIFO, stat.S_IFSOCK):
            raise UnknownCallError(f"mknod of {path!r} with mode {mode:#o}")
        self._make(path, dir_fd, Inode, mode & ~self._umask)

    def symlink(self, src: str, dst: str, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        self._make(dst, dir_fd, SymbolicLink, 0o777).target = src

    def _make(self, path: str, dir_fd: int | None, kind: type[InodeT], mode: int) -> InodeT:
        """Make a new file of some kind with a name of its own."""
        place = self._entry(path, dir_fd)
        if place.inode is not None:
            raise make_error(errno.EEXIST, path)
        made = kind(self.tree.take_number(), mode, self._uid, self._now())
        self._change(path, (place.folder, place.name, made))
        return made

    def link(
        self, src: str, dst: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:  # fmt: skip
        inode, place = self._existing_entry(src, src_dir_fd)[1], self._entry(dst, dst_dir_fd)
        if place.inode is not None:
            raise make_error(errno.EEXIST)
        if isinstance(inode, Folder):
            raise make_error(errno.EPERM)
        self._change(dst, (place.folder, place.name, inode))

    def rename(self, src: str, dst: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        old, new = self._entry(src, src_dir_fd), self._entry(dst, dst_dir_fd)
        moved, replaced = old.inode, new.inode
        if moved is None:
            raise make_error(errno.ENOENT)
        if isinstance(moved, Folder):
            if moved in above(new.folder):
                raise make_error(errno.EINVAL)
            if replaced is not None and not isinstance(replaced, Folder):
                raise make_error(errno.ENOTDIR)
        if isinstance(replaced, Folder) and moved is not replaced:
            if replaced.names and (isinstance(moved, Folder) or replaced in above(old.folder)):
                raise make_error(errno.ENOTEMPTY)
            if not isinstance(moved, Folder):
                raise make_error(errno.EISDIR)
        if moved is not replaced:
            self._change(dst, (old.folder, old.name, None), (new.folder, new.name, moved))

    replace = rename

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        place, inode = self._existing_entry(path, dir_fd)
        if isinstance(inode, Folder):
            raise make_error(errno.EISDIR, path)
        self._change(path, (place.folder, place.name, None))

    remove = unlink

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:
        place, inode = self._existing_entry(path, dir_fd)
        if not isinstance(inode, Folder):
            raise make_error(errno.ENOTDIR, path)
        if inode.names:
            raise make_error(errno.ENOTEMPTY, path)
        self._change(path, (place.folder, place.name, None))

    def readlink(self, path: str, *, dir_fd: int | None = None) -> str:
        if (own := self._own(path)) is not None:
            return own.path
        is_open = not path and dir_fd is not None  # as O_PATH and O_NOFOLLOW have opened it
        inode = self._existing(dir_fd if is_open and dir_fd else path, dir_fd, is_followed=False)
        if not isinstance(inode, SymbolicLink):
            raise make_error(errno.ENOENT if is_open else errno.EINVAL, path)
        return inode.target

    def _list(self, path: str | int) -> list[tuple[str, Inode]]:
        """Return what a folder has, in an order that no caller should rely on."""
        inode = self._existing(path)
        if not isinstance(inode, Folder):
            raise make_error(errno.ENOTDIR, path)
        self._check(inode, READ, path)
        return sorted(inode.names.items(), key=lambda entry: (zlib.crc32(entry[0].encode() + self._salt), entry[0]))

    def listdir(self, path: str | int) -> list[str]:
        return [name for name, _ in self._list(path)]

    def scandir(self, path: str | int) -> Listing:
        if isinstance(path, int):
            return Listing([Entry(name, name, inode, path) for name, inode in self._list(path)])
        return Listing([Entry(name, os.path.join(path, name), inode) for name, inode in self._list(path)])

    # -- status --------------------------------------------------------------------------------------------------

    def stat(self, path: str | int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        return self._status(self._existing(path, dir_fd, is_followed=follow_symlinks))

    def lstat(self, path: str, *, dir_fd: int | None = None) -> os.stat_result:
        return self._status(self._existing(path, dir_fd, is_followed=False))

    def fstat(self, fd: int) -> os.stat_result:
        return self._status(self.files[fd].inode)

    def _status(self, inode: Inode) -> os.stat_result:
        links, size, allocated = inode.links, 0, 0
        if isinstance(inode, RegularFile):
            size, allocated = len(inode.data), inode.allocated
        elif isinstance(inode, Folder):
            links, size = 2 + sum(isinstance(below, Folder) for below in inode.names.values()), PAGE
        elif isinstance(inode, SymbolicLink):
            size = len(os.fsencode(inode.target))
        times = (inode.atime, inode.mtime, inode.ctime)
        head = (inode.mode, inode.number, DEVICE, links, inode.uid, inode.uid, size, *[one // 10**9 for one in times])
        return os.stat_result((*head, *[one / 10**9 for one in times], *times, PAGE, allocated // 512, 0))

    def statvfs(self, path: str | int) -> os.statvfs_result:
        self._existing(path)
        free = max(0, self.size - self.tree.used) // PAGE
        return os.statvfs_result((PAGE, PAGE, self.size // PAGE, free, free, 2**20, 2**20, 2**20, 0, 255))

    fstatvfs = statvfs

    def chmod(self, path: str | int, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        inode = self._owned(path, dir_fd, follow_symlinks)
        inode.mode = stat.S_IFMT(inode.mode) | mode & 0o7777
        self._forget()

    def fchmod(self, fd: int, mode: int) -> None:
        if self.files[fd].flags & os.O_PATH:
            raise make_error(errno.EBADF, fd)
        self.chmod(fd, mode)

    def utime(
        self, path: str | int, times: tuple[float, float] | None = None, *, ns: tuple[int, int] | None = None,
        dir_fd: int | None = None, follow_symlinks: bool = True,
    ) -> None:  # fmt: skip
        now = self._now()
        inode = self._owned(path, dir_fd, follow_symlinks)
        if ns is None:
            ns = (now, now) if times is None else (int(times[0] * 10**9), int(times[1] * 10**9))
        inode.atime, inode.mtime = ns
        inode.ctime = now

    def _owned(self, path: str | int, dir_fd: int | None, is_followed: bool) -> Inode:
        """Return what a path stands for, whose status is about to change."""
        inode = self._existing(path, dir_fd, is_followed=is_followed)
        if inode in self._above:
            raise UnknownCallError(f"a change of {path!r}, which is above the disk")
        if self._uid not in (0, inode.uid):
            raise make_error(errno.EPERM, path)
        inode.ctime = self._now()
        return inode

    def umask(self, mask: int) -> int:
        before, self._umask = self._umask, mask & 0o777
        return before


def above(folder: Folder) -> list[Folder]:
    """Return a folder with all above it."""
    found = [folder]
    while (folder := folder.above) is not found[-1]:
        found.append(folder)
    return found

"""What a disk holds: files, folders, what of them is synced, and what a crash leaves.

Knows no path, no descriptor and no clock.  The model is as strict as POSIX: only a sync of a file brings its data to
the disk, and only a sync of a folder its names.

    kill           everything that was written is there
    loss of power  what was synced is there; of the rest nothing, all, a beginning, or some sectors (others are zeros or
                   old), and of the names none, all, the first ones, or some.  A rename is done or not done.
    failed sync    its pages are clean in memory and not on the disk: only writing to them again makes them dirty
"""

from __future__ import annotations

import heapq
import itertools
import stat
from copy import copy
from random import Random
from typing import TypeVar, cast

__all__ = ["PAGE", "Folder", "Inode", "InodeT", "RegularFile", "Tree"]

PAGE = 4096
SECTOR = 512  # what a disk writes as a whole
MAX_PENDING = 4096  # changes of names that are not synced; the kernel writes back too
InodeT = TypeVar("InodeT", bound="Inode")


class Inode:
    """What a name stands for.  `opens` counts open files, `holds` the names that it has or may have on the disk."""

    __slots__ = ("atime", "ctime", "holds", "links", "mode", "mtime", "number", "opens", "uid")

    def __init__(self, number: int, mode: int, uid: int, now: int) -> None:
        self.number, self.mode, self.uid = number, mode, uid
        self.atime = self.mtime = self.ctime = now
        self.links = self.holds = self.opens = 0

    def copy(self: InodeT) -> InodeT:
        """Return the same, open nowhere."""
        copied = copy(self)
        copied.opens = 0
        return copied


class Folder(Inode):
    """A folder: its names, and those that are on the disk."""

    __slots__ = ("durable_names", "names")

    def __init__(self, number: int, mode: int, uid: int, now: int) -> None:
        super().__init__(number, stat.S_IFDIR | mode, uid, now)
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}


class RegularFile(Inode):
    """A file: its data, and how they differ from what is on the disk.

    `undo` has what was overwritten since the last sync, by place, in order; what lies beyond `durable_size` was not
    there at all, and `shortest` is the least size since then.  `lost` has what is on the disk in place of pages whose
    sync failed.  `allocated` are bytes of blocks.
    """

    __slots__ = ("allocated", "data", "durable_size", "lost", "shortest", "undo")

    def __init__(self, number: int, mode: int, uid: int, now: int) -> None:
        super().__init__(number, stat.S_IFREG | mode, uid, now)
        self.data = bytearray()
        self.allocated = self.durable_size = self.shortest = 0
        self.undo: dict[tuple[int, int], bytes] = {}
        self.lost: dict[int, bytes] = {}

    def copy(self) -> RegularFile:
        copied = super().copy()
        copied.data, copied.undo, copied.lost = self.data[:], dict(self.undo), dict(self.lost)
        return copied

    def put(self, at: int, data: bytes | memoryview) -> None:
        """Write data at an offset."""
        content, end = self.data, at + len(data)
        if self.lost:
            self._touch(at, end)
        if at < self.durable_size:
            self._keep(at, end)
        if at > len(content):
            content.extend(bytes(at - len(content)))
        content[at:end] = data

    def cut(self, size: int) -> None:
        """Set the size."""
        content = self.data
        if size < len(content):
            if self.lost:
                self._touch(size, len(content))
            if size < self.durable_size:
                self._keep(size, len(content))
            del content[size:]
            self.shortest = min(self.shortest, size)
        else:
            content.extend(bytes(size - len(content)))

    def _keep(self, begin: int, end: int) -> None:
        """Keep what is overwritten: the first that was there since the last sync counts."""
        place = begin, min(end, self.durable_size)
        if place not in self.undo and (old := bytes(self.data[slice(*place)])):
            self.undo[place] = old

    def _touch(self, begin: int, end: int) -> None:
        for page in range(begin // PAGE, (end - 1) // PAGE + 1):
            if (old := self.lost.pop(page, None)) is not None:
                self.undo[page * PAGE, -1] = old

    def sync(self) -> None:
        """Bring the data to the disk."""
        self.durable_size = self.shortest = len(self.data)
        self.undo.clear()

    def fail_sync(self) -> None:
        """Lose what is not on the disk: later syncs do not bring it there either."""
        old = self._durable()
        for page in range(-(-max(len(self.data), len(old)) // PAGE)):
            begin = page * PAGE
            there, here = old[begin : begin + PAGE], self.data[begin : begin + PAGE]
            if there != here:
                self.lost[page] = bytes(there.ljust(len(here), b"\0"))
        self.undo.clear()

    def _durable(self) -> bytearray:
        """Return what is on the disk for certain."""
        old = self.data[: self.durable_size].ljust(self.durable_size, b"\0")
        for (at, _), piece in reversed(self.undo.items()):
            old[at : at + len(piece)] = piece
        self._put_lost(old)
        del old[self.durable_size :]
        return old

    def _put_lost(self, data: bytearray) -> None:
        for page, piece in self.lost.items():
            begin = page * PAGE
            piece = piece[: max(0, len(data) - begin)]
            data[begin : begin + len(piece)] = piece

    def lose_power(self, random: Random) -> None:
        """Become what a loss of power leaves of it."""
        if self.undo or self.lost or self.durable_size != len(self.data):
            old, new = self._durable(), self._most(random)
            if random.random() < 0.5:
                del old[self.shortest :]
            self.data = tear(old, new, random)
        self.allocated = -(-len(self.data) // PAGE) * PAGE
        self.lost.clear()
        self.sync()

    def _most(self, random: Random) -> bytearray:
        """Return the most that can be on the disk."""
        new = self.data[:]
        if random.random() < 0.5:
            self._put_lost(new)
        return new


def tear(old: bytearray, new: bytearray, random: Random) -> bytearray:
    """Return what may be on the disk between two contents.  Sectors that existed are written as a whole."""
    kind, share = random.randrange(4), random.random()
    if kind < 2:
        return (old, new)[kind]
    shorter = min(len(old), len(new))
    low = next((at for at in range(0, shorter, SECTOR) if old[at : at + SECTOR] != new[at : at + SECTOR]), shorter)
    cut = low + int(share * (len(new) + 1 - low))
    if kind == 2:  # in order, as appends are written
        cut -= cut % SECTOR if cut < len(old) else 0
        return new[:cut] + old[cut:]
    torn = bytearray(max(cut, len(old)))
    torn[:low] = new[:low]
    piece = new
    for at in range(low - low % SECTOR, len(torn), SECTOR):
        if random.random() < 0.3:
            piece = (old, new)[random.randrange(2)]
        part = piece[at : min(at + SECTOR, len(torn))]
        torn[at : at + len(part)] = part
    return torn


NameChange = tuple[tuple[Folder, str, Inode | None], ...]  # names and what they stand for from now on, all or none


class Tree:
    """Everything below `/`, and the changes of names that no sync has brought to the disk.  `used` are bytes of blocks.

    Numbers of inodes are used again as soon as nothing has them, as ext4 does.
    """

    def __init__(self) -> None:
        self.used = 0
        self.root = Folder(2, 0o755, 0, 0)
        self.root.links = self.root.holds = 1
        self._last_number = 2
        self._free: list[int] = []
        self._pending: list[NameChange] = []

    def take_number(self) -> int:
        """Return a number for a new inode."""
        if self._free:
            return heapq.heappop(self._free)
        self._last_number += 1
        return self._last_number

    def change(self, *change: tuple[Folder, str, Inode | None]) -> None:
        """Let names stand for something else, or nothing, as one change."""
        gone: list[Inode] = []
        for folder, name, inode in change:
            if (before := folder.names.pop(name, None)) is not None:
                before.links -= 1
                gone.append(before)
            if inode is not None:
                folder.names[name] = inode
                inode.links += 1
                inode.holds += 1
        self._pending.append(change)
        for inode in gone:
            self.release(inode)
        if len(self._pending) > MAX_PENDING:
            half = MAX_PENDING // 2
            self._write_back(self._pending[:half])
            del self._pending[:half]

    def sync_names(self, folder: Folder) -> None:
        """Bring the names of a folder to the disk, with what changed together with them."""
        if self._pending:
            done = [change for change in self._pending if any(where is folder for where, _, _ in change)]
            self._pending = [change for change in self._pending if all(where is not folder for where, _, _ in change)]
            self._write_back(done)

    def _write_back(self, changes: list[NameChange]) -> None:
        for folder, name, inode in itertools.chain.from_iterable(changes):
            before = folder.durable_names.pop(name, None)
            if inode is not None:
                folder.durable_names[name] = inode
            if before is not None:
                before.holds -= 1
                self.release(before)

    def release(self, inode: Inode) -> None:
        """Free the blocks and the number of an inode that nothing has any more."""
        if inode.links or inode.opens:
            return
        if isinstance(inode, RegularFile):
            self.used -= inode.allocated
            inode.allocated = 0
        if not inode.holds and inode.number:
            heapq.heappush(self._free, inode.number)
            inode.number = 0

    def walk(self) -> list[Inode]:
        """Return all that has a name, in order of paths."""
        seen: dict[Inode, None] = {}
        below: list[Inode] = [self.root]
        while below:
            if (inode := below.pop()) not in seen:
                seen[inode] = None
                if isinstance(inode, Folder):
                    below += [inode.names[name] for name in sorted(inode.names, reverse=True)]
        return [*seen]

    def image(self, random: Random | None = None) -> Tree:
        """Return the tree as it is found after a kill; with chances, after a loss of power."""
        copies: dict[Inode, Inode] = {}

        def copied(inode: InodeT) -> InodeT:
            if inode not in copies:
                copies[inode] = new = inode.copy()
                if isinstance(new, Folder):
                    new.names = {name: copied(below) for name, below in new.names.items()}
                    new.durable_names = {name: copied(below) for name, below in new.durable_names.items()}
            return cast("InodeT", copies[inode])

        left = Tree()
        left._last_number, left.root = self._last_number, copied(self.root)
        left._pending = [tuple((copied(at), name, one and copied(one)) for at, name, one in c) for c in self._pending]
        if random is not None:
            left._lose_power([one for one in copies.values() if isinstance(one, Folder)], random)
        left._settle([*copies.values()] if random is None else left.walk())
        return left

    def _lose_power(self, folders: list[Folder], random: Random) -> None:
        kind, share = random.randrange(4), random.random()
        pending, self._pending = self._pending, []
        if kind == 1:
            pending = pending[: int(share * (len(pending) + 1))]  # as a journal of the file system commits them
        elif kind == 2:
            pending = [change for change in pending if random.random() < 0.5]
        self._write_back(pending if kind else [])
        for folder in folders:
            folder.names = dict(folder.durable_names)
        for inode in self.walk():
            if isinstance(inode, RegularFile):
                inode.lose_power(Random(random.getrandbits(64)))

    def _settle(self, known: list[Inode]) -> None:
        """Count names, numbers and blocks anew."""
        for inode in known:
            inode.links = inode.holds = 0
        self.root.links = self.root.holds = 1
        for folder in known:
            if isinstance(folder, Folder):
                for below in folder.durable_names.values():
                    below.holds += 1
                for below in folder.names.values():
                    below.links += 1
        for _, _, held in itertools.chain.from_iterable(self._pending):
            if held is not None:
                held.holds += 1
        taken = {inode.number for inode in known if inode.links or inode.holds}
        self._free = [number for number in range(3, self._last_number + 1) if number not in taken]
        self.used = sum(inode.allocated for inode in known if isinstance(inode, RegularFile) and inode.links)

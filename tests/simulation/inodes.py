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
from copy import deepcopy
from random import Random

__all__ = ["PAGE", "Folder", "Inode", "RegularFile", "Tree"]

PAGE = 4096
SECTOR = 512  # what a disk writes as a whole
MAX_PENDING = 4096  # changes of names that are not synced; the kernel writes back too


class Inode:
    """What a name stands for.  `opens` counts open files."""

    def __init__(self, number: int, mode: int, uid: int, now: int) -> None:
        self.number, self.mode, self.uid = number, mode, uid
        self.mtime = self.ctime = now
        self.links = self.opens = 0


class Folder(Inode):
    """A folder: its names, and those that are on the disk."""

    def __init__(self, number: int, mode: int, uid: int, now: int) -> None:
        super().__init__(number, stat.S_IFDIR | mode, uid, now)
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}


class RegularFile(Inode):
    """A file: its data, and what is on the disk.

    The two are the same below `dirty`.  `shortest` is the least size since the last sync.  `lost` has the pages whose
    sync failed: no sync brings them to the disk.  `allocated` are bytes of blocks.
    """

    def __init__(self, number: int, mode: int, uid: int, now: int) -> None:
        super().__init__(number, stat.S_IFREG | mode, uid, now)
        self.data, self.durable = bytearray(), bytearray()
        self.allocated = self.dirty = self.shortest = 0
        self.lost: dict[int, None] = {}

    def put(self, at: int, data: bytes | memoryview) -> None:
        """Write data at an offset."""
        end = at + len(data)
        if at > len(self.data):
            self.cut(at)
        self._touch(at, end)
        self.data[at:end] = data

    def cut(self, size: int) -> None:
        """Set the size."""
        content = self.data
        self._touch(min(size, len(content)), len(content))
        del content[size:]
        content.extend(bytes(size - len(content)))
        self.shortest = min(self.shortest, size)

    def _touch(self, begin: int, end: int) -> None:
        self.dirty = min(self.dirty, begin)
        if self.lost:
            for page in range(begin // PAGE, (end - 1) // PAGE + 1):
                self.lost.pop(page, None)

    def sync(self) -> None:
        """Bring the data to the disk."""
        if self.lost:
            self.durable = self._most()
        else:
            self.durable[self.dirty :] = self.data[self.dirty :]
        self.dirty = self.shortest = len(self.data)

    def fail_sync(self) -> None:
        """Lose what is not on the disk: later syncs do not bring it there either."""
        for at in range(self.dirty - self.dirty % PAGE, max(len(self.data), len(self.durable)), PAGE):
            if self.durable[at : at + PAGE] != self.data[at : at + PAGE]:
                self.lost[at // PAGE] = None

    def _most(self) -> bytearray:
        """Return the data, but for what a failed sync has lost."""
        most = self.data[:]
        for page in self.lost:
            begin, end = page * PAGE, min((page + 1) * PAGE, len(most))
            most[begin:end] = self.durable[begin:end].ljust(max(0, end - begin), b"\0")
        return most

    def lose_power(self, random: Random) -> None:
        """Become what a loss of power leaves of it."""
        if self.lost or self.dirty < max(len(self.data), len(self.durable)):
            old, new = self.durable, self.data if random.random() < 0.5 else self._most()
            if random.random() < 0.5:
                old = old[: self.shortest]
            self.data = tear(old, new, random)
        self.allocated = -(-len(self.data) // PAGE) * PAGE
        self.lost.clear()
        self.dirty = 0
        self.sync()


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
        self.root.links = 1
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
            folder.durable_names.pop(name, None)
            if inode is not None:
                folder.durable_names[name] = inode

    def release(self, inode: Inode) -> None:
        """Free the blocks and the number of an inode that has no name, and is not open."""
        if not (inode.links or inode.opens):
            if isinstance(inode, RegularFile):
                self.used -= inode.allocated
                inode.allocated = 0
            heapq.heappush(self._free, inode.number)

    def walk(self, *, is_durable: bool = False) -> list[Inode]:
        """Return all that has a name, or has one on the disk, in order of paths."""
        seen: dict[Inode, None] = {}
        below: list[Inode] = [self.root]
        while below:
            if (inode := below.pop()) not in seen:
                seen[inode] = None
                if isinstance(inode, Folder):
                    names = inode.durable_names if is_durable else inode.names
                    below += [names[name] for name in sorted(names, reverse=True)]
        return [*seen]

    def image(self, random: Random | None = None) -> Tree:
        """Return the tree as it is found after a kill; with chances, after a loss of power."""
        left = deepcopy(self)
        if random is not None:
            left._lose_power(random)
        left._settle()
        return left

    def _lose_power(self, random: Random) -> None:
        kind, share = random.randrange(4), random.random()
        pending, self._pending = self._pending, []
        if kind == 1:
            pending = pending[: int(share * (len(pending) + 1))]  # as a journal of the file system commits them
        elif kind == 2:
            pending = [change for change in pending if random.random() < 0.5]
        self._write_back(pending if kind else [])
        for inode in self.walk(is_durable=True):
            if isinstance(inode, Folder):
                inode.names = dict(inode.durable_names)
            elif isinstance(inode, RegularFile):
                inode.lose_power(Random(random.getrandbits(64)))

    def _settle(self) -> None:
        """Count names, numbers and blocks anew.  A loss of power may bring back a file whose number another one has."""
        known, taken = self.walk(), dict[int, Inode]()
        for inode in known:
            inode.links, inode.opens = int(inode is self.root), 0
            if taken.setdefault(inode.number, inode) is not inode:
                self._last_number += 1
                inode.number = self._last_number
                taken[inode.number] = inode
        for folder in known:
            if isinstance(folder, Folder):
                for below in folder.names.values():
                    below.links += 1
        self._free = [number for number in range(3, self._last_number + 1) if number not in taken]
        self.used = sum(inode.allocated for inode in known if isinstance(inode, RegularFile))

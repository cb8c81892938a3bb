"""What befalls the disk of a simulated daemon: calls that fail, find no space, or hang.  Knows no hook and no record.

Only calls of the daemon below its state's folder are befallen, and only those of its threads hang: others may run then.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

from simulation.disk import Disk

__all__ = ["DiskTrouble"]

FAILURES = {
    "open": (errno.EMFILE, errno.EIO, errno.EACCES), "write": (errno.EIO, errno.ENOSPC), "fsync": (errno.EIO,),
    "pwrite": (errno.EIO, errno.ENOSPC), "fdatasync": (errno.EIO, errno.ENOSPC), "fallocate": (errno.ENOSPC,),
    "rename": (errno.EIO, errno.ENOSPC), "replace": (errno.EIO,), "ftruncate": (errno.EIO,), "read": (errno.EIO,),
    "unlink": (errno.EROFS,), "mkdir": (errno.ENOSPC,),
}  # fmt: skip
CHANGING = {*FAILURES} - {"read"}  # the calls between which a crash makes a difference
KINDS = ("disk_failing", "disk_failing", "disk_full", "disk_hanging")
PAUSED, PAUSE = 0.03, 0.004  # how often a call of a thread lets others run, and for how many seconds at most
PROMISE = 0.06  # seconds of entries before a failed sync that it may lose
RECOVERY = 8.0  # seconds after which the daemon has begun a segment whose syncs work again


class DiskTrouble:
    """The troubles of one disk."""

    def __init__(self, disk: Disk, folder: str, seed: object) -> None:
        self.kind: str | None = None
        self.windows: list[tuple[float, float]] = []  # in which entries were written that no sync may have reached
        self._kernel, self._disk, self._folder = disk.kernel, disk, f"{folder}/"
        self._random = Random(f"{seed} trouble")
        self._began, self._size, self._room = 0.0, disk.size, 0
        disk.fail, disk.before, disk.shorten = self._fail, self._before, self._shorten
        self._calls_left, self._where = 0, ""
        self._crash: Callable[[], None] = lambda: None

    def crash_after(self, calls: int, crash: Callable[[], None], where: str = "") -> None:
        """Have the daemon die right before one of its next calls on such a path. Without `calls`, it does not."""
        self._calls_left, self._crash, self._where = calls, crash, where

    def begin(self) -> str:
        """Begin trouble of some kind, if there is none.  Return the kind."""
        if self.kind is None:
            self.kind, self._began = self._random.choice(KINDS), self._kernel.now
            self._room = int(self._random.random() * 16384)
        return self.kind

    def end(self) -> None:
        """Have no trouble from now on."""
        if self.kind is not None:
            self.kind = None
            self.windows.append((self._began - PROMISE, self._kernel.now + RECOVERY))

    def may_have_lost(self, moment: float) -> bool:
        """Return whether an entry of that moment may not have reached the disk, since a sync failed."""
        return any(begin <= moment <= end for begin, end in self.windows)

    def has_failed_since(self, moment: float) -> bool:
        """Return whether a sync may have failed since then."""
        return any(end >= moment for _, end in self.windows)

    def _fail(self, call: str, path: str) -> int | None:
        if self.kind != "disk_failing" or call not in FAILURES or not path.startswith(self._folder):
            return None
        if self._kernel.process is not self._kernel.daemon:
            return None
        share, which = self._random.random(), self._random.random()
        return FAILURES[call][int(which * len(FAILURES[call]))] if share < 0.25 else None

    def _shorten(self, size: int) -> int:
        if self.kind not in ("disk_failing", "disk_full") or self._kernel.process is not self._kernel.daemon:
            return size
        share, part = self._random.random(), self._random.random()
        return 1 + int((size - 1) * part) if share < 0.3 else size

    def _before(self, call: str, path: str) -> None:
        kernel = self._kernel
        if not path.startswith(self._folder) or kernel.process is not kernel.daemon:
            self._disk.size = self._size
            return
        if kernel.is_in_strand:
            if kernel.random.random() < PAUSED:
                kernel.sleep(kernel.random.random() * PAUSE)
            while self.kind == "disk_hanging":
                kernel.sleep(PAUSE)
        if self._calls_left and call in CHANGING and self._where in path:
            self._calls_left -= 1
            if not self._calls_left:
                self._crash()
                kernel.alive()
        self._disk.size = self._disk.tree.used + self._room if self.kind == "disk_full" else self._size

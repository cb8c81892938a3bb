"""Whether a changed file is whole, or its writer is between two steps.  Knows the kernel's word on it, and keys.

Half of a file can be a valid file with fewer guards.  So one is taken soon only if nobody has it open for writing and
nothing that it held is gone, and otherwise when nobody has touched it for longer:

    closed, as far as the kernel can say ─▶ quiet for SETTLE ─▶ read, built ─▶ nothing is gone or wrong ─▶ taken
       └─ no, or not known ─────────────────────────────────────────┴─ no ─▶ quiet for PATIENCE ─▶ taken as it is
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterable

from hooklatch.service.config.configuration import FileConfig

__all__ = ["PATIENCE", "SETTLE", "has_lost", "is_closed", "quiet_for"]

SETTLE = 0.03  # seconds: several files are saved one after the other, and shells append to one line by line
PATIENCE = 0.1  # seconds without a change after which a file is taken that may still be in the making


def is_closed(path: str) -> bool:
    """Return whether nobody has a file open for writing; False if that cannot be told, True for a directory.

    The kernel grants a read lease only on such a file (fcntl(2), F_SETLEASE), to its owner, on a local disk.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            return True
        # Whoever opens it for writing just now waits until we close it; without this we would die of SIGIO then.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def quiet_for(paths: Iterable[str]) -> float:
    """Return for how many seconds these files have been left alone: 0 if one is gone, or from the future."""
    now, quiet = time.time(), float("inf")
    for path in paths:
        try:
            quiet = min(quiet, now - os.stat(path).st_ctime)
        except (OSError, ValueError):
            return 0.0
    return max(quiet, 0.0)


def has_lost(before: FileConfig, after: FileConfig | None) -> bool:
    """Return whether a file says less than it did: a hook, or a key of one, may be yet to come."""
    return after is None or not before.keys <= after.keys

"""The wait until a changed file is whole, since its writer may be between two steps.

Half of a file can be a valid file with fewer guards.  So a file is read soon only if no process has it open for writing
and it has lost no key, and otherwise after a longer time without a change:

    closed, as far as the kernel can say ─▶ quiet for SETTLE ─▶ read, built ─▶ nothing is gone or wrong ─▶ taken
       └─ no, or not known ─────────────────────────────────────────┴─ no ─▶ quiet for PATIENCE ─▶ taken as it is
                                                                                └─ open ─▶ WRITING later at the latest
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterable

from hooklatch.disks import limit_look
from hooklatch.path_lookup import status_at
from hooklatch.service.config.configuration import FileConfig

__all__ = ["PATIENCE", "SETTLE", "WRITING", "has_lost", "is_written", "measure_quiet"]

SETTLE = 0.03  # seconds: several files are saved one after the other, and shells append to one line by line
PATIENCE = 0.1  # seconds without a change, after which a file is taken that may still be half written
# Seconds after which a file is taken that stays open: a copy over a slow line pauses, and an editor never closes it.
WRITING = 2.0


def is_written(path: str) -> bool | None:
    """Return whether a process has a file open for writing; None if that is unknown, False for a directory.

    The kernel grants a read lease only if no process has (fcntl(2), F_SETLEASE), to the file's owner, on a local disk.
    """
    try:
        return has_writer(path)
    except OSError:  # its disk does not answer in time
        return None


@limit_look
def has_writer(path: str) -> bool | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            return False
        # A process that opens it for writing now waits until we close it, and we are sent SIGIO, which would kill us.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    finally:
        os.close(fd)
    return False


def measure_quiet(paths: Iterable[str]) -> float:
    """Return the seconds since the last change of these files: 0 if one is gone, or from the future."""
    now, quiet = time.time(), float("inf")
    for path in paths:
        try:
            quiet = min(quiet, now - status_at(path).st_ctime)
        except (OSError, ValueError):
            return 0.0
    return max(quiet, 0.0)


def has_lost(before: FileConfig, after: FileConfig | None) -> bool:
    """Return whether a file has fewer keys than before: its writer may still add a hook, or a key of one."""
    return after is None or not before.keys <= after.keys

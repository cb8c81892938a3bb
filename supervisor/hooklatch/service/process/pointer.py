"""Says in the state directory where the daemon listens, for clients whose environment names another directory.

A cron job, `sudo -u` or another XDG_RUNTIME_DIR lead elsewhere than where the daemon was started.  `paths.pointed_dir`
reads what is written here.  The caller holds the lock on the state directory, so there is one writer.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress

from hooklatch.paths import POINTER

__all__ = ["pointing"]

logger = logging.getLogger("hooklatch.daemon")


@contextmanager
def pointing(state_dir: str, runtime_dir: str) -> Generator[None]:
    """Have the pointer name `runtime_dir` during the block.  Without it the daemon is found where it listens alone."""
    path = os.path.join(state_dir, POINTER)
    try:
        write(path, os.fsencode(os.path.abspath(runtime_dir)) + b"\n")
    except OSError as error:
        logger.warning("where this daemon listens cannot be written down: %s", error.strerror, extra={"path": path})
    try:
        yield
    finally:
        with suppress(OSError):  # a stale one is harmless: clients check who listens
            os.unlink(path)


def write(path: str, line: bytes) -> None:
    """Write it whole, so that no reader sees half a path."""
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)
    os.replace(new, path)

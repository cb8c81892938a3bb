"""The temporary folder of an isolated worker: its making and its removal.  Knows paths; knows no level."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

__all__ = ["make", "remove_tree"]


def make(root: str, name: str) -> str | None:
    """Make the folder that takes the place of /tmp for this process and its children; None if there can be none.

    A full disk must not keep a guard from running; it finds no temporary folder then, which is safe.
    """
    if not root:
        return None
    folder = os.path.join(root, name)
    try:
        os.makedirs(folder, mode=0o700)
    except OSError:
        return None
    os.environ["TMPDIR"] = folder
    return folder


def remove_tree(folder: str) -> None:
    """Remove a folder and all in it, also where a hook took away our own right to; what is left is no error."""
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    open_up(folder)
    for path, below, _ in os.walk(folder):  # it looks into those below only after we had them
        for name in below:
            open_up(os.path.join(path, name))
    shutil.rmtree(folder, ignore_errors=True)


def open_up(folder: str) -> None:
    """Restore our right to look into a folder; what a link leads to is not touched."""
    with suppress(OSError):
        fd = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)

"""The temporary folder of an isolated worker: its creation and removal."""

from __future__ import annotations

import os
from contextlib import suppress

from hooklatch_worker.systems import system

__all__ = ["make_temporary_folder", "remove_tree"]


def make_temporary_folder(root: str, name: str) -> str | None:
    """Create a folder to replace /tmp for this process and its children; return None if that fails.

    A full disk must not keep a guard from running; the hook then has no temporary folder, which is safe.
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
    """Remove a folder and its content, even if a hook removed our permissions; ignore errors."""
    import shutil  # only here: it takes some of the time in which a zygote starts

    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    open_up(folder)
    for path, below, _ in os.walk(folder):  # top-down: it enters subfolders after we have opened them up
        for name in below:
            open_up(os.path.join(path, name))
    shutil.rmtree(folder, ignore_errors=True)


def open_up(folder: str) -> None:
    """Restore our permissions on a folder; do not follow links."""
    with suppress(OSError):
        if not system.LOOKS:  # a system that changes the mode of a link itself
            os.chmod(folder, 0o700, follow_symlinks=False)
            return
        fd = os.open(folder, system.LOOKS | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{fd}", 0o700)
        finally:
            os.close(fd)

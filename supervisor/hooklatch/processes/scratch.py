"""The temporary directories of isolated workers: their paths and their removal.

A worker that may not write into /tmp creates its own directory (hooklatch_worker.sandbox.isolation), below one of the
daemon's.  It is removed when the worker is dead.  When the daemon is dead its zygote removes what is left. When both
are dead, the next daemon does.
"""

from __future__ import annotations

import os

import trio

from hooklatch_worker.sandbox.temporary import remove_tree

__all__ = ["clear_scratch", "remove_scratch", "scratch_root"]

REMOVAL_TIMEOUT = 5.0  # seconds for a big directory; its remainder is removed when the daemon ends


def scratch_root(state_dir: str) -> str:
    """Return the directory of this daemon's workers, by pid: another daemon's zygote may still be removing its own."""
    return os.path.join(state_dir, "tmp", str(os.getpid()))


def clear_scratch(state_dir: str) -> None:
    """Remove the directories that dead daemons have left."""
    remove_tree(os.path.join(state_dir, "tmp"))


async def remove_scratch(root: str, name: str) -> None:
    """Remove the directory of a dead worker, in a thread unless it is empty, since its hooks decide its size."""
    folder = os.path.join(root, name)
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        with trio.move_on_after(REMOVAL_TIMEOUT, shield=True):
            await trio.to_thread.run_sync(remove_tree, folder, abandon_on_cancel=True)

"""The temporary folders of isolated workers: where they are, and their end.  Knows paths; knows no worker and no level.

A worker that may not write into /tmp makes a folder of its own (hooklatch_worker.sandbox.isolation),
below one of its daemon's.
It goes when the worker is dead.  When the daemon is dead its zygote removes what is left; when both are, the next
daemon does.
"""

from __future__ import annotations

import os

import trio

from hooklatch_worker.sandbox.temporary import remove_tree

__all__ = ["clear", "remove", "root_below"]

PATIENCE = 5.0  # seconds for a big folder; what is left goes when the daemon ends


def root_below(state_dir: str) -> str:
    """Return the folder of this daemon's workers; another daemon's zygote may still be removing its own beside it."""
    return os.path.join(state_dir, "tmp", str(os.getpid()))


def clear(state_dir: str) -> None:
    """Remove what daemons that are dead have left."""
    remove_tree(os.path.join(state_dir, "tmp"))


async def remove(root: str, name: str) -> None:
    """Remove the folder of a worker that is dead; a big one in a thread, since its hooks decide how big it is."""
    folder = os.path.join(root, name)
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        with trio.move_on_after(PATIENCE, shield=True):
            await trio.to_thread.run_sync(remove_tree, folder, abandon_on_cancel=True)

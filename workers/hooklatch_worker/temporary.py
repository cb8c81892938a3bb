"""The temporary folder of an isolated worker: its making and its removal.  Knows paths; knows no level."""

from __future__ import annotations

import os
import shutil

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
    for path, _, _ in os.walk(folder):  # it looks into a folder after we had it
        os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)

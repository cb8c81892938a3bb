"""What the service trusts on the disk: files that hold hooks, and its own two folders.  Knows owners and modes only.

The rule itself is the worker's too, which holds to it the modules that a file of hooks imports from its folder.
"""

from __future__ import annotations

import os
import stat

from hooklatch_worker.sandbox.safety import MAX_FILE, UnsafeFileError, check_folders, guards, read_safely

__all__ = ["MAX_FILE", "UnsafeFileError", "check_folders", "guards", "make_private", "read_safely"]


def make_private(path: str) -> None:
    """Make a folder that nobody else can look into, or see that the one which is there is one.

    What others could only read is closed to them; what they could have written to is left for a person to look at.

    Raises:
        UnsafeFileError: it, or a folder above it, is somebody else's or writable by others.
        OSError: it cannot be made.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    check_folders(path)
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        os.chmod(path, 0o700)

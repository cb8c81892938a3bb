"""The checks that no other user can write files of hooks and the daemon's own directories, by owners and modes.

The worker applies the same rule to the modules that a file of hooks imports from its directory.
"""

from __future__ import annotations

import os
import stat

from hooklatch.directories import sync_folder
from hooklatch.disks import limit_look
from hooklatch_worker.sandbox import safety
from hooklatch_worker.sandbox.safety import MAX_FILE, UnsafeFileError, check_folders, stamp_parent_folders

__all__ = ["MAX_FILE", "UnsafeFileError", "check_folders", "stamp_parent_folders", "make_private", "read_safely"]

read_safely = limit_look(safety.read_safely)


def make_private(path: str) -> None:
    """Create a directory that no other user can read, or check the one that exists.

    If others could only read it, their access is removed.  If others could have written to it, a person must look at
    it, so that is an error.

    Raises:
        UnsafeFileError: the directory, or one above it, belongs to another user or is writable by others.
        OSError: the directory cannot be created, or its entry may not be on the disk.
    """
    made = [os.path.abspath(path)]
    while not os.path.lexists(made[-1]):
        made.append(os.path.dirname(made[-1]))
    os.makedirs(path, mode=0o700, exist_ok=True)
    for above in made[1:]:
        sync_folder(above)
    check_folders(path)
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        os.chmod(path, 0o700)

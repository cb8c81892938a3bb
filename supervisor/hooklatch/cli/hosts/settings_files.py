"""Files of other programs: read whole, replaced at once, with a backup beside them.

Mode, owner and symbolic links stay as they are: the target of a link is replaced, not the link.  A file that changed
since it was read is not replaced.  What cannot be done raises FileError, with the name of the file.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress

from hooklatch.directories import sync_folder
from hooklatch_worker.systems.disks import sync_all

__all__ = [
    "FileError", "back_up_file", "delete_file", "find_main_worktree", "list_upwards", "make_folders", "read_if_present",
    "remove_folders", "replace_file",
]  # fmt: skip

MAX_SIZE = 16 * 2**20  # bytes; settings are a few KiB


class FileError(Exception):
    """A file cannot be read or written; the text says which, and why."""


def read_if_present(path: str) -> bytes | None:
    """Return a file's bytes, None if it is not there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if os.path.islink(path):
            raise FileError(
                f"{path} is a link to {os.readlink(path)}, which does not exist; remove or fix the link"
            ) from None
        return None
    except (OSError, ValueError) as error:  # a name that no file can have, which another file gave
        raise FileError(f"{path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileError(f"{path} is not a regular file")
    with os.fdopen(fd, "rb") as file:
        try:
            data = file.read(MAX_SIZE + 1)
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_SIZE:
        raise FileError(f"{path} has more than {MAX_SIZE} bytes")
    return data


def list_upwards(here: str) -> list[str]:
    """Return a folder and those above it that are in its repository; itself alone where it is in none."""
    folders = [here]
    while not os.path.lexists(os.path.join(folders[-1], ".git")):
        above = os.path.dirname(folders[-1])
        if above == folders[-1]:
            return [here]
        folders.append(above)
    return folders


def find_main_worktree(root: str) -> str:
    """Return the folder of a repository's main worktree, which may be `root` itself.

    Raises:
        FileError: what names it cannot be read.
    """
    link = os.path.join(root, ".git")
    named = None if os.path.isdir(link) else read_if_present(link)
    if named is None or not named.startswith(b"gitdir:"):
        return root
    folder = os.path.join(root, os.fsdecode(named.removeprefix(b"gitdir:").strip()))
    common = read_if_present(os.path.join(folder, "commondir"))  # a submodule has none
    return os.path.dirname(os.path.normpath(os.path.join(folder, os.fsdecode(common.strip())))) if common else root


def make_folders(path: str, *, mode: int = 0o700) -> list[str]:
    """Make the folders above a path; return those that were made, outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while folder and not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    made_folders: list[str] = []
    for folder in missing:
        try:
            os.mkdir(folder, mode)
            os.chmod(folder, mode)  # not as the umask has it
        except FileExistsError:
            continue
        except OSError as error:
            remove_folders(made_folders)
            raise FileError(f"{folder} cannot be made: {error.strerror}") from None
        made_folders.append(folder)
    return made_folders


def remove_folders(folders: list[str]) -> None:
    """Remove folders that were made, innermost first, as far as they are empty."""
    for folder in reversed(folders):
        try:
            os.rmdir(folder)
        except OSError:
            return


def replace_file(path: str, before: bytes | None, after: bytes, *, mode: int = 0o600) -> None:
    """Replace the bytes of a file atomically, and sync it; `before` is what it must hold, None if it must not exist.

    A new file gets this mode.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        fd, new = tempfile.mkstemp(prefix=".hooklatch-", dir=folder)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}: {folder}") from None
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(after)
            copy_owner(fd, target, before is not None, mode)
            file.flush()
            sync_all(fd)
        # As late as possible: a program that writes between this and the replacement still loses its change.
        if read_if_present(path) != before:
            raise FileError(f"{path} was changed by another program at this moment; try again")
        if before is None:
            os.link(new, target)  # unlike a rename, it fails if the file exists by now
            os.unlink(new)
        else:
            os.replace(new, target)
        sync_folder(folder)
    except FileExistsError:
        drop_file(new)
        raise FileError(f"{path} was made by another program at this moment; try again") from None
    except OSError as error:
        drop_file(new)
        raise FileError(f"{path} cannot be written: {error.strerror}") from None
    except BaseException:
        drop_file(new)
        raise


def copy_owner(fd: int, target: str, is_there: bool, mode: int) -> None:
    if not is_there:
        os.fchmod(fd, mode)
        return
    status = os.stat(target)
    new_status = os.fstat(fd)
    if (status.st_uid, status.st_gid) != (new_status.st_uid, new_status.st_gid):
        os.fchown(fd, status.st_uid, status.st_gid)
    os.fchmod(fd, stat.S_IMODE(status.st_mode))  # after fchown, which may take bits away


def drop_file(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def back_up_file(path: str, data: bytes) -> str:
    """Write bytes beside a file, under a name that is free; return it."""
    target = os.path.realpath(path)
    number = 0
    while True:
        backup = f"{target}.hooklatch-backup" + (f".{number}" if number else "")
        try:
            replace_file(backup, None, data)
        except FileError:
            if not os.path.lexists(backup):
                raise
            number += 1
            continue
        with suppress(OSError):
            os.chmod(backup, stat.S_IMODE(os.stat(target).st_mode))
        return backup


def delete_file(path: str, before: bytes) -> None:
    """Delete a file that holds these bytes."""
    if read_if_present(path) != before:
        raise FileError(f"{path} was changed by another program at this moment; try again")
    try:
        os.unlink(os.path.realpath(path))
    except OSError as error:
        raise FileError(f"{path} cannot be deleted: {error.strerror}") from None

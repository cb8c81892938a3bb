"""What a repository of git on the disk says: which branch is checked out, whether one is free.  Runs nothing."""

from __future__ import annotations

import os
import re

__all__ = ["read_branch", "read_head", "is_free"]

# Files that say that git is in the middle of something, which may keep it from checking out.
BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock")


def is_free(folder: str, name: str) -> bool:
    """Return whether a branch of this name can be made where a folder is.  Raises OSError if that cannot be read."""
    place = find_git_folder(folder)
    if place is None or any(is_there(os.path.join(place, one)) for one in BUSY):
        return False
    if is_there(common := os.path.join(place, "commondir")):  # of a worktree
        with open(common, encoding="utf-8") as file:
            place = os.path.join(place, file.read(4096).strip())
    parts = name.split("/")
    above = ["/".join(parts[:at]) for at in range(1, len(parts))]
    if is_there(os.path.join(place, "refs/heads", name)) or is_there(os.path.join(place, "reftable")):
        return False
    if any(os.path.isfile(os.path.join(place, "refs/heads", one)) for one in above):
        return False
    if is_there(packed := os.path.join(place, "packed-refs")):
        with open(packed, encoding="utf-8") as file:
            named = [line.partition(" refs/heads/")[2].rstrip("\n") for line in file]
        if any(one == name or one in above or one.startswith(f"{name}/") for one in named):
            return False
    return True


def read_branch(folder: str) -> str | None:
    """Return the branch that is checked out in a folder's repository; None if there is none."""
    place = find_git_folder(folder)
    return None if place is None else read_head(place)


def find_git_folder(folder: str) -> str | None:
    """Return where the repository of a folder keeps its HEAD; None if it has none."""
    folder = os.path.realpath(folder)
    while True:
        place = os.path.join(folder, ".git")
        if is_there(place) and os.path.isfile(place):  # of a worktree, or a submodule
            with open(place, encoding="utf-8") as file:
                place = os.path.join(folder, file.read(4096).removeprefix("gitdir:").strip())
        if is_there(os.path.join(place, "HEAD")):
            return place
        if os.path.dirname(folder) == folder:
            return None
        folder = os.path.dirname(folder)


def read_head(place: str) -> str | None:
    """Return the branch that a repository's HEAD names; None if it names a commit.  Raises if it says neither."""
    head = os.path.join(place, "HEAD")
    if os.path.islink(head):
        text = f"ref: {os.readlink(head)}"
    else:
        with open(head, encoding="utf-8") as file:
            text = file.read(4096).strip()
    named = re.fullmatch(r"ref:\s*refs/heads/(.+)", text)
    if (named is None or named[1] == ".invalid") and not re.fullmatch("[0-9a-f]{40,64}", text):
        raise ValueError(f"{head} names no branch")
    return named[1] if named is not None else None


def is_there(path: str) -> bool:
    """Return whether there is a file or folder.  Raises OSError if that cannot be told."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True

"""The state of a git repository on the disk: the branch that is checked out, and names that are free.

The files are read, and git is not run: a repository may have settings with which git would start programs.
"""

from __future__ import annotations

import os
import re

__all__ = ["read_branch", "read_head", "is_free"]

# Files that are there while git merges, rebases or writes, which may keep it from checking out.
BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock")


def is_free(folder: str, name: str) -> bool:
    """Return whether a branch of this name can be made where a folder is.  Raises OSError if that cannot be read."""
    place = find_git_folder(folder)
    if place is None or any(is_there(os.path.join(place, file_name)) for file_name in BUSY):
        return False
    if is_there(common := os.path.join(place, "commondir")):  # of a worktree
        with open(common, encoding="utf-8") as file:
            place = os.path.join(place, file.read(4096).strip())
    parts = name.split("/")
    # A branch is a file: with the branch `a` there cannot be a branch `a/b`, nor the other way round.
    above = ["/".join(parts[:at]) for at in range(1, len(parts))]
    if is_there(os.path.join(place, "refs/heads", name)) or is_there(os.path.join(place, "reftable")):
        return False
    if any(os.path.isfile(os.path.join(place, "refs/heads", parent)) for parent in above):
        return False
    if is_there(packed := os.path.join(place, "packed-refs")):
        with open(packed, encoding="utf-8") as file:
            branches = [line.partition(" refs/heads/")[2].rstrip("\n") for line in file]
        if any(branch == name or branch in above or branch.startswith(f"{name}/") for branch in branches):
            return False
    return True


def read_branch(folder: str) -> str | None:
    """Return the branch that is checked out in a folder's repository; None if there is none, or no repository."""
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
    """Return the branch that a repository's HEAD names; None if it names a commit.

    Raises:
        OSError, ValueError: HEAD cannot be read, or names neither.
    """
    head = os.path.join(place, "HEAD")
    if os.path.islink(head):
        text = f"ref: {os.readlink(head)}"
    else:
        with open(head, encoding="utf-8") as file:
            text = file.read(4096).strip()
    match = re.fullmatch(r"ref:\s*refs/heads/(.+)", text)
    if (match is None or match[1] == ".invalid") and not re.fullmatch("[0-9a-f]{40,64}", text):
        raise ValueError(f"{head} names neither a branch nor a commit")
    return match[1] if match is not None else None


def is_there(path: str) -> bool:
    """Return whether there is a file or folder.  Raises OSError if it cannot be looked at."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True

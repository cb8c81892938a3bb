"""The check that the files that were read from a folder are committed in git.

A pushed policy can then be found again: by its commit, with its author and its review.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection

from hooklatch.errors import locate_error
from hooklatch.fleet.publishing.folder import FolderError
from hooklatch_worker.sandbox import children

__all__ = ["DirtyError", "check_clean"]

GIT_TIMEOUT = 60.0  # seconds for a command of git; a large work tree on a slow disk takes some
MAX_SUBJECT = 200  # characters of a commit's subject in a version's message
SHOWN = 5  # files that an error names
# With these no setting of the user's runs a program or hides a change.
QUIET = ("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.quotePath=false")


class DirtyError(FolderError):
    """A folder in a work tree holds what was not committed."""


def check_clean(folder: str, names: Collection[str]) -> str | None:
    """Return the commit that these files of a folder are of, as a line of text; None if it is not in a work tree.

    Raises:
        DirtyError: one of them is changed, not tracked, or ignored, or a tracked one is missing.
        FolderError: git fails.
    """
    if not is_in_a_work_tree(folder):
        return None
    tracked, hidden = list_tracked_files(folder)
    changed = {name for name in list_changed_files(folder) if name in names or name in tracked}
    dirty_files = sorted(changed | hidden | (set(names) - tracked))
    if dirty_files:
        more = f" and {len(dirty_files) - SHOWN} more" if len(dirty_files) > SHOWN else ""
        raise DirtyError(
            f"{folder} is not as it was committed: {', '.join(dirty_files[:SHOWN])}{more}; commit, so that others can"
            " see what is pushed, or add --allow-dirty"
        )
    return run_git(folder, "log", "-1", "--format=%h %s").decode("utf-8", "replace").strip()[:MAX_SUBJECT]


def is_in_a_work_tree(folder: str) -> bool:
    # git itself gives the same answer for a folder without a work tree and for a work tree that it does not trust.
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == (folder := os.path.dirname(folder)):
            return False
    return True


def list_tracked_files(folder: str) -> tuple[set[str], set[str]]:
    """Return the files that git tracks below a folder, and those of them whose changes it is set to overlook."""
    tracked, hidden = set[str](), set[str]()
    for entry in split_output(run_git(folder, "ls-files", "-v", "-z", "--", ".")):
        tracked.add(entry[2:])
        if entry[0] != "H":  # git-ls-files(1), -t and -v: assumed unchanged, not checked out, unmerged, …
            hidden.add(entry[2:])
    return tracked, hidden


def list_changed_files(folder: str) -> set[str]:
    prefix = run_git(folder, "rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").rstrip("\n")
    listed = split_output(run_git(
        folder, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none",
        "--", ".",
    ))  # fmt: skip
    return {entry[3:].removeprefix(prefix).rstrip("/") for entry in listed}


def split_output(output: bytes) -> list[str]:
    return [entry for entry in output.decode("utf-8", "surrogateescape").split("\0") if entry]


def run_git(folder: str, *words: str) -> bytes:
    environment = children.GIT.of(os.environ) | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    way_out = "repair that, or add --allow-dirty to push without this check"
    try:
        done = children.run_child(["git", "-C", folder, *QUIET, *words], environment, timeout=GIT_TIMEOUT)
    except FileNotFoundError:
        raise FolderError(f"{folder} is in a work tree of git, but git is not installed; {way_out}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FolderError(
            f"git cannot say whether {folder} is as it was committed: {locate_error(error)}; {way_out}"
        ) from None
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise FolderError(f"git cannot say whether {folder} is as it was committed: {reason}; {way_out}")
    return done.stdout

"""A reader of a folder of hooks, whole and safely, into memory, and the check that it is committed in git.

The files in memory are tested, bundled and signed: the folder is not opened again.  A pushed policy that was committed
can be found again: by its commit, with its author and its review.

    guards.py, checks.toml, lib/…   in the bundle
    fleet.toml                      settings of the bundle, not in it
    policy-tests.toml, .jsonl       cases of `hooklatch test`, not in it; so is all below policy-tests/
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

import msgspec

from hooklatch.core.tables import InvalidTableError, read_table
from hooklatch.core.text import is_unicode
from hooklatch.errors import explain_error, locate_error
from hooklatch.fleet.manifests import MAX_BUNDLE, Bundle, FleetError, is_bundle_name
from hooklatch_worker.sandbox import children
from hooklatch_worker.sandbox.safety import UnsafeFileError, check_folders, read_safely

__all__ = ["SETTINGS", "PolicyFolder", "FolderError", "MissingFolderError", "read_folder", "check_clean"]

SETTINGS = "fleet.toml"
TESTS = "policy-tests"
CASES = (".toml", ".jsonl")
MAX_TESTS = 16 * MAX_BUNDLE  # bytes of cases and their payloads
MAX_ENTRIES = 5000  # of a folder and those below it: more is a home folder or a work tree, named by mistake
# Files that editors, tools and git leave behind; every other hidden file is an error.
LEFTOVERS = (
    "__pycache__", "*.pyc", "*~", "#*#", ".#*", ".*.sw?", ".DS_Store", ".git", ".gitignore", ".gitattributes",
    ".gitkeep", ".editorconfig", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
)  # fmt: skip


class FolderError(FleetError):
    """A folder cannot be pushed as it is.  The text names the file and says what to do."""


class MissingFolderError(FolderError):
    """There is no such folder."""


class SettingsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file fleet.toml: the settings of a bundle."""

    suspendable: bool = False


class PolicyFolder(msgspec.Struct, frozen=True):
    """A folder as it was read.

    `bundle` are the files that go out.  `beside` are the settings and tests, which were read and do not.  `cases` are
    the paths of the tests that `hooklatch test` runs.  `left_out` are the names of files that were not read.
    """

    path: str
    bundle: Bundle
    beside: dict[str, bytes] = {}
    cases: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all files that were read."""
        return frozenset(self.bundle.files) | frozenset(self.beside)


def read_folder(path: str) -> PolicyFolder:
    """Read a folder twice, so that a folder that changes in the meantime is noticed.

    Raises:
        FolderError: a file in it cannot be pushed, or it changed.
    """
    first, second = read_once(path), read_once(path)
    if first != second:
        raise FolderError(f"{path} changed while it was read; push again when nothing writes to it")
    return first


def read_once(path: str) -> PolicyFolder:
    try:
        os.lstat(path)
    except FileNotFoundError:
        raise MissingFolderError(f"{path} does not exist; name the folder that holds the hooks") from None
    except (OSError, ValueError) as error:
        raise FolderError(f"{path!r} cannot be looked up: {explain_error(error)}") from None
    root = os.path.realpath(path)
    if not os.path.isdir(root):
        raise FolderError(f"{path} is not a folder; name the folder that holds the hooks")
    reader = FolderReader(root)
    try:
        check_folders(root)
        reader.read_all()
    except UnsafeFileError as error:
        raise FolderError(str(error)) from None
    except OSError as error:
        raise FolderError(f"{error.filename or root} cannot be read: {error.strerror}") from None
    return PolicyFolder(
        root,
        Bundle(dict(sorted(reader.files.items())), read_policy_settings(root, reader.beside).suspendable),
        dict(sorted(reader.beside.items())),
        tuple(sorted(name for name in reader.beside if is_cases(name))),
        tuple(sorted(reader.left_out)),
    )


class FolderReader:
    """A reader of every file below a folder that is not left out; it refuses files that no bundle may hold."""

    def __init__(self, root: str) -> None:
        self.files: dict[str, bytes] = {}
        self.beside: dict[str, bytes] = {}
        self.left_out: list[str] = []
        self._root = root
        self._bytes_left = MAX_BUNDLE
        self._beside_bytes_left = MAX_TESTS

    def read_all(self) -> None:
        for count, entry in enumerate(self._entries()):
            name = self._relative_name(entry)
            if count >= MAX_ENTRIES:
                raise FolderError(f"{self._root} has over {MAX_ENTRIES} files and folders; name the one with the hooks")
            if entry.is_symlink():
                raise FolderError(f"{entry.path} is a link; replace it by the file that it leads to")
            if not is_bundle_name(name):
                raise FolderError(f"{entry.path} is hidden, or its name is not plain; rename it, or move it elsewhere")
            if not entry.is_dir(follow_symlinks=False):
                self._read(entry.path, name)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        pending = [self._root]
        while pending:
            folder = pending.pop()
            check_folders(folder)  # at each level: another user must not be able to exchange a file below
            with os.scandir(folder) as entries:
                for entry in entries:
                    if any(fnmatchcase(entry.name, pattern) for pattern in LEFTOVERS):
                        self.left_out.append(self._relative_name(entry))
                        continue
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)

    def _relative_name(self, entry: os.DirEntry[str]) -> str:
        if not is_unicode(entry.path):
            raise FolderError(f"{os.fsencode(entry.path)!r} is not UTF-8; rename it")
        return os.path.relpath(entry.path, self._root)

    def _read(self, path: str, name: str) -> None:
        if is_beside(name):
            data = read_safely(path, maximum=max(0, self._beside_bytes_left))
            self._beside_bytes_left -= len(data)
            self.beside[name] = data
            return
        size = os.lstat(path).st_size
        if size > self._bytes_left:
            raise FolderError(
                f"{path} has {size} bytes, which brings the folder over {MAX_BUNDLE // 2**20} MiB, the most that a"
                " bundle can have; leave out what no hook needs"
            )
        self.files[name] = data = read_safely(path, maximum=MAX_BUNDLE)
        self._bytes_left -= len(data)


def is_beside(name: str) -> bool:
    """Return whether a file is about the bundle and not in it."""
    return name == SETTINGS or name.startswith(f"{TESTS}/") or is_cases(name)


def is_cases(name: str) -> bool:
    """Return whether `hooklatch test` runs a file: policy-tests at the top, and all of this kind below that folder."""
    return name.endswith(CASES) and (name.startswith(f"{TESTS}/") or name in [TESTS + ending for ending in CASES])


def read_policy_settings(root: str, beside: dict[str, bytes]) -> SettingsTable:
    path = os.path.join(root, SETTINGS)
    try:
        return read_table(tomllib.loads(beside.get(SETTINGS, b"").decode()), SettingsTable, "file")
    except (InvalidTableError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FolderError(f"{path}: {error}; it may say: suspendable = true") from None


GIT_TIMEOUT = 60.0  # seconds for a command of git; a large work tree on a slow disk takes some
MAX_SUBJECT = 200  # characters of a commit's subject in a version's message
SHOWN = 5  # files that an error names
# With these no setting of the user's runs a program or hides a change.
QUIET = ("-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.quotePath=false")


def check_clean(folder: str, names: Collection[str]) -> str | None:
    """Return the commit that these files of a folder are of, as a line of text; None if it is not in a work tree.

    Raises:
        FolderError: one of them is changed, not tracked, or ignored, or a tracked one is missing; or git fails.
    """
    if not is_in_a_work_tree(folder):
        return None
    tracked, hidden = list_tracked_files(folder)
    changed = {name for name in list_changed_files(folder) if name in names or name in tracked}
    dirty_files = sorted(changed | hidden | (set(names) - tracked))
    if dirty_files:
        more = f" and {len(dirty_files) - SHOWN} more" if len(dirty_files) > SHOWN else ""
        raise FolderError(
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

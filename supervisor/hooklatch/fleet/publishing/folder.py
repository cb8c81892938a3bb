"""A reader of a folder of hooks, whole and safely, into memory.

The files in memory are tested, bundled and signed: the folder is not opened again.

    guards.py, checks.toml, lib/…   in the bundle
    fleet.toml                      settings of the bundle, not in it
    policy-tests.toml, .jsonl       cases of `hooklatch test`, not in it; so is all below policy-tests/
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase

import msgspec

from hooklatch.core.tables import InvalidTableError, read_table
from hooklatch.core.text import is_unicode
from hooklatch.errors import explain_error
from hooklatch.fleet.bundles import MAX_BUNDLE, Bundle, is_bundle_name
from hooklatch.fleet.manifests import FleetError
from hooklatch_worker.sandbox.safety import UnsafeFileError, check_folders, read_safely

__all__ = ["SETTINGS", "PolicyFolder", "FolderError", "MissingFolderError", "read_folder"]

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

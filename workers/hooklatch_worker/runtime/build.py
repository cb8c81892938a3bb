"""The files that the workers of one build run: bytes in memory, in place of those on the disk.

Knows paths and modules, but neither hooks nor the import system.

    open      in the worker that proves a build: imported files are read from the disk, after the checks, and kept
    complete  then the files are added that the text of these files may import later, without running it
    closed    in that worker from then on, and in every other one from its start: nothing is read from the disk

A module of the folder that is not in a closed build is refused, and the refusal is noted: a hook that catches the
ImportError ends with cause `load` all the same.  The list of modules is a part of the build too, so that a file which
comes later changes nothing.  The earlier import path is the environment, which is trusted as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import machinery

from hooklatch_worker import wire
from hooklatch_worker.author.failures import PACKAGES
from hooklatch_worker.author.marker import find_file_name_fault
from hooklatch_worker.runtime import syntax
from hooklatch_worker.sandbox.safety import UnsafeFileError, read_safely

__all__ = ["SUFFIXES", "ImportedBuild", "OutsideBuildError", "explain_unread"]

Loader = type[machinery.SourceFileLoader] | type[machinery.SourcelessFileLoader] | type[machinery.ExtensionFileLoader]
KINDS: list[tuple[Loader, list[str]]] = [
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
]
LOADERS = [(suffix, loader) for loader, suffixes in KINDS for suffix in suffixes]
SUFFIXES = tuple(suffix for suffix, _ in LOADERS)
CACHE = "__pycache__"


class OutsideBuildError(ImportError):
    """A file may not be run, since it is not in the build."""


class ImportedBuild:
    """The files of a source's folder, and the modules that are imported from them."""

    def __init__(self, location: str, code: wire.LoadCode) -> None:
        self.refusals: list[str] = []
        self.files = {location: code.data, **code.build.files}
        self.names = set(code.build.names)
        self.unread: dict[str, str] = {}  # by path: why a file that a hook names could not be read
        self._location = location
        self._is_open = code.is_open
        self._pins = code.pins
        self._folder = os.path.join(code.folder, "")
        self._real = os.path.join(os.path.realpath(code.folder), "")
        self._folders = {folder: frozenset(entries) for folder, entries in code.build.folders.items()}
        self._stems: dict[str, frozenset[str]] = {}
        self._packages = {location: ""}  # by path: the package at which relative imports of a module begin
        self._ran: dict[str, None] = {location: None}
        self._environment: tuple[str, ...] = ()
        self._links: dict[str, str] = {}

    # -- what there is -------------------------------------------------------------------------------------------

    def read_named(self) -> None:
        """Read the files that the source's hooks name, before the worker is confined and may not read them any more."""
        for name in syntax.list_named_files(self.files[self._location]):
            path = os.path.join(os.path.dirname(self._location), name)
            if find_file_name_fault(name) is not None or path in self.files:
                continue
            if has_hooks_mark(path):
                self.unread[path] = "declares hooks, and may hold secrets of others: hooks cannot have it as data"
                continue
            try:
                self._take(path)
                self.names.add(path)
            except (OutsideBuildError, UnsafeFileError, OSError) as error:
                self.unread[path] = explain_unread(error)

    def settle_environment(self) -> None:
        """Note the import path as the environment, before the source's own folder becomes its first entry."""
        is_alone = os.path.basename(os.path.dirname(self._location)) in PACKAGES  # its neighbours are other packages
        prefixes = (
            [self._folder] if is_alone else [os.path.join(path, "") for path in map(self._inside, sys.path) if path]
        )
        self._environment = tuple(path for path in prefixes if is_alone or path != self._folder)
        self._links = {os.path.realpath(path): path for path in self.names}

    def find_named_bytes(self, path: str) -> bytes | None:
        """Return the bytes of a file that a hook opens, None if it is not in the build."""
        key = self.key_of(path)
        return self.files.get(key) if key is not None else None

    def key_of(self, path: str) -> str | None:
        """Return the path that a file of the folder has or would have here, None if it is outside of the folder."""
        key = self._inside(path)
        if key is None:
            return self._links.get(os.path.abspath(path))
        return key if key in self.files or not key.startswith(self._environment) else None

    def _inside(self, path: str) -> str | None:
        path = os.path.abspath(path)
        if f"{path}/" == self._folder or path.startswith(self._folder):
            return path
        if f"{path}/".startswith(self._real):
            return os.path.normpath(self._folder + path[len(self._real) :])
        return None

    def key_of_folder(self, path: str) -> str | None:
        """Return the path that a directory has here, also if a link leads to it."""
        key = self._inside(path) or self._inside(os.path.realpath(path))
        return key if key is not None and not f"{key}/".startswith(self._environment) else None

    def content(self) -> wire.BuildFiles:
        """Return the files that every other worker of this build gets."""
        files = {path: data for path, data in self.files.items() if path != self._location}
        return wire.BuildFiles(
            files, {key: sorted(entries) for key, entries in self._folders.items()}, sorted(self.names)
        )

    def collect_run_files(self, earlier_modules: frozenset[str]) -> dict[str, str]:
        """Return the sha256 of each file that has run, by path; empty for a file outside of the build.

        `earlier_modules` are the modules of every worker.
        """
        from hashlib import sha256  # the zygote has imported it

        digests = {path: sha256(self.files[path]).hexdigest() for path in list(self._ran)}
        for name in sys.modules.keys() - earlier_modules:
            file = getattr(sys.modules.get(name), "__file__", None)
            if isinstance(file, str) and (self.is_spelled_below(file) or "/.." in file):
                key = self.key_of(file)
                if key is not None and key not in self.files:
                    digests[key] = ""
        return digests

    def is_spelled_below(self, path: str) -> bool:
        """Return whether a path begins with the folder.  To resolve hundreds of paths would take a millisecond."""
        return f"{path}/".startswith((self._folder, self._real))

    # -- reading -------------------------------------------------------------------------------------------------

    def run(self, path: str) -> bytes:
        """Return the bytes of a module that is about to run.

        Raises:
            OutsideBuildError: it is not in the build, or its bytes are not the signed or trusted ones.
            UnsafeFileError: another user could have written it.
            OSError: it cannot be read.
        """
        data = self._read(path)
        self._ran[path] = None
        return data

    def _read(self, path: str) -> bytes:
        data = self.files.get(path)
        if data is not None:
            return data
        if not self._is_open:
            self._refuse(
                f"{path} is not in the build of {self._location}: import it at the top or by its literal name, or"
                ' name it in files = ["…"] of its [[source]] or @hook; then: hooklatch reload'
            )
        return self._take(path)

    def _take(self, path: str) -> bytes:
        data = read_safely(path, maximum=wire.MAX_BUILD)
        if self._pins is not None:
            from hashlib import sha256

            if self._pins.get(path) != sha256(data).hexdigest():
                self._refuse(f"{path} differs from the file that was signed or trusted")
        if sum(map(len, self.files.values())) + len(data) > wire.MAX_BUILD:
            text = f"with {path} the build of {self._location} is over {wire.MAX_BUILD // 2**20} MiB"
            self._refuse(f"{text}; install large files as a package, or do not name them in files")
        self.files[path] = data
        return data

    def _refuse(self, text: str) -> None:
        self.refusals.append(text)
        raise OutsideBuildError(text)

    # -- finding -------------------------------------------------------------------------------------------------

    def list_entries(self, folder: str) -> frozenset[str]:
        """Return the modules of a directory, with those in the build, in the form of `wire.BuildFiles.folders`."""
        known = self._folders.get(folder)
        if known is None:
            known = frozenset(list_build_modules(folder))
            if self._is_open:
                self._folders[folder] = known
        prefix = os.path.join(folder, "")
        return known | {path[len(prefix) :] for path in self.files if path.startswith(prefix)}

    def find(self, name: str, folder: str) -> machinery.ModuleSpec | None:
        """Return the spec of a module, if it is in this directory.

        Raises:
            OutsideBuildError: it is there, and is not in the build.
        """
        tail = name.rpartition(".")[2]
        stems = self._stems.get(folder)
        if stems is None:
            stems = frozenset(entry.partition("/")[0].partition(".")[0] for entry in self.list_entries(folder))
            if self._is_open or folder in self._folders:
                self._stems[folder] = stems
        if tail not in stems:
            return None
        entries = self.list_entries(folder)
        for stem, is_package in ((f"{tail}/__init__", True), (tail, False)):
            for suffix, loader in LOADERS:
                if f"{stem}{suffix}" in entries:
                    return self._spec(name, f"{folder}/{stem}{suffix}", loader, is_package=is_package)
        if any(entry.startswith(f"{tail}/") for entry in entries):
            spec = machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [f"{folder}/{tail}"]
            return spec
        return None

    def _spec(self, name: str, path: str, loader: Loader, *, is_package: bool) -> machinery.ModuleSpec:
        self._read(path)
        self._packages.setdefault(path, name if is_package else name.rpartition(".")[0])
        spec = machinery.ModuleSpec(name, loader(name, path), origin=path, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(path)]
        return spec

    # -- what is imported later ----------------------------------------------------------------------------------

    def complete(self) -> None:
        """Read the files that the text of the build may import later, and close the build.

        Raises:
            OutsideBuildError: it would be too large, or a file differs from the signed or trusted one.
            UnsafeFileError: another user could have written one of the files.
            OSError: a file cannot be read.
        """
        if not self._is_open:
            return
        done_paths, pending = (
            set[str](),
            [path for path in self.files if path.endswith(".py")] if self._has_others() else [],
        )
        while pending:
            path = pending.pop()
            if path in done_paths:
                continue
            done_paths.add(path)
            is_package = os.path.basename(path) == "__init__.py"
            for name in syntax.list_imports(self.files[path], self._packages.get(path, ""), is_package=is_package):
                pending += (found for found in self._resolve(name) if found.endswith(".py"))
        for path in list(self.files):
            if os.path.basename(path).startswith("__init__."):
                self.list_entries(os.path.dirname(path))  # pkgutil must list later what the package has now
        self._is_open = False

    def _has_others(self) -> bool:
        return any(self.list_entries(folder) - {os.path.basename(self._location)} for folder in self._import_path())

    def _import_path(self) -> list[str]:
        return [key for path in sys.path if path and (key := self.key_of_folder(path)) is not None]

    def _resolve(self, name: str) -> Iterator[str]:
        folders, full = self._import_path(), ""
        for part in name.split("."):
            full = f"{full}.{part}" if full else part
            spec = next((candidate for folder in folders if (candidate := self.find(full, folder)) is not None), None)
            if spec is None:
                return
            if spec.origin is not None:
                yield spec.origin
            folders = list(spec.submodule_search_locations or ())


def explain_unread(error: Exception) -> str:
    """Return the reason why a file of a build could not be read."""
    reason: str | None = getattr(error, "strerror", None)
    return str(error) if reason is None else f"{getattr(error, 'filename', None)} cannot be read: {reason}"


def has_hooks_mark(path: str) -> bool:
    folder, name = os.path.split(path)
    return name == "hooks.toml" or (os.path.basename(folder) == "hooks.d" and name.endswith(".toml"))


def list_build_modules(folder: str) -> Iterator[str]:
    """List the importable parts of a directory: modules, packages by their first file, and other directories.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        name = entry.name
        if not name.isprintable() or name == CACHE:
            continue
        if entry.is_dir():
            firsts = [f"{name}/__init__{suffix}" for suffix in SUFFIXES]
            yield from [first for first in firsts if os.path.isfile(f"{folder}/{first}")] or [f"{name}/"]
        elif name.endswith(SUFFIXES):
            yield name

"""The connection of the import system to a build: a finder for its directories, and loaders that read from it.

It knows the import system; the build decides which files may run.
"""

from __future__ import annotations

import _io
import io
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from importlib import machinery
from typing import IO, Any, cast

from hooklatch_worker.runtime import named_files
from hooklatch_worker.runtime.build import SUFFIXES, ImportedBuild
from hooklatch_worker.systems import system

__all__ = ["install_importer", "cache_source_lines"]


class BuildFolderFinder:
    """A finder for the modules of one directory of a build; the import system has one for each directory."""

    def __init__(self, build: ImportedBuild, path: str) -> None:
        self._build = build
        self._path = path

    def find_spec(self, name: str, target: types.ModuleType | None = None) -> machinery.ModuleSpec | None:
        """Return the spec of a module, if it is in this directory."""
        return self._build.find(name, self._path)

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        """List the modules for pkgutil, as they were when the build was made."""
        is_package_by_name = {
            entry.partition("/")[0].partition(".")[0]: "/__init__." in entry for entry in self._entries()
        }
        for name, is_package in sorted(is_package_by_name.items()):
            yield prefix + name, is_package

    def _entries(self) -> list[str]:
        entries = self._build.list_entries(self._path)
        modules = [entry for entry in entries if entry.endswith(SUFFIXES)]
        return [
            module
            for module in modules
            if not module.startswith("__init__.") and ("/" not in module or "/__init__." in module)
        ]


installed: list[ImportedBuild] = []  # one in a worker; several where a debugger has loaded more than one source


def find_build(path: str) -> tuple[ImportedBuild, str] | None:
    """Return the build that a file belongs to, and its path there."""
    return next(((build, key) for build in installed if (key := build.key_of(path)) is not None), None)


def install_importer(build: ImportedBuild) -> None:
    """Let imports from the folder, and each named file that a hook opens, come from its build."""
    if not installed:
        take_over_loaders()
    build.settle_environment()
    installed.append(build)

    def finder(path: str) -> BuildFolderFinder:
        folder = build.key_of_folder(path)
        if folder is None or folder in build.files or os.path.isfile(path):  # a file is for runpy
            raise ImportError(f"{path} is not a directory of the build", path=path)
        return BuildFolderFinder(build, folder)

    sys.path_hooks.insert(0, finder)
    for path in list(sys.path_importer_cache):
        if build.is_spelled_below(path):
            del sys.path_importer_cache[path]
    if build.names:
        named_files.replace_open_functions(build.find_named_bytes)


def take_over_loaders() -> None:
    """Let the import system's own loaders read files of a folder from its build, also where a library makes one."""
    source, extension = machinery.SourceFileLoader, machinery.ExtensionFileLoader
    for kind in (source, machinery.SourcelessFileLoader):
        kind.get_data = wrap_read(kind.get_data)  # type: ignore[method-assign, assignment]
    source.path_stats = wrap_path_stats(source.path_stats)  # type: ignore[method-assign, assignment]
    extension.create_module = wrap_create(extension.create_module)  # type: ignore[method-assign, assignment]
    _io.open_code = io.open_code = wrap_open_code(io.open_code)  # type: ignore[assignment]  # runpy, zipimport


def wrap_read(read: Callable[[Any, str], bytes]) -> Callable[[Any, str], bytes]:
    def get_data(self: machinery.SourceFileLoader, path: str) -> bytes:
        found = find_build(path)
        if found is None:
            return read(self, path)
        build, key = found
        if path == self.path or key.endswith(SUFFIXES):
            data = build.run(key)
            if not key.endswith(".pyc"):
                cache_source_lines(path, data)
            return data
        known = build.files.get(key)
        return known if known is not None else read(self, path)

    return get_data


def wrap_path_stats(stats: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def path_stats(self: machinery.SourceFileLoader, path: str) -> Any:
        if find_build(path) is not None:
            raise OSError(
                f"{path} has no cached bytecode"
            )  # bytecode may be stale or planted: its own bytes are compiled
        return stats(self, path)

    return path_stats


def wrap_create(create: Callable[[Any, machinery.ModuleSpec], Any]) -> Callable[[Any, machinery.ModuleSpec], Any]:
    def create_module(self: machinery.ExtensionFileLoader, spec: machinery.ModuleSpec) -> types.ModuleType:
        found = find_build(self.path)
        if found is None:
            return cast("types.ModuleType", create(self, spec))
        fd = named_files.open_memory_file(found[0].run(found[1]))
        try:  # dlopen(3) takes a path alone
            with system.expose_file(fd) as place:
                return cast("types.ModuleType", create(self, machinery.ModuleSpec(spec.name, self, origin=place)))
        finally:
            os.close(fd)

    return create_module


def wrap_open_code(open_code: Callable[[str], IO[bytes]]) -> Callable[[str], IO[bytes]]:
    def open_held(path: str) -> IO[bytes]:
        found = find_build(path)
        return open_code(path) if found is None else io.BytesIO(found[0].run(found[1]))

    return open_held


def cache_source_lines(path: str, data: bytes) -> None:
    """Let tracebacks show these lines, even if the file has changed by then."""
    linecache.cache[path] = len(data), None, data.decode(errors="replace").splitlines(keepends=True), path

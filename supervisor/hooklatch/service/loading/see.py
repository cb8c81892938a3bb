"""The files that declare hooks: the operator's, projects' and the fleet's.  They are read in a thread: disks are slow.

Knows paths, formats and pins; decides nothing.  An unreadable file is never taken for an absent one.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from hooklatch.core.text import is_unicode
from hooklatch.errors import describe_error
from hooklatch.file_safety import UnsafeFileError
from hooklatch.path_lookup import (
    DirectoryNames,
    Listing,
    PathAbsent,
    PathFault,
    PathFound,
    Stamp,
    list_directory,
    make_path_fault,
    read_if_changed,
)
from hooklatch.products import FILES, SOURCES, ProductError, load_product, run_product
from hooklatch.service.config.configuration import (
    PROJECT_TABLES,
    TABLES,
    ConfigError,
    ConfigFile,
    Diagnostic,
    FileConfig,
    ForeignFile,
    GitSources,
    SourceTable,
    read_config,
)
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading import trust
from hooklatch.service.loading.plugins import Discovery, PackageFolder, discover_plugins
from hooklatch.service.loading.sources import find_definition_target

__all__ = [
    "ENDINGS", "BundleFiles", "DeclaredFile", "FleetFiles", "Manifests", "ObservedFiles", "ProjectFiles", "SeenFile",
    "find_outside_code", "find_unpinned_python", "list_hook_files", "list_watched_paths", "mark_tampered",
    "mark_untrusted", "is_declaring", "read_files", "read_pinned_file", "read_project", "see",
]  # fmt: skip

ENDINGS = (".toml", ".py", ".json")  # what hooks.d may contain
SeenFile: TypeAlias = (
    FileConfig | Diagnostic | PathAbsent | PathFault
)  # its content, what is wrong in it, or that it cannot be read


Manifests: TypeAlias = Mapping[str, list[ManifestHook]]


class DeclaredFile(msgspec.Struct, frozen=True):
    """One file with its declarations, or the fault that makes these unknown.

    `is_absent` if the file does not exist: with a fault, it was active; without one, its absence is accepted.
    """

    path: str
    config: FileConfig | None
    fault: Diagnostic | None = None
    is_absent: bool = False


class ProjectFiles(msgspec.Struct, frozen=True):
    """The files of a trusted project, with the pins that they were compared with and their stamps before that.

    A `fault` says that they are not those that were trusted.
    """

    folder: str
    pins: trust.Pins
    stamps: trust.Stamps | None
    files: list[DeclaredFile] = []
    fault: str | None = None

    @property
    def is_sound(self) -> bool:
        return self.fault is None and all(file.fault is None for file in self.files)


class BundleFiles(msgspec.Struct, frozen=True):
    """The files of the bundle of one of the fleet's policies, below `root`, and the digest that each must have.

    A `fault` says that the policy cannot be read, or is not what was signed; without a name, that it is unknown which
    policies there are.  `observe_until` is signed with it, in seconds since the epoch; `observes` is until when it does
    now, which may be sooner; 0 if it does not.
    """

    policy: str = ""
    root: str = ""
    pins: trust.Pins = {}
    suspendable: bool = False
    stamps: trust.Stamps | None = None
    files: list[DeclaredFile] = []
    fault: str | None = None
    proof: tuple[object, ...] = ()  # the facts that have proven it, if any
    is_to_retry: bool = False  # the fault may go away by itself
    observe_until: float = 0.0
    observes: float = 0.0

    @property
    def is_sound(self) -> bool:
        return self.fault is None and all(file.fault is None for file in self.files)


class FleetFiles(msgspec.Struct, frozen=True):
    """The bundles of the fleet's policies, which hold together, and why every gate is denied besides, if it is."""

    bundles: tuple[BundleFiles, ...] = ()
    denies: str | None = None

    @property
    def is_to_retry(self) -> bool:
        return any(bundle.is_to_retry for bundle in self.bundles)

    def find_bundle(self, path: str) -> BundleFiles | None:
        """Return the bundle that a file is of."""
        return next((bundle for bundle in self.bundles if bundle.root and path.startswith(f"{bundle.root}/")), None)


class ObservedFiles(msgspec.Struct, frozen=True):
    """All that a reload reads, each file once. `manifests` are from when each file was last good.

    `stamps` are those of files that need not be read again while they have them.
    """

    listing: Listing = PathAbsent()
    files: Mapping[str, SeenFile] = {}
    packages: Discovery = Discovery()
    manifests: Manifests = {}
    projects: list[ProjectFiles] = []
    fleet: FleetFiles | None = None
    stamps: Mapping[str, Stamp] = {}


def read_files(main: str, folder: str, known: Iterable[str], before: ObservedFiles) -> ObservedFiles:
    """List the directory, and read the main file, those in the directory, and those `known` to have been there."""
    now_ns, listing = time.time_ns(), list_directory(folder)
    files, stamps = dict[str, SeenFile](), dict[str, Stamp]()
    for path in {main, *known, *list_hook_files(folder, listing)}:
        tables = ConfigFile.__struct_fields__ if path == main else TABLES
        files[path], stamp = read_file(path, tables, before.files.get(path), before.stamps.get(path), now_ns)
        if stamp is not None and isinstance(files[path], FileConfig):  # a fault may end without a change of the file
            stamps[path] = stamp
    return ObservedFiles(listing, files, stamps=stamps)


def see(
    main: str,
    folder: str,
    known: Iterable[str],
    before: ObservedFiles,
    *,
    manifests: Manifests,
    projects: Iterable[tuple[str, trust.Pins, ProjectFiles | None]],
    look_at_fleet: Callable[[], FleetFiles | None],
    find_packages: Callable[[Mapping[str, PackageFolder]], Discovery] = discover_plugins,
) -> ObservedFiles:
    """Read all that a reload reads, in a thread. What is as it was `before` is not read again."""
    return msgspec.structs.replace(
        read_files(main, folder, known, before),
        packages=find_packages(before.packages.folders),
        manifests=manifests,
        projects=[read_project(project, pins, loaded) for project, pins, loaded in projects],
        fleet=look_at_fleet(),
    )


def list_watched_paths(files: Iterable[str], folder: str, roots: Iterable[str], faulty: Iterable[str]) -> list[str]:
    """Return every path whose change may matter, in a thread: these `files`, and what is now in or beside the rest."""
    paths = {*files, *list_hook_files(folder, list_directory(folder))}
    for root in roots:
        paths |= {root, *(trust.stamp_tree(root) or ())}
    for place in {os.path.dirname(file) for file in faulty}:
        listing = list_directory(place)
        names = listing.names if isinstance(listing, DirectoryNames) else []  # the directory itself is watched anyway
        paths.update(os.path.join(place, name) for name in names if name.endswith(".py"))
    return sorted(path for path in paths if os.path.isabs(path))  # a module's name is not a path


def list_hook_files(folder: str, listing: Listing) -> list[str]:
    """Return the files of a directory that declare hooks."""
    names = listing.names if isinstance(listing, DirectoryNames) else []
    return [os.path.join(folder, name) for name in names if is_declaring(name)]


def read_file(
    path: str, tables: tuple[str, ...], before: SeenFile | None = None, known: Stamp | None = None, now_ns: int = 0
) -> tuple[SeenFile, Stamp | None]:
    """Read one file, and return its stamp. If that is the `known` one, or the bytes are the same, return `before`."""
    if isinstance(before, FileConfig) and before.copies:
        before = known = None  # the copies may be others by now
    if not is_unicode(path):
        printable_path = os.fsencode(path).decode("utf-8", "backslashreplace")
        return Diagnostic(printable_path, 0, "its name is not UTF-8; rename it"), None
    try:
        stamp, content = read_if_changed(path, known, now_ns)
        if content is None:
            assert before is not None
            return before, stamp
        if isinstance(content, PathFound):
            return FileConfig(path, sources=[SourceTable(path=path)]), stamp
        if not isinstance(content, bytes):
            return content, None
        digest = hashlib.sha256(content).hexdigest()
        if isinstance(before, FileConfig) and before.digest == digest:
            return before, stamp
        config = read_foreign_file(path, content) if path.endswith(".json") else read_config(path, content, tables)
        if any(table.git is not None for table in config.sources):
            product, written = load_product(SOURCES, "git", GitSources), config
            config = run_product("its reader fails", FileConfig, lambda: product.find(written), OSError)
    except ConfigError as error:
        return error.diagnostic, None
    except ProductError as error:
        return Diagnostic(path, 0, f"it is unknown which hooks it holds: {error}"), None
    except OSError as error:
        return make_path_fault(path, error), None
    return msgspec.structs.replace(config, digest=digest), stamp


def read_foreign_file(path: str, data: bytes) -> FileConfig:
    """Read another system's file by the product for its ending.

    Raises:
        ConfigError: it is not such a file.
        ProductError: the product cannot be loaded, or fails.
    """
    product = load_product(FILES, ".json", ForeignFile)
    return run_product("its reader fails", FileConfig, lambda: product.read(path, data), ConfigError)


def is_declaring(name: str) -> bool:
    return name.endswith(ENDINGS) and name[0] != "."


# -- projects ----------------------------------------------------------------------------------------------------


def read_project(folder: str, pins: trust.Pins, before: ProjectFiles | None) -> ProjectFiles:
    """Read a project's files if they are those that were trusted. Unchanged ones are not read again."""
    project = ProjectFiles(folder, pins, trust.stamp_project(folder))
    if before is not None and before.is_sound and before.pins is pins and before.stamps == project.stamps:
        return before
    try:
        fault = trust.compare_pinned_files(pins, trust.pin_files(folder))
    except (UnsafeFileError, OSError) as error:
        fault = describe_error(error)
    if fault is None and project.stamps is None:
        fault = "it cannot be accessed"
    if fault is not None:
        return mark_untrusted(project, fault)
    root = trust.project_hooks_folder(folder)
    inside = (name for name in pins if os.path.dirname(name) == "hooks.d" and is_declaring(os.path.basename(name)))
    names = [*(name for name in pins if name == "hooks.toml"), *sorted(inside)]
    files = [read_pinned_file(root, name, pins[name], find_project_misfit) for name in names]
    return msgspec.structs.replace(project, files=files)


def mark_untrusted(project: ProjectFiles, fault: str) -> ProjectFiles:
    """Return a project whose files are not those that were trusted."""
    text = (
        f"{trust.project_hooks_folder(project.folder)} has changed since it was trusted ({fault}); "
        f"look at it, then: hooklatch trust {shlex.quote(project.folder)}"
    )
    return msgspec.structs.replace(project, files=[], fault=text)


def read_pinned_file(
    root: str, name: str, digest: str, fault_of: Callable[[str, FileConfig], Diagnostic | None]
) -> DeclaredFile:
    path = os.path.join(root, name)
    found, _ = read_file(path, PROJECT_TABLES)
    match found:
        case FileConfig() as config if config.digest in ("", digest):  # a Python file is hashed when it is built
            fault = fault_of(root, config)
            return DeclaredFile(path, config if fault is None else None, fault)
        case FileConfig() | PathAbsent():
            return DeclaredFile(path, None, Diagnostic(path, 0, "it changes while it is read"))
        case PathFault(reason):
            return DeclaredFile(path, None, Diagnostic(path, 0, reason))
        case Diagnostic() as fault:
            return DeclaredFile(path, None, fault)


def find_project_misfit(root: str, config: FileConfig) -> Diagnostic | None:
    """Return the diagnostic of a project's file that names code which is not pinned with it."""
    return find_unpinned_python(config) or find_outside_code(root, config)


def find_unpinned_python(config: FileConfig) -> Diagnostic | None:
    for table in config.sources:
        if table.python is not None:
            text = (
                f"[[source]] names the interpreter {table.python}, and a package that is installed there changes"
                " what hooks do, unseen; write what the file needs into a `# /// script` block in it"
            )
            return Diagnostic(config.path, 0, text)
    if config.copies:
        return Diagnostic(config.path, 0, "git in a [[source]] is for a person's own files: put the guards beside it")
    return None


def find_outside_code(root: str, config: FileConfig) -> Diagnostic | None:
    """Return the diagnostic of a file that names Python code outside of the pinned directory."""
    places = [(table.source, 0) for table in config.sources]
    places += [(find_definition_target(hook, os.path.dirname(config.path))[0], hook.line) for hook in config.hooks]
    for source, line in places:
        if source.kind == "file" and not source.location.startswith(f"{root}/"):
            return Diagnostic(config.path, line, f"{source.location} is not below {root}, so it is not pinned")
    return None


def mark_tampered(bundle: BundleFiles, fault: str) -> BundleFiles:
    """Return a policy whose files are not those that were signed."""
    text = f"{bundle.root} is not what the fleet's publisher signed ({fault}); to write it anew: hooklatch reload"
    return msgspec.structs.replace(bundle, files=[], fault=text)

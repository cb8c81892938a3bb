"""The installed packages that provide hooks.  Their metadata is read here; only workers import them.

A plugin is an entry point of the group `hooklatch.plugins`. Its name is the plugin's, its value the module whose
functions marked with @hook are its hooks.  Unreadable metadata may name a plugin, and never counts as empty.
"""

from __future__ import annotations

import errno
import importlib.metadata
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from functools import partial

import msgspec

from hooklatch.core.hooks.definitions import is_id
from hooklatch.disks import find_disk, find_lane
from hooklatch.errors import explain_error
from hooklatch.files import open_regular
from hooklatch.path_lookup import (
    PathAbsent,
    PathFault,
    PathFound,
    Stamp,
    is_at_rest,
    is_passing,
    list_directory,
    look_up_path,
    stamp_status,
)
from hooklatch_worker.author.marker import MarkedEvent
from hooklatch_worker.wire import HookDeclaration, Source

__all__ = ["GROUP", "PLUGIN", "Discovery", "PackageFolder", "Plugin", "discover_plugins"]

GROUP = "hooklatch.plugins"
ABSENT: Stamp = (-errno.ENOENT,)
TIMEOUT = 20.0  # seconds for all packages: hundreds, from a cold disk
PLUGIN = "plugin:"  # prefix of the name under which its manifest is kept beside those of files


class Plugin(msgspec.Struct, frozen=True):
    """A plugin by name, or its fault. `package` is the distribution that provides it."""

    name: str
    module: str
    package: str = ""
    fault: str | None = None

    @property
    def key(self) -> str:
        return PLUGIN + self.name

    @property
    def source(self) -> Source:
        return Source("module", self.module)

    def named(self, declared: HookDeclaration) -> MarkedEvent:
        """Return a function's marker with the plugin's name in its id."""
        return msgspec.structs.replace(declared.marker, id=f"{self.name}.{declared.marker.id or declared.function}")


class Package(msgspec.Struct, frozen=True):
    """The plugins of the package at a place, or why they are unknown; `name` is the distribution's."""

    place: str
    name: str = ""
    plugins: list[Plugin] = []
    fault: PathFault | None = None


class PackageFolder(msgspec.Struct, frozen=True):
    """The packages of one entry of the import path, and the stamps of the files and directories that say so.

    Without `stamps` it is read again each time, since not every change would show in one.
    """

    packages: list[Package] = []
    fault: PathFault | None = None
    stamps: Mapping[str, Stamp] = {}


class Discovery(msgspec.Struct, frozen=True):
    """The plugins of installed packages. `faults` are the directories that could not be read."""

    plugins: dict[str, Plugin] = {}
    faults: dict[str, PathFault] = {}
    read: set[str] = set()
    folders: Mapping[str, PackageFolder] = {}

    def unread(self, known: set[str]) -> dict[str, str]:
        """Return the fault of each directory that was not `known` before, since it may hold a guard."""
        return {place: fault.reason for place, fault in self.faults.items() if place not in known}

    def known(self, before: set[str]) -> set[str]:
        """Return the directories whose plugins are active: those that could be read, now or when last known."""
        return self.read | (before & self.faults.keys())


def discover_plugins(before: Mapping[str, PackageFolder]) -> Discovery:
    """Find the plugins of all installed packages, by name. A folder that is as it was `before` is not read again.

    While their disk does not answer, none of them is known.
    """
    lane = find_lane("packages", "the disk of installed packages", TIMEOUT)
    try:
        return combine_packages(lane.look(partial(read_import_path, before)))
    except TimeoutError as error:
        late = PathFault(f"installed packages cannot be read: {explain_error(error)}; fix that disk", is_passing=True)
        return Discovery(faults=dict.fromkeys(map(os.path.abspath, sys.path), late))


def combine_packages(folders: Mapping[str, PackageFolder]) -> Discovery:
    """Return what all folders bring. Of two packages of one name only the first on the path counts, as in imports."""
    faults = {entry: folder.fault for entry, folder in folders.items() if folder.fault is not None}
    read, names, plugins = set(folders.keys() - faults.keys()), set[str](), dict[str, Plugin]()
    for package in [package for folder in folders.values() for package in folder.packages]:
        if package.fault is not None:
            faults[package.place] = package.fault
            continue
        read.add(package.place)
        for plugin in package.plugins if package.name not in names else ():
            add_plugin(plugins, plugin)
        names.add(package.name)
    return Discovery({name: plugins[name] for name in sorted(plugins)}, faults, read, folders)


def add_plugin(plugins: dict[str, Plugin], plugin: Plugin) -> None:
    other = plugins.get(plugin.name)
    if other is not None and other.module != plugin.module:
        fault = f"{other.package} and {plugin.package} both bring a plugin of this name; remove one of them"
        plugin = msgspec.structs.replace(other, fault=fault)
    plugins[plugin.name] = plugin


def read_import_path(before: Mapping[str, PackageFolder]) -> dict[str, PackageFolder]:
    entries = list(dict.fromkeys(map(os.path.abspath, sys.path)))
    same = list_unchanged({entry: before[entry] for entry in entries if entry in before})
    if len(same) < len(entries):
        # importlib caches listings; a listing that failed is cached like an empty one.
        importlib.metadata.MetadataPathFinder().invalidate_caches()
    return {entry: same.get(entry) or read_package_folder(entry) for entry in entries}


def list_unchanged(folders: Mapping[str, PackageFolder]) -> dict[str, PackageFolder]:
    """Return the folders of which all is as it was, by one look at each entry that says so."""
    same: dict[str, PackageFolder] = {}
    for entry, folder in folders.items():
        for path, stamp in folder.stamps.items():
            try:
                now = stamp_status(os.lstat(path))
            except OSError as error:  # another one than that it is absent equals no stamp
                now = ABSENT if isinstance(error, FileNotFoundError | NotADirectoryError) else ()
            if now != stamp:
                break
        else:
            if folder.stamps:
                same[entry] = folder
    return same


class Footprint:
    """The stamps of what a reading depends on, each taken before that is read, so that a change in between shows."""

    def __init__(self) -> None:
        self._began_ns = time.time_ns()
        self._stamps: dict[str, Stamp] = {}
        self._is_lasting = True

    def note(self, path: str) -> None:
        """Note an entry; a link is followed on the way to it, and is nothing to rely on at its end."""
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._stamps[path] = ABSENT
        except OSError:
            self._is_lasting = False
        else:
            self._stamps[path] = stamp_status(status)
            self._is_lasting &= is_at_rest(status, self._began_ns)

    def refuse(self) -> None:
        """Have it not last."""
        self._is_lasting = False

    def lasting(self) -> Mapping[str, Stamp]:
        """Return the stamps if each later change shows in one of them, otherwise none."""
        return self._stamps if self._is_lasting else {}


def read_package_folder(entry: str) -> PackageFolder:
    footprint = Footprint()
    footprint.note(entry)
    if find_disk(entry, is_tree=True) is not None:
        footprint.refuse()  # what another machine writes shows later, and by its clock
    found = look_up_path(entry)
    if isinstance(found, PathFound) and found.is_folder:
        listing = list_directory(entry)  # one that cannot be listed is an empty one to importlib
        found = listing if isinstance(listing, PathFault) else found
    if isinstance(found, PathFault):
        return PackageFolder(fault=found)
    packages = [read_package(package, footprint) for package in importlib.metadata.distributions(path=[entry])]
    return PackageFolder(packages, stamps=footprint.lasting())


def read_package(package: importlib.metadata.Distribution, footprint: Footprint) -> Package:
    place = str(getattr(package, "_path", package))
    footprint.note(os.path.join(place, "entry_points.txt"))
    if os.path.islink(place) or not place.endswith((".dist-info", ".egg-info")):  # its name may be in another file
        footprint.refuse()
    try:
        fault = find_package_fault(package)
        if fault is None:
            name = str(getattr(package, "_normalized_name", None) or package.metadata["Name"])
            return Package(place, name, [read_plugin(point) for point in package.entry_points if point.group == GROUP])
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:  # garbage raises any of these
        fault = PathFault(f"{place} cannot be read: {explain_error(error)}; fix it", is_passing(error))
    footprint.refuse()
    return Package(place, fault=fault)


def find_package_fault(package: importlib.metadata.Distribution) -> PathFault | None:
    """Return the fault of a package whose entry points are unknown. To importlib it has none."""
    place: object = getattr(package, "_path", None)
    if not isinstance(place, pathlib.Path):
        return None  # in an archive, which is read completely or not at all
    seen = look_up_path(str(place))
    if isinstance(seen, PathFound) and not seen.is_folder:
        return None  # the old format is a single file, without entry points
    points = look_up_path(str(place / "entry_points.txt"))
    if isinstance(points, PathAbsent | PathFault):
        return points if isinstance(points, PathFault) else None
    os.close(open_regular(str(place / "entry_points.txt")))
    return None


def read_plugin(point: importlib.metadata.EntryPoint) -> Plugin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
    if not is_id(point.name):
        return Plugin(repr(point.name)[:80], "", package, "its name must be one line of at most 200 characters")
    module, colon, _ = point.value.partition(":")
    if colon or not all(part.isidentifier() for part in module.strip().split(".")):
        return Plugin(point.name, "", package, f"its entry point must name a module, not {point.value!r}")
    return Plugin(point.name, module.strip(), package)

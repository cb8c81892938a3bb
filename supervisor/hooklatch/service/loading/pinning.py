"""The comparison of sources with the pins of the fleet's bundle, which was signed, and of projects, which were trusted.

prepare_version       before a source is built: only what was signed or trusted may be built
verify_fleet_files    before the commit: the present files, and those that workers loaded, are the signed ones
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.loading.declared_files import FleetFiles, mark_tampered
from hooklatch.service.loading.plan import ReloadPlan
from hooklatch.service.loading.sources import SourceBuild, SourceVersion, UnitError, add_named_files, source_lock_path
from hooklatch.service.loading.trust import project_hooks_folder, stamp_tree

__all__ = ["is_below", "prepare_version", "verify_fleet_files"]


def verify_fleet_files(fleet: FleetFiles | None, units: Iterable[SourceBuild]) -> FleetFiles | None:
    """Return the fleet's policy as it was read, with a fault if its files or those that workers loaded are others."""
    if fleet is None or fleet.fault is not None or not fleet.root:
        return fleet
    if fleet.stamps != stamp_tree(fleet.root):
        return mark_tampered(fleet, "it has changed just now")
    loaded = (file for unit in units for file in unit.digests.items() if is_below(file[0], fleet.root))
    if any(fleet.pins.get(os.path.relpath(path, fleet.root)) != digest for path, digest in loaded):
        return mark_tampered(fleet, "workers have loaded something else")
    return fleet


def prepare_version(version: SourceVersion, plan: ReloadPlan) -> SourceVersion:
    """Return a version with what files declare for its source: where it runs, and what its workers may import.

    Raises:
        UnitError: its requirements are wrong; or it is of the fleet's bundle or of a project, and is not what was
            signed or trusted.
    """
    location = version.source.location
    version = add_named_files(version, plan.named.get(location, ()))
    version = msgspec.structs.replace(
        pin_imports(version, plan.fleet), python=plan.pythons.get(location), may_make=location in plan.wanted
    )
    version = msgspec.structs.replace(version, required=version.find_requirements())
    for project in plan.projects:
        root = project_hooks_folder(project.folder)
        if is_below(location, root):
            pins = {os.path.join(root, name): digest for name, digest in project.pins.items()}
            compare_pins(version, pins)
            version = msgspec.structs.replace(version, folder=root, pins=pins)
    is_of_fleet = plan.fleet is not None and is_below(location, plan.fleet.root or "-")
    if is_of_fleet and version.required is not None:
        text = (
            "it requires packages, which no signature covers; remove its requirements: a fleet's hooks import from the"
            " daemon's environment"
        )
        raise UnitError(Diagnostic(location, 0, text))
    return version


def compare_pins(version: SourceVersion, pins: Mapping[str, str]) -> None:
    """Compare the bytes that were read of a project's source and of its lock with their pins.

    Raises:
        UnitError: one of them is not what was trusted.
    """
    location = version.source.location
    if pins.get(location) != version.source.digest:
        raise UnitError(Diagnostic(location, 0, "it has changed since it was trusted"))
    if version.required is not None and version.required.lock:
        path = os.path.normpath(source_lock_path(version.required, location))
        if pins.get(path) != version.required.lock_digest:
            raise UnitError(Diagnostic(path, 0, f"it is not what was trusted with {location}"))


def pin_imports(version: SourceVersion, fleet: FleetFiles | None) -> SourceVersion:
    """Return a version with what its workers may import, if it is of the fleet's bundle.

    Raises:
        UnitError: it is not what was signed.
    """
    if fleet is None or not is_below(version.source.location, fleet.root or "-"):
        return version
    pins = {os.path.join(fleet.root, name): digest for name, digest in fleet.pins.items()}
    if pins.get(version.source.location) != version.source.digest:
        raise UnitError(Diagnostic(version.source.location, 0, "it is not what was signed"))
    return msgspec.structs.replace(version, folder=fleet.root, pins=pins)


def is_below(path: str, root: str) -> bool:
    return path.startswith(f"{root}/")

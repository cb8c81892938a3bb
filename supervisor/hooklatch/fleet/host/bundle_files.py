"""The files of the bundle of one of the fleet's policies, as they are read on a host.  Knows pins, and no signature."""

from __future__ import annotations

import msgspec

from hooklatch.core.hooks.builtin_sources import SHELL
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.errors import describe_error
from hooklatch.service.config.configuration import Diagnostic, FileConfig, find_definition_target
from hooklatch.service.config.file_safety import UnsafeFileError
from hooklatch.service.loading import trust
from hooklatch.service.loading.see import (
    BundleFiles,
    find_outside_code,
    find_unpinned_python,
    is_declaring,
    mark_tampered,
    read_pinned_file,
)

__all__ = ["find_fleet_misfit", "read_bundle_files"]


def read_bundle_files(bundle: BundleFiles, before: BundleFiles | None) -> BundleFiles:
    """Read the files of a bundle if they are those that were signed. Unchanged ones are not read again."""
    stamps = trust.stamp_tree(bundle.root)
    if before is not None and before.is_sound and (before.pins, before.stamps) == (bundle.pins, stamps):
        return msgspec.structs.replace(bundle, stamps=stamps, files=before.files)
    try:
        fault = trust.compare_pinned_files(bundle.pins, trust.pin_below(bundle.root))
    except (UnsafeFileError, OSError) as error:
        fault = describe_error(error)
    if fault is None and stamps is None:
        fault = "it cannot be accessed"
    if fault is not None:
        return mark_tampered(bundle, fault)
    names = sorted(name for name in bundle.pins if "/" not in name and is_declaring(name))
    files = [read_pinned_file(bundle.root, name, bundle.pins[name], find_fleet_misfit) for name in names]
    return msgspec.structs.replace(bundle, stamps=stamps, files=files)


def find_fleet_misfit(root: str, config: FileConfig) -> Diagnostic | None:
    """Return the diagnostic of a bundle's file whose code may differ on a host, or which a host could hide."""
    standard = Catalogue.standard()
    for table in config.sources:
        if table.source.kind != "file":
            text = f"[[source]] names the module {table.source.location!r}, which no signature covers: use path"
            return Diagnostic(config.path, 0, text)
    for hook in config.hooks:
        source, _ = find_definition_target(hook, root)
        if source.kind != "file" and source != SHELL.source:
            text = (
                f"hook {hook.id!r}: its code is the module {source.location!r}, which no signature covers: use a file"
            )
            return Diagnostic(config.path, hook.line, text)
        if hook.plugin is not None:
            text = f"hook {hook.id!r}: a fleet's hook belongs to no plugin; remove plugin"
            return Diagnostic(config.path, hook.line, text)
        if hook.event not in standard:
            from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

            text = f"hook {hook.id!r}: {describe_undefined_event(standard, hook.event)}"
            return Diagnostic(config.path, hook.line, text)
    return find_unpinned_python(config) or find_outside_code(root, config)

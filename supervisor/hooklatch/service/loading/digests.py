"""The sha256 of each active file, from when it was read.  Knows files and units; reads nothing."""

from __future__ import annotations

from hooklatch.core.hooks.registry import Hook, PythonTarget
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.sources import Sources, Unit

__all__ = ["digests", "digests_of"]


def digests(files: Files, sources: Sources) -> dict[str, str]:
    """Return those of all files that declare hooks, and of what each source was loaded from in its directory."""
    found = dict(files.declared_digests)
    for unit in sources.units.values():
        found |= loaded(unit)
    return found


def digests_of(hook: Hook, files: Files, sources: Sources) -> dict[str, str]:
    """Return those of the files that a hook depends on: where it is declared, and what its code was loaded from."""
    unit = sources.units.get(hook.target.source.location) if isinstance(hook.target, PythonTarget) else None
    found = loaded(unit) if unit is not None else {}
    if hook.origin is not None and hook.origin.file in files.declared_digests:
        found[hook.origin.file] = files.declared_digests[hook.origin.file]
    return found


def loaded(unit: Unit) -> dict[str, str]:
    return {path: known for path, known in unit.digests.items() if known is not None}

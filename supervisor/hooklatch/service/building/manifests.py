"""What to remember of each file's hooks, for a start at which the file is broken.  Pure: knows layers and plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hooklatch.core.hooks.registry import Hook
from hooklatch.service.building.layer_builder import BuiltLayers
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.reading.plan import Manifests, ReloadPlan, list_remembered_plugins
from hooklatch.service.reading.plugins import PLUGIN

__all__ = ["list_manifests"]


def list_manifests(
    before: Manifests,
    taken: ReloadPlan,
    layers: BuiltLayers,
    faults: Collection[str],
) -> dict[str, list[ManifestHook]]:
    """Return the manifest of every good file, including those without hooks; an accepted removal leaves none.

    A source with one of the `faults` keeps the manifest that it had.
    """
    # Another configuration of the same user may share this state.
    kept = {path: hooks for path, hooks in before.items() if not taken.is_ours(path)}
    kept = {path: hooks for path, hooks in kept.items() if path not in taken.wanted}
    known = {path for path in taken.good.keys() | before.keys() if taken.is_ours(path)} - taken.absent
    for path, hooks in layers.by_file.items():
        is_sound = all(hook.problem is None for hook in hooks)
        remembered = None if is_sound else before.get(path)
        if not remembered:  # the stand-ins of a file that is good in part are better remembered than nothing
            remembered = describe_manifest(hooks) if is_sound or path in known else []
        if remembered or path in known:
            kept[path] = remembered
    for location, hooks in layers.by_source.items():
        if found := [hook for hook in hooks if hook.problem is None]:
            kept[location] = describe_manifest(found)
    kept |= {path: hooks for path, hooks in before.items() if path in faults}
    for name in list_remembered_plugins(before) - taken.plugins.keys():
        kept.pop(PLUGIN + name, None)
    return kept


def describe_manifest(hooks: Iterable[Hook]) -> list[ManifestHook]:
    """Return what a good file's hooks are, for a start at which the file is broken."""
    return [
        ManifestHook(
            hook.id,
            hook.event,
            hook.matcher.source,
            hook.priority,
            hook.enabled,
            hook.observe,
            hook.optional,
            hook.amends,
            hook.where.source if hook.where is not None else None,
        )
        for hook in hooks
    ]

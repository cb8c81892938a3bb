"""The manifests of files: the hooks to remember of each one, for a start at which the file is broken.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hooklatch.core.hooks.registry import Hook
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading.bind import BuiltLayers
from hooklatch.service.loading.plan import ReloadPlan, list_remembered_plugins
from hooklatch.service.loading.plugins import PLUGIN
from hooklatch.service.loading.see import Manifests

__all__ = ["list_manifests"]


def list_manifests(
    before: Manifests,
    plan: ReloadPlan,
    layers: BuiltLayers,
    faults: Collection[str],
) -> dict[str, list[ManifestHook]]:
    """Return the manifest of every good file, also of one without hooks; a file whose removal is accepted has none.

    A source with one of the `faults` keeps the manifest that it had.
    """
    # Another configuration of the same user may share this state.
    manifests = {path: hooks for path, hooks in before.items() if not plan.is_ours(path)}
    manifests = {path: hooks for path, hooks in manifests.items() if path not in plan.wanted}
    known = {path for path in plan.good.keys() | before.keys() if plan.is_ours(path)} - plan.absent
    for path, hooks in layers.by_file.items():
        is_sound = all(hook.problem is None for hook in hooks)
        remembered = None if is_sound else before.get(path)
        if not remembered:  # of a file that is good in part, remember the stand-ins too: without them it guards less
            remembered = describe_manifest(hooks) if is_sound or path in known else []
        if remembered or path in known:
            manifests[path] = remembered
    for location, hooks in layers.by_source.items():
        if sound_hooks := [hook for hook in hooks if hook.problem is None]:
            manifests[location] = describe_manifest(sound_hooks)
    manifests |= {path: hooks for path, hooks in before.items() if path in faults}
    for name in list_remembered_plugins(before) - plan.plugins.keys():
        manifests.pop(PLUGIN + name, None)
    return manifests


def describe_manifest(hooks: Iterable[Hook]) -> list[ManifestHook]:
    """Return the manifest of a good file's hooks."""
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

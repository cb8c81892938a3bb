"""The hooks that a commit puts in place, and what a later start needs of them.  Pure: it changes nothing.

The manifest of a file is what to remember of its hooks, for a start at which the file is broken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from hooklatch.core.hooks.registry import Hook
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.state_file import ManifestHook, SavedState
from hooklatch.service.loading.bind import BuiltLayers
from hooklatch.service.loading.build import BuildResults
from hooklatch.service.loading.plan import ReloadPlan, list_remembered_plugins
from hooklatch.service.loading.plugins import PLUGIN
from hooklatch.service.loading.see import Manifests
from hooklatch.service.loading.unread import UnreadEntries

__all__ = ["ActiveHooks", "list_kept", "list_manifests"]


class ActiveHooks(msgspec.Struct, frozen=True):
    """The hooks of one plan and its builds, and what is wrong."""

    plan: ReloadPlan
    built: BuildResults = BuildResults()
    layers: BuiltLayers = BuiltLayers()
    diagnostics: list[Diagnostic] = []
    unread: UnreadEntries = UnreadEntries()

    @property
    def is_main_good(self) -> bool:
        """Return whether the settings are those that the main file has now."""
        return bool(files := self.plan.files) and files[0].config is not None and files[0].fault is None

    def find_place(self, name: str) -> str | None:
        """Return the file or the plugin that declares a hook, by its id or its name, and a vanished one first."""
        by_file = self.layers.by_file
        paths = [path for path, hooks in by_file.items() for hook in hooks if name in (hook.id, hook.name)]
        return next((path for path in paths if path in self.plan.vanished), paths[0] if paths else None)


def list_kept(state: SavedState) -> tuple[object, ...]:
    """Return what a commit may change in the state: it replaces these values, and never mutates them."""
    return (
        state.settings, state.overrides, state.manifests, state.builds, state.fleet, state.fleet_floor, state.switches,
    )  # fmt: skip


def list_manifests(
    before: Manifests, plan: ReloadPlan, layers: BuiltLayers, faults: Collection[str]
) -> dict[str, list[ManifestHook]]:
    """Return the manifest of every good file, also of one without hooks; a file whose removal is accepted has none.

    A source with one of the `faults` keeps the manifest that it had.
    """
    # Another configuration of the same user may share this state.
    ours = {path for path in plan.good.keys() | before.keys() if plan.is_ours(path)}
    manifests = {path: hooks for path, hooks in before.items() if path not in ours and path not in plan.wanted}
    known = ours - plan.absent
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
            hook.id, hook.event, hook.matcher.source, hook.priority, hook.enabled, hook.observe, hook.optional,
            hook.amends, hook.where.source if hook.where is not None else None,
        )
        for hook in hooks
    ]  # fmt: skip

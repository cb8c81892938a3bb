"""The operator's overrides of hooks that the operator did not write, and lists of plugins.

An override that cannot be applied is a diagnostic, and the hook stays as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import Hook, find_misfit
from hooklatch.core.hooks.resolving import AmbiguousNameError, UnknownNameError, resolve_name
from hooklatch.core.text import suggest_name
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.config.settings import Override

__all__ = ["is_meant", "find_misnamed_plugins", "apply_overrides"]


def is_meant(name: str, hooks: Iterable[Hook], others: Iterable[Hook]) -> bool:
    """Return whether a name means one of these hooks and not one of the others."""
    own = {text for hook in hooks for text in (hook.id, hook.name)}
    return name in own - {text for hook in others for text in (hook.id, hook.name)}


def apply_overrides(
    hooks: Iterable[Hook], main: FileConfig, catalogue: Catalogue, attempts: Collection[Override]
) -> tuple[list[Hook], list[Diagnostic]]:
    """Apply the operator's overrides to hooks that the operator did not write."""
    by_name = {hook.name: hook for hook in hooks}
    broken = {hook.plugin for hook in by_name.values() if hook.problem is not None} - {None}
    diagnostics: list[Diagnostic] = []
    for override in main.overrides:
        try:
            target = resolve_name(override.id, by_name.values())
        except AmbiguousNameError as error:
            diagnostics.append(Diagnostic(main.path, override.line, str(error)))
            continue
        except UnknownNameError:
            target = None
        if target is not None and target.plugin is None:
            for hook in target.hooks:
                by_name[hook.name], fault = apply_override(hook, override, catalogue)
                if fault is not None:
                    diagnostics.append(Diagnostic(main.path, override.line, f"override of {override.id!r}: {fault}"))
        elif override in attempts:
            text = f"{override.id!r} is a hook of the fleet, which cannot be overridden; remove this override"
            diagnostics.append(Diagnostic(main.path, override.line, text))
        elif override.id.partition(".")[0] not in broken:  # the hooks of a broken plugin are unknown
            hint = suggest_name(override.id, [hook.id for hook in by_name.values()]) or "; see: hooklatch hooks"
            text = f"no built-in hook and no hook of a plugin has the id {override.id!r}{hint}"
            diagnostics.append(Diagnostic(main.path, override.line, text))
    return list(by_name.values()), diagnostics


def find_misnamed_plugins(main: FileConfig, hooks: Iterable[Hook]) -> list[Diagnostic]:
    """Find misspelt plugins in personalities: the guards of the plugin that is meant would be left out silently.

    A name that resembles no plugin may be that of one whose hooks a client registers.
    """
    known = {hook.plugin for hook in hooks if hook.plugin}
    return [
        Diagnostic(main.path, 0, f"[personality.{personality}] names the plugin {name!r}, which is not there{near}")
        for personality, names in main.personalities.items()
        for name in names
        if name not in known and (near := suggest_name(name, known - set(names), cutoff=0.8))
    ]


def apply_override(hook: Hook, override: Override, catalogue: Catalogue) -> tuple[Hook, str | None]:
    """Return a hook with an override applied, and the fault if one of its keys has no meaning on the hook's event."""
    overridden = msgspec.structs.replace(hook, **override.changes)
    spec = catalogue.get(hook.event)
    fault = (
        find_misfit(
            spec, overridden.matcher, overridden.where, amends=overridden.amends, only_judges=overridden.only_judges
        )
        if spec is not None
        else None
    )
    if fault is not None:
        overridden = msgspec.structs.replace(overridden, amends=hook.amends, only_judges=hook.only_judges)
    return overridden, fault

"""The meaning of a full name, an id, a plugin's name or a short name among hooks; `names` has their forms."""

from __future__ import annotations

from collections.abc import Iterable

from hooklatch.core.hooks.names import is_short_name, name_whole_plugin, quote_name
from hooklatch.core.hooks.registry import Hook

__all__ = ["AmbiguousNameError", "ResolvedName", "UnknownNameError", "resolve_name"]


class UnknownNameError(LookupError):
    """No hook or plugin has this name."""


class AmbiguousNameError(LookupError):
    """A name has several meanings; `names` lists their full names."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.names = sorted(names)
        super().__init__(f"{text!r} may mean {', or '.join(map(quote_name, self.names))}; give one of these")


class ResolvedName:
    """The meaning of a name: one hook, or all hooks of a `plugin`."""

    def __init__(self, name: str, hooks: Iterable[Hook], plugin: str | None = None) -> None:
        self.name = name
        self.hooks = list(hooks)
        self.plugin = plugin


def resolve_name(text: str, hooks: Iterable[Hook]) -> ResolvedName:
    """Return the meaning of a full name, an id or a plugin's name, or else of a short name.

    Raises:
        UnknownNameError: no hook and no plugin has this name.
        AmbiguousNameError: several have it.
    """
    known = list(hooks)
    wholes = {name_whole_plugin(hook.plugin): hook.plugin for hook in known if hook.plugin is not None}
    meant = {find_meaning(hook) for hook in known if hook.name == text} | wholes.keys() & {text}
    if not meant:
        meant = {find_meaning(hook) for hook in known if hook.id == text} | wholes.keys() & {name_whole_plugin(text)}
    if not meant:
        meant = {find_meaning(hook) for hook in known if is_short_name(text, hook.id)}
    if not meant:
        raise UnknownNameError(text)
    if len(meant) > 1:
        raise AmbiguousNameError(text, meant)
    (name,) = meant
    plugin = wholes.get(name)
    members = [hook for hook in known if (hook.plugin == plugin if plugin is not None else hook.name == name)]
    return ResolvedName(name, members, plugin)


def find_meaning(hook: Hook) -> str:
    """Return the full name that a hook's name resolves to."""
    # The placeholder of a broken plugin is named after it, and is the plugin's only hook.
    return (
        name_whole_plugin(hook.plugin)
        if hook.plugin is not None and hook.name == f"plugin/{hook.plugin}"
        else hook.name
    )

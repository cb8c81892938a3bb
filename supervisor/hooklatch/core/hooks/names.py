"""Full names of hooks, each of which means one hook.  Knows names; does not know files, switches or sessions.

    fleet/no-push   builtin/lsp   plugin/acme.audit   global/no-rm                                 one hook each
    project:/srv/app/no-rm   session:s1/mine                                                       one hook each
    plugin:acme/*                                                              every hook of a plugin

A bare id or plugin name is accepted where it is unambiguous.  A directory and a session id may contain slashes, so in
names that begin with one, a slash in the hook's id is written %2F, and a percent sign %25.  No id may look like a full
name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

__all__ = [
    "AmbiguousNameError", "ResolvedName", "UnknownNameError", "LIKE_A_NAME", "strip_scope", "is_name",
    "read_full_name", "full_hook_name", "quote_name", "resolve_name", "name_whole_plugin",
]  # fmt: skip

NAME = re.compile(r"(?:fleet|builtin|global)/.+|plugin/.+\..+|(?:project|session):.+/[^/]+|plugin:.+/\*", re.DOTALL)
# How a full name begins, as no id may.
LIKE_A_NAME = re.compile(r"(?:fleet|builtin|plugin|global|project|parent|session)(?:/|:.*/)", re.DOTALL)


class NamedHook(Protocol):
    """The part of a hook that `resolve_name` needs."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def plugin(self) -> str | None: ...


H = TypeVar("H", bound=NamedHook)


class UnknownNameError(LookupError):
    """No hook or plugin has this name."""


class AmbiguousNameError(LookupError):
    """A name has several meanings; `names` lists their full names."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.names = sorted(names)
        super().__init__(f"{text!r} may mean {', or '.join(map(quote_name, self.names))}; give one of these")


class ResolvedName(Generic[H]):
    """The meaning of a name: one hook, or all hooks of a `plugin`."""

    def __init__(self, name: str, hooks: Iterable[H], plugin: str | None = None) -> None:
        self.name = name
        self.hooks = list(hooks)
        self.plugin = plugin


def full_hook_name(layer: str, hook_id: str, *, project: str = "", session: str = "") -> str:
    """Return a hook's full name, from its layer or from the project or session that it belongs to."""
    if project or session:
        escaped = hook_id.replace("%", "%25").replace("/", "%2F")
        return f"project:{project}/{escaped}" if project else f"session:{session}/{escaped}"
    return f"{layer}/{hook_id}"


def read_full_name(layer: str | None, hook_id: str | None, name: str | None) -> str:
    """Return a hook's full name out of these fields of a decision or an outcome; empty if no hook decided."""
    return (name or "/".join(filter(None, (layer, hook_id)))) if hook_id else ""


def name_whole_plugin(plugin: str) -> str:
    """Return the name for all hooks of a plugin."""
    return f"plugin:{plugin}/*"


def quote_name(name: str) -> str:
    """Quote a name for a shell."""
    return shlex.quote(name)


def is_name(text: str) -> bool:
    """Return whether a text is a full name, as opposed to an id."""
    return NAME.fullmatch(text) is not None


def strip_scope(name: str) -> str:
    """Return the id within a full name, or the plugin within the name of a whole plugin."""
    kind, separator, scoped_name = re.split("([:/])", name, maxsplit=1)
    if separator == "/":
        return scoped_name
    if kind == "plugin":
        return scoped_name.removesuffix("/*")
    # In this order, the reverse of escaping: "%252F" is the id "%2F".
    return scoped_name.rpartition("/")[2].replace("%2F", "/").replace("%25", "%")


def resolve_name(text: str, hooks: Iterable[H]) -> ResolvedName[H]:
    """Return the meaning of a full name, an id or a plugin's name.

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
        raise UnknownNameError(text)
    if len(meant) > 1:
        raise AmbiguousNameError(text, meant)
    (name,) = meant
    plugin = wholes.get(name)
    members = [hook for hook in known if (hook.plugin == plugin if plugin is not None else hook.name == name)]
    return ResolvedName(name, members, plugin)


def find_meaning(hook: NamedHook) -> str:
    """Return the full name that a hook's name resolves to."""
    # The placeholder of a broken plugin is named after it, and is the plugin's only hook.
    return (
        name_whole_plugin(hook.plugin)
        if hook.plugin is not None and hook.name == f"plugin/{hook.plugin}"
        else hook.name
    )

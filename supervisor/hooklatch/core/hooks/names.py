"""What hooks are called, so that a name means one hook.  Knows names; knows no file, no switch and no session.

    builtin/lsp   plugin/acme.audit   global/no-rm   project:/srv/app/no-rm   session:s1/mine      one hook each
    plugin:acme/*                                                              every hook of a plugin

An id, or a plugin's name, will do where it can mean but one of these.  A folder and a session's id may hold slashes; so
in names that begin with one, an id's own are written %2F, and its % %25.  No id may look like a name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

__all__ = [
    "AmbiguousNameError", "Target", "UnknownNameError", "bare", "is_like_a_name", "is_name", "name_of", "quoted",
    "resolve", "whole",
]  # fmt: skip

NAME = re.compile(r"(?:builtin|global)/.+|plugin/.+\..+|(?:project|session):.+/[^/]+|plugin:.+/\*", re.DOTALL)
LIKE_A_NAME = re.compile(r"(?:builtin|plugin|global|project|parent|session)(?:/|:.*/)", re.DOTALL)


class Named(Protocol):
    """What `resolve` asks of a hook."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def plugin(self) -> str | None: ...


H = TypeVar("H", bound=Named)


class UnknownNameError(LookupError):
    """Nothing has that name."""


class AmbiguousNameError(LookupError):
    """More than one thing may be meant; `names` are theirs."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.names = sorted(names)
        super().__init__(f"{text!r} may mean {', or '.join(map(quoted, self.names))}; give one of these")


class Target(Generic[H]):
    """The one thing that a name means: a hook, or all hooks of a `plugin`."""

    def __init__(self, name: str, hooks: Iterable[H], plugin: str | None = None) -> None:
        self.name = name
        self.hooks = list(hooks)
        self.plugin = plugin


def name_of(layer: str, hook_id: str, *, project: str = "", session: str = "") -> str:
    """Name a hook by its layer, or by the one project or session that it belongs to."""
    if project or session:
        escaped = hook_id.replace("%", "%25").replace("/", "%2F")
        return f"project:{project}/{escaped}" if project else f"session:{session}/{escaped}"
    return f"{layer}/{hook_id}"


def whole(plugin: str) -> str:
    """Name all hooks of a plugin."""
    return f"plugin:{plugin}/*"


def quoted(name: str) -> str:
    """Write a name as a shell takes it."""
    return shlex.quote(name)


def is_name(text: str) -> bool:
    """Return whether a text can be a name in full, as opposed to an id."""
    return NAME.fullmatch(text) is not None


def is_like_a_name(text: str) -> bool:
    """Return whether a text begins as a name in full does; no id may."""
    return LIKE_A_NAME.match(text) is not None


def bare(name: str) -> str:
    """Return the id in a name, or the plugin in that of a whole one."""
    kind, separator, rest = re.split("([:/])", name, maxsplit=1)
    if separator == "/":
        return rest
    if kind == "plugin":
        return rest.removesuffix("/*")
    return rest.rpartition("/")[2].replace("%2F", "/").replace("%25", "%")


def resolve(text: str, hooks: Iterable[H]) -> Target[H]:
    """Find the one thing that a name, an id or a plugin's name means.

    Raises:
        UnknownNameError: there is none.
        AmbiguousNameError: it may mean several.
    """
    known = list(hooks)
    wholes = {whole(hook.plugin): hook.plugin for hook in known if hook.plugin is not None}
    meant = {thing(hook) for hook in known if hook.name == text} | wholes.keys() & {text}
    if not meant:
        meant = {thing(hook) for hook in known if hook.id == text} | wholes.keys() & {whole(text)}
    if not meant:
        raise UnknownNameError(text)
    if len(meant) > 1:
        raise AmbiguousNameError(text, meant)
    (name,) = meant
    plugin = wholes.get(name)
    members = [hook for hook in known if (hook.plugin == plugin if plugin is not None else hook.name == name)]
    return Target(name, members, plugin)


def thing(hook: Named) -> str:
    """Name what a hook's name means: what stands for a broken plugin bears its name, and is all there is of it."""
    return whole(hook.plugin) if hook.plugin is not None and hook.name == f"plugin/{hook.plugin}" else hook.name

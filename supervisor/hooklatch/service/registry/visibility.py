"""The hooks that one session sees: of its plugins and projects, its own, and its parent's gates.

A session that another session started never sees fewer gates than its parent: those of plugins that are allowed there,
of the project in which the parent works, and those that the parent registered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, apply_switches, is_plugin_allowed
from hooklatch.service.registry.places import find_nearest_folders
from hooklatch.service.registry.sessions import AgentSession

__all__ = [
    "ALL_SHARED", "VisibilityScope", "list_allowed_plugins", "has_list", "inherit_gates", "select_own_layer",
    "find_scope", "select_shared_hooks",
]  # fmt: skip


class VisibilityScope(NamedTuple):
    """The part of the shared hooks that a session sees. Sessions of one scope see the same.

    `plugins` are those that are allowed (None: all), `gate_plugins` those that are allowed to bring gates.  `projects`
    are the session's own directories. Of those in `ancestors` it has only the gates.
    """

    plugins: frozenset[str] | None = None
    gate_plugins: frozenset[str] | None = None
    projects: frozenset[str] = frozenset()
    ancestors: frozenset[str] = frozenset()

    def sees(self, hook: Hook, catalogue: Catalogue) -> bool:
        """Return whether a hook's plugin is visible."""
        if hook.plugin is None or is_plugin_allowed(self.plugins, hook.plugin):
            return True
        return is_plugin_allowed(self.gate_plugins, hook.plugin) and is_gate(hook, catalogue)


ALL_SHARED = VisibilityScope()  # of the layers that all sessions share: without any project, with every plugin


def find_scope(session: AgentSession, folders: Collection[str], *, is_unlisted: bool = False) -> VisibilityScope:
    """Return the scope of a session when projects of these directories are in use.

    `is_unlisted` is for a fire whose own list of plugins replaces the one that the session does not have.
    """
    plugins = None if is_unlisted else list_allowed_plugins(session)
    gate_plugins = session.gate_plugins if plugins is not None else None
    if not folders:
        return VisibilityScope(plugins, gate_plugins) if plugins is not None else ALL_SHARED
    own = find_nearest_folders(session.places, folders)
    ancestors = find_nearest_folders(session.places_above, folders) - own
    return VisibilityScope(plugins, gate_plugins, frozenset(own), frozenset(ancestors))


def select_shared_hooks(
    scope: VisibilityScope, shared: Iterable[Hook], projects: Mapping[str, Iterable[Hook]], catalogue: Catalogue
) -> list[Hook]:
    """Return the hooks that all sessions of one scope see, without their own."""
    hooks = (*shared, *select_project_hooks(scope, projects, catalogue))
    return [hook for hook in hooks if scope.sees(hook, catalogue)]


def select_project_hooks(
    scope: VisibilityScope, projects: Mapping[str, Iterable[Hook]], catalogue: Catalogue
) -> Iterator[Hook]:
    for folder in sorted(scope.projects):
        yield from projects[folder]
    for folder in sorted(scope.ancestors):
        for hook in projects[folder]:
            if is_gate(hook, catalogue):
                yield msgspec.structs.replace(hook, layer=Layer.PARENT)


def is_gate(hook: Hook, catalogue: Catalogue) -> bool:
    spec = catalogue.get(hook.event)
    return hook.event == EVERY_GATE or (spec is not None and spec.fails_closed)


def list_allowed_plugins(session: AgentSession) -> frozenset[str] | None:
    """Return the plugins that the session's host and its personality both allow; None for all."""
    plugins, of_personality = session.plugins, session.personality_plugins
    if plugins is not None and of_personality is not None:
        return plugins & of_personality
    named = plugins if plugins is not None else of_personality
    return named if named is not None else session.terms.plugins_without_list


def has_list(session: AgentSession) -> bool:
    """Return whether its host or its personality lists the plugins that it allows."""
    return session.plugins is not None or session.personality_plugins is not None


def select_own_layer(session: AgentSession, scope: VisibilityScope, catalogue: Catalogue) -> list[Hook]:
    """Return the hooks that no other session shares: its own, and the gates of its ancestors."""
    if not (session.own or session.inherited):  # nearly every session, and each is rebuilt after a change
        return []
    own = apply_switches(session.own.values(), session.switches)
    return [*(hook for hook in own if scope.sees(hook, catalogue)), *session.inherited]


def select_inherited_gates(parent: AgentSession, catalogue: Catalogue) -> tuple[Hook, ...]:
    """Return the gates that a session hands down: its own and those that it has inherited."""
    plugins = VisibilityScope(list_allowed_plugins(parent), parent.gate_plugins)
    own = (
        msgspec.structs.replace(hook, layer=Layer.PARENT)
        for hook in apply_switches(parent.own.values(), parent.switches)
        if is_gate(hook, catalogue) and plugins.sees(hook, catalogue)
    )
    return (*parent.inherited, *own)


def inherit_gates(session: AgentSession, parent: AgentSession, catalogue: Catalogue) -> None:
    """Give a session its parent's gates, as they are now."""
    allowed = list_allowed_plugins(parent)
    session.gate_plugins = (
        None if allowed is None or parent.gate_plugins is None else frozenset(allowed | parent.gate_plugins)
    )
    session.places_above = parent.places_above | frozenset(parent.places)
    session.inherited = select_inherited_gates(parent, catalogue)

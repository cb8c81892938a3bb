"""What one session sees of all hooks: which plugins', which projects', whose gates.  Knows layers; changes none.

A session started by another one never sees fewer gates than its parent: those of plugins that are allowed there, of the
project that the parent works in, and those that it registered itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, has, switched
from hooklatch.service.registry.places import nearest
from hooklatch.service.registry.sessions import Session

__all__ = ["EVERYTHING", "Scope", "allowed_plugins", "has_list", "inherit", "own_layer", "scope_of", "shared_hooks"]


class Scope(NamedTuple):
    """Which of the shared hooks a session sees; sessions of one scope see the same.

    `plugins` are those that are allowed (None: all), `gate_plugins` those that are allowed to bring gates.  `projects`
    are the session's own directories; of those in `above` it has only the gates.
    """

    plugins: frozenset[str] | None = None
    gate_plugins: frozenset[str] | None = None
    projects: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()

    def sees(self, hook: Hook, catalogue: Catalogue) -> bool:
        """Return whether a hook's plugin is visible."""
        if hook.plugin is None or has(self.plugins, hook.plugin):
            return True
        return has(self.gate_plugins, hook.plugin) and is_gate(hook, catalogue)


EVERYTHING = Scope()  # of the layers that all sessions share: no plugin is excluded, and no project is included


def scope_of(session: Session, folders: Collection[str], *, is_unlisted: bool = False) -> Scope:
    """Return what a session sees when projects of these directories are in use.

    `is_unlisted` is for a fire whose own list of plugins replaces the one that the session does not have.
    """
    plugins = None if is_unlisted else allowed_plugins(session)
    gate_plugins = session.gate_plugins if plugins is not None else None
    if not folders:
        return Scope(plugins, gate_plugins) if plugins is not None else EVERYTHING
    own = nearest(session.places, folders)
    above = nearest(session.places_above, folders) - own
    return Scope(plugins, gate_plugins, frozenset(own), frozenset(above))


def shared_hooks(
    scope: Scope, shared: Iterable[Hook], projects: Mapping[str, Iterable[Hook]], catalogue: Catalogue
) -> list[Hook]:
    """Return the hooks that all sessions of one scope see, without their own."""
    hooks = (*shared, *project_hooks(scope, projects, catalogue))
    return [hook for hook in hooks if scope.sees(hook, catalogue)]


def project_hooks(scope: Scope, projects: Mapping[str, Iterable[Hook]], catalogue: Catalogue) -> Iterator[Hook]:
    for folder in sorted(scope.projects):
        yield from projects[folder]
    for folder in sorted(scope.above):
        for hook in projects[folder]:
            if is_gate(hook, catalogue):
                yield msgspec.structs.replace(hook, layer=Layer.PARENT)


def is_gate(hook: Hook, catalogue: Catalogue) -> bool:
    spec = catalogue.get(hook.event)
    return hook.event == EVERY_GATE or (spec is not None and spec.fails_closed)


def allowed_plugins(session: Session) -> frozenset[str] | None:
    """Return the plugins that the session's host and its personality both allow; None for all."""
    if not has_list(session):
        return session.terms.plugins_without_list
    if session.plugins is None or session.personality_plugins is None:
        return session.personality_plugins if session.plugins is None else session.plugins
    return session.plugins & session.personality_plugins


def has_list(session: Session) -> bool:
    """Return whether its host or its personality lists the plugins that it allows."""
    return session.plugins is not None or session.personality_plugins is not None


def own_layer(session: Session, scope: Scope, catalogue: Catalogue) -> list[Hook]:
    """Return the hooks that no other session shares: its own, and the gates of its ancestors."""
    if not (session.own or session.inherited):  # nearly every session, and a change asks each of them
        return []
    return [*(hook for hook in own_hooks(session) if scope.sees(hook, catalogue)), *session.inherited]


def own_hooks(session: Session) -> list[Hook]:
    return switched(session.own.values(), session.switches)


def gates_of(parent: Session, catalogue: Catalogue) -> tuple[Hook, ...]:
    """Return the gates that a session hands down: its own and those it was handed itself."""
    plugins = Scope(allowed_plugins(parent), parent.gate_plugins)
    own = (
        msgspec.structs.replace(hook, layer=Layer.PARENT)
        for hook in own_hooks(parent)
        if is_gate(hook, catalogue) and plugins.sees(hook, catalogue)
    )
    return (*parent.inherited, *own)


def inherit(session: Session, parent: Session, catalogue: Catalogue) -> None:
    """Give a session its parent's gates, as they are now."""
    allowed = allowed_plugins(parent)
    session.gate_plugins = (
        None if allowed is None or parent.gate_plugins is None else frozenset(allowed | parent.gate_plugins)
    )
    session.places_above = parent.places_above | frozenset(parent.places)
    session.inherited = gates_of(parent, catalogue)

"""What one session sees of all hooks: which plugins', which project's, whose gates.  Knows layers; changes none.

A session that another one started never sees fewer gates than that one: those of plugins that are allowed there, of the
project that is worked on there, and what it registered itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer, has, switched
from hooklatch.service.registry.places import nearest
from hooklatch.service.registry.sessions import Session

__all__ = ["allowed_plugins", "gates_of", "inherit", "is_gate", "own_hooks", "sees", "unlisted_hooks", "view_hooks"]


def is_gate(hook: Hook, catalogue: Catalogue) -> bool:
    spec = catalogue.get(hook.event)
    return hook.event == EVERY_GATE or (spec is not None and spec.fails_closed)


def allowed_plugins(session: Session) -> frozenset[str] | None:
    """Return the plugins that the session's host and its personality both allow; None for all."""
    if not has_list(session):
        return session.plugins_without_list
    if session.plugins is None or session.personality_plugins is None:
        return session.personality_plugins if session.plugins is None else session.plugins
    return session.plugins & session.personality_plugins


def has_list(session: Session) -> bool:
    """Return whether its host or its personality names the plugins that it allows."""
    return session.plugins is not None or session.personality_plugins is not None


def sees(session: Session, hook: Hook, catalogue: Catalogue) -> bool:
    """Return whether a hook fires in a session, as far as its plugin decides that."""
    if hook.plugin is None or has(allowed_plugins(session), hook.plugin):
        return True
    return has(session.gate_plugins, hook.plugin) and is_gate(hook, catalogue)


def own_hooks(session: Session) -> list[Hook]:
    return switched(session.own.values(), session.switches)


def gates_of(parent: Session, catalogue: Catalogue) -> tuple[Hook, ...]:
    """Return the gates that a session hands down: its own and those it was handed itself."""
    own = (
        msgspec.structs.replace(hook, layer=Layer.PARENT)
        for hook in own_hooks(parent)
        if is_gate(hook, catalogue) and sees(parent, hook, catalogue)
    )
    return (*parent.inherited, *own)


def inherit(session: Session, parent: Session, catalogue: Catalogue) -> None:
    """Bring a session its parent's gates, as they are now."""
    allowed = allowed_plugins(parent)
    session.gate_plugins = (
        None if allowed is None or parent.gate_plugins is None else frozenset(allowed | parent.gate_plugins)
    )
    session.places_above = parent.places_above | frozenset(parent.places)
    session.inherited = gates_of(parent, catalogue)


def view_hooks(
    session: Session, shared: Iterable[Hook], projects: Mapping[str, list[Hook]], catalogue: Catalogue
) -> list[Hook] | None:
    """Return all hooks that a session sees; None where they are the shared ones and nothing else."""
    project = list(project_hooks(session, projects, catalogue))
    if allowed_plugins(session) is None and not (session.own or session.inherited or project):
        return None
    seen = [hook for hook in (*shared, *project, *own_hooks(session)) if sees(session, hook, catalogue)]
    return [*seen, *session.inherited]


def unlisted_hooks(
    session: Session, shared: Iterable[Hook], projects: Mapping[str, list[Hook]], catalogue: Catalogue
) -> list[Hook] | None:
    """Return all hooks of every plugin, where a list of a fire's own stands in for the one that the session has not."""
    if has_list(session) or session.plugins_without_list is None:
        return None
    project = project_hooks(session, projects, catalogue)
    return [*shared, *project, *own_hooks(session), *session.inherited]


def project_hooks(session: Session, projects: Mapping[str, list[Hook]], catalogue: Catalogue) -> Iterator[Hook]:
    own = nearest(session.places, projects)
    for folder in sorted(own):
        yield from projects[folder]
    for folder in sorted(nearest(session.places_above, projects) - own):
        for hook in projects[folder]:
            if is_gate(hook, catalogue):
                yield msgspec.structs.replace(hook, layer=Layer.PARENT)

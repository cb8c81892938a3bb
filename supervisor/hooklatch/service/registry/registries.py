"""The registries: global layers, sessions' layers, and the snapshot of each viewer.

Knows snapshots and their viewers; does not know files or processes.  Every change is one step without a checkpoint.
Once its method has returned, each fire that starts uses the change.

The cost of a change does not grow with the number of sessions.  A commit increments the epoch, and a session's snapshot
is rebuilt when it is next used: by a fire, a report, an announcement.  Sessions of one scope share one snapshot.

    commit  ─▶  a new epoch  ─▶  a snapshot of an older epoch is rebuilt when it is used
       └─▶  subscribers are notified (`announcing`)

A change waits for `announcer.wait_announced` before it is acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch.core.hooks.names import name_whole_plugin, quote_name
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget, apply_switches
from hooklatch.core.hooks.resolving import AmbiguousNameError, ResolvedName, UnknownNameError, resolve_name
from hooklatch.core.hooks.snapshots import Snapshot, SnapshotDiff, compare_snapshots
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.core.text import suggest_name
from hooklatch.service.registry.announcing import Announcer, Publish, SkipAnnouncer, make_announcement
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.registry.visibility import (
    ALL_SHARED,
    VisibilityScope,
    find_scope,
    has_list,
    inherit_gates,
    select_own_layer,
    select_shared_hooks,
)

__all__ = ["FleetHookError", "Registries", "find_named_hook"]

MAX_SHARED = 1000  # scopes of one epoch: clients name the plugins, and may name others without end


class FleetHookError(RpcError):
    """A change would reach a hook of the fleet, which is never allowed. `hook` is its name."""

    def __init__(self, hook: Hook) -> None:
        text = f"{hook.name} is a hook of the fleet, which this host cannot change; ask the fleet's publisher"
        super().__init__(ErrorCode.NOT_PERMITTED, text)
        self.hook = hook.name


class Registries:
    """The owner of all layers.  A viewer is a session, or None for a client that sees only the global layers."""

    def __init__(
        self, catalogue: Catalogue, sessions: Sessions, publish: Publish, permits: SkipAnnouncer, *,
        switches: Mapping[str, bool],
    ) -> None:  # fmt: skip
        self.catalogue = catalogue
        self.switches = dict(switches)
        self._names, self._gone = set[str](), set[str]()  # that can be switched, and those that could be
        self.personalities: dict[str, list[str]] = {}
        self.view = Snapshot(time.time_ns() // 1_000_000, ())  # of viewers that see only the global layers
        self._declared: list[Hook] = []
        self._api: dict[str, Hook] = {}
        self._projects: dict[str, list[Hook]] = {}
        self._sessions = sessions
        self._revision = self.view.revision  # the highest of any view
        self._epoch = 1  # the number of changes so far to what sessions share
        self._shared: dict[VisibilityScope, Snapshot] = {}  # of the current epoch
        self.announcer = Announcer(self, publish, permits)

    @property
    def epoch(self) -> int:
        """Return a number that grows with every change of hooks that sessions share, those of projects included."""
        return self._epoch

    @property
    def api_hooks(self) -> list[Hook]:
        return list(self._api.values())

    def api_and_own_hooks(self) -> list[Hook]:
        """Return the hooks of clients, over the admin socket and in sessions, including ended parents' hooks."""
        return [*self._api.values(), *self._own_hooks()]

    def view_of(self, session: AgentSession | None, plugins: Collection[str] | None = None) -> Snapshot:
        """Return the snapshot of a viewer. A fire's list of `plugins` replaces the list that its session lacks."""
        if session is None:
            return self.view
        if session.epoch < self._epoch:
            self._renew(session)
        if plugins is None or has_list(session) or session.terms.plugins_without_list is None:
            return session.view
        if session.unlisted is None:
            scope = find_scope(session, self._projects, is_unlisted=True)
            own = select_own_layer(session, scope, self.catalogue)
            session.unlisted = Snapshot(session.view.revision, own, self._shared_by(scope))
        return session.unlisted

    def follow(self, session: AgentSession | None) -> Snapshot:
        """Return the snapshot of a viewer, and announce every change of it from now on."""
        return self.announcer.follow(session) if session is not None else self.view

    def permit(self, session: AgentSession) -> None:
        """Notify a session's clients of the events that they may skip, now and at each change."""
        self.announcer.permit(session)

    def permit_anew(self, ancestor: AgentSession | None) -> None:
        """Notify clients anew of the events that they may skip, after a change of something else than hooks.

        They are the clients of a session and of its descendants, or of all sessions.
        """
        self.announcer.outdate_below(ancestor)
        self.announcer.notify_some()

    def set_global(
        self,
        *,
        declared: list[Hook],
        catalogue: Catalogue,
        projects: Mapping[str, list[Hook]],
        personalities: Mapping[str, list[str]],
        forgets: bool = False,
    ) -> SnapshotDiff:
        """Replace the hooks declared by files, plugins and the fleet, in one revision, or in none if nothing changes.

        With `forgets`, the switches of hooks that are gone, also since earlier calls, are dropped: a later hook of such
        a name must not begin disabled.
        """
        names = list_switchable_names([*declared, *self._api.values()])
        self._names, self._gone = names, (self._gone | self._names) - names
        while forgets and self._gone:
            self.switches.pop(self._gone.pop(), None)
        self._declared, self.catalogue = declared, catalogue
        self._projects, self.personalities = dict(projects), dict(personalities)
        return self._commit_global(hands_down=True)

    def find_event(self, name: str) -> EventSpec:
        """Find an event.

        Raises:
            RpcError: there is no such event.
        """
        spec = self.catalogue.specs.get(name)
        if spec is None:
            from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

            raise RpcError(ErrorCode.UNKNOWN_EVENT, describe_undefined_event(self.catalogue, name))
        return spec

    def shared_hooks(self) -> list[Hook]:
        """Return the hooks of all layers except sessions' own."""
        return [*self.view.hooks, *(hook for folder in self._projects for hook in self.project_hooks(folder))]

    def all_hooks(self) -> list[Hook]:
        """Return the hooks of all layers, including sessions' own."""
        return [*self.shared_hooks(), *self._own_hooks()]

    def _own_hooks(self) -> list[Hook]:
        return [hook for session in self._sessions for hook in (*session.own.values(), *session.inherited)]

    def project_hooks(self, folder: str) -> list[Hook]:
        """Return the hooks of a project that is in use."""
        return apply_switches(self._projects.get(folder, ()), self.switches)

    def with_projects(self, view: Snapshot, folders: Collection[str]) -> Snapshot:
        """Return a snapshot with the hooks of these projects added."""
        hooks = [hook for folder in sorted(folders) for hook in self.project_hooks(folder)]
        return Snapshot(view.revision, [*view.hooks, *hooks])

    def retarget(self, retargeted: Mapping[str, Callable[[Hook], Hook]]) -> None:
        """Point clients' hooks at the new builds of their sources, by location.

        The `set_global` that must follow makes this visible.
        """
        if not retargeted:
            return
        self._api = {key: retarget_hook(hook, retargeted) for key, hook in self._api.items()}
        for session in self._sessions:
            if session.own:
                session.own = {key: retarget_hook(hook, retargeted) for key, hook in session.own.items()}
            if session.inherited:
                session.inherited = tuple(retarget_hook(hook, retargeted) for hook in session.inherited)

    def register_global(self, hooks: Iterable[Hook], *, is_restored: bool = False) -> None:
        """Add or replace hooks of the admin socket's clients. Restored ones are not compared with those of files.

        Raises:
            RpcError: a file declares one of these ids.
        """
        declared = {hook.id: hook for hook in self._declared} if not is_restored else {}
        hooks = list(hooks)
        for hook in hooks:
            if hook.id in declared:
                raise RpcError(
                    ErrorCode.NOT_PERMITTED, f"{hook.id!r} is declared in {declared[hook.id].origin}; change it there"
                )
        for hook in hooks:
            self._api[hook.id] = hook  # a replaced hook keeps its place
        self._commit_global()

    def unregister_global(self, name: str, *, declared_by: str | None = None) -> Hook | None:
        """Remove a hook of the admin socket's clients, by its id or its name. A missing one is not an error.

        Raises:
            RpcError: a file or a plugin declares the hook. `declared_by` stands in the text.
        """
        # Ids are unique in the global layer, and other layers may have the same ones.
        hook = next((hook for hook in self._api.values() if name in (hook.id, hook.name)), None)
        if hook is None:
            self.check_not_of_fleet(name)
            hook = next((hook for hook in self.shared_hooks() if name in (hook.id, hook.name)), None)
            if hook is None:
                return None
            place = hook.origin or "the [lsp] of the main file"
            of = f", which {declared_by} names" if hook.origin and declared_by not in (None, hook.origin.file) else ""
            raise RpcError(
                ErrorCode.NOT_PERMITTED,
                f"{hook.id!r} is declared in {place}{of}; remove it there, or: hooklatch hooks disable"
                f" {quote_name(hook.name)}",
            )
        del self._api[hook.id]
        self.switches.pop(hook.name, None)  # a later hook of this id must not begin disabled
        self._commit_global()
        return hook

    def switch_global(self, name: str, *, enabled: bool) -> ResolvedName:
        """Enable or disable the hook, or the whole plugin, that a name identifies, except sessions' own hooks.

        A hook of the fleet cannot be disabled. To enable it changes nothing, since it is always enabled.

        Raises:
            RpcError: nothing has that name, or several do.
        """
        target = find_named_hook(name, self.shared_hooks())
        of_fleet = [hook for hook in target.hooks if hook.layer is Layer.FLEET]
        if of_fleet and not enabled:
            raise FleetHookError(of_fleet[0])
        if of_fleet:
            return target
        if target.plugin is not None:
            # Disable a whole plugin, or reset each of its hooks to what its definition says.
            for hook in target.hooks:
                self.switches.pop(hook.name, None)
            self.switches.pop(target.name, None)
        if target.plugin is None or not enabled:
            self.switches[target.name] = enabled
        self._commit_global()
        return target

    def check_not_of_fleet(self, name: str) -> None:
        """Check that an unknown name is not that of a hook of the fleet.

        Raises:
            FleetHookError: it is the name of one.
        """
        for hook in self.view.hooks:
            if hook.layer is Layer.FLEET and name in (hook.id, hook.name):
                raise FleetHookError(hook)

    def refresh(self, session: AgentSession) -> None:
        """Apply a session's new plugins, personality and working directory."""
        self._outdate(session)
        self._hand_down(session)
        self.announcer.notify_some()

    def register_own(self, session: AgentSession, hooks: Iterable[Hook]) -> None:
        for hook in hooks:
            session.own[hook.id] = hook
        self.refresh(session)

    def unregister_own(self, session: AgentSession, hook_id: str) -> None:
        if (hook := session.own.pop(hook_id, None)) is not None:
            session.switches.pop(hook.name, None)
            self.refresh(session)

    def switch_own(self, session: AgentSession, hook_id: str, *, enabled: bool) -> Hook:
        """Enable or disable a hook of the session's own layer.

        Raises:
            RpcError: the session has no hook of that id.
        """
        hook = session.own.get(hook_id)
        if hook is None:
            raise RpcError(
                ErrorCode.NOT_FOUND, f"this session registered no hook {hook_id!r}; it cannot change another layer's"
            )
        session.switches[hook.name] = enabled
        self.refresh(session)
        return hook

    def adopt(self, session: AgentSession, parent: AgentSession, hooks: Iterable[Hook] = ()) -> None:
        """Make a session the child of another, whose gates it gets beside its own hooks."""
        session.parent, session.parent_id = parent, parent.id
        parent.children.append(session)
        inherit_gates(session, parent, self.catalogue)
        self.register_own(session, hooks)

    def _commit_global(self, *, hands_down: bool = False) -> SnapshotDiff:
        self._epoch += 1
        self._shared.clear()
        self.announcer.forget_pairs()
        old = self.view
        new = Snapshot(self._revision + 1, apply_switches([*self._declared, *self._api.values()], self.switches))
        change = compare_snapshots(old, new)
        if not (change.is_empty and old.digest == new.digest):
            self._revision += 1
            self.view = new
            self.announcer.publish(None, make_announcement(old, new, change))
        if hands_down:
            self._hand_down_all()
        self.announcer.outdate_below(None)
        self.announcer.notify_some()
        return change

    def _hand_down_all(self) -> None:
        """Hand down the gates that each parent has now. With a new catalogue, other events may be gates."""
        sessions = list(self._sessions)
        for session in sessions:
            if session.personality is not None:  # a personality that is no longer defined keeps its last definition
                names = self.personalities.get(session.personality, session.personality_plugins)
                session.personality_plugins = frozenset(names) if names is not None else None
        for session in sessions:
            if session.parent is None and session.children:
                self._hand_down(session)

    def _hand_down(self, session: AgentSession) -> None:
        # At once, not when the snapshot is next used: a session may end, and its children keep its gates.
        for child in session.children:
            inherit_gates(child, session, self.catalogue)
            self._outdate(child)
            self._hand_down(child)

    def _outdate(self, session: AgentSession) -> None:
        session.epoch = 0
        self.announcer.outdate(session)

    def _renew(self, session: AgentSession) -> None:
        session.epoch, session.unlisted = self._epoch, None
        old, scope = session.view, find_scope(session, self._projects)
        own, shared = select_own_layer(session, scope, self.catalogue), self._shared_by(scope)
        new = Snapshot(self._revision, own, shared) if own else shared
        if new.is_like(old):
            return
        if new.revision <= old.revision:
            # Only this session changed, or it shares an older snapshot again: its revisions must never go back.
            self._revision += 1
            new = new if own else Snapshot(self._revision, own, shared)
            new.revision = self._revision
        session.view = new

    def _shared_by(self, scope: VisibilityScope) -> Snapshot:
        if scope == ALL_SHARED:
            return self.view
        snapshot = self._shared.get(scope)
        if snapshot is None:
            if len(self._shared) >= MAX_SHARED:
                self._shared.clear()
            projects = {folder: self.project_hooks(folder) for folder in scope.projects | scope.ancestors}
            hooks = select_shared_hooks(scope, self.view.hooks, projects, self.catalogue)
            snapshot = self._shared[scope] = Snapshot(self._revision, hooks)
        return snapshot


def list_switchable_names(hooks: Collection[Hook]) -> set[str]:
    """Return the names by which hooks are switched: their own, and those of their whole plugins."""
    plugins = {hook.plugin for hook in hooks if hook.plugin is not None}
    return {hook.name for hook in hooks} | {name_whole_plugin(plugin) for plugin in plugins}


def find_named_hook(name: str, hooks: Iterable[Hook]) -> ResolvedName:
    """Find the one hook, or the one whole plugin, that a name identifies.

    Raises:
        RpcError: nothing has that name, or several do.
    """
    known = list(hooks)
    try:
        return resolve_name(name, known)
    except UnknownNameError:
        near = suggest_name(name, {text for hook in known for text in (hook.id, hook.name)})
        text = f"there is no hook {name!r}{near}; see: hooklatch hooks"
        raise RpcError(ErrorCode.NOT_FOUND, text) from None
    except AmbiguousNameError as error:
        raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None


def retarget_hook(hook: Hook, retargeted: Mapping[str, Callable[[Hook], Hook]]) -> Hook:
    target = hook.target
    move = retargeted.get(target.source.location) if isinstance(target, PythonTarget) else None
    return move(hook) if move is not None else hook

"""The registries: global layers, sessions' layers, and the announcement of every change.

Knows snapshots and who looks at them; knows no file and no process.  Every method is one step without a checkpoint, so
a change is atomic: when it returns, each fire that starts later uses the new snapshot, and the announcement is queued
with every subscriber before the change can be acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.names import AmbiguousNameError, Target, UnknownNameError, quoted, resolve
from hooklatch.core.hooks.registry import Difference, Hook, Layer, PythonTarget, Snapshot, difference, switched
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.registry.places import nearest
from hooklatch.service.registry.sessions import Session, Sessions
from hooklatch.service.registry.visibility import inherit, unlisted_hooks, view_hooks

__all__ = ["Announcement", "Registries", "found"]


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer is told: its view went from `previous` to `revision`."""

    previous: int
    revision: int
    digest: str
    added: list[str]
    removed: list[str]
    changed: list[str]
    topic: str = "registry"


Publish = Callable[[Session | None, Announcement], None]


class Registries:
    """Owns all layers.  A viewer is a session, or None for those who look at the global layers alone."""

    def __init__(
        self, catalogue: Catalogue, sessions: Sessions, publish: Publish, *, switches: Mapping[str, bool]
    ) -> None:
        self.catalogue = catalogue
        self.switches = dict(switches)
        self._files: list[Hook] = []
        self._api: dict[str, Hook] = {}
        self._projects: dict[str, list[Hook]] = {}
        self.personalities: dict[str, list[str]] = {}
        self._sessions = sessions
        self._publish = publish
        self.view = Snapshot(time.time_ns() // 1_000_000, ())
        self._revision = self.view.revision

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def api_hooks(self) -> list[Hook]:
        return list(self._api.values())

    def api_and_own_hooks(self) -> list[Hook]:
        """Return what clients registered, over the admin socket and in their sessions, also in parents now ended."""
        own = (hook for session in self._sessions for hook in (*session.own.values(), *session.inherited))
        return [*self._api.values(), *own]

    def view_of(self, session: Session | None, plugins: Collection[str] | None = None) -> Snapshot:
        """Return what a viewer sees; a fire's list of `plugins` stands in for the one that its session lacks."""
        if session is None:
            return self.view
        if session.has_ended:  # a fire of its that was accepted before; nobody renews its view any more
            seen = self._hooks_of(session)
            return Snapshot(self._revision, seen if seen is not None else self.view.hooks)
        return session.view if plugins is None or session.unlisted is None else session.unlisted

    def set_global(
        self,
        *,
        files: Iterable[Hook] | None = None,
        api: Iterable[Hook] | None = None,
        catalogue: Catalogue | None = None,
        projects: Mapping[str, list[Hook]] | None = None,
        personalities: Mapping[str, list[str]] | None = None,
    ) -> Difference:
        """Replace what is global, in one revision; a change of nothing makes none."""
        if files is not None:
            self._files = list(files)
        if api is not None:
            self._api = {hook.id: hook for hook in api}
        if catalogue is not None:
            self.catalogue = catalogue
        if projects is not None:
            self._projects = dict(projects)
        if personalities is not None:
            self.personalities = dict(personalities)
        return self._commit_global()

    def all_hooks(self) -> list[Hook]:
        """Return the hooks of all layers but sessions' own."""
        return [*self.view.hooks, *(hook for folder in self._projects for hook in self.project_hooks(folder))]

    def every_hook(self) -> list[Hook]:
        """Return the hooks of all layers, sessions' own too."""
        own = (hook for session in self._sessions for hook in (*session.own.values(), *session.inherited))
        return [*self.all_hooks(), *own]

    def project_hooks(self, folder: str) -> list[Hook]:
        """Return the hooks of a project that is in use."""
        return switched(self._projects.get(folder, ()), self.switches)

    def view_at(
        self, session: Session | None, folders: Collection[str], plugins: Collection[str] | None = None
    ) -> Snapshot:
        """Return what a viewer sees who is in these projects too."""
        view = self.view_of(session, plugins)
        if not folders:
            return view
        hooks = [hook for folder in sorted(folders) for hook in self.project_hooks(folder)]
        return Snapshot(view.revision, [*view.hooks, *hooks])

    def retarget(self, location: str, retargeted: Callable[[Hook], Hook]) -> None:
        """Point clients' hooks of a source at its new build; the `set_global` that must follow puts it in force."""
        self._api = {key: moved(hook, location, retargeted) for key, hook in self._api.items()}
        for session in self._sessions:
            session.own = {key: moved(hook, location, retargeted) for key, hook in session.own.items()}
            session.inherited = tuple(moved(hook, location, retargeted) for hook in session.inherited)

    def register_global(self, hooks: Iterable[Hook]) -> None:
        """Add or replace hooks of the admin socket's clients.

        Raises:
            RpcError: a file declares one of these ids.
        """
        declared = {hook.id: hook for hook in self._files}
        hooks = list(hooks)
        for hook in hooks:
            if hook.id in declared:
                raise RpcError(
                    ErrorCode.NOT_PERMITTED, f"{hook.id!r} is declared in {declared[hook.id].origin}; change it there"
                )
        for hook in hooks:
            self._api[hook.id] = hook  # a replaced hook keeps its place
        self._commit_global()

    def unregister_global(self, name: str) -> Hook | None:
        """Remove a hook of the admin socket's clients, by its id or its name; a missing one is no error.

        Raises:
            RpcError: a file declares it.
        """
        hook = self._global_hook(name)
        if hook is None:
            return None
        if hook.id not in self._api:
            raise RpcError(
                ErrorCode.NOT_PERMITTED,
                f"{hook.id!r} is declared in {hook.origin}; remove it there, or: hooklatch hooks disable"
                f" {quoted(hook.name)}",
            )
        del self._api[hook.id]
        self.switches.pop(hook.name, None)  # a later hook of this id must not begin disabled
        self._commit_global()
        return hook

    def _global_hook(self, name: str) -> Hook | None:
        """Find a hook of the global layer; ids are unique there, whatever other layers hold."""
        hooks = [hook for hook in (*self._api.values(), *self._files) if hook.layer is Layer.GLOBAL]
        return next((hook for hook in hooks if name in (hook.id, hook.name)), None)

    def switch_global(self, name: str, *, enabled: bool) -> Target[Hook]:
        """Enable or disable the one hook, or the one whole plugin, that a name means; not a session's own.

        Raises:
            RpcError: there is none of that name, or it may mean several.
        """
        target = found(name, self.all_hooks())
        if target.plugin is not None:
            # Take a whole plugin out, or let each of its hooks be again what its definition says.
            for hook in target.hooks:
                self.switches.pop(hook.name, None)
            self.switches.pop(target.name, None)
        if target.plugin is None or not enabled:
            self.switches[target.name] = enabled
        self._commit_global()
        return target

    def take_settings(self, session: Session) -> None:
        """Put in force what a session's host said of its plugins, its personality and its working directory."""
        self._commit_session(session)
        for child in session.children:
            inherit(child, session, self.catalogue)
            self.take_settings(child)

    def register_own(self, session: Session, hooks: Iterable[Hook]) -> None:
        for hook in hooks:
            session.own[hook.id] = hook
        self.take_settings(session)

    def unregister_own(self, session: Session, hook_id: str) -> bool:
        if hook_id not in session.own:
            return False
        hook = session.own.pop(hook_id)
        session.switches.pop(hook.name, None)
        self._commit_session(session)
        return True

    def switch_own(self, session: Session, hook_id: str, *, enabled: bool) -> Hook:
        """Enable or disable a hook of the session's own layer.

        Raises:
            RpcError: it has none of that id.
        """
        hook = session.own.get(hook_id)
        if hook is None:
            raise RpcError(
                ErrorCode.NOT_FOUND, f"this session registered no hook {hook_id!r}; it cannot change another layer's"
            )
        session.switches[hook.name] = enabled
        self._commit_session(session)
        return hook

    def adopt(self, session: Session, parent: Session, hooks: Iterable[Hook] = ()) -> None:
        """Make a session another one's child, which brings it that one's gates beside its own hooks."""
        session.parent, session.parent_id = parent, parent.id
        parent.children.append(session)
        inherit(session, parent, self.catalogue)
        self.register_own(session, hooks)

    def _commit_global(self) -> Difference:
        for session in self._sessions:
            if session.parent is None:
                self._hand_down(session)  # which of its hooks are gates, the catalogue says
        old = self.view
        new = Snapshot(self._revision + 1, switched([*self._files, *self._api.values()], self.switches))
        change = difference(old, new)
        if change.is_empty and old.digest == new.digest:
            for session in list(self._sessions):
                self._commit_session(session)  # its own hooks may have a new build
            return change
        self._revision += 1
        self.view = new
        self._publish(None, announce(old, new, change))
        for session in list(self._sessions):
            self._renew(session, old, new, change)
        return change

    def _hand_down(self, session: Session) -> None:
        for child in session.children:
            inherit(child, session, self.catalogue)
            self._hand_down(child)

    def _renew(self, session: Session, old: Snapshot, new: Snapshot, change: Difference) -> None:
        if session.view is old and self._hooks_of(session) is None:
            session.view = new
            self._publish(session, announce(old, new, change))
        else:
            self._commit_session(session)

    def _commit_session(self, session: Session) -> None:
        old = session.view
        seen = self._hooks_of(session)
        new = Snapshot(self._revision + 1, seen) if seen is not None else self.view
        change = difference(old, new)
        if change.is_empty and old.digest == new.digest:
            self._take_unlisted(session)
            return
        if seen is not None:
            self._revision += 1
        elif new.revision <= old.revision:
            # Back to the global view, which is older than what this session has seen: revisions never go back.
            self._revision += 1
            new = Snapshot(self._revision, self.view.hooks)
        session.view = new
        self._take_unlisted(session)
        self._publish(session, announce(old, new, change))
        for child in session.children:
            inherit(child, session, self.catalogue)
            self._commit_session(child)

    def _hooks_of(self, session: Session) -> list[Hook] | None:
        """Return what a session sees, where that is not the same as everybody's."""
        if session.personality is not None:  # one that is no longer defined stays as it was
            names = self.personalities.get(session.personality, session.personality_plugins)
            session.personality_plugins = frozenset(names) if names is not None else None
        return view_hooks(session, self.view.hooks, self._projects_of(session), self.catalogue)

    def _take_unlisted(self, session: Session) -> None:
        hooks = unlisted_hooks(session, self.view.hooks, self._projects_of(session), self.catalogue)
        session.unlisted = Snapshot(session.view.revision, hooks) if hooks is not None else None

    def _projects_of(self, session: Session) -> dict[str, list[Hook]]:
        places = (*session.places, *session.places_above)
        return {folder: self.project_hooks(folder) for folder in nearest(places, self._projects)}


def found(name: str, hooks: Iterable[Hook]) -> Target[Hook]:
    """Find the one hook, or the one whole plugin, that a name means.

    Raises:
        RpcError: there is none, or it may mean several.
    """
    try:
        return resolve(name, hooks)
    except UnknownNameError:
        text = f"there is no hook and no plugin {name!r}; see: hooklatch hooks"
        raise RpcError(ErrorCode.NOT_FOUND, text) from None
    except AmbiguousNameError as error:
        raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None


def announce(old: Snapshot, new: Snapshot, change: Difference) -> Announcement:
    return Announcement(
        previous=old.revision,
        revision=new.revision,
        digest=new.digest,
        added=change.added,
        removed=change.removed,
        changed=change.changed,
    )


def moved(hook: Hook, location: str, retargeted: Callable[[Hook], Hook]) -> Hook:
    target = hook.target
    if isinstance(target, PythonTarget) and target.source.location == location:
        return retargeted(hook)
    return hook

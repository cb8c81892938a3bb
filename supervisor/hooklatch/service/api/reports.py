"""What the daemon says of itself: hooks, events, explain, sessions, status.  Reads the parts; changes none."""

from __future__ import annotations

import os
import time
from typing import Any

from msgspec import to_builtins

from hooklatch.core.decisions.phases import firing_order
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, PythonTarget, Snapshot, budget, select
from hooklatch.core.hooks.suspension import Suspension, find, parted
from hooklatch.core.payload import Payload, PayloadError
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.service.api.health import state_of
from hooklatch.service.api.hub import Hub
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.isolation_levels import shortfalls
from hooklatch.service.loading.digests import digests, digests_of
from hooklatch.service.loading.plugins import Plugin
from hooklatch.service.registry.sessions import Session
from hooklatch.service.registry.statistics import EventCount
from hooklatch.service.registry.visibility import allowed_plugins
from hooklatch.version import VERSION

__all__ = ["Reports"]


class Reports:
    """Makes the results of the methods that only look."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._started = time.time()

    def hooks(self, session: Session | None, event: str | None) -> dict[str, Any]:
        """List hooks in their firing order."""
        view = self._hub.registries.view_of(session)
        return {
            "revision": view.revision,
            "digest": view.digest,
            "hooks": [self.describe(hook) for hook in view.hooks if event in (None, hook.event)],
        }

    def describe(self, hook: Hook) -> dict[str, Any]:
        """Return all that a list of hooks says of one."""
        return {
            "id": hook.id,
            "name": hook.name,
            "layer": hook.layer.label,
            "project": hook.project or None,
            "plugin": hook.plugin,
            "event": hook.event,
            "match": hook.matcher.text,
            "target": hook.target.describe(),
            "kind": kind_of(hook),
            "origin": str(hook.origin) if hook.origin else None,
            "digests": digests_of(hook, self._hub.files, self._hub.sources),
            "state": state_of(self._hub, hook),
            "problem": hook.problem,
            "enabled": hook.enabled,
            "observe": hook.observe,
            "optional": hook.optional,
            "amends": hook.amends,
            "priority": hook.priority,
            "timeout": hook.timeout,
            "description": hook.description,
            "timings": self._hub.statistics.timings(hook.name, hook.owner),
        }

    def events(self, session: Session | None, *, is_admin: bool) -> dict[str, Any]:
        """List the catalogue, with each event's budget for this viewer and how often it was fired, as far as it knows.

        An agent is told of the fires of its own session alone, an administrator of all.  In a session of a dialect
        these are its own events; each has what is known of the first event that it feeds.
        """
        view = self._hub.registries.view_of(session)
        catalogue = self._hub.registries.catalogue
        counted = self._hub.statistics.event if is_admin or session is None else session.count_of

        def described(name: str) -> dict[str, Any]:
            return self._event(catalogue[name], view, counted(name))

        if session is None or session.dialect is None:
            return {"events": [described(name) for name in catalogue]}
        native = self._hub.native.find(session.dialect).events.items()
        return {"dialect": session.dialect, "events": [
            {**described(event.feeds[0].event), "name": name,
             "aliases": event.aliases, "feeds": [feed.event for feed in event.feeds]}
            for name, event in native
        ]}  # fmt: skip

    def _event(self, spec: EventSpec, view: Snapshot, count: EventCount) -> dict[str, Any]:
        hooks = view.for_event(spec)
        return {
            "name": spec.name,
            "model": spec.model,
            "flow": spec.flow,
            "view": spec.view,
            "combine": spec.combine,
            "verdicts": sorted(spec.verdicts),
            "outputs": sorted(spec.outputs),
            "patch": sorted(spec.patch),
            "on_refusal": spec.on_refusal,
            "match": spec.match,
            "timeout": spec.timeout,
            "budget": budget(spec, hooks),
            "fails": "closed" if spec.fails_closed else "open",
            "when": spec.when,
            "fields": [{"name": field.name, "type": field.type} for field in spec.fields],
            "hooks": len(hooks),
            "fired": count.fired,
            "last_fired": count.last_fired,
            "timings": count.timings,
        }

    def explain(self, session: Session | None, spec: EventSpec, payload: Payload) -> dict[str, Any]:
        """Return which hooks would fire for a payload, in which order, and why each other one would not."""
        view = self._hub.registries.view_of(session)
        try:
            firing, _ = parted(self._hub.suspensions, view.for_event(spec))
            selection = select(spec, firing, payload)
        except PayloadError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None
        chosen = {hook.name for hook in selection.hooks}
        refusal = None
        if selection.is_blind and spec.fails_closed:
            refusal = (
                f"denied (cause payload) before any hook is called: {spec.match!r} is missing or no string, or too long"
            )
        return {
            "event": spec.name,
            "revision": view.revision,
            "budget": budget(spec, selection.hooks),
            "refusal": refusal,
            "fires": [self._brief(hook) for hook in firing_order(spec, selection.hooks)],
            "others": [
                {**self._brief(hook), "why": self._why_not(spec, hook, view)}
                for hook in (*view.hooks, *self._hidden(view))
                if hook.name not in chosen
            ],
        }

    def _hidden(self, view: Snapshot) -> list[Hook]:
        """Return the hooks of plugins that this viewer does not allow."""
        seen = {hook.name for hook in view.hooks}
        shared = self._hub.registries.view.hooks
        return [hook for hook in shared if hook.plugin is not None and hook.name not in seen]

    def _brief(self, hook: Hook) -> dict[str, Any]:
        return {
            "name": hook.name,
            "layer": hook.layer.label,
            "hook": hook.id,
            "match": hook.matcher.text,
            "state": state_of(self._hub, hook),
            "priority": hook.priority,
            "amends": hook.amends,
        }

    def _why_not(self, spec: EventSpec, hook: Hook, view: Snapshot) -> str:
        if hook.event != spec.name:
            return f"it is a hook of {hook.event}"
        if not hook.enabled:
            return "it is disabled"
        if (suspension := find(self._hub.suspensions, hook)) is not None:
            return f"it is suspended: {suspension.reason}"
        if hook.plugin is not None and hook.name not in {one.name for one in view.hooks}:
            return f"this session does not allow the plugin {hook.plugin!r}"
        return f"its matcher ({hook.matcher.text}) does not match {spec.match}"

    def sessions(self, only: Session | None) -> dict[str, Any]:
        """List live sessions, or the asking one and those below it."""
        shown = [session for session in self._hub.sessions if only is None or only.has_below(session)]
        return {"sessions": [self._session(session) for session in shown]}

    def _session(self, session: Session) -> dict[str, Any]:
        view = self._hub.registries.view_of(session)
        return {
            "id": session.id,
            "parent": session.parent.id if session.parent else None,
            "client": session.client,
            "host": session.host,
            "cwd": session.cwd,
            "personality": session.personality,
            "plugins": sorted(allowed) if (allowed := allowed_plugins(session)) is not None else None,
            "connections": len(session.connections),
            "created_at": session.created_at,
            "fires": session.fires,
            "hooks": len(session.own),
            "revision": view.revision,
            "digest": view.digest,
        }

    def status(self, session: Session | None, *, is_admin: bool) -> dict[str, Any]:
        """Return how the daemon is; `health` is red when something makes gates deny that should not have to."""
        hub = self._hub
        view = hub.registries.view
        own = hub.projects.warnings(session.places) if session is not None else []
        quarantined = [hook.name for hook in hub.registries.all_hooks() if state_of(self._hub, hook) == "quarantined"]
        # Files' hooks have diagnostics; a client's hook has nothing but itself to show what is wrong.
        inactive = [
            Diagnostic(f"hook {hook.id!r}", 0, hook.problem) for hook in hub.registries.api_hooks if hook.problem
        ]
        suspended = [{**to_builtins(one), "seconds_left": left_of(one)} for one in hub.suspensions]
        record = hub.record.status()
        unwritten = [hub.state.unwritten] if hub.state.unwritten else []
        faults = [*hub.faults, *hub.part_faults, *record["faults"], *unwritten, *hub.shared_state.faults]
        weak = shortfalls(hub.sources.pools_in_force)
        problems: list[object] = [*hub.files.diagnostics, *inactive, *weak]
        status: dict[str, Any] = {
            "version": VERSION,
            "pid": os.getpid(),
            "uptime_s": round(time.time() - self._started, 1),
            "health": "red" if problems or quarantined or faults or suspended else "green",
            "suspended": suspended,
            "problems": problems,
            "faults": faults,
            "warnings": [
                *record["warnings"],
                *hub.state.dropped,
                *hub.shared_state.warnings(hub.files.settings),
                *(hub.projects.all_warnings() if is_admin else own),
                *self._missing(),
            ],
            "quarantined": quarantined,
            "failing": hub.statistics.failures.failing(self._blamable(session, is_admin=is_admin)),
            "revision": view.revision,
            "digest": view.digest,
            "record": record,
            "hooks": len(view.hooks),
            "sessions": len(hub.sessions),
            "draining": hub.dispatcher.is_draining,
        }
        if is_admin:
            status |= self._inside()
        return status

    def _missing(self) -> list[str]:
        """Say so where there is no configuration at all: a path that was mistyped guards nothing."""
        config = self._hub.files.config_path
        if os.path.lexists(config) or os.path.lexists(self._hub.files.folder):
            return []
        return [
            f"{config} is not there, nor a hooks.d beside it: no guard is in force but what clients and plugins bring"
        ]

    def _blamable(self, session: Session | None, *, is_admin: bool) -> list[Hook]:
        """Return the hooks whose failures a viewer is told of: how others' do is not a session's affair."""
        if is_admin:
            return list(dict.fromkeys(self._hub.registries.every_hook()))
        return list(session.own.values()) if session is not None else []

    def _inside(self) -> dict[str, Any]:
        hub = self._hub
        return {
            "connections": len(hub.bus.connections),
            "fired": hub.statistics.total_fired,
            "verdicts": dict(hub.statistics.verdicts),
            "failures": dict(hub.statistics.causes),
            "dropped": dict(hub.statistics.dropped),
            "timings": {
                "hooks": {
                    hook.name: timings
                    for hook in hub.registries.view.hooks
                    if (timings := hub.statistics.timings(hook.name)).count
                },
                "events": hub.statistics.events(),
            },
            "marks": [
                {"hook": hook.name, "mark": mark}
                for hook in hub.registries.all_hooks()
                for mark, is_set in (
                    ("observe", hook.observe),
                    ("optional", hook.optional),
                    ("disabled", not hook.enabled),
                )
                if is_set
            ],
            "plugins": [self._plugin(plugin) for plugin in hub.files.plugins.values()],
            "personalities": hub.registries.personalities,
            "projects": [self._project(folder) for folder in sorted(hub.projects.trusted)],
            "isolation": self._isolation(),
            "state": hub.shared_state.status(),
            "sources": [pool.status() for pool in hub.sources.pools.values()],
            "files": digests(hub.files, hub.sources),
            "zygote": {"pid": hub.sources.zygote.pid, "restarts": hub.sources.zygote.restarts},
            "tree": hub.tree,
            "path": os.environ.get("PATH", os.defpath),
            "places": hub.places,
        }

    def _isolation(self) -> dict[str, Any]:
        default = self._hub.files.settings.isolation
        paths = (*default.write, *default.read) if default.level != "standard" else ()
        return {"level": default.level, "absent": [path for path in paths if not os.path.exists(path)]}

    def _plugin(self, plugin: Plugin) -> dict[str, Any]:
        hooks = [hook.id for hook in self._hub.registries.view.hooks if hook.plugin == plugin.name]
        return {
            "name": plugin.name, "module": plugin.module, "package": plugin.package, "fault": plugin.fault,
            "hooks": hooks,
        }  # fmt: skip

    def _project(self, folder: str) -> dict[str, Any]:
        hub = self._hub
        is_used = folder in hub.projects.used()
        state = "idle" if not is_used else "changed" if folder in hub.projects.faults else "loaded"
        return {
            "folder": folder,
            "state": state,
            "files": len(hub.projects.trusted[folder]),
            "hooks": [hook.id for hook in hub.registries.project_hooks(folder)],
            "sessions": sum(folder in hub.projects.nearest(session.places) for session in hub.sessions),
        }


def left_of(suspension: Suspension) -> float:
    return round(max(suspension.until - time.time(), 0.0), 1)


def kind_of(hook: Hook) -> str:
    if not isinstance(hook.target, PythonTarget):
        return "served"
    return "shell" if hook.target.command else "python"

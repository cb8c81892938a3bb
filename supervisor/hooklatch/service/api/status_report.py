"""The methods that report on the daemon itself: status, sessions, log, ping, health.  They change nothing.

`status` and `health` call wrong what `core/health.py` defines as red.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hooklatch.core.health import (
    ActiveFaults,
    HealthInputs,
    WarningInputs,
    health_findings,
    health_warnings,
    health_word,
    is_vital_well,
)
from hooklatch.core.hooks.registry import Hook, HookState, PythonTarget
from hooklatch.core.hooks.snapshots import Snapshot
from hooklatch.core.hooks.suspension import find_suspension
from hooklatch.errors import explain_error
from hooklatch.path_lookup import PathAbsent, look_up_path
from hooklatch.processes.supervisor import Supervisor
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.methods import ApiMethod, ContributionSlot, MethodTable, PolicySlot, require_session
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.plugins import Plugin
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.reloader import Reloader
from hooklatch.service.loading.sources import Sources
from hooklatch.service.loading.watch import FileWatch
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.failure_log import STREAK
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.registry.visibility import list_allowed_plugins
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Connection
from hooklatch.threads import look_in_thread
from hooklatch.version import VERSION, read_installed_version
from hooklatch_worker.sandbox.children import OWN

if TYPE_CHECKING:
    from hooklatch.core.answers import CallCounts, ReportedSession, SessionsAnswer, SessionStatus
    from hooklatch.core.status_answers import (
        AgentStatus,
        EmptyAnswer,
        HealthAnswer,
        HealthFinding,
        HealthWarning,
        PluginStatus,
        ProjectStatus,
        RecordStatus,
        StartOptions,
        StatusAnswer,
    )

__all__ = ["StatusReport"]


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on the daemon; `started` is its start time, and `places` are its files and sockets."""

    faults: ActiveFaults
    listener_faults: ActiveFaults
    breakers: Breakers
    suspensions: Suspensions
    asks: AskBroker
    dispatcher: Dispatcher
    registries: Registries
    sessions: Sessions
    bus: Bus
    statistics: Statistics
    reloader: Reloader
    file_watch: FileWatch
    sources: Sources
    projects: ProjectRegistry
    record: RecordWriter
    state: StateFile
    shared_state: SharedState
    fleet: PolicySlot
    products: Sequence[ContributionSlot[Any]]  # the others
    supervisors: Sequence[Supervisor]
    places: Mapping[str, str]
    start: StartOptions | None
    started: float

    @property
    def methods(self) -> MethodTable:
        return {
            "status": ApiMethod(msgspec.Raw, self._status),
            "sessions": ApiMethod(msgspec.Raw, self._sessions),
            "ping": ApiMethod(msgspec.Raw, self._ping),
            "health": ApiMethod(msgspec.Raw, self._health),
        }

    async def _sessions(self, connection: Connection, raw: msgspec.Raw) -> SessionsAnswer:
        """List live sessions; on the agent socket only the client's own and those below it."""
        viewer = None if connection.is_admin else require_session(connection)
        visible = [session for session in self.sessions if viewer is None or viewer.has_below(session)]
        view_of, count, calls = self.registries.view_of, self.statistics.count_all, self._list_calls()
        described = [describe_session(each, view_of(each), count(each.fired)) for each in visible]
        for session in described:
            if (counts := calls.pop((session["host"] or "", session["id"]), None)) is not None:
                session["calls"] = counts
        reported: list[ReportedSession] = [] if viewer is not None else [
            {"host": host, "id": session_id, "calls": counts} for (host, session_id), counts in calls.items() if host
        ]  # fmt: skip
        return {"sessions": described, "reported": reported}

    def _list_calls(self) -> dict[tuple[str, str], CallCounts]:
        """Return the counts of calls that ran, by host and session."""
        ledger = self.dispatcher.call_watch.add_up()
        return {place: session.describe() for place, session in ledger.sessions.items() if session.ran}

    async def _ping(self, connection: Connection, raw: msgspec.Raw) -> EmptyAnswer:
        return {}

    async def _health(self, connection: Connection, raw: msgspec.Raw) -> HealthAnswer:
        return {**self.report_health(), "installed": (await look_in_thread(look_up_installed))[0]}

    def _health_inputs(self) -> HealthInputs:
        """Return everything that makes the daemon green or red, at this moment."""
        return HealthInputs(
            is_draining=self.dispatcher.is_draining,
            parts=[fault for supervisor in self.supervisors for fault in supervisor.faults()],
            listeners=list(self.listener_faults),
            is_zygote_alive=self.sources.zygote.is_alive,
            record=self.record.faults,
            is_record_sound=self.record.is_sound,
            isolation=self.sources.shortfalls(),
            files=[found for found in self._list_file_faults() if not self._list_switched_off(found)],
            hooks=list_inactive_hooks(self.registries.api_and_own_hooks()),
            faults=[
                *self.faults,
                *([self.state.unwritten] if self.state.unwritten else []),
                *(problem for product in self.products for problem in product.problems),
            ],
            quarantined=self._quarantined(),
            failing=self._list_failing_guards(),
            state=self.shared_state.faults,
            suspended=list(self.suspensions),
            fleet=self.fleet.problems,
            calls=self.record.mismatches,
        )

    def _list_file_faults(self) -> list[Diagnostic]:
        return [*self.reloader.active.diagnostics, *self.sources.faults()]

    def _list_switched_off(self, fault: Diagnostic) -> list[str]:
        """Return the names of the hooks that a fault is about, if all of them are disabled: then it denies nothing."""
        places = {fault.file, *(place for place, other in self.reloader.active.built.faults.items() if other == fault)}
        about = [
            hook
            for hook in self.registries.shared_hooks()
            if hook.problem is not None
            and (
                (isinstance(hook.target, PythonTarget) and hook.target.source.location in places)
                or (hook.origin is not None and (hook.origin.file, hook.origin.line) == (fault.file, fault.line))
            )
        ]
        return [hook.name for hook in about] if not any(hook.enabled for hook in about) else []

    def _list_disabled_faults(self) -> Iterator[str]:
        for fault in self._list_file_faults():
            if names := self._list_switched_off(fault):
                yield f"{', '.join(names)}: disabled, and broken: {fault}"
        for hook in list_inactive_hooks(self.registries.api_and_own_hooks(), enabled=False):
            yield f"disabled, and broken: {hook}"

    def state_of(self, hook: Hook) -> HookState:
        """Return whether a hook is called, and if not, why."""
        if not hook.enabled:
            return "disabled"
        if find_suspension(self.suspensions, hook) is not None:
            return "suspended"
        if hook.problem is not None:
            return "inactive"
        return "quarantined" if self.breakers.is_quarantined(hook) else "active"

    def _quarantined(self) -> list[str]:
        """Return the names of the shared hooks that are quarantined."""
        if not any(breaker.is_quarantined for breaker in self.breakers):
            return []
        return [hook.name for hook in self.registries.shared_hooks() if self.state_of(hook) == "quarantined"]

    def _list_failing_guards(self) -> list[tuple[str, int]]:
        """Return the hooks that keep their gate shut by failing, and how often in a row."""
        hooks, find_spec = self.registries.shared_hooks(), self.registries.catalogue.get
        failing = self.statistics.failures.find_failing(hooks)
        counts = {hook["hook"]: hook["count"] for hook in failing if hook["count"] >= STREAK}
        return [
            (hook.name, counts[hook.name])
            for hook in (hooks if counts else ())
            if hook.name in counts and not (hook.optional or hook.observe) and self.state_of(hook) == "active"
            if (spec := find_spec(hook.event)) is None or spec.fails_closed  # None: on every gate
        ]

    def findings(self) -> list[HealthFinding]:
        """Return the findings that make the daemon red."""
        return health_findings(self._health_inputs())

    def report_health(self) -> HealthAnswer:
        """Return the answer of `health`: one word, and one code for each kind of problem."""
        inputs = self._health_inputs()
        return {
            "health": health_word(inputs),
            "reasons": list(dict.fromkeys(finding["reason"] for finding in health_findings(inputs))),
            "revision": self.registries.view.revision,
            "version": VERSION,
        }

    def is_vital_well(self) -> bool:
        """Return whether to feed the watchdog.  That this runs shows that the event loop does."""
        return is_vital_well(is_zygote_alive=self.sources.zygote.is_alive, is_record_sound=self.record.is_sound)

    async def _status(self, connection: Connection, raw: msgspec.Raw) -> AgentStatus:
        """Return the daemon's status, as far as a session or an administrator may see it."""
        session, is_admin = connection.session, connection.is_admin
        # First, since it waits for disks: the rest of the answer is of one moment.
        projects, missing, absent = await self._look_at_files(session, is_admin=is_admin)
        _, versions = await look_in_thread(look_up_installed)
        inputs = self._health_inputs()
        findings = health_findings(inputs)
        view, record = self.registries.view, self.record.status()
        faults = [*inputs.faults, *inputs.listeners, *inputs.parts, *inputs.record, *inputs.state, *inputs.fleet]
        warnings = self._find_warnings(record, projects, missing, versions, is_admin=is_admin)
        status: AgentStatus = {
            "version": VERSION,
            "pid": os.getpid(),
            "uptime_s": round(time.time() - self.started, 1),
            "health": "red" if findings else "green",
            "wrong": findings,
            "suspended": [
                {**suspension.describe(), "seconds_left": round(self.suspensions.seconds_left(suspension), 1)}
                for suspension in inputs.suspended
            ],
            "problems": [problem.describe() for problem in (*inputs.files, *inputs.hooks, *inputs.isolation)],
            "faults": [*faults, *(finding["what"] for finding in findings if finding["reason"] == "zygote")],
            "warnings": [warning["what"] for warning in warnings],
            "warned": warnings,
            "quarantined": inputs.quarantined,
            "failing": self.statistics.failures.find_failing(self._visible_hooks(session, is_admin=is_admin)),
            "revision": view.revision,
            "digest": view.digest,
            "record": record,
            "hooks": len(view.hooks),
            "sessions": len(self.sessions),
            "draining": inputs.is_draining,
        }
        return status if not is_admin else self._describe_inside(status, absent)

    async def _look_at_files(
        self, session: AgentSession | None, *, is_admin: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """Return the warnings about projects and about the configuration, and the absent paths of [isolation]."""
        projects = self.projects
        project_warnings = await (
            projects.all_warnings() if is_admin else projects.warnings(session.places if session else ())
        )
        default = self.reloader.active.plan.main.settings.isolation
        paths = (*default.write, *default.read) if default.level != "standard" else ()
        looked_up = (*paths, self.reloader.active.plan.main.path, self.reloader.active.plan.folder)
        *entries, main, folder = await look_in_thread(lambda: list(map(look_up_path, looked_up)))
        absent = [path for path, entry in zip(paths, entries, strict=True) if isinstance(entry, PathAbsent)]
        return project_warnings, self._warn_if_missing(main, folder), absent

    def _find_warnings(
        self, record: RecordStatus, projects: list[str], missing: list[str], versions: list[str], *, is_admin: bool
    ) -> list[HealthWarning]:
        inputs = WarningInputs(
            record=record["warnings"],
            switches=self.state.dropped,
            state=self.shared_state.warnings(self.reloader.active.plan.main.settings),
            projects=projects,
            configuration=missing,
            watch=self.file_watch.warnings,
            disabled=list(self._list_disabled_faults()) if is_admin else [],
            hooks=self._unguarded() if is_admin and not missing else [],
            commands=self._dangers() if is_admin else [],
            files=list(map(str, self.reloader.active.unread.warnings)) if is_admin else [],
            notes=[*map(str, self.reloader.active.unread.notes), *self._unknown_tools()] if is_admin else [],
            version=versions,
            fleet=self.fleet.warnings if is_admin else [],
            asks=[text for product in self.products for text in product.warnings] if is_admin else [],
        )
        return health_warnings(inputs)

    def _warn_if_missing(self, *entries: object) -> list[str]:
        """Warn if there is no configuration at all: a mistyped path guards nothing."""
        if not all(isinstance(entry, PathAbsent) for entry in entries):
            return []
        main = self.reloader.active.plan.main.path
        return [f"{main} does not exist, nor a hooks.d beside it: the only guards are those of clients and plugins"]

    def _unguarded(self) -> list[str]:
        """Warn if no hook of the user's can refuse, as after a reload that accepted that a folder of hooks is gone."""
        gates = {name for name, spec in self.registries.catalogue.items() if spec.fails_closed}
        if any(hook.enabled and not hook.observe and hook.event in gates for hook in self.registries.shared_hooks()):
            return []
        return ["none of your hooks on a gate is enabled: only hooks that clients register can refuse anything"]

    def _dangers(self) -> list[str]:
        """Warn about each command that runs a file which an agent can write."""
        return [
            f"{hook.name}: {text}" for hook in self.registries.shared_hooks() if hook.enabled for text in hook.dangers
        ]

    def _unknown_tools(self) -> list[str]:
        """Note each tool that a hook names and no known host has: most likely the hook is never called."""
        hooks = [hook for hook in self.registries.shared_hooks() if hook.enabled]
        if not any(hook.where is not None or not hook.matcher.matches_all for hook in hooks):
            return []
        from hooklatch.service.loading.tool_names import list_unknown_tools  # its tables are not loaded for nothing

        catalogue = self.registries.catalogue
        return [
            f"{hook.name}: {text}" for hook in hooks for text in list_unknown_tools(hook, catalogue.get(hook.event))
        ]

    def _visible_hooks(self, session: AgentSession | None, *, is_admin: bool) -> list[Hook]:
        """Return the hooks whose failures a viewer may see: a session sees only its own hooks."""
        if is_admin:
            return list(dict.fromkeys(self.registries.all_hooks()))
        return list(session.own.values()) if session is not None else []

    def _describe_inside(self, status: AgentStatus, absent: list[str]) -> StatusAnswer:
        """Return the whole status, with what only an administrator may see."""
        return {
            **status,
            "connections": len(self.bus.connections),
            "fired": self.statistics.count_all(),
            "skipped": dict(self.statistics.skipped),
            "verdicts": dict(self.statistics.verdicts),
            "failures": dict(self.statistics.causes),
            "dropped": dict(self.statistics.dropped),
            "asks": len(self.asks),
            "timings": {
                "hooks": {
                    hook.name: timings
                    for hook in self.registries.view.hooks
                    if (timings := self.statistics.timings(hook.name))["count"]
                },
                "events": self.statistics.events(),
            },
            "marks": [
                {"hook": hook.name, "mark": mark}
                for hook in self.registries.shared_hooks()
                for mark in list_marks(hook)
            ],
            "plugins": [self._describe_plugin(plugin) for plugin in self.reloader.active.plan.plugins.values()],
            "personalities": self.registries.personalities,
            "projects": [self._describe_project(folder) for folder in sorted(self.projects.trusted)],
            "isolation": {"level": self.reloader.active.plan.main.settings.isolation.level, "absent": absent},
            "state": self.shared_state.status(),
            "fleet": self.fleet.status(),
            "sources": [pool.status() for pool in self.sources.pools.values()],
            "files": self.reloader.digests(),
            "environments": self.sources.environments.status(),
            "zygote": {"pid": self.sources.zygote.pid, "restarts": self.sources.zygote.restarts},
            "tree": [node for supervisor in self.supervisors for node in supervisor.tree()],
            "path": OWN.of(os.environ).get("PATH") or os.defpath,
            "places": dict(self.places),
            "start": self.start,
        }

    def _describe_plugin(self, plugin: Plugin) -> PluginStatus:
        hooks = [hook.id for hook in self.registries.view.hooks if hook.plugin == plugin.name]
        return {
            "name": plugin.name, "module": plugin.module, "package": plugin.package, "fault": plugin.fault,
            "hooks": hooks,
        }  # fmt: skip

    def _describe_project(self, folder: str) -> ProjectStatus:
        is_used = folder in self.projects.used()
        state: Literal["idle", "changed", "loaded"]
        state = "idle" if not is_used else "changed" if folder in self.projects.faults else "loaded"
        return {
            "folder": folder,
            "state": state,
            "files": len(self.projects.trusted[folder]),
            "hooks": [hook.id for hook in self.registries.project_hooks(folder)],
            "sessions": sum(folder in self.projects.nearest(session.places) for session in self.sessions),
        }


def look_up_installed() -> tuple[str | None, list[str]]:
    """Return the version that the next start would run, if it can be read, and a warning if it is not this one."""
    try:
        installed = read_installed_version()
    except (OSError, ValueError) as error:
        return None, [f"{VERSION} runs, and what is installed in its place cannot be read: {explain_error(error)}"]
    return installed, [] if installed == VERSION else [f"{VERSION} runs, and {installed} is installed"]


def describe_session(session: AgentSession, view: Snapshot, fires: int) -> SessionStatus:
    return {
        "id": session.id,
        "parent": session.parent.id if session.parent else None,
        "client": session.client,
        "host": session.terms.host,
        "cwd": session.cwd,
        "personality": session.personality,
        "plugins": sorted(allowed) if (allowed := list_allowed_plugins(session)) is not None else None,
        "connections": len(session.connections),
        "created_at": session.created_at,
        "fires": fires,
        "hooks": len(session.own),
        "revision": view.revision,
        "digest": view.digest,
    }


def list_marks(hook: Hook) -> Iterator[Literal["observe", "optional", "disabled"]]:
    """Yield the ways in which a hook is not enforced as others are."""
    if hook.observe:
        yield "observe"
    if hook.optional:
        yield "optional"
    if not hook.enabled:
        yield "disabled"


def list_inactive_hooks(hooks: Iterable[Hook], *, enabled: bool = True) -> list[Diagnostic]:
    """Return clients' hooks that cannot be called.  Those of files have diagnostics, these only show here."""
    # By name, since a child session has the gates of its parent too.
    by_name = {hook.name: hook for hook in hooks if hook.problem is not None and hook.enabled is enabled}
    return [
        Diagnostic(f"hook {name if hook.owner else hook.id!r}", 0, str(hook.problem)) for name, hook in by_name.items()
    ]

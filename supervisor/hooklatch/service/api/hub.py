"""Where the daemon's parts meet.  Knows them all, and who must hear of what; does none of their work."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from hooklatch.core.hooks.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.hooks.registry import EVERY_GATE, Hook, Layer
from hooklatch.core.hooks.suspension import Suspension, SuspensionError
from hooklatch.core.messages import Decision
from hooklatch.core.protocol import ErrorCode, RpcError, encode_notification
from hooklatch.processes.supervisor import Node, Supervisor
from hooklatch.record.writer import Record, RecordError
from hooklatch.service.config.configuration import Diagnostic, place_of
from hooklatch.service.config.file_safety import UnsafeFileError
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.dialect_fires import Native
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.recording import Recording
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.binding import Binder, stand_in, with_way_out
from hooklatch.service.loading.files import Files, Reloaded
from hooklatch.service.loading.project_freshness import ProjectFreshness
from hooklatch.service.loading.projects import Projects
from hooklatch.service.loading.sources import Sources, Unit, UnitError
from hooklatch.service.loading.trust import folder_of, pin
from hooklatch.service.registry.registries import Announcement, Registries, found
from hooklatch.service.registry.sessions import Session, Sessions
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.transport.connection import Connection
from hooklatch.service.transport.server import Door

__all__ = ["Bus", "Hub"]

logger = logging.getLogger("hooklatch.hub")
CHANGES = ("added", "removed", "changed")


class Bus:
    """Brings announcements to the connections that subscribed.  It never waits for one."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self._without_session: set[int] = set()  # of those with a topic
        self._listening: dict[int, Connection] = {}  # those with a topic: each decision asks for them, of thousands
        self.on_change: Callable[[Announcement], None] = lambda announcement: None

    def publish(self, viewer: Session | None, announcement: Announcement) -> bool:
        """Tell a viewer's subscribers of a change in its view; return whether there are any."""
        if viewer is None:
            self.on_change(announcement)
        numbers = self._without_session if viewer is None else viewer.connections
        listening = filter(None, map(self._listening.get, numbers))
        told = [connection for connection in listening if "registry" in connection.topics]
        for connection in told:
            connection.announce(announcement.line, is_registry=True)
        return bool(told)

    def decided(self, session: Session | None, decision: Decision) -> None:
        """Show a decision to the subscribers of its session and of those above it, and to every admin's."""
        params = {"topic": "decisions", "decision": decision, "session_id": session.id if session else None}
        self._show("decisions", session, params)

    def told(self, session: Session | None, event_type: str, data: msgspec.Raw) -> None:
        """Show telemetry to the subscribers of its session and of those above it, and to every admin's."""
        params = {"topic": "telemetry", "session_id": session.id if session else None, "event_type": event_type,
                  "data": data}  # fmt: skip
        self._show("telemetry", session, params)

    def _show(self, topic: str, session: Session | None, params: Mapping[str, object]) -> None:
        connections = [one for one in self._subscribed(topic) if one.is_admin or is_shown(session, one)]
        if connections:
            line = encode_notification("announce", params)
            for connection in connections:
                connection.announce(line, is_registry=False)

    def _subscribed(self, topic: str) -> Iterable[Connection]:
        return [connection for connection in self._listening.values() if topic in connection.topics]

    def take_topics(self, connection: Connection) -> None:
        """Take note that a connection's topics have changed."""
        if connection.topics and connection.number in self.connections:
            self._listening[connection.number] = connection
            if connection.session is None:
                self._without_session.add(connection.number)
        else:
            self._stop_listening(connection)

    def drop(self, connection: Connection) -> None:
        self.connections.pop(connection.number, None)
        self._stop_listening(connection)

    def _stop_listening(self, connection: Connection) -> None:
        self._listening.pop(connection.number, None)
        self._without_session.discard(connection.number)


def is_shown(session: Session | None, connection: Connection) -> bool:
    return session is not None and connection.session is not None and connection.session.has_below(session)


class Hub:
    """The parts, by name."""

    def __init__(
        self,
        *,
        bus: Bus,
        sessions: Sessions,
        registries: Registries,
        sources: Sources,
        files: Files,
        projects: Projects,
        dispatcher: Dispatcher,
        statistics: Statistics,
        state: StateFile,
        shared_state: SharedState,
        record: Record,
        places: dict[str, str],
    ) -> None:
        self.bus = bus
        self.sessions = sessions
        self.registries = registries
        self.sources = sources
        self.files = files
        self.projects = projects
        self.dispatcher = dispatcher
        self.statistics = statistics
        self.state = state
        self.shared_state = dispatcher.targets.state = shared_state
        self.record = record
        dispatcher.recording = Recording(record)
        self.places = places
        self.supervisors: list[Supervisor] = []  # of the daemon's own parts
        self.doors: list[Door] = []
        self.faults: list[str] = []
        self.end: Callable[[], None] | None = None  # where this process is the daemon's own
        self.stop_accepting: Callable[[], object] = lambda: None  # where the sockets outlive this daemon
        self.suspensions = Suspensions(state, self.note)
        dispatcher.suspensions = self.suspensions
        dispatcher.targets.on_quarantine = lambda hook, why: self.note("quarantined", {"hook": hook.name, "why": why})
        bus.on_change = self.note_change
        self.native = Native(dispatcher, lambda: files.dialects)
        dispatcher.targets.call_native = self.native.call
        dispatcher.targets.read_native = self.native.read
        dispatcher.settle = ProjectFreshness(projects, files, registries.take_settings).settle
        dispatcher.on_telemetry = bus.told

    def end_session(self, session: Session) -> None:
        """Forget what was known of a session and of its hooks alone."""
        self.dispatcher.targets.breakers.forget(session.id)
        self.statistics.forget(session.id)
        self.shared_state.end_session(session.id, lambda: [hook for one in self.sessions for hook in one.inherited])

    @property
    def part_faults(self) -> list[str]:
        """What is down of the daemon's own parts, or was within its period."""
        shut = [door.fault for door in self.doors if door.fault is not None]
        return [*shut, *(fault for supervisor in self.supervisors for fault in supervisor.faults())]

    @property
    def tree(self) -> list[Node]:
        """The daemon's own parts, and what is below them."""
        return [node for supervisor in self.supervisors for node in supervisor.tree()]

    def close_doors(self) -> None:
        """Accept nobody any more; those who are here are served on."""
        for door in self.doors:
            door.close()

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record something that is no decision; what cannot be recorded is logged."""
        try:
            self.record.append(kind, **fields)
        except RecordError as error:
            logger.error("not recorded kind=%s: %s", kind, error)

    def note_change(self, announcement: Announcement) -> None:
        """Record a new revision of the global registry."""
        fields = {name: getattr(announcement, name) for name in ("previous", "revision", "digest", *CHANGES)}
        self.note("registry", fields)

    def note_file(self, path: str, digest: str) -> None:
        """Record which version of a file that declares hooks comes into force."""
        self.note("source", {"kind_of_source": "configuration", "location": path, "sha256": digest})

    def note_source(self, unit: Unit) -> None:
        """Record which version of a source comes into force."""
        source = unit.source
        self.note("source", {"kind_of_source": source.kind, "location": source.location, "sha256": source.digest,
                             "build": unit.build})  # fmt: skip

    def join(self, connection: Connection, session: Session) -> None:
        connection.session = session
        session.connections.add(connection.number)

    def part(self, connection: Connection, session: Session) -> bool:
        """Have a connection be done with its session; say whether the session has ended by that."""
        connection.retire()
        self.bus.take_topics(connection)
        return self.sessions.closed(session, connection.number)

    def leave(self, connection: Connection) -> None:
        self.bus.drop(connection)
        self.dispatcher.targets.servers.pop(connection.number, None)
        if connection.session is not None:
            self.sessions.left(connection.session, connection.number)

    async def restore(self, fault: str | None) -> None:
        """Register again what the admin socket's clients had registered before the last stop.

        A `fault` says that this is not known; then every gate denies, since some of it may have been guards.
        """
        hooks: list[Hook] = []
        if fault is not None:
            self.faults.append(fault)
            hooks.append(stand_in(os.path.basename(self.state.path), EVERY_GATE, fault))
        for table in self.state.state.hooks:
            try:
                definitions = read_definition(table, is_lenient=True)
            except InvalidHookError as error:
                self.faults.append(f"{self.state.path}: {error}")
                name, event = table.get("id"), table.get("event")
                hooks.append(stand_in(str(name), event if isinstance(event, str) else EVERY_GATE, self.faults[-1]))
                continue
            hooks += [await self._restored(definition) for definition in definitions]
        self.registries.set_global(api=hooks)

    async def _restored(self, definition: HookDefinition) -> Hook:
        source, _ = place_of(definition, "/")
        faults: dict[str, Diagnostic] = {}
        try:
            await self.files.ensure(source)
        except UnitError as error:  # a reload that finds it mended takes this away
            faults[source.location] = Diagnostic(error.file, error.line, error.message)
        hook = Binder(self.registries.catalogue, self.sources.units, faults).bind(definition, Layer.GLOBAL)
        if hook.problem is None:
            return hook
        if hook.event not in self.registries.catalogue:
            hook = msgspec.structs.replace(hook, problem=f"{hook.problem}; define it, then restart the daemon")
        return msgspec.structs.replace(hook, problem=with_way_out(str(hook.problem), hook.name))

    async def trust(self, folder: str) -> dict[str, Any]:
        """Pin what a project's folder holds now, and have its hooks fire in the sessions that work there.

        Raises:
            RpcError: there is nothing to trust, or somebody else could have written it.
        """
        project = real_folder(folder)
        try:
            pins = pin(project)
        except (UnsafeFileError, OSError) as error:
            raise RpcError(ErrorCode.NOT_PERMITTED, str(error)) from None
        if not pins:
            raise RpcError(ErrorCode.NOT_FOUND, f"{folder_of(project)} holds no file; there is nothing to trust")
        self.projects.trust(project, pins)
        self.files.drop_below(folder_of(project))
        await self.state.store()
        reloaded = await self.files.reload()
        below = [one for one in reloaded.diagnostics if one.file == project or one.file.startswith(f"{project}/")]
        hooks = self.registries.project_hooks(project)
        return {
            "folder": project,
            "files": pins,
            "hooks": [{"id": hook.id, "event": hook.event, "problem": hook.problem} for hook in hooks],
            "diagnostics": below,
            "revision": self.registries.view.revision,
        }

    async def untrust(self, folder: str) -> dict[str, Any]:
        """Ignore a project's hooks from now on; that it was not trusted is no error."""
        project = without_links(folder)
        was_trusted = self.projects.untrust(project)
        if was_trusted:
            await self.state.store()
            await self.files.reload()
        return {"folder": project, "was_trusted": was_trusted, "revision": self.registries.view.revision}

    async def suspend(self, hook: str | None, seconds: float, reason: str) -> Suspension:
        """Leave a hook, a plugin or all hooks out of every fire for a limited time.

        Raises:
            RpcError: there is no such hook, or it may be several; or it is for too long, or without a reason.
        """
        name = found(hook, self.registries.every_hook()).name if hook is not None else None
        try:
            return await self.suspensions.suspend(name, seconds, reason)
        except SuspensionError as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from None

    async def reload(self) -> Reloaded:
        """Take every change of the files, also what is gone, and let every hook prove itself anew."""
        self.dispatcher.targets.breakers.clear()
        return await self.files.reload(is_explicit=True)

    async def switch(self, name: str, *, enabled: bool) -> None:
        """Enable or disable a hook of the layers that sessions share, and keep that; enabling lifts its quarantine.

        Raises:
            RpcError: there is no such hook, or it may be several.
        """
        target = self.registries.switch_global(name, enabled=enabled)
        for hook in target.hooks if enabled else ():
            self.dispatcher.targets.breakers.lift(hook.name)
        await self.store_switches()

    async def store_definitions(self, tables: Iterable[dict[str, Any]]) -> None:
        """Keep what was registered globally, for the next start: a table for each hook, in the order of firing."""
        kept = {table.get("id"): table for table in self.state.state.hooks}
        kept.update({table["id"]: table for table in tables})
        self.state.state.hooks = list(kept.values())
        await self._told_and_stored()

    async def drop_definition(self, hook_id: str) -> None:
        state = self.state.state
        state.hooks = [table for table in state.hooks if table.get("id") != hook_id]
        await self.store_switches()

    async def store_switches(self) -> None:
        self.state.state.switches = dict(self.registries.switches)
        await self._told_and_stored()

    async def _told_and_stored(self) -> None:
        """Wait for what a global change needs before it is acknowledged."""
        await self.registries.announced()
        await self.state.store()


def real_folder(folder: str) -> str:
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        raise RpcError(ErrorCode.NOT_FOUND, f"{folder!r} is no folder; give its whole path")
    return without_links(folder)


def without_links(folder: str) -> str:
    return os.path.realpath(folder)

"""Where the daemon's parts meet.  Knows them all, and who must hear of what; does none of their work."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from hooklatch.core.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.messages import Decision
from hooklatch.core.registry import Hook, Layer, PythonTarget
from hooklatch.service.assembly import hook_of
from hooklatch.service.configuration import source_of
from hooklatch.service.connection import Connection
from hooklatch.service.dispatcher import Dispatcher
from hooklatch.service.files import Files, Reloaded
from hooklatch.service.registries import Announcement, Registries
from hooklatch.service.sessions import Session, Sessions
from hooklatch.service.sources import Sources, UnitError
from hooklatch.service.state import StateFile
from hooklatch.service.statistics import Statistics

__all__ = ["Bus", "Hub"]

logger = logging.getLogger("hooklatch.hub")


class Bus:
    """Brings announcements to the connections that subscribed.  It never waits for one."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}

    def publish(self, viewer: Session | None, announcement: Announcement) -> None:
        """Tell a viewer's subscribers of a change in its view."""
        for connection in self._subscribed("registry"):
            if connection.session is viewer:
                connection.announce(announcement, is_registry=True)

    def decided(self, session: Session | None, decision: Decision) -> None:
        """Show a decision to its own session's subscribers, and to every admin's."""
        for connection in self._subscribed("decisions"):
            if connection.is_admin or (session is not None and connection.session is session):
                params = {
                    "topic": "decisions", "decision": decision, "session_id": session.id if session else None,
                }  # fmt: skip
                connection.announce(params, is_registry=False)

    def _subscribed(self, topic: str) -> Iterable[Connection]:
        return [connection for connection in self.connections.values() if topic in connection.topics]


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
        dispatcher: Dispatcher,
        statistics: Statistics,
        state: StateFile,
        places: dict[str, str],
    ) -> None:
        self.bus = bus
        self.sessions = sessions
        self.registries = registries
        self.sources = sources
        self.files = files
        self.dispatcher = dispatcher
        self.statistics = statistics
        self.state = state
        self.places = places
        self.faults: list[str] = []

    def join(self, connection: Connection, session: Session) -> None:
        connection.session = session
        session.connections.add(connection.number)

    def leave(self, connection: Connection) -> None:
        self.bus.connections.pop(connection.number, None)
        self.dispatcher.servers.pop(connection.number, None)
        if connection.session is not None:
            self.sessions.left(connection.session, connection.number)

    async def restore(self) -> None:
        """Register again what the admin socket's clients had registered before the last stop."""
        hooks: list[Hook] = []
        for table in self.state.state.hooks:
            try:
                definitions = read_definition(table, is_lenient=True)
            except InvalidHookError as error:
                self.faults.append(f"stored {error}")
                continue
            hooks += [await self._restored(definition) for definition in definitions]
        self.registries.set_global(api=hooks)

    async def _restored(self, definition: HookDefinition) -> Hook:
        source, function = source_of(definition.run or "", "/")
        try:
            unit = await self.files.ensure(source)
        except UnitError as error:
            self.faults.append(f"hook {definition.id!r}: {error}")
            return hook_of(definition, Layer.GLOBAL, PythonTarget(source, 0, function), problem=str(error))
        return hook_of(definition, Layer.GLOBAL, PythonTarget(unit.source, unit.build, function))

    async def reload(self) -> Reloaded:
        """Take every change of the files, also what is gone, and let every hook prove itself anew."""
        self.dispatcher.breakers.clear()
        return await self.files.reload(is_explicit=True)

    def forgive(self, hook_id: str) -> None:
        """Lift a hook's quarantine."""
        for name in [name for name in self.dispatcher.breakers if name.partition("/")[2] == hook_id]:
            del self.dispatcher.breakers[name]

    def store_definitions(self, tables: list[dict[str, Any]], ids: set[str]) -> None:
        """Keep what was registered globally, for the next start."""
        state = self.state.state
        state.hooks = [table for table in state.hooks if table.get("id") not in ids] + tables
        self.files.store()

    def drop_definition(self, hook_id: str) -> None:
        state = self.state.state
        state.hooks = [table for table in state.hooks if table.get("id") != hook_id]
        self.files.store()

    def store_switches(self) -> None:
        self.state.state.switches = dict(self.registries.switches)
        self.files.store()

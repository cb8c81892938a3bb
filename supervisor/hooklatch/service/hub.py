"""Where the daemon's parts meet.  Knows them all, and who must hear of what; does none of their work."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

import msgspec

from hooklatch.core.definitions import HookDefinition, InvalidHookError, read_definition
from hooklatch.core.messages import Decision
from hooklatch.core.registry import EVERY_GATE, Hook, Layer, PythonTarget
from hooklatch.service.assembly import hook_of, stand_in, with_way_out
from hooklatch.service.configuration import place_of
from hooklatch.service.connection import Connection
from hooklatch.service.dispatcher import Dispatcher
from hooklatch.service.files import Files, Reloaded
from hooklatch.service.native import Native
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
        self.native = Native(dispatcher, lambda: files.dialects)
        dispatcher.call_native = self.native.call

    def join(self, connection: Connection, session: Session) -> None:
        connection.session = session
        session.connections.add(connection.number)

    def leave(self, connection: Connection) -> None:
        self.bus.connections.pop(connection.number, None)
        self.dispatcher.servers.pop(connection.number, None)
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
        source, function = place_of(definition, "/")
        target, problem = PythonTarget(source, 0, function), None
        try:
            unit = await self.files.ensure(source)
            target = PythonTarget(unit.source, unit.build, function)
            if function not in unit.loaded.functions:
                problem = f"{source.location} has no function {function!r}"
        except UnitError as error:
            problem = str(error)  # a reload that finds it mended takes this away
        hook = hook_of(
            definition,
            Layer.GLOBAL,
            target,
            problem=problem,
            spec=self.registries.catalogue.get(definition.event),
        )
        if hook.problem is not None:
            hook = msgspec.structs.replace(hook, problem=with_way_out(hook.problem, hook.id))
        return hook

    async def reload(self) -> Reloaded:
        """Take every change of the files, also what is gone, and let every hook prove itself anew."""
        self.dispatcher.breakers.clear()
        return await self.files.reload(is_explicit=True)

    def forgive(self, hook_id: str) -> None:
        """Lift the quarantine of a hook of the global layers."""
        for hook in self.registries.view.hooks:
            if hook.id == hook_id:
                self.dispatcher.breakers.lift(hook.name)

    def store_definitions(self, tables: Iterable[dict[str, Any]]) -> None:
        """Keep what was registered globally, for the next start: a table for each hook, in the order of firing."""
        kept = {table.get("id"): table for table in self.state.state.hooks}
        kept.update({table["id"]: table for table in tables})
        self.state.state.hooks = list(kept.values())
        self.files.store()

    def drop_definition(self, hook_id: str) -> None:
        state = self.state.state
        state.hooks = [table for table in state.hooks if table.get("id") != hook_id]
        self.store_switches()

    def store_switches(self) -> None:
        self.state.state.switches = dict(self.registries.switches)
        self.files.store()

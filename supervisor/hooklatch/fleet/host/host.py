"""The fleet's part of a daemon: its policy, this host's contact, and the link that may change both.

The daemon loads it when hooks.toml has [fleet], or when a fleet left a policy here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hooklatch.core.health import ActiveFaults
from hooklatch.fleet.host.admission import LinkAdmission, LinkToken
from hooklatch.fleet.host.contact import FleetContact
from hooklatch.fleet.host.fleet_layer import FleetLayer
from hooklatch.fleet.host.methods import FleetMethods, FleetReport
from hooklatch.fleet.settings import read_settings
from hooklatch.service.api.contributions import PolicyContribution
from hooklatch.service.api.methods import MethodTable
from hooklatch.service.config.settings import Settings
from hooklatch.service.loading.see import FleetFiles
from hooklatch.service.transport.connection import Connection

if TYPE_CHECKING:
    from hooklatch.core.status_answers import FleetStatus
    from hooklatch.service.parts import DaemonComponents

__all__ = ["FleetHost"]


class FleetHost(PolicyContribution):
    """This host's side of a fleet, in its daemon."""

    def __init__(self, daemon: DaemonComponents) -> None:
        self.counts: Counter[str] = Counter()  # what happened to the policy, by the action that is recorded
        self._daemon = daemon
        self._unreadable: str | None = None  # the reason why the settings that the daemon kept are unknown
        faults = ActiveFaults()
        self.token = LinkToken(os.path.dirname(daemon.places["admin"]), faults, self._end_links)
        self.contact = FleetContact(daemon.state, self._note, daemon.files.deny)
        self.layer = FleetLayer(daemon.state, self._note, faults, lambda: self.contact.denial)
        self.report = FleetReport(self.layer, self.contact, faults, self.counts, daemon.bus)
        self.methods = FleetMethods(
            fleet=self.layer, contact=self.contact, files=daemon.files, sources=daemon.sources,
            generations=daemon.generations, status=daemon.status, report=self.report,
            background=daemon.dispatcher.background,
        )  # fmt: skip
        self.admission = LinkAdmission(self.token, daemon.record, self._note)
        self.layer.load()

    @property
    def of_administrators(self) -> MethodTable:
        return self.methods.of_administrators

    @property
    def of_links(self) -> MethodTable:
        return {**self.admission.methods, **self.methods.of_links}

    @property
    def problems(self) -> list[str]:
        return [*self.report.problems, *([self._unreadable] if self._unreadable is not None else [])]

    def take(self, settings: Settings) -> None:
        try:
            fleet = read_settings(settings.fleet)
        except msgspec.ValidationError as error:
            self._unreadable = f"the [fleet] in the state file is not this version's: {error}; repair hooks.toml"
            return
        self._unreadable = None
        self.token.take(fleet)
        self.layer.take(fleet)
        self.contact.take(fleet)

    def status(self) -> FleetStatus | None:
        return self.report.status()

    async def run(self) -> None:
        await self.contact.run()

    def close(self) -> None:
        self.token.remove()

    # -- the policy ---------------------------------------------------------------------------------------------------

    def load(self) -> None:
        self.layer.load()

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        return self.layer.look(before, mends=mends)

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        if self._unreadable is not None:
            return FleetFiles(fault=self._unreadable)
        return self.layer.add_denial(files)

    def record_active(self, files: FleetFiles | None) -> None:
        self.layer.record_active(files)

    def record_attempt(self, what: str, hook: str) -> None:
        self.layer.record_attempt(what, hook)

    async def leave(self) -> bool:
        return await self.layer.leave()

    async def clean(self) -> None:
        await self.methods.clean()

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        self.admission.admit(connection, role, token, has_session=has_session)

    # -- notes --------------------------------------------------------------------------------------------------------

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record an event of the fleet, and count it."""
        self.counts[fields["action"]] += 1
        self._daemon.notes.note(kind, fields)

    def _end_links(self) -> None:
        """Close the links when [fleet] changes. The new one has acknowledged nothing, and has another token."""
        self._daemon.record.set_shipped(None)
        self._daemon.bus.close_links()

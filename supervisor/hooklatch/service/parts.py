"""The parts of the daemon, each constructed with everything that it needs, in order of dependency.

It starts nothing, since `daemon.py` runs the parts, and decides nothing about hooks.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from hooklatch.core.health import ActiveFaults
from hooklatch.core.status_answers import ReloadAnswer
from hooklatch.dialects.find import load_entry_points
from hooklatch.processes.environments import Environments
from hooklatch.processes.pool import Pool
from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.zygote import ZygoteClient
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.administration import Administration
from hooklatch.service.api.fleet_methods import FleetMethods
from hooklatch.service.api.fleet_report import FleetReport
from hooklatch.service.api.hook_methods import HookMethods
from hooklatch.service.api.hook_reports import HookReports
from hooklatch.service.api.host_methods import HostMethods
from hooklatch.service.api.links import LinkAdmission
from hooklatch.service.api.methods import ApiMethods, Operations
from hooklatch.service.api.registration import Registrar
from hooklatch.service.api.session_methods import SessionMethods
from hooklatch.service.api.skipped_fires import SkippedFires
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.calls import HookRunners
from hooklatch.service.dispatch.dialect_fires import DialectDispatcher, Dialects
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.generations import FireGenerations
from hooklatch.service.dispatch.recording import DecisionRecorder
from hooklatch.service.dispatch.session_end import SessionCleanup
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.fleet.contact import FleetContact
from hooklatch.service.fleet.fleet_layer import FleetLayer
from hooklatch.service.fleet.token import LinkToken
from hooklatch.service.loading.files import Reloader, make_first_plan
from hooklatch.service.loading.project_freshness import ProjectFreshness
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.sources import SourceBuild, Sources
from hooklatch.service.loading.watch import FileWatch
from hooklatch.service.metrics import MetricsPlaces, MetricsPublisher
from hooklatch.service.record_notes import RecordNotes
from hooklatch.service.registry.admission import Admission
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.budget import Budget
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Sessions
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import ConnectionTasks
from hooklatch.service.transport.hangups import Hangups
from hooklatch.service.transport.line_timeouts import LineTimeouts
from hooklatch.service.transport.permits import SkipPermissions
from hooklatch.service.transport.reader_handoff import ReaderHandoff

__all__ = ["DaemonComponents"]


class DaemonComponents:
    """All parts, made around what exists before them: open files, processes, and their supervisors.

    `end` ends this process, if it is the daemon's own. `places` are its files and sockets, by their kind.
    """

    def __init__(
        self,
        *,
        config: str,
        state: StateFile,
        record: RecordWriter,
        zygote: ZygoteClient,
        environments: Environments,
        supervisors: tuple[Supervisor, ...],
        end: Callable[[], None] | None,
        places: Mapping[str, str],
        is_trial: bool = False,
        load_seconds: float = math.inf,
        make_sources: Callable[..., Sources] = Sources,
        make_files: Callable[..., Reloader] = Reloader,
    ) -> None:
        self.state, self.record, self.zygote, self.environments = state, record, zygote, environments
        self.notes = RecordNotes(record, lambda kind, fields: self.bus.announce_operation(kind, fields))
        record.on_fault = self.notes.announce_fault
        self.statistics, self.breakers = Statistics(), Breakers(self.notes.note_release)
        faults, self.listener_faults = ActiveFaults(), ActiveFaults()
        installed, unusable = load_entry_points()
        faults.report("dialects", *unusable)

        # Sessions and hooks.
        pools: dict[tuple[str, int], Pool] = {}
        self.shared_state = SharedState(os.path.dirname(state.path))
        admission = Admission(lambda: max((pool.limits.workers for pool in pools.values()), default=4))
        self.budget = Budget(self.statistics.dropped)
        self.asks = AskBroker(record.append, lambda content: self.bus.announce_ask(content), admission)
        session_end = SessionCleanup(self.breakers, self.statistics, self.shared_state, self.asks)
        self.sessions = Sessions(on_end=session_end.forget)
        self.bus = Bus(self.sessions, self.notes.note_revision)
        first = make_first_plan(config, state)
        self.projects = ProjectRegistry(state, self.sessions)
        permits = SkipPermissions(self.bus, self.projects.holds)
        self.registries = Registries(
            first.catalogue, self.sessions, self.bus.publish, permits, switches=state.state.switches
        )
        self.generations, metrics_places = FireGenerations(), MetricsPlaces()
        self.sources = make_sources(
            zygote, self.generations.wait_quiesced, pools, on_adopted=self._note_adopted, environments=environments,
            load_seconds=load_seconds,
        )  # fmt: skip

        # The fleet.
        fleet_faults = ActiveFaults()
        self.link_token = LinkToken(os.path.dirname(places["admin"]), fleet_faults, self._end_links)
        self.links = LinkAdmission(self.link_token, record, self._note_fleet_event)
        self.contact = FleetContact(state, self._note_fleet_event, lambda: self.files.deny())
        self.fleet = FleetLayer(state, self._note_fleet_event, fleet_faults, lambda: self.contact.denial)

        def take_settings(settings: Settings) -> None:
            record.apply(settings.record)
            permits.is_allowed = settings.record.skipping
            metrics_places.take(settings)
            self.link_token.take(settings.fleet)
            self.fleet.take(settings.fleet)
            self.contact.take(settings.fleet)
            self.asks.wait = 0.0 if is_trial else settings.ask_wait
            self.asks.is_for_all = settings.asks_for_all

        self.files = make_files(
            first, self.sources, self.registries, state, self.projects, self.fleet,
            on_declared=self.notes.note_file, on_reloaded=self._note_reload, on_settings=take_settings,
        )  # fmt: skip
        self.file_watch = FileWatch(self.files)
        environments.changed = lambda: self.file_watch.hint.set()
        self.places = {**places, "config": first.main.path, "state": state.path}
        self.suspensions = Suspensions(state, self.notes.note_operation)

        # Fires.
        self.dialects = Dialects(installed, self.files)
        targets = HookRunners(
            pools, self.bus.connections, self.statistics, breakers=self.breakers, dialects=self.dialects,
            on_quarantine=self.notes.note_quarantine,
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            self.registries, targets, self.generations, self.statistics,
            projects=ProjectFreshness(self.projects, self.files, self.file_watch, self.registries.take_settings),
            suspensions=self.suspensions, asks=self.asks, recording=DecisionRecorder(record), state=self.shared_state,
            audience=self.bus, budget=self.budget,
        )  # fmt: skip
        self.native = DialectDispatcher(self.dispatcher)

        # What clients request.
        operations = Operations(self.notes.note)
        registrar = Registrar(self.registries, self.files, self.sources, self.dispatcher, self.dialects)
        self.hook_methods = HookMethods(
            registrar=registrar, registries=self.registries, files=self.files, sources=self.sources, state=state,
            breakers=self.breakers, faults=faults, fleet=self.fleet, operations=operations,
        )  # fmt: skip
        session_methods = SessionMethods(
            registrar=registrar, registries=self.registries, sessions=self.sessions, projects=self.projects,
            files=self.files, dialects=self.dialects, dialect_dispatcher=self.native, bus=self.bus,
            permits=permits, record=record, links=self.links, asks=self.asks,
        )  # fmt: skip
        self.status = StatusReport(
            faults=faults, listener_faults=self.listener_faults, breakers=self.breakers, suspensions=self.suspensions,
            dispatcher=self.dispatcher, registries=self.registries, sessions=self.sessions, bus=self.bus,
            asks=self.asks, statistics=self.statistics, files=self.files, sources=self.sources,
            projects=self.projects, record=record, state=state, shared_state=self.shared_state,
            fleet=FleetReport(self.fleet, self.contact, fleet_faults, self.statistics.fleet, self.bus),
            supervisors=supervisors, places=self.places,
            started=time.time(),
        )  # fmt: skip
        self.administration = Administration(
            files=self.files, breakers=self.breakers, dispatcher=self.dispatcher, record=record,
            projects=self.projects, registries=self.registries, state=state, suspensions=self.suspensions, end=end,
            asks=self.asks, fleet=self.fleet, operations=operations,
        )  # fmt: skip
        self.fleet_methods = FleetMethods(
            fleet=self.fleet, contact=self.contact, files=self.files, sources=self.sources,
            generations=self.generations, status=self.status,
            background=self.dispatcher.background,
        )  # fmt: skip
        self.methods = ApiMethods(
            self.dispatcher, self.dialects, self.native, self.registries, self.bus,
            of_clients=[
                session_methods.methods,
                self.hook_methods.methods,
                HostMethods(self.dispatcher, self.statistics, self.projects, self.registries).methods,
                SkippedFires(self.registries, self.statistics, record).methods,
                HookReports(self.status, self.dialects, self.native).methods,
                self.status.methods,
            ],
            of_administrators={
                **self.administration.methods, **self.hook_methods.of_administrators,
                **self.fleet_methods.of_administrators,
            },
            of_links={**self.links.methods, **self.fleet_methods.of_links},
        )  # fmt: skip
        self.metrics = MetricsPublisher(metrics_places, self.status, faults)
        self.shared = ConnectionTasks(admission, self.budget, ReaderHandoff(), LineTimeouts(), Hangups())

    def _note_adopted(self, unit: SourceBuild) -> None:
        """Record a new build of a source. It ends a quarantine of the last one, and has files of its own to watch."""
        self.file_watch.hint.set()
        self.notes.note_build(unit)
        self.breakers.release_replaced(unit.source.location, unit.build)

    def _note_reload(self, reloaded: ReloadAnswer) -> None:
        """Record a reload, after which other files may have to be watched."""
        self.file_watch.hint.set()
        self.notes.announce_reload(reloaded)

    def roots(self) -> frozenset[int]:
        """Return the processes that have everything that runs hooks below them."""
        return self.zygote.roots() | self.environments.roots()

    def _note_fleet_event(self, kind: str, fields: dict[str, Any]) -> None:
        """Record an event of the fleet, and count it."""
        self.statistics.fleet[fields["action"]] += 1
        self.notes.note(kind, fields)

    def _end_links(self) -> None:
        """Close the fleet's links when [fleet] changes. The new one has acknowledged nothing, and has another token."""
        self.record.set_shipped(None)
        self.bus.close_links()

"""The parts of the daemon, each constructed with everything that it needs, in order of dependency.

It starts nothing, since `daemon.py` runs the parts, and decides nothing about hooks.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from hooklatch.core.health import ActiveFaults
from hooklatch.dialects.installed import load_entry_points
from hooklatch.path_lookup import PathAbsent, look_up_path
from hooklatch.processes.environment_slot import EnvironmentSlot
from hooklatch.processes.pool import Pool
from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.zygote import ZygoteClient
from hooklatch.record.writer import RecordWriter
from hooklatch.service.api.hook_methods import Administration, HookMethods
from hooklatch.service.api.methods import (
    ApiMethods,
    Contribution,
    ContributionSlot,
    MethodTable,
    Operations,
    PolicyContribution,
    PolicySlot,
    load_later,
)
from hooklatch.service.api.registration import Registrar
from hooklatch.service.api.session_methods import SessionMethods
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.dialects import DialectDispatcher, Dialects
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.fires import FireGenerations
from hooklatch.service.dispatch.runners import HookRunner, HookRunners
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.project_freshness import ProjectFreshness
from hooklatch.service.loading.projects import ProjectRegistry
from hooklatch.service.loading.reloader import Reloader, make_first_plan
from hooklatch.service.loading.sources import SourceBuild, Sources
from hooklatch.service.loading.watch import FileWatch, ReloadHint
from hooklatch.service.record_notes import RecordNotes
from hooklatch.service.registry.admission import Admission
from hooklatch.service.registry.announcing import RegistryChange
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.budget import Budget
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import ConnectionTasks
from hooklatch.service.transport.permits import SkipPermissions
from hooklatch.service.transport.watches import Hangups, LineTimeouts, ReaderHandoff

if TYPE_CHECKING:
    from hooklatch.core.status_answers import ReloadAnswer, StartOptions

__all__ = ["DaemonComponents"]

OF_OPERATORS = ("acknowledge", "trust", "untrust", "suspend", "resume", "asks", "answer_ask", "counts")
P = TypeVar("P", bound=Contribution)


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
        bus: Bus,
        zygote: ZygoteClient,
        environments: str,
        supervisors: tuple[Supervisor, ...],
        end: Callable[[], None] | None,
        places: Mapping[str, str],
        start: StartOptions | None = None,
        is_trial: bool = False,
        load_seconds: float = math.inf,
        make_sources: Callable[..., Sources] = Sources,
        make_reloader: Callable[..., Reloader] = Reloader,
    ) -> None:
        self.state, self.record, self.bus, self.zygote = state, record, bus, zygote
        self.hint, self._is_trial = ReloadHint(), is_trial
        self.environments = EnvironmentSlot(environments, owns_process=zygote.owns_process, changed=self.hint.set)
        self.notes = RecordNotes(record, bus.announce_operation)
        self.statistics, self.breakers = Statistics(), Breakers(self.notes.note_release)
        faults, self.listener_faults = ActiveFaults(), ActiveFaults()
        installed, unusable = load_entry_points()
        faults.report("dialects", *unusable)

        # Sessions and hooks.
        pools: dict[tuple[str, int], Pool] = {}
        self.shared_state = SharedState(os.path.dirname(state.path))
        admission = Admission(lambda: max((pool.limits.workers for pool in pools.values()), default=4))
        self.budget = Budget(self.statistics.dropped)
        self.asks = AskBroker(record.append, bus.announce_ask, admission)
        self.sessions = Sessions(on_end=self._forget_session)
        first = make_first_plan(config, state)
        self.projects = ProjectRegistry(state, self.sessions)
        self.permits = SkipPermissions(bus, self.projects.holds)
        self.registries = Registries(
            first.catalogue, self.sessions, self._publish, self.permits, switches=state.state.switches
        )
        self.generations = FireGenerations()
        self.sources = make_sources(
            zygote, self.generations.wait_quiesced, pools, on_adopted=self._note_adopted,
            environments=self.environments, load_seconds=load_seconds,
        )  # fmt: skip

        # Products.
        self.fleet = PolicySlot("fleet", PolicyContribution, self._make_part, self._is_in_fleet)
        self.products = [
            ContributionSlot[Contribution]("metrics", Contribution, self._make_part, has_metrics),
            ContributionSlot[Contribution]("notifications", Contribution, self._make_part, has_notifiers),
        ]

        self.reloader = make_reloader(
            first, self.sources, self.registries, state, self.projects, self.fleet,
            on_declared=self.notes.note_file, on_reloaded=self._note_reload, on_settings=self._take_settings,
        )  # fmt: skip
        self.file_watch = FileWatch(self.reloader, self.hint)
        self.places = {**places, "config": first.main.path, "state": state.path}
        self.suspensions = Suspensions(state, self.notes.note_operation)

        # Fires.
        self.dialects = Dialects(installed, self.reloader)
        self.dispatcher = self.make_dispatcher(pools)
        self.native = DialectDispatcher(self.dispatcher)

        # What clients request.
        operations = Operations(self.notes.note)
        registrar = Registrar(self.registries, self.reloader, self.sources, self.dialects)
        self.hook_methods = HookMethods(
            registrar=registrar, registries=self.registries, reloader=self.reloader, sources=self.sources, state=state,
            breakers=self.breakers, faults=faults, fleet=self.fleet, operations=operations,
        )  # fmt: skip
        session_methods = SessionMethods(
            registrar=registrar, registries=self.registries, sessions=self.sessions, projects=self.projects,
            reloader=self.reloader, dialects=self.dialects, dialect_dispatcher=self.native, bus=self.bus,
            permits=self.permits, record=record, fleet=self.fleet, asks=self.asks,
        )  # fmt: skip
        self.status = StatusReport(
            faults=faults, listener_faults=self.listener_faults, breakers=self.breakers, suspensions=self.suspensions,
            dispatcher=self.dispatcher, registries=self.registries, sessions=self.sessions, bus=self.bus,
            asks=self.asks, statistics=self.statistics, reloader=self.reloader, file_watch=self.file_watch,
            sources=self.sources, projects=self.projects, record=record, state=state, shared_state=self.shared_state,
            fleet=self.fleet, products=self.products,
            supervisors=supervisors, places=self.places, start=start,
            started=time.time(),
        )  # fmt: skip
        self.administration = Administration(
            reloader=self.reloader, breakers=self.breakers, dispatcher=self.dispatcher, registries=self.registries,
            fleet=self.fleet, operations=operations, end=end,
        )  # fmt: skip

        def load_operator_methods() -> MethodTable:
            from hooklatch.service.api.operator_methods import OperatorMethods

            return OperatorMethods(
                reloader=self.reloader, record=record, projects=self.projects, registries=self.registries, state=state,
                suspensions=self.suspensions, asks=self.asks, fleet=self.fleet, operations=operations,
            ).methods  # fmt: skip

        self.methods = ApiMethods(
            self.dispatcher, self.dialects, self.native, self.registries, bus, self.sessions,
            of_clients=[
                session_methods.methods,
                self.hook_methods.methods,
                load_later(("host",), self._load_host_methods),
                load_later(("skipped",), self._load_skipped_fires),
                load_later(("hooks", "hook", "events", "explain", "log"), self._load_hook_reports),
                self.status.methods,
            ],
            of_administrators={
                **self.administration.methods,
                **self.hook_methods.of_administrators,
                **load_later(OF_OPERATORS, load_operator_methods),
            },
            of_products=[self.fleet, *self.products],
        )  # fmt: skip
        self.shared = ConnectionTasks(admission, self.budget, ReaderHandoff(), LineTimeouts(), Hangups())

    def make_dispatcher(self, pools: Mapping[tuple[str, int], HookRunner]) -> Dispatcher:
        """Make a dispatcher of this daemon's hooks that runs them in these pools."""
        runners = HookRunners(
            pools, self.bus.connections, self.statistics, breakers=self.breakers, dialects=self.dialects,
            on_quarantine=self.notes.note_quarantine,
        )  # fmt: skip
        return Dispatcher(
            self.registries, runners, self.generations, self.statistics,
            projects=ProjectFreshness(self.projects, self.reloader, self.file_watch, self.registries.refresh),
            suspensions=self.suspensions, asks=self.asks, record=self.record,
            state=self.shared_state, audience=self.bus, budget=self.budget,
        )  # fmt: skip

    def _load_hook_reports(self) -> MethodTable:
        from hooklatch.service.api.hook_reports import HookReports

        return HookReports(self.status, self.dialects, self.native).methods

    def _load_skipped_fires(self) -> MethodTable:
        from hooklatch.service.api.skipped_fires import SkippedFires

        return SkippedFires(self.registries, self.statistics, self.record).methods

    def _load_host_methods(self) -> MethodTable:
        from hooklatch.service.api.host_methods import HostMethods

        return HostMethods(self.dispatcher, self.statistics, self.projects, self.registries).methods

    def _forget_session(self, session: AgentSession, live: Sessions) -> None:
        """Forget what parts hold of a session that has ended, and of its hooks; `live` are those that remain."""
        self.asks.end_session(session.id)
        self.breakers.forget(session.id)
        self.statistics.forget(session.id)
        self.shared_state.end_session(session.id, live)

    def _publish(self, viewer: AgentSession | None, change: RegistryChange) -> bool:
        """Record a change of the global registry before any subscriber gets it; return whether there are any."""
        if viewer is None:
            self.notes.note_revision(change)
        return self.bus.publish(viewer, change)

    def _take_settings(self, settings: Settings) -> None:
        """Apply the settings of the main file, as soon as a reload has read it."""
        self.record.apply(settings.record)
        self.permits.is_allowed = settings.record.skipping
        self.dispatcher.is_halting = settings.is_halting
        self.fleet.take(settings)
        for product in () if self._is_trial else self.products:
            product.take(settings)
        self.asks.wait = 0.0 if self._is_trial else settings.ask_wait
        self.asks.is_for_all = settings.asks_for_all

    def _note_adopted(self, unit: SourceBuild) -> None:
        """Record a new build of a source. It ends a quarantine of the last one, and has files of its own to watch."""
        self.hint.set()
        self.notes.note_build(unit)
        self.breakers.release_replaced(unit.source.location, unit.build)

    def _note_reload(self, reloaded: ReloadAnswer) -> None:
        """Record a reload, after which other files may have to be watched."""
        self.hint.set()
        self.notes.announce_reload(reloaded)

    def roots(self) -> frozenset[int]:
        """Return the processes that have everything that runs hooks below them."""
        return self.zygote.roots() | self.environments.roots()

    def _make_part(self, product: Callable[[DaemonComponents], P]) -> P:
        """Make a product's part of this daemon, which is complete by then."""
        return product(self)

    def _is_in_fleet(self, settings: Settings) -> bool:
        """Return whether hooks.toml has [fleet], or a fleet left something here; a folder that is unknown counts."""
        state = self.state.state
        if settings.fleet is not None or state.fleet or state.contact or self.state.fleet_switches:
            return True
        return not isinstance(look_up_path(os.path.join(os.path.dirname(self.state.path), "fleet")), PathAbsent)


def has_metrics(settings: Settings) -> bool:
    return settings.metrics_port is not None or settings.metrics_file is not None


def has_notifiers(settings: Settings) -> bool:
    return settings.notify is not None

"""The parts of the daemon, each constructed with everything that it needs, in order of dependency.

Starts nothing: `daemon.py` says how each part is run.  Decides nothing about hooks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import msgspec

from hooklatch.core.health import Faults
from hooklatch.dialects.find import load_entry_points
from hooklatch.processes.pool import Pool
from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.zygote import Zygote
from hooklatch.record.writer import Record
from hooklatch.service.api.administration import Administration, BreakGlass, Trusting
from hooklatch.service.api.global_hooks import GlobalHooks
from hooklatch.service.api.health import Health, HookStates
from hooklatch.service.api.hook_methods import HookMethods
from hooklatch.service.api.hook_reports import HookReports
from hooklatch.service.api.methods import Firing, Methods
from hooklatch.service.api.queries import Queries
from hooklatch.service.api.registration import Registrar
from hooklatch.service.api.session_methods import SessionMethods
from hooklatch.service.api.session_opening import SessionOpening
from hooklatch.service.api.status_report import StatusReport
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.calls import Targets
from hooklatch.service.dispatch.dialect_fires import Dialects, Native
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.generations import Generations
from hooklatch.service.dispatch.recording import Recording
from hooklatch.service.dispatch.session_end import SessionEnd
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.files import Files, first_plan
from hooklatch.service.loading.project_freshness import ProjectFreshness
from hooklatch.service.loading.projects import Projects
from hooklatch.service.loading.sources import Sources
from hooklatch.service.process.measurements import Measurements
from hooklatch.service.process.metrics import Metrics, MetricsPlaces
from hooklatch.service.process.record_notes import RecordNotes
from hooklatch.service.registry.admission import Admission
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Sessions
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.registry.suspensions import Suspensions
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.connection import Shared
from hooklatch.service.transport.hangups import Hangups
from hooklatch.service.transport.line_timeouts import LineTimeouts
from hooklatch.service.transport.reader_handoff import ReaderHandoff

__all__ = ["Ground", "Parts", "assemble"]


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What exists before any part: open files, processes, and the supervisor.

    `end` ends this process, if it is the daemon's own; `places` are its files and sockets, by what they are.
    """

    config: str
    state: StateFile
    record: Record
    zygote: Zygote
    supervisors: tuple[Supervisor, ...]
    end: Callable[[], None] | None
    places: Mapping[str, str]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that run, and those that others call."""

    state: StateFile
    record: Record
    notes: RecordNotes
    zygote: Zygote
    statistics: Statistics
    breakers: Breakers
    listener_faults: Faults
    shared_state: SharedState
    sessions: Sessions
    bus: Bus
    registries: Registries
    generations: Generations
    sources: Sources
    projects: Projects
    files: Files
    suspensions: Suspensions
    dialects: Dialects
    dispatcher: Dispatcher
    native: Native
    global_hooks: GlobalHooks
    administration: Administration
    health: Health
    measurements: Measurements
    metrics: Metrics
    methods: Methods
    shared: Shared
    places: Mapping[str, str]


def assemble(
    ground: Ground, make_sources: Callable[..., Sources] = Sources, make_files: Callable[..., Files] = Files
) -> Parts:
    """Construct the parts."""
    state, record, zygote = ground.state, ground.record, ground.zygote
    notes, statistics, breakers = RecordNotes(record), Statistics(), Breakers()
    faults, listener_faults = Faults(), Faults()
    installed, unusable = load_entry_points()
    faults.report("dialects", *unusable)

    # Sessions and hooks.
    shared_state = SharedState(os.path.dirname(state.path))
    sessions = Sessions(on_end=SessionEnd(breakers, statistics, shared_state).forget)
    bus = Bus(sessions, notes.registry)
    first = first_plan(ground.config, state)
    registries = Registries(first.catalogue, sessions, bus.publish, switches=state.state.switches)
    generations, metrics_places = Generations(), MetricsPlaces()
    pools: dict[tuple[str, int], Pool] = {}
    sources = make_sources(zygote, generations.quiesced, pools, on_adopted=notes.adopted)
    projects = Projects(state, sessions)

    def take_settings(settings: Settings) -> None:
        record.apply(settings.record)
        metrics_places.take(settings)

    files = make_files(
        first,
        sources,
        registries,
        state,
        projects,
        on_declared=notes.declared,
        on_settings=take_settings,
    )
    suspensions = Suspensions(state, notes.note)

    # Fires.
    dialects = Dialects(installed, files)
    targets = Targets(
        pools, bus.connections, statistics,
        breakers=breakers, native=dialects, state=shared_state, on_quarantine=notes.quarantined,
    )  # fmt: skip
    dispatcher = Dispatcher(
        registries, targets, generations, statistics,
        settle=ProjectFreshness(projects, files, registries.take_settings).settle,
        suspensions=suspensions, recording=Recording(record), audience=bus,
    )  # fmt: skip
    native = Native(dispatcher)

    # What clients request.
    hook_states = HookStates(suspensions, breakers)
    health = Health(
        supervisors=ground.supervisors, listeners=listener_faults, faults=faults, zygote=zygote, record=record,
        sources=sources, files=files, registries=registries, state=state, shared_state=shared_state,
        suspensions=suspensions, hook_states=hook_states, dispatcher=dispatcher,
    )  # fmt: skip
    global_hooks = GlobalHooks(registries, files, sources, state, breakers, faults)
    registrar = Registrar(registries, files, sources, dispatcher, dialects)
    opening = SessionOpening(
        registrar=registrar, registries=registries, sessions=sessions, projects=projects, files=files, native=native,
        bus=bus,
    )  # fmt: skip
    hook_reports = HookReports(
        registries=registries, files=files, statistics=statistics, suspensions=suspensions,
        hook_states=hook_states, dialects=dialects,
    )  # fmt: skip
    places = {**ground.places, "config": first.main.path, "state": state.path}
    status_report = StatusReport(
        health=health, registries=registries, sessions=sessions, bus=bus, statistics=statistics, files=files,
        sources=sources, projects=projects, record=record, state=state, shared_state=shared_state,
        supervisors=ground.supervisors, places=places, started=time.time(),
    )  # fmt: skip
    queries = Queries(
        hook_reports=hook_reports, status_report=status_report, health=health, sessions=sessions, registries=registries,
        dialects=dialects,
        native=native, dispatcher=dispatcher, record_folder=record.folder,
    )  # fmt: skip
    administration = Administration(files, breakers, dispatcher, record, ground.end)
    methods = Methods(
        Firing(dispatcher, dialects, native),
        [
            SessionMethods(opening, registries, dialects, projects, bus, record).methods,
            HookMethods(registrar, registries, global_hooks, breakers, state).methods,
            queries.methods,
        ],
        [
            administration.methods,
            Trusting(projects, files, registries, state).methods,
            BreakGlass(suspensions, registries, state).methods,
        ],
        registries,
        bus,
    )
    measurements = Measurements(
        statistics=statistics, registries=registries, hook_states=hook_states, sources=sources, record=record,
        health=health, dispatcher=dispatcher, sessions=sessions, bus=bus, shared_state=shared_state, files=files,
    )  # fmt: skip
    return Parts(
        state=state, record=record, notes=notes, zygote=zygote, statistics=statistics, breakers=breakers,
        listener_faults=listener_faults, shared_state=shared_state, sessions=sessions, bus=bus, registries=registries,
        generations=generations, sources=sources, projects=projects, files=files, suspensions=suspensions,
        dialects=dialects, dispatcher=dispatcher, native=native, global_hooks=global_hooks,
        administration=administration, health=health, measurements=measurements,
        metrics=Metrics(metrics_places, measurements, health, faults), methods=methods,
        shared=Shared(Admission(), ReaderHandoff(), LineTimeouts(), Hangups()), places=places,
    )  # fmt: skip

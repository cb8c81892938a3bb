"""The composition root: makes the parts, says how each is supervised, starts and ends them.  Decides nothing of hooks.

The tree is what `foundations` and `doors` list (one_for_one; `hooklatch status --tree` shows it as it is):

    daemon
    ├─ record              significant: the daemon ends with it, and clients deny
    ├─ zygote              permanent: each run is the life of one process
    ├─ pools               a permanent pool for each build of a source; below it its workers
    ├─ background fires    temporary ones
    ├─ session timers      temporary ones
    ├─ suspensions, metrics, admission, reader handoff, line timeouts     permanent
    ├─ memory's watch, files' watch, hints, hangups     permanent
    ├─ agents' connections, administrators' connections     temporary ones
    └─ agents' listener, administrators' listener     significant
    process (from before the daemon's start to after its end)
    ├─ orders              permanent: signals
    └─ watchdog's feeder   transient: it returns where no manager watches

The registries have no task: an exception there is the caller's, who gets an error, and clients deny.
"""

from __future__ import annotations

import itertools
import logging
import os
import resource
import shlex
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
import trio

from hooklatch import paths
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.limits import places
from hooklatch.core.restarts import Restart
from hooklatch.core.text import counted
from hooklatch.dialects.find import load_entry_points
from hooklatch.processes import scratch
from hooklatch.processes.pool import Pool, PoolLimits
from hooklatch.processes.resource_limits import watch_memory
from hooklatch.processes.supervisor import ChildSpec, Supervisor, cause_of, text_of
from hooklatch.processes.zygote import ForkError, Zygote
from hooklatch.record.writer import Record, RecordError
from hooklatch.service.api.health import is_vital_well
from hooklatch.service.api.hub import Bus, Hub
from hooklatch.service.api.methods import Methods
from hooklatch.service.config.file_safety import UnsafeFileError, make_private
from hooklatch.service.config.path_lookup import Absent, Fault, look
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_file import LockedError, StateFile, lock
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.loading.file_watcher import give_hints
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.projects import Projects
from hooklatch.service.loading.sources import Sources
from hooklatch.service.process.metrics import Metrics
from hooklatch.service.process.service_manager import Notifier
from hooklatch.service.process.signals import DRAIN_TIMEOUT, Signals
from hooklatch.service.process.socket_activation import ActivationError, Inherited, take_sockets
from hooklatch.service.registry.admission import Admission
from hooklatch.service.registry.registries import Registries
from hooklatch.service.registry.sessions import Sessions
from hooklatch.service.registry.statistics import Statistics
from hooklatch.service.transport.connection import Connection
from hooklatch.service.transport.hangups import Hangups
from hooklatch.service.transport.line_timeouts import LineTimeouts
from hooklatch.service.transport.peers import Peers
from hooklatch.service.transport.reader_handoff import ReaderHandoff
from hooklatch.service.transport.server import (
    Door,
    RuntimeDirError,
    check_nobody_listens,
    listen,
    make_runtime_dir,
)
from hooklatch_worker.sandbox import linux
from hooklatch_worker.sandbox.isolation import be_unreadable

__all__ = ["ConfigMissingError", "Options", "Ready", "StartError", "run_daemon", "serve"]

logger = logging.getLogger("hooklatch.daemon")
SUCCESSION = DRAIN_TIMEOUT + 10.0  # seconds that one with sockets passed on waits for the one before it to end
LOCK_INTERVAL = 0.02


class Options(msgspec.Struct, frozen=True):
    """Where the daemon's files are; `admin_dir` is where the admin socket is, if not in `runtime_dir`.

    A `config` that somebody named (`is_config_named`) must be there.
    `owns_process` lets it adopt and kill every orphan: not inside a test.
    """

    config: str
    runtime_dir: str
    state_dir: str
    owns_process: bool = True
    admin_dir: str | None = None
    is_config_named: bool = False


class Ready(msgspec.Struct, frozen=True):
    """What `serve` prints when it can answer."""

    agent: str
    admin: str
    pid: int
    revision: int
    ready: bool = True


class StartError(Exception):
    """The daemon cannot start: why, and what to do."""


class ConfigMissingError(StartError):
    """The configuration file that somebody named is not there, or nobody can tell."""


class HeldError(StartError):
    """Another daemon holds a folder; it may be about to end."""


def run_daemon(options: Options, *, on_ready: Callable[[Ready], None]) -> None:
    """Run the daemon until it is told to end.

    Raises:
        StartError: it cannot start.
    """
    if not linux.is_supported():
        raise StartError("the daemon needs Linux with pidfd (5.3 or later) and /proc; clients run anywhere")
    raise_open_files()
    if options.owns_process:
        linux.become_subreaper()
        be_unreadable()
    notifier = Notifier.from_environment(os.environ, os.getpid())
    try:
        inherited = take_sockets(os.environ, os.getpid())
    except ActivationError as error:
        raise StartError(str(error)) from None
    trio.run(main, options, on_ready, inherited, notifier)


async def main(
    options: Options, on_ready: Callable[[Ready], None], inherited: Inherited | None, notifier: Notifier
) -> None:
    orders, failure = Signals(notifier), None
    async with Supervisor("process").open() as process:
        await process.start(orders.spec)
        try:
            with orders.starting:
                async with serve(options, inherited) as (hub, ready):
                    orders.begin(hub)
                    hub.supervisors.append(process)
                    feed = partial(notifier.keep_alive, lambda: is_vital_well(hub))
                    await process.start(ChildSpec("watchdog's feeder", feed, Restart.TRANSIENT))
                    on_ready(ready)
                    await notifier.ready(
                        f"revision {ready.revision}, {counted(len(hub.registries.view.hooks), 'hook')}"
                    )
                    await orders.ended.wait()
        except* StartError as group:  # alone, or in a group from the nursery of the daemon's parts
            failure = cause_of(group)
    if failure is not None:
        raise failure


@asynccontextmanager
async def serve(options: Options, inherited: Inherited | None = None) -> AsyncGenerator[tuple[Hub, Ready]]:
    """Run all parts for as long as the block lasts, on sockets of our own or on those that were passed on.

    Raises:
        StartError: another daemon runs, or a folder cannot be used, or the configuration that was named is not there.
    """
    if options.is_config_named:
        check_config(options.config)
    if inherited is None:
        agent = os.path.join(options.runtime_dir, paths.AGENT_SOCKET)
        admin = os.path.join(options.admin_dir or options.runtime_dir, paths.ADMIN_SOCKET)
        locks = take_locks(options)
    else:
        agent, admin = inherited.agent_path, inherited.admin_path
        options = msgspec.structs.replace(options, runtime_dir=os.path.dirname(agent))
        locks = await take_over(options)
    listeners: tuple[socket.socket, ...] = ()
    record: Record | None = None
    shared_state: SharedState | None = None
    failure: str | None = None
    try:
        if inherited is None:
            check_stale(agent, admin)
        state = StateFile(options.state_dir)
        fault = state.read()
        record = open_record(options, state)
        async with Supervisor("daemon").open() as daemon:
            zygote = Zygote(owns_process=options.owns_process)
            sessions = Sessions(on_end=lambda session: hub.end_session(session))
            shared_state = SharedState(options.state_dir, sessions)
            hub, metrics = assemble(
                options, zygote, state, record, sessions, shared_state, {"agent": agent, "admin": admin}
            )
            hub.supervisors.append(daemon)
            await start_all(daemon, foundations(hub, zygote, metrics))
            await load_everything(hub, fault)
            hub.native.installed, unusable = load_entry_points()
            hub.faults += unusable
            listeners = (inherited.agent, inherited.admin) if inherited else (listen(agent), listen(admin))
            await start_all(daemon, doors(hub, zygote, listeners, is_inherited=inherited is not None))
            try:
                yield hub, Ready(agent, admin, os.getpid(), hub.registries.view.revision)
            finally:
                for path in (agent, admin) if inherited is None else ():
                    with suppress(FileNotFoundError):
                        os.unlink(path)
                hub.dispatcher.is_draining = True  # nothing that begins now could be waited for
                hub.dispatcher.stop()
    except Exception as error:
        failure = text_of(error)
        raise
    finally:
        for listener in listeners:
            listener.close()
        if shared_state is not None:
            shared_state.close()
        if record is not None:
            record.close(failure)
        for fd in locks:
            os.close(fd)


def check_config(path: str) -> None:
    """Refuse a name with nothing behind it: a slip of the pen would be a daemon without a guard."""
    seen = look(path)
    if isinstance(seen, Absent):
        what = f"{path} is not there; give the path of your file of hooks"
        raise ConfigMissingError(f"{what}, or write a first one: hooklatch init --config {shlex.quote(path)}")
    if isinstance(seen, Fault):
        raise ConfigMissingError(f"the file of hooks that was named: {seen.reason}")


def assemble(
    options: Options,
    zygote: Zygote,
    state: StateFile,
    record: Record,
    sessions: Sessions,
    shared_state: SharedState,
    places: dict[str, str],
) -> tuple[Hub, Metrics]:
    """Make the parts, and let them know each other."""

    def take(settings: Settings) -> None:
        record.apply(settings.record)
        metrics.take(settings)

    bus, statistics = Bus(), Statistics()
    registries = Registries(Catalogue.standard(), sessions, bus.publish, switches=state.state.switches)
    pools: dict[tuple[str, int], Pool] = {}
    dispatcher = Dispatcher(registries, pools, statistics, bus.decided)
    sources = Sources(zygote, PoolLimits(), dispatcher.quiesced, pools, on_adopted=lambda unit: hub.note_source(unit))
    projects = Projects(state, sessions)
    files = Files(
        options.config, sources, registries, state, projects,
        on_declared=lambda path, digest: hub.note_file(path, digest), on_settings=take,
    )  # fmt: skip
    hub = Hub(
        bus=bus, sessions=sessions, registries=registries, sources=sources, files=files, projects=projects,
        dispatcher=dispatcher, statistics=statistics, state=state, shared_state=shared_state, record=record,
        places={**places, "config": files.config_path, "state": state.path},
    )  # fmt: skip
    metrics = Metrics(hub)
    return hub, metrics


def foundations(hub: Hub, zygote: Zygote, metrics: Metrics) -> list[ChildSpec]:
    """List what hooks are loaded with, and fires run on."""
    pools, fires, timers = hub.sources.supervisor, hub.dispatcher.background, hub.sessions.timers
    return [
        ChildSpec("record", hub.record.run, is_significant=True, reports_start=True),
        zygote.spec,
        ChildSpec("pools", pools.run, reports_start=True, below=pools),
        ChildSpec("background fires", fires.run, reports_start=True, below=fires),
        ChildSpec("session timers", timers.run, reports_start=True, below=timers),
        ChildSpec("suspensions", hub.suspensions.run, reports_start=True),
        ChildSpec("shared state", hub.shared_state.run, reports_start=True),
        ChildSpec("metrics", metrics.run),
    ]


def doors(hub: Hub, zygote: Zygote, listeners: tuple[socket.socket, ...], *, is_inherited: bool) -> list[ChildSpec]:
    """List what serves clients once every hook is in place, the listeners last."""
    handoff, admission, hangups, line_timeouts = ReaderHandoff(), Admission(), Hangups(), LineTimeouts()
    peers = Peers(zygote.roots, hub.statistics.dropped)
    room = places(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    hub.doors = []
    for listener, (name, is_admin, most) in zip(
        listeners, (("agents", False, room.agents), ("administrators", True, room.administrators)), strict=True
    ):
        make = connections_of(hub, handoff, admission, hangups, line_timeouts, is_admin=is_admin)
        hub.doors.append(Door(name, listener, make, hub.bus.connections, peers, most))
    if is_inherited:
        hub.stop_accepting = hub.close_doors  # the next daemon finds them waiting
    return [
        ChildSpec("admission", admission.run),
        ChildSpec("reader handoff", handoff.run),
        ChildSpec("line timeouts", line_timeouts.run),
        ChildSpec("memory's watch", partial(watch_memory, lambda: list(hub.sources.pools.values()))),
        ChildSpec("files' watch", hub.files.watch),
        ChildSpec("hints", partial(give_hints, hub.files)),
        ChildSpec("hangups", hangups.run, reports_start=True),
        *(
            ChildSpec(f"{door.name}' connections", door.serving.run, reports_start=True, below=door.serving)
            for door in hub.doors
        ),
        *(ChildSpec(f"{door.name}' listener", door.run, Restart.TRANSIENT, is_significant=True) for door in hub.doors),
    ]


async def start_all(supervisor: Supervisor, specs: list[ChildSpec]) -> None:
    """Start children in their order.

    Raises:
        StartError: one of them cannot be started.
    """
    for spec in specs:
        try:
            await supervisor.start(spec)
        except (ForkError, OSError) as error:
            raise StartError(f"the {spec.name} did not start: {error}") from None


def open_record(options: Options, state: StateFile) -> Record:
    try:
        return Record(os.path.join(options.state_dir, "record"), state.state.settings.record)
    except RecordError as error:
        raise StartError(str(error)) from None


def take_locks(options: Options) -> list[int]:
    try:
        make_runtime_dir(options.runtime_dir)
        make_runtime_dir(options.admin_dir or options.runtime_dir)
        make_private(options.state_dir)
        first = lock(options.runtime_dir, "daemon.lock")
    except LockedError as error:
        raise HeldError(f"{error}; stop it, or give this one another --runtime-dir") from None
    except RuntimeDirError as error:
        raise StartError(str(error)) from None
    except UnsafeFileError as error:
        raise StartError(f"{error}; or give this one another XDG_STATE_HOME") from None
    except OSError as error:
        raise StartError(f"{error.filename}: {error.strerror}") from None
    try:
        return [first, lock(options.state_dir, "daemon.lock")]
    except LockedError as error:
        os.close(first)
        raise HeldError(f"{error}; give this one another XDG_STATE_HOME") from None


async def take_over(options: Options) -> list[int]:
    """Take the locks when the daemon before us has let go of them; its clients wait in the sockets' backlog."""
    deadline = trio.current_time() + SUCCESSION
    for attempt in itertools.count():
        try:
            return take_locks(options)
        except HeldError as error:
            if trio.current_time() > deadline:
                raise
            if not attempt:
                logger.info("waiting: %s", error)
            await trio.sleep(LOCK_INTERVAL)
    raise AssertionError("unreachable")


def check_stale(*sockets: str) -> None:
    try:
        for path in sockets:
            check_nobody_listens(path)
    except RuntimeDirError as error:
        raise StartError(str(error)) from None


async def load_everything(hub: Hub, fault: str | None) -> None:
    """Have every hook in place before the first client can ask; `fault` is what is wrong with the state file."""
    if fault is not None:
        logger.error("%s", fault)
    for text in hub.state.dropped:
        logger.warning("%s", text, extra={"path": hub.state.path})
    scratch.clear(os.path.dirname(hub.state.path))
    hub.suspensions.restore()
    hub.files.prepare()
    if hub.files.settings.keeps_state:
        hub.shared_state.open()
    await hub.restore(fault)
    await hub.files.reload()


def connections_of(
    hub: Hub,
    handoff: ReaderHandoff,
    admission: Admission,
    hangups: Hangups,
    line_timeouts: LineTimeouts,
    *,
    is_admin: bool,
) -> Callable[[socket.socket], Connection]:
    methods = Methods(hub)

    def make(stream: socket.socket) -> Connection:
        connection = Connection(
            next(NUMBERS), stream, methods, handoff, admission, hangups, line_timeouts, is_admin=is_admin
        )
        connection.resync = lambda: hub.registries.follow(connection.session).revision
        hub.dispatcher.targets.servers[connection.number] = connection
        return connection

    return make


NUMBERS = itertools.count(1)


def raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

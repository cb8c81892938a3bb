"""The composition root: it opens files and processes, runs each part under its supervisor, and ends them in reverse.

`list_foundations`, `list_services` and `main` list the supervision tree, one_for_one throughout.  The duties of each
part and the meaning of its failure are in docs/explanation/design.md. `hooklatch status --tree` shows their states.

The registries have no task: an exception there goes to the caller, who gets an error, and clients deny.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec
import trio

from hooklatch import paths
from hooklatch.core.limits import divide_descriptors
from hooklatch.core.restarts import Restart
from hooklatch.core.text import format_count
from hooklatch.errors import locate_error
from hooklatch.processes.starting import clear_scratch
from hooklatch.processes.supervisor import ChildSpec, Supervisor, find_cause, format_failure_cause
from hooklatch.processes.zygote import ForkError, ZygoteClient
from hooklatch.record.writer import RecordError, RecordWriter
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.folders import (
    DaemonOptions,
    StartError,
    check_nobody_listens,
    check_places,
    point_to_runtime,
    raise_open_files,
    take_locks,
    take_over_folders,
)
from hooklatch.service.lifecycle import DaemonLifecycle
from hooklatch.service.parts import DaemonComponents
from hooklatch.service.service_manager import Notifier
from hooklatch.service.signals import SignalReceiver
from hooklatch.service.transport.bus import Bus
from hooklatch.service.transport.peers import PeerInspector
from hooklatch.service.transport.server import Listener, listen_on
from hooklatch_worker.systems import system

if TYPE_CHECKING:
    from hooklatch.core.status_answers import DaemonReady
    from hooklatch.service.socket_activation import InheritedSockets

__all__ = ["Daemon", "Process", "make_full_collections_rare", "run_daemon", "open_daemon"]

logger = logging.getLogger("hooklatch.daemon")
# Collections of the young generation before one of the middle, and of that before one of everything.  Python has 10 of
# both; a middle one then took 9 ms once 2,000 sessions had subscribed.
MIDDLE_COLLECTION, FULL_COLLECTION = 3, 3000


class Process(msgspec.Struct, frozen=True):
    """The daemon's own process: its supervisor, its end, and the sockets that were passed on to it."""

    supervisor: Supervisor
    end: Callable[[], None]
    inherited: InheritedSockets | None
    is_managed: bool = False


class Daemon(msgspec.Struct, frozen=True):
    """A daemon that accepts clients."""

    parts: DaemonComponents
    listeners: tuple[Listener, ...]
    ready: DaemonReady


def run_daemon(options: DaemonOptions, *, on_ready: Callable[[DaemonReady], None]) -> None:
    """Run the daemon until a signal ends it.

    Raises:
        StartError: the daemon cannot start.
    """
    if not system.is_supported():
        raise StartError(f"the daemon needs {system.NEEDS}; clients run anywhere")
    raise_open_files()
    if options.owns_process:
        system.become_subreaper()
        system.make_unreadable()
    notifier = Notifier.from_environment(os.environ, os.getpid())
    inherited = None
    if "LISTEN_FDS" in os.environ:  # a service manager has opened the sockets
        from hooklatch.service.socket_activation import ActivationError, take_sockets

        try:
            inherited = take_sockets(os.environ, os.getpid())
        except ActivationError as error:
            raise StartError(str(error)) from None
    trio.run(main, options, on_ready, inherited, notifier)


async def main(
    options: DaemonOptions,
    on_ready: Callable[[DaemonReady], None],
    inherited: InheritedSockets | None,
    notifier: Notifier,
) -> None:
    signals, failure = SignalReceiver(), None
    async with Supervisor("process").open() as process:
        await process.start(ChildSpec("signal receiver", signals.receive, reports_start=True, below=signals.supervisor))
        try:
            with signals.starting:
                is_managed = inherited is not None or notifier.is_managed or os.getpid() == 1  # 1: of a container
                own = Process(process, signals.end, inherited, is_managed)
                async with open_daemon(options, own) as daemon:
                    parts = daemon.parts
                    lifecycle = DaemonLifecycle(
                        signals.hand_on(), notifier, parts.administration, generations=parts.generations,
                        connections=parts.bus.connections, outliving=daemon.listeners if inherited is not None else (),
                    )  # fmt: skip
                    feed = partial(notifier.keep_alive, parts.status.is_vital_well)
                    await start_all(process, [
                        ChildSpec("lifecycle", lifecycle.run, reports_start=True, below=lifecycle.supervisor),
                        ChildSpec("watchdog", feed, Restart.TRANSIENT),
                    ])  # fmt: skip
                    make_full_collections_rare()
                    on_ready(daemon.ready)
                    hooks = format_count(len(parts.registries.view.hooks), "hook")
                    await notifier.ready(f"revision {daemon.ready['revision']}, {hooks}")
                    await lifecycle.ended.wait()
        except* StartError as group:  # alone, or in a group from the nursery of the daemon's parts
            failure = find_cause(group)
    if failure is not None:
        raise failure


class DaemonStart:
    """The start of a daemon, which is over when it accepts clients."""

    is_over = False

    @contextmanager
    def raise_as_start_error(self) -> Generator[None]:
        """Turn errors of the system into a StartError until the start is over: a disk may be full, or read-only."""
        try:
            yield
        except* OSError as group:
            if self.is_over:
                raise
            logger.debug("the start was refused by the system", exc_info=group)
            raise make_start_error(find_cause(group)) from None


def make_start_error(error: Exception) -> StartError:
    return StartError(locate_error(error) if isinstance(error, OSError) else format_failure_cause(error))


def make_full_collections_rare() -> None:
    """Make full garbage collections rare, since each holds the loop for 0.1 s beside 2,000 sessions.

    Sessions and connections leave no cycles, so they are freed as soon as nothing refers to them.
    """
    gc.freeze()  # the objects of the start stay until the end, and are not scanned again
    gc.set_threshold(gc.get_threshold()[0], MIDDLE_COLLECTION, FULL_COLLECTION)


@asynccontextmanager
async def open_daemon(options: DaemonOptions, process: Process | None = None) -> AsyncGenerator[Daemon]:
    """Run all parts for the duration of the block, in a process of the daemon's own or inside another program.

    Raises:
        StartError: another daemon runs, or a directory cannot be used, or the named configuration does not exist.
    """
    check_places(options)
    inherited = process.inherited if process is not None else None
    if inherited is None:
        agent = os.path.join(options.runtime_dir, paths.AGENT_SOCKET)
        admin = os.path.join(options.admin_dir or options.runtime_dir, paths.ADMIN_SOCKET)
        locks = take_locks(options)
    else:
        agent, admin = inherited.agent_path, inherited.admin_path
        options = msgspec.structs.replace(options, runtime_dir=os.path.dirname(agent))
        locks = await take_over_folders(options)
    supervisor, start = Supervisor("daemon"), DaemonStart()
    with ExitStack() as opened:
        opened.enter_context(start.raise_as_start_error())
        for fd in locks:
            opened.callback(os.close, fd)
        for path in (agent, admin) if inherited is None else ():
            check_nobody_listens(path)
        state = StateFile(options.state_dir)
        fault = state.read()
        bus = Bus()
        record = open_record(options, state, bus)
        opened.push(partial(close_record, record))
        parts = DaemonComponents(
            config=options.config,
            state=state,
            record=record,
            bus=bus,
            zygote=ZygoteClient(owns_process=options.owns_process),
            environments=options.environments,
            supervisors=(supervisor, *([process.supervisor] if process is not None else [])),
            end=process.end if process is not None else None,
            places={"agent": agent, "admin": admin},
            start=options.describe_start(is_managed=process.is_managed) if process is not None else None,
            is_trial=options.is_trial,
            load_seconds=options.load_seconds,
        )
        opened.callback(parts.shared_state.close)
        async with supervisor.open():
            await start_all(supervisor, list_foundations(parts))
            if not options.is_trial:
                await start_all(supervisor, [ChildSpec(product.name, product.run) for product in parts.products])
            await load_everything(parts, fault)
            sockets = (inherited.agent, inherited.admin) if inherited else (listen_on(agent), listen_on(admin))
            for listening_socket in sockets:
                opened.callback(listening_socket.close)
            listeners = make_listeners(parts, *sockets)
            await start_all(supervisor, list_services(parts, listeners))
            try:
                with point_to_runtime(options.state_dir, os.path.dirname(agent)):
                    revision, wrong = parts.registries.view.revision, parts.status.findings()
                    start.is_over = True
                    ready: DaemonReady = {
                        "agent": agent, "admin": admin, "pid": os.getpid(), "revision": revision, "wrong": wrong,
                        "ready": True,
                    }  # fmt: skip
                    yield Daemon(parts, listeners, ready)
            finally:
                for path in (agent, admin) if inherited is None else ():
                    with suppress(FileNotFoundError):
                        os.unlink(path)
                parts.fleet.close()
                parts.dispatcher.drain()  # no client would wait for a fire that begins now
                parts.dispatcher.stop()


def list_foundations(parts: DaemonComponents) -> list[ChildSpec]:
    """Return the parts that loading hooks and running fires need."""
    pools, fires, timers = parts.sources.supervisor, parts.dispatcher.background, parts.sessions.timers
    guardian, zygote = parts.zygote.specs
    environments = parts.environments
    return [
        guardian,  # first, since its imports take longer than anything else here
        ChildSpec("record", parts.record.run, is_significant=True, reports_start=True),
        ChildSpec("state", parts.state.run, reports_start=True),  # ends after all that changes it
        zygote,
        ChildSpec("environments", environments.run, reports_start=True, below=environments.supervisor),
        ChildSpec("pools", pools.run, reports_start=True, below=pools),
        ChildSpec("background fires", fires.run, reports_start=True, below=fires),
        ChildSpec("session timers", timers.run, reports_start=True, below=timers),
        ChildSpec("suspensions", parts.suspensions.run, reports_start=True),
        ChildSpec("shared state", parts.shared_state.run, reports_start=True),
    ]


def list_services(parts: DaemonComponents, listeners: Iterable[Listener]) -> list[ChildSpec]:
    """Return the parts that serve clients once every hook is loaded, the listeners last."""
    return [
        ChildSpec("admission", parts.shared.admission.run),
        ChildSpec("budget", parts.budget.run),
        ChildSpec("reader handoff", parts.shared.handoff.run),
        ChildSpec("line timeouts", parts.shared.line_timeouts.run),
        ChildSpec("memory watch", parts.sources.memory_watch.run),
        ChildSpec("file watch", parts.file_watch.run),
        ChildSpec("fleet contact", parts.fleet.run, reports_start=True),
        ChildSpec("file hints", parts.file_watch.take_hints),
        ChildSpec("hangups", parts.shared.hangups.run, reports_start=True),
        *(
            ChildSpec(f"{listener.name} connections", listener.connections.run, reports_start=True,
            below=listener.connections)
            for listener in listeners
        ),
        *(
            ChildSpec(f"{listener.name} listener", listener.run, Restart.TRANSIENT, is_significant=True)
            for listener in listeners
        ),
    ]  # fmt: skip


async def start_all(supervisor: Supervisor, specs: Iterable[ChildSpec]) -> None:
    """Start children in their order.

    Raises:
        StartError: one of them cannot be started.
    """
    for spec in specs:
        try:
            await supervisor.start(spec)
        except (ForkError, OSError) as error:
            raise StartError(f"the {spec.name} did not start: {locate_error(error)}") from None


def make_listeners(parts: DaemonComponents, agent: socket.socket, admin: socket.socket) -> tuple[Listener, ...]:
    peers = PeerInspector(parts.roots, parts.statistics.dropped)
    limits = divide_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    connect = partial(parts.bus.connect, handler=parts.methods, shared=parts.shared)
    faults = parts.listener_faults
    return (
        Listener("agent", agent, partial(connect, role="agent"), peers, faults, maximum=limits.agents),
        Listener("administrator", admin, partial(connect, role="admin"), peers, faults, maximum=limits.administrators),
    )


def open_record(options: DaemonOptions, state: StateFile, bus: Bus) -> RecordWriter:
    try:
        folder = os.path.join(options.state_dir, "record")
        return RecordWriter(
            folder, state.state.settings.record, now=trio.current_time, is_settled=False, on_fault=bus.announce_fault
        )
    except RecordError as error:
        raise StartError(str(error)) from None


def close_record(
    record: RecordWriter, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
) -> None:
    """Close the record, with the error that ended the daemon, if any."""
    record.close(format_failure_cause(error) if isinstance(error, Exception) else None)


async def load_everything(parts: DaemonComponents, fault: str | None) -> None:
    """Load every hook before the first client can connect. `fault` is that of the state file."""
    if fault is not None:
        logger.error("%s", fault)
    for text in parts.state.dropped:
        logger.warning("%s", text, extra={"path": parts.state.path})
    clear_scratch(os.path.dirname(parts.state.path))
    parts.fleet.restore(parts.reloader.active.plan.main.settings)
    for name in parts.state.fleet_switches:
        parts.fleet.record_attempt("a switch in the state file", name)
    parts.suspensions.restore()
    if parts.reloader.active.plan.main.settings.keeps_state:
        parts.shared_state.open()
    await parts.hook_methods.restore(fault)
    await parts.reloader.reload()
    if parts.fleet.loaded is not None:
        await parts.fleet.loaded.clean()

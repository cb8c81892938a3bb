"""The composition root: makes the parts, says who owns whom, starts and ends them.  Decides nothing about hooks.

daemon nursery (one for all: if one of these ends, the daemon ends)
├─ zygote.run        restarts its process: permanent, with growing waits
├─ sources.run       owns each pool; a pool restarts its workers: permanent, spread by a token bucket
├─ dispatcher.run    owns fires that nobody waits for: temporary
├─ sessions.run      owns the timers that end sessions: temporary
├─ suspensions.run   notes the end of each
├─ files.watch, give_hints, watch_memory, ticker.run
├─ accept_connections (agent, admin)   own each connection: temporary
└─ signals           SIGTERM, SIGINT drain; SIGHUP reloads
"""

from __future__ import annotations

import itertools
import logging
import os
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import trio

from hooklatch import paths
from hooklatch.core.catalogue import Catalogue
from hooklatch.dialects.find import load_entry_points
from hooklatch.processes.memory import watch_memory
from hooklatch.processes.pool import Pool, PoolLimits
from hooklatch.processes.zygote import open_zygote
from hooklatch.service.connection import Connection
from hooklatch.service.dispatcher import Dispatcher
from hooklatch.service.files import Files
from hooklatch.service.hints import give_hints
from hooklatch.service.hub import Bus, Hub
from hooklatch.service.methods import Methods
from hooklatch.service.projects import Projects
from hooklatch.service.registries import Registries
from hooklatch.service.server import RuntimeDirError, accept_connections, listen, make_runtime_dir
from hooklatch.service.sessions import Sessions
from hooklatch.service.sources import Sources
from hooklatch.service.state import LockedError, StateFile, lock
from hooklatch.service.statistics import Statistics
from hooklatch.service.ticker import Ticker
from hooklatch_worker import linux

__all__ = ["Options", "Ready", "StartError", "run_daemon", "serve"]

logger = logging.getLogger("hooklatch.daemon")
DRAIN_TIMEOUT = 10.0  # seconds that fires under way are given when the daemon is asked to end


class Options(msgspec.Struct, frozen=True):
    """Where the daemon's files are.  `owns_process` lets it adopt and kill every orphan: not inside a test."""

    config: str
    runtime_dir: str
    state_dir: str
    owns_process: bool = True


class Ready(msgspec.Struct, frozen=True):
    """What `serve` prints when it can answer."""

    agent: str
    admin: str
    pid: int
    revision: int
    ready: bool = True


class StartError(Exception):
    """The daemon cannot start: why, and what to do."""


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
    trio.run(main, options, on_ready)


async def main(options: Options, on_ready: Callable[[Ready], None]) -> None:
    async with serve(options) as (hub, ready), trio.open_nursery() as nursery:
        await nursery.start(obey_signals, hub)
        on_ready(ready)


@asynccontextmanager
async def serve(options: Options) -> AsyncGenerator[tuple[Hub, Ready]]:
    """Run all parts for as long as the block lasts.

    Raises:
        StartError: another daemon runs, or a folder cannot be used.
    """
    locks = take_locks(options)
    doors: list[tuple[socket.socket, Callable[[socket.socket], Connection]]] = []
    try:
        async with open_zygote(owns_process=options.owns_process) as zygote, trio.open_nursery() as nursery:
            bus, sessions, statistics, state = Bus(), Sessions(), Statistics(), StateFile(options.state_dir)
            registries = Registries(Catalogue.standard(), sessions, bus.publish)
            pools: dict[tuple[str, int], Pool] = {}
            dispatcher = Dispatcher(registries, pools, statistics, bus.decided)
            sources = Sources(zygote, PoolLimits(), dispatcher.quiesced, pools)
            projects = Projects(state, sessions)
            files = Files(options.config, sources, registries, state, projects)
            agent, admin = (
                os.path.join(options.runtime_dir, name) for name in (paths.AGENT_SOCKET, paths.ADMIN_SOCKET)
            )
            hub = Hub(
                bus=bus, sessions=sessions, registries=registries, sources=sources, files=files, projects=projects,
                dispatcher=dispatcher, statistics=statistics, state=state,
                places={"agent": agent, "admin": admin, "config": files.config_path, "state": state.path},
            )  # fmt: skip
            for part in (sources, dispatcher, sessions, hub.suspensions):
                await nursery.start(part.run)
            await load_everything(hub)
            hub.native.installed, unusable = load_entry_points()
            hub.faults += unusable
            ticker = Ticker()
            nursery.start_soon(ticker.run)
            nursery.start_soon(watch_memory, lambda: list(pools.values()))
            nursery.start_soon(files.watch)
            nursery.start_soon(give_hints, files)
            doors = [open_door(hub, ticker, path, is_admin=path == admin) for path in (agent, admin)]
            for listener, make in doors:
                nursery.start_soon(accept_connections, listener, make, bus.connections)
            try:
                yield hub, Ready(agent, admin, os.getpid(), registries.view.revision)
            finally:
                for path in (agent, admin):
                    with suppress(FileNotFoundError):
                        os.unlink(path)
                hub.dispatcher.is_draining = True  # nothing that begins now could be waited for
                hub.dispatcher.stop()
                nursery.cancel_scope.cancel()
    finally:
        for listener, _ in doors:
            listener.close()
        for fd in locks:
            os.close(fd)


def take_locks(options: Options) -> list[int]:
    try:
        make_runtime_dir(options.runtime_dir)
        os.makedirs(options.state_dir, mode=0o700, exist_ok=True)
        first = lock(options.runtime_dir, "daemon.lock")
    except LockedError as error:
        raise StartError(f"{error}; stop it, or give this one another --runtime-dir") from None
    except RuntimeDirError as error:
        raise StartError(str(error)) from None
    except OSError as error:
        raise StartError(f"{error.filename}: {error.strerror}") from None
    try:
        return [first, lock(options.state_dir, "daemon.lock")]
    except LockedError as error:
        os.close(first)
        raise StartError(f"{error}; give this one another XDG_STATE_HOME") from None


async def load_everything(hub: Hub) -> None:
    """Have every hook in place before the first client can ask."""
    fault = hub.state.read()
    if fault is not None:
        logger.error("%s", fault)
    hub.registries.switches = dict(hub.state.state.switches)
    hub.files.settings = hub.state.state.settings
    hub.suspensions.restore()
    await hub.restore(fault)
    await hub.files.reload()


def open_door(
    hub: Hub, ticker: Ticker, path: str, *, is_admin: bool
) -> tuple[socket.socket, Callable[[socket.socket], Connection]]:
    methods = Methods(hub)

    def make(stream: socket.socket) -> Connection:
        connection = Connection(next(NUMBERS), stream, methods, ticker, is_admin=is_admin)
        connection.resync = lambda: hub.registries.view_of(connection.session).revision
        hub.dispatcher.targets.servers[connection.number] = connection
        return connection

    return listen(path), make


NUMBERS = itertools.count(1)


async def obey_signals(hub: Hub, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Reload on SIGHUP; on SIGTERM or SIGINT drain and return; a second one ends the wait."""
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    nursery.start_soon(hub.reload)
                elif hub.dispatcher.is_draining:
                    logger.warning("stopping without waiting further")
                    break
                else:
                    logger.info("draining signal=%d", number)
                    hub.dispatcher.is_draining = True
                    nursery.start_soon(drain, hub, nursery.cancel_scope)
        nursery.cancel_scope.cancel()
    hub.dispatcher.stop()


async def drain(hub: Hub, done: trio.CancelScope) -> None:
    with trio.move_on_after(DRAIN_TIMEOUT):
        await hub.dispatcher.quiesced()
    done.cancel()


def raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

"""The process of a link: its settings as they change, its signals, and its reports to a service manager."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial

import msgspec
import trio

from hooklatch.cli.fleet.access import read_fleet
from hooklatch.cli.terminal.parser import CommandError, Exit, make_missing_error
from hooklatch.errors import locate_error
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, add_user
from hooklatch.fleet.engine.opening import open_engine, read_password
from hooklatch.fleet.enrolment import HostIdentity, load_host_key
from hooklatch.fleet.link.daemon import DaemonSocket
from hooklatch.fleet.link.link import Link
from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.settings import FleetSettings, describe_open_password
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.path_lookup import stamp_path
from hooklatch.service.service_manager import Notifier
from hooklatch.threads import in_thread

__all__ = ["LinkProcess", "LinkPaths", "check_link_settings"]

logger = logging.getLogger("hooklatch.link")
CHECK_INTERVAL = 2.0  # seconds between two checks of the file of hooks
STATUS_INTERVAL = 5.0  # seconds between two lines for the service manager, if there is something new to say
LIBRARY = "coredis"


class LinkPaths(msgspec.Struct, frozen=True):
    """The paths of a link: the file of hooks, the record's folder, and the folders that may hold the admin socket.

    `folders` is called for each connection.  `daemon_uid` is a user whose daemon is accepted too.
    """

    config: str
    record: str
    folders: Callable[[], Sequence[str]]
    daemon_uid: int | None = None


def check_link_settings(settings: FleetSettings) -> None:
    """Check what a further attempt does not repair."""
    if importlib.util.find_spec(LIBRARY) is None:
        raise make_missing_error(LIBRARY, "fleet")
    try:
        read_password(settings.password_file)
    except EngineRefusedError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    for key in ("url", "log_url"):
        try:
            open_engine_connection(settings, getattr(settings, key) or settings.url)
        except EngineRefusedError as error:
            raise CommandError(Exit.BAD_DATA, f"[fleet] {key}: {error}") from None


def open_engine_connection(settings: FleetSettings, url: str) -> AbstractAsyncContextManager[Engine]:
    """Return a connection to the engine with this URL, to be entered; the password is read anew each time.

    Raises:
        EngineRefusedError: the URL is invalid, or the password cannot be read.
    """
    return open_engine(
        add_user(url, settings.user),
        settings.name,
        password=read_password(settings.password_file),
        ca=settings.ca,
    )


class LinkProcess:
    """A process that runs one link with the settings of now, until a signal ends it."""

    def __init__(self, paths: LinkPaths, settings: FleetSettings, on_ready: Callable[[str, str], None]) -> None:
        self._paths = paths
        self._settings: FleetSettings | None = settings
        self._on_ready = on_ready
        self._notifier = Notifier.from_environment(os.environ, os.getpid())
        self._link: Link | None = None
        self._check_requested = trio.Event()
        self._stamp: tuple[int, ...] = stamp_path(paths.config)

    async def run(self) -> None:
        """Run the link until SIGTERM or SIGINT."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_links)
                nursery.start_soon(self._notifier.keep_alive, lambda: True)
                nursery.start_soon(self._report_status)
                assert self._settings is not None
                await self._notifier.ready(f"the link of {self._settings.host} to the fleet {self._settings.name}")
                self._on_ready(self._settings.host, self._settings.name)
                warn_of_readers(self._settings)
                logger.info("ready", extra={"host": self._settings.host, "fleet": self._settings.name})
                async for number in received:
                    if number == signal.SIGHUP:
                        self._check_requested.set()
                        continue
                    logger.info("stopping", extra={"signal": number})
                    nursery.cancel_scope.cancel()
                    break
        await self._notifier.stopping("stopping")

    async def _run_links(self) -> None:
        """Run a link for as long as its settings stay the same, then one with the new ones."""
        while True:
            settings = self._settings
            async with trio.open_nursery() as nursery:
                if settings is not None:
                    nursery.start_soon(self._run_link, settings)
                while self._settings == settings:
                    await self._await_settings()
                if self._settings is None:
                    await self._leave_fleet()
                nursery.cancel_scope.cancel()

    async def _leave_fleet(self) -> None:
        """Let the link ship what is left, and report that this host has left, unless [fleet] comes back."""
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                if self._link is not None:
                    await self._link.leave()
                    logger.info("left: the record up to there is shipped, and the last report is sent")
                nursery.cancel_scope.cancel()

            nursery.start_soon(leave)
            while self._settings is None:
                await self._await_settings()
            nursery.cancel_scope.cancel()

    async def _run_link(self, settings: FleetSettings) -> None:
        daemon = DaemonSocket(self._paths.folders, self._paths.daemon_uid)
        identity, unsigned = await in_thread(self._load_identity, settings)
        opens = partial(open_engine_connection, settings, settings.url)
        opens_logs = partial(open_engine_connection, settings, settings.log_url) if settings.log_url else None
        self._link = Link(settings, opens, daemon, self._paths.record, identity=identity, open_logs=opens_logs)
        if unsigned is not None:
            self._link.state.add_finding(unsigned)
        try:
            await self._link.run()
        finally:
            self._link = None
            daemon.close()

    def _load_identity(self, settings: FleetSettings) -> tuple[HostIdentity | None, str | None]:
        """Return what this host signs with, or why not: without its key the link works all the same, and says so."""
        try:
            key = load_host_key(os.path.dirname(self._paths.record))
        except (FleetError, NoLibraryError, OSError) as error:
            return None, f"what this host reports and ships is not signed: {locate_error(error)}"
        logger.info("this host signs with the key %s", key.public.text)
        return HostIdentity(key, settings.name, settings.host), None

    async def _await_settings(self) -> None:
        """Wait for a change of the file or for SIGHUP, and take its settings; a broken file changes nothing."""
        with trio.move_on_after(CHECK_INTERVAL) as scope:
            await self._check_requested.wait()
        stamp: tuple[int, ...] = await in_thread(stamp_path, self._paths.config)
        if scope.cancelled_caught and stamp == self._stamp:
            return
        # Before the file is read: what changes while it is read is then seen as a change.
        self._check_requested, self._stamp = trio.Event(), stamp
        try:
            settings = await in_thread(read_fleet, self._paths.config)
        except CommandError as error:
            logger.warning("[fleet] stays as it was: %s", error)
            return
        except Exception:
            logger.exception("[fleet] stays as it was: %s cannot be read", self._paths.config)
            return
        if settings is None and self._settings is not None:
            logger.warning(
                "[fleet] is gone from %s: once the daemon has left the fleet (hooklatch reload) and the record up to"
                " there is shipped, nothing is shipped or applied until it is back",
                self._paths.config,
            )
        elif settings != self._settings:
            logger.info("[fleet] has changed")
        self._settings = settings

    async def _report_status(self) -> None:
        reported = ""
        while True:
            await trio.sleep(STATUS_INTERVAL)
            status = self._link.state.format_status() if self._link is not None else "there is no [fleet]"
            if status != reported:
                await self._notifier.notify(STATUS=status)
                reported = status


def warn_of_readers(settings: FleetSettings) -> None:
    password_file = settings.password_file
    if (text := describe_open_password(settings)) is not None:
        logger.warning("%s; use rediss://", text)
    with suppress(OSError):  # each connection to the engine reads it, and reports the error
        if password_file is not None and os.stat(password_file).st_mode & 0o077:
            logger.warning("others may read the engine's password; run: chmod 600 %s", password_file)

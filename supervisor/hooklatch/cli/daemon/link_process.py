"""The link as a process: its settings as they change, its signals, and what it tells a service manager.

Knows the file of hooks and the service manager; knows nothing of what a link does.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress

import msgspec
import trio

from hooklatch.cli.fleet.settings import read_fleet
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.errors import format_install_command
from hooklatch.fleet.engine.addresses import add_user
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError
from hooklatch.fleet.engine.opening import open_engine, read_password
from hooklatch.fleet.link.daemon_socket import DaemonSocket
from hooklatch.fleet.link.link import Link
from hooklatch.fleet.policy.settings import FleetSettings
from hooklatch.service.process.service_manager import Notifier

__all__ = ["LinkProcess", "LinkPaths", "check_link_settings"]

logger = logging.getLogger("hooklatch.link")
LOOK = 2.0  # seconds between two looks at the file of hooks
STATUS = 5.0  # seconds between two lines for the service manager, if there is something new to say
LIBRARY = "coredis"


class LinkPaths(msgspec.Struct, frozen=True):
    """Where things are on this machine; `folders` may hold the admin socket, and are asked for anew each time.

    `daemon_uid` is the user whose daemon is taken beside this one's and root's.
    """

    config: str
    record: str
    folders: Callable[[], Sequence[str]]
    daemon_uid: int | None = None


def check_link_settings(settings: FleetSettings) -> None:
    """Find what no further attempt mends.

    Raises:
        CommandError: a library is missing, the password cannot be read, or the URL is none.
    """
    if importlib.util.find_spec(LIBRARY) is None:
        raise CommandError(
            Exit.UNAVAILABLE, f"{LIBRARY} is not installed; it comes with: {format_install_command('hooklatch[fleet]')}"
        )
    try:
        read_password(settings.password_file)
    except EngineRefusedError as error:
        raise CommandError(Exit.NO_INPUT, str(error)) from None
    try:
        open_engine_connection(settings)
    except EngineRefusedError as error:
        raise CommandError(Exit.BAD_DATA, f"[fleet] url: {error}") from None


def open_engine_connection(settings: FleetSettings) -> AbstractAsyncContextManager[Engine]:
    """Return the engine's connection, to be entered; the password is read anew each time.

    Raises:
        RefusedError: the URL is none, or the password cannot be read.
    """
    return open_engine(
        add_user(settings.url, settings.user),
        settings.name,
        password=read_password(settings.password_file),
        ca=settings.ca,
    )


class LinkProcess:
    """One link, until it is told to end."""

    def __init__(self, places: LinkPaths, settings: FleetSettings, on_ready: Callable[[str, str], None]) -> None:
        self._places = places
        self._settings: FleetSettings | None = settings
        self._on_ready = on_ready
        self._notifier = Notifier.from_environment(os.environ, os.getpid())
        self._link: Link | None = None
        self._look = trio.Event()
        self._seen: tuple[int, ...] | None = read_file_signature(places.config)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._work)
                nursery.start_soon(self._notifier.keep_alive, lambda: True)
                nursery.start_soon(self._show)
                assert self._settings is not None
                await self._notifier.ready(f"the link of {self._settings.host} to the fleet {self._settings.name}")
                self._on_ready(self._settings.host, self._settings.name)
                warn_of_readers(self._settings.password_file)
                logger.info("ready", extra={"host": self._settings.host, "fleet": self._settings.name})
                async for number in received:
                    if number == signal.SIGHUP:
                        self._look.set()
                        continue
                    logger.info("stopping", extra={"signal": number})
                    nursery.cancel_scope.cancel()
                    break
        await self._notifier.stopping("stopping")

    async def _work(self) -> None:
        while True:
            settings = self._settings
            async with trio.open_nursery() as nursery:
                if settings is not None:
                    nursery.start_soon(self._link_with, settings)
                while self._settings == settings:
                    await self._look_again()
                nursery.cancel_scope.cancel()

    async def _link_with(self, settings: FleetSettings) -> None:
        daemon = DaemonSocket(self._places.folders, self._places.daemon_uid)
        self._link = Link(settings, lambda: open_engine_connection(settings), daemon, self._places.record)
        try:
            await self._link.run()
        finally:
            self._link = None
            daemon.close()

    async def _look_again(self) -> None:
        """Wait for a change of the file, and take what it says; one that is broken changes nothing."""
        with trio.move_on_after(LOOK) as scope:
            await self._look.wait()
        seen = read_file_signature(self._places.config)
        if scope.cancelled_caught and seen == self._seen:
            return
        self._look, self._seen = trio.Event(), seen
        try:
            settings = await trio.to_thread.run_sync(read_fleet, self._places.config)
        except CommandError as error:
            logger.warning("[fleet] stays as it was: %s", error)
            return
        except Exception:
            logger.exception("[fleet] stays as it was: %s cannot be read", self._places.config)
            return
        if settings is None and self._settings is not None:
            logger.warning(
                "[fleet] is gone from %s: nothing is shipped or applied until it is back", self._places.config
            )
        elif settings != self._settings:
            logger.info("[fleet] has changed")
        self._settings = settings

    async def _show(self) -> None:
        said = ""
        while True:
            await trio.sleep(STATUS)
            status = self._link.state.format_status() if self._link is not None else "there is no [fleet]"
            if status != said:
                await self._notifier.notify(STATUS=status)
                said = status


def warn_of_readers(password_file: str | None) -> None:
    with suppress(OSError):  # each connection to the engine reads it, and tells
        if password_file is not None and os.stat(password_file).st_mode & 0o077:
            logger.warning("others may read the engine's password; run: chmod 600 %s", password_file)


def read_file_signature(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns

"""Where the daemon's files and sockets are, and the locks that keep a second daemon away.  Does not know its parts."""

from __future__ import annotations

import itertools
import logging
import os
import resource
import shlex

import msgspec
import trio

from hooklatch.directories import LockedError, lock
from hooklatch.service.config.file_safety import UnsafeFileError, make_private
from hooklatch.service.config.path_lookup import Absent, Fault, look
from hooklatch.service.process.lifecycle import DRAIN_TIMEOUT
from hooklatch.service.transport.server import RuntimeDirError, check_nobody_listens, make_runtime_dir

__all__ = [
    "SUCCESSION",
    "ConfigMissingError",
    "Options",
    "StartError",
    "check_config",
    "check_stale",
    "raise_open_files",
    "take_locks",
    "take_over",
]

logger = logging.getLogger("hooklatch.daemon")
SUCCESSION = DRAIN_TIMEOUT + 10.0  # seconds that a daemon with inherited sockets waits for its predecessor to end
LOCK_INTERVAL = 0.02


class Options(msgspec.Struct, frozen=True):
    """Where the daemon's files are; `admin_dir` is where the admin socket is, if not in `runtime_dir`.

    A `config` that was given explicitly (`is_config_named`) must exist.
    `owns_process` lets it adopt and kill every orphan: not inside a test.
    """

    config: str
    runtime_dir: str
    state_dir: str
    owns_process: bool = True
    admin_dir: str | None = None
    is_config_named: bool = False


class StartError(Exception):
    """The daemon cannot start: why, and what to do."""


class ConfigMissingError(StartError):
    """The configuration file that was named does not exist, or cannot be looked up."""


class HeldError(StartError):
    """Another daemon holds a directory; it may be about to end."""


def check_config(path: str) -> None:
    """Refuse a path that does not exist: a typo would otherwise start a daemon without guards."""
    seen = look(path)
    if isinstance(seen, Absent):
        what = f"{path} is not there; give the path of your file of hooks"
        raise ConfigMissingError(f"{what}, or write a first one: hooklatch init --config {shlex.quote(path)}")
    if isinstance(seen, Fault):
        raise ConfigMissingError(f"the file of hooks that was named: {seen.reason}")


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
    """Take the locks once the previous daemon has released them; its clients wait in the sockets' backlog."""
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


def raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

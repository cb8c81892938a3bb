"""The daemon's directories and sockets, and the locks that keep a second daemon away.  Does not know its parts."""

from __future__ import annotations

import itertools
import logging
import math
import os
import resource
import shlex
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from hooklatch.core.text import is_unicode
from hooklatch.directories import LockedError, lock_directory, replace_file
from hooklatch.errors import locate_error
from hooklatch.file_safety import UnsafeFileError, check_folders, make_private
from hooklatch.path_lookup import PathAbsent, PathFault, look_up_path
from hooklatch.paths import POINTER
from hooklatch.service.lifecycle import DRAIN_TIMEOUT

if TYPE_CHECKING:
    from hooklatch.core.status_answers import StartOptions

__all__ = [
    "SUCCESSION", "ConfigMissingError", "DaemonOptions", "StartError", "check_places", "check_nobody_listens",
    "environments_folder", "make_runtime_dir", "point_to_runtime", "raise_open_files", "take_locks",
    "take_over_folders",
]  # fmt: skip

logger = logging.getLogger("hooklatch.daemon")
SUCCESSION = DRAIN_TIMEOUT + 10.0  # seconds that a daemon with inherited sockets waits for its predecessor to end
LOCK_INTERVAL = 0.02
MAX_PATH = 107  # bytes of a Unix socket's path (unix(7))


class DaemonOptions(msgspec.Struct, frozen=True):
    """The directories and the mode of a daemon. `admin_dir` has the admin socket, if it is not in `runtime_dir`.

    A `config` that was given explicitly (`is_config_named`) must exist.
    `environments_dir` has the environments of sources, if they are not in `state_dir`.
    `owns_process` lets the daemon adopt and kill every orphan, which it must not do inside a test.
    A daemon that only tries hooks out (`is_trial`) holds no asks, since no person is there to answer. It publishes no
    metrics, since their port and file are those of the daemon in charge.
    `load_seconds` is the time to import all sources together, if a person waits for it.
    The last three are only reported, for the next one.
    """

    config: str
    runtime_dir: str
    state_dir: str
    owns_process: bool = True
    admin_dir: str | None = None
    is_config_named: bool = False
    is_trial: bool = False
    environments_dir: str | None = None
    load_seconds: float = math.inf
    log_level: str = "info"
    log_format: str = "human"
    is_detached: bool = False

    @property
    def environments(self) -> str:
        return self.environments_dir or environments_folder(self.state_dir)

    def describe_start(self, *, is_managed: bool) -> StartOptions:
        """Return the options that start another daemon like this one."""
        return {
            "config": self.config, "is_config_named": self.is_config_named, "runtime_dir": self.runtime_dir,
            "admin_dir": self.admin_dir, "state_dir": self.state_dir, "log_level": self.log_level,
            "log_format": self.log_format, "is_detached": self.is_detached, "is_managed": is_managed,
        }  # fmt: skip


class StartError(Exception):
    """The daemon cannot start. The text has the reason and the remedy."""


class ConfigMissingError(StartError):
    """The configuration file that was named does not exist, or cannot be looked up."""


class HeldError(StartError):
    """Another daemon holds a directory. It may be about to end."""


def environments_folder(state_dir: str) -> str:
    """Return the directory in which environments of sources are made."""
    return os.path.join(os.path.abspath(state_dir), "environments")


def check_places(options: DaemonOptions) -> None:
    """Refuse a path whose name cannot be printed, and a file of hooks that was named and does not exist.

    A typo would otherwise start a daemon without guards.

    Raises:
        StartError: the name of a path is not UTF-8.
        ConfigMissingError: the file of hooks cannot be looked up.
    """
    for place in (options.config, options.runtime_dir, options.state_dir, options.admin_dir or ""):
        if not is_unicode(place):
            printable_path = os.fsencode(place).decode(errors="backslashreplace")
            raise StartError(f"{printable_path}: its name is not UTF-8; rename it, or name another place")
    path = options.config
    lookup = look_up_path(path) if options.is_config_named else None
    if isinstance(lookup, PathAbsent):
        fault = f"{path} does not exist; give the path of your file of hooks"
        raise ConfigMissingError(f"{fault}, or write a first one: hooklatch init --config {shlex.quote(path)}")
    if isinstance(lookup, PathFault):
        raise ConfigMissingError(f"the file of hooks that was named: {lookup.reason}")


def make_runtime_dir(path: str) -> None:
    """Make the directory, readable by its owner alone, or check the existing one.

    Raises:
        StartError: it belongs to another user, or is open to others, or its path is too long.
    """
    if len(os.fsencode(os.path.join(path, "agent.sock"))) > MAX_PATH:
        raise StartError(f"{path} is too long for a Unix socket ({MAX_PATH} bytes); choose a shorter --runtime-dir")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.stat(path)
    except OSError as error:
        raise StartError(f"{path} cannot be created: {error.strerror}; choose another --runtime-dir") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise StartError(f"{path} is not a directory of this user; choose another --runtime-dir")
    if status.st_mode & 0o077:
        raise StartError(f"{path} is open to others; fix it with: chmod 700 {path}")
    try:
        check_folders(path)
    except (UnsafeFileError, OSError) as error:
        raise StartError(f"{locate_error(error)}; or choose another --runtime-dir") from None


def check_place(path: str) -> None:
    """Check that a socket may be made here, in place of a stale one. Nothing else is ever replaced.

    Raises:
        StartError: something else is there.
    """
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise StartError(f"{path} is not a socket and was left as it is; move it away, or choose another --runtime-dir")


def take_locks(options: DaemonOptions) -> list[int]:
    try:
        make_runtime_dir(options.runtime_dir)
        make_runtime_dir(options.admin_dir or options.runtime_dir)
        for folder, name in (
            (options.runtime_dir, "agent.sock"),
            (options.admin_dir or options.runtime_dir, "admin.sock"),
        ):
            check_place(os.path.join(folder, name))
        make_private(options.state_dir)
        # The runtime directory first: two daemons then never hold one lock each.
        first = lock_directory(options.runtime_dir, "daemon.lock")
    except LockedError as error:
        raise HeldError(f"{error}; stop it, or give this one another --runtime-dir") from None
    except UnsafeFileError as error:
        raise StartError(f"{error}; or give this one another XDG_STATE_HOME") from None
    except OSError as error:
        raise StartError(locate_error(error)) from None
    try:
        return [first, lock_directory(options.state_dir, "daemon.lock")]
    except LockedError as error:
        os.close(first)
        raise HeldError(f"{error}; give this one another XDG_STATE_HOME") from None
    except OSError as error:
        os.close(first)
        raise StartError(locate_error(error)) from None


async def take_over_folders(options: DaemonOptions) -> list[int]:
    """Take the locks once the previous daemon has released them. New clients wait in the sockets' backlog."""
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


@contextmanager
def point_to_runtime(state_dir: str, runtime_dir: str) -> Generator[None]:
    """Write the daemon's runtime directory into the state directory for the duration of the block.

    It is for clients with another environment: a cron job, `sudo -u`, another XDG_RUNTIME_DIR.
    `paths.read_pointed_dir` reads it.
    """
    path = os.path.join(state_dir, POINTER)
    try:
        replace_file(path, os.fsencode(os.path.abspath(runtime_dir)) + b"\n")
    except OSError as error:
        logger.warning(
            "the pointer to the daemon's sockets cannot be written: %s", error.strerror, extra={"path": path}
        )
    try:
        yield
    finally:
        with suppress(OSError):  # a stale one is harmless: clients check who listens
            os.unlink(path)


def check_nobody_listens(path: str) -> None:
    """Check that an existing socket is stale, for a caller that holds the directory's lock.

    Raises:
        StartError: a process without the lock listens: a service manager, for a daemon that it starts.
    """
    if is_listened_to(path):
        raise StartError(
            f"another process listens at {path} already; if that is systemd: systemctl --user start hooklatch, "
            "or systemctl --user stop hooklatch-agent.socket hooklatch-admin.socket"
        )


def is_listened_to(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # unix(7): its backlog is full
        except OSError:
            return False
    return True


def raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

"""Where the daemon's files and sockets are, and the locks that keep a second daemon away.  Does not know its parts."""

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

import msgspec
import trio

from hooklatch.core.text import is_unicode
from hooklatch.directories import LockedError, lock_directory
from hooklatch.errors import locate_error
from hooklatch.files import create_anew
from hooklatch.paths import POINTER
from hooklatch.service.config.file_safety import UnsafeFileError, check_folders, make_private
from hooklatch.service.config.path_lookup import PathAbsent, PathFault, look_up_path
from hooklatch.service.process.lifecycle import DRAIN_TIMEOUT

__all__ = [
    "SUCCESSION",
    "ConfigMissingError",
    "DaemonOptions",
    "StartError",
    "check_places",
    "check_nobody_listens",
    "environments_folder",
    "make_runtime_dir",
    "point_to_runtime",
    "raise_open_files",
    "take_locks",
    "take_over_folders",
]

logger = logging.getLogger("hooklatch.daemon")
SUCCESSION = DRAIN_TIMEOUT + 10.0  # seconds that a daemon with inherited sockets waits for its predecessor to end
LOCK_INTERVAL = 0.02
MAX_PATH = 107  # bytes of a Unix socket's path (unix(7))


class DaemonOptions(msgspec.Struct, frozen=True):
    """Where the daemon's files are; `admin_dir` is where the admin socket is, if not in `runtime_dir`.

    A `config` that was given explicitly (`is_config_named`) must exist.
    `environments_dir` is where environments of sources are made, if not in `state_dir`.
    `owns_process` lets it adopt and kill every orphan: not inside a test.
    A daemon that only tries hooks out (`is_trial`) holds no asks, since nobody is there to answer, and publishes no
    metrics: where the file of hooks wants them, those of the daemon in charge are.
    `load_seconds` are for all sources together to be imported: a person waits.
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

    @property
    def environments(self) -> str:
        return self.environments_dir or environments_folder(self.state_dir)


class StartError(Exception):
    """The daemon cannot start: why, and what to do."""


class ConfigMissingError(StartError):
    """The configuration file that was named does not exist, or cannot be looked up."""


class HeldError(StartError):
    """Another daemon holds a directory; it may be about to end."""


def environments_folder(state_dir: str) -> str:
    """Return the directory in which environments of sources are made."""
    return os.path.join(os.path.abspath(state_dir), "environments")


def check_places(options: DaemonOptions) -> None:
    """Refuse a path whose name cannot be told to anybody, and a file of hooks that was named and does not exist.

    A typo would otherwise start a daemon without guards.

    Raises:
        StartError: the name of a path is not UTF-8.
        ConfigMissingError: the file of hooks cannot be looked up.
    """
    for place in (options.config, options.runtime_dir, options.state_dir, options.admin_dir or ""):
        if not is_unicode(place):
            shown = os.fsencode(place).decode(errors="backslashreplace")
            raise StartError(f"{shown}: its name is not UTF-8; rename it, or name another place")
    path = options.config
    seen = look_up_path(path) if options.is_config_named else None
    if isinstance(seen, PathAbsent):
        what = f"{path} is not there; give the path of your file of hooks"
        raise ConfigMissingError(f"{what}, or write a first one: hooklatch init --config {shlex.quote(path)}")
    if isinstance(seen, PathFault):
        raise ConfigMissingError(f"the file of hooks that was named: {seen.reason}")


def make_runtime_dir(path: str) -> None:
    """Make the directory, readable by nobody else, or check the existing one.

    Raises:
        StartError: it is somebody else's, or open to others, or its path is too long.
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
    """Check that a socket may be made here, over one that is stale; nothing else is ever replaced.

    Raises:
        StartError: something else is there.
    """
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise StartError(f"{path} is no socket and was left as it is; move it away, or choose another --runtime-dir")


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


@contextmanager
def point_to_runtime(state_dir: str, runtime_dir: str) -> Generator[None]:
    """Say in the state directory where the daemon listens, for clients whose environment names another directory.

    A cron job, `sudo -u` or another XDG_RUNTIME_DIR lead elsewhere; `paths.pointed_dir` reads what is written here.
    """
    path = os.path.join(state_dir, POINTER)
    try:
        write_pointer(path, os.fsencode(os.path.abspath(runtime_dir)) + b"\n")
    except OSError as error:
        logger.warning("where this daemon listens cannot be written down: %s", error.strerror, extra={"path": path})
    try:
        yield
    finally:
        with suppress(OSError):  # a stale one is harmless: clients check who listens
            os.unlink(path)


def write_pointer(path: str, line: bytes) -> None:
    """Write it whole, so that no reader sees half a path."""
    new = f"{path}.new"
    fd = create_anew(new)
    try:
        os.write(fd, line)
    finally:
        os.close(fd)
    os.replace(new, path)


def check_nobody_listens(path: str) -> None:
    """Return if an existing socket is stale, for a caller that holds the directory's lock.

    Raises:
        StartError: somebody listens who needs no lock: a service manager, for a daemon that it starts.
    """
    if is_listened_to(path):
        raise StartError(
            f"somebody listens at {path} already; if that is systemd: systemctl --user start hooklatch, "
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

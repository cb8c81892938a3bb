"""The connections of commands to the daemon that `--runtime-dir` and `--daemon-uid` name, or the environment.

    with connect_administrator(arguments) as link:
        status = link.ask("status")

Of a daemon that does not answer, the last signs are shown: how it ended, from the end of its record and its locks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing, contextmanager

from hooklatch.client.admin import AdminConnection, connect_first, open_admin
from hooklatch.errors import DaemonUnreachableError
from hooklatch.paths import ADMIN_SOCKET, AGENT_SOCKET, list_candidate_dirs, state_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator
    from typing import Any

__all__ = [
    "NobodyListensError", "find_last_signs", "suggest_waiting", "ask_administrator", "connect_administrator",
    "connect_agent_once",
]  # fmt: skip

LOCKS = "/proc/locks"
START = "start one with: hooklatch serve --detach"


class NobodyListensError(DaemonUnreachableError):
    """No daemon listens on any of the sockets, as opposed to one that listens but does not answer.

    `how` says how the last daemon ended: "stopped", "killed", or "failed" by itself.  It is "unknown" if there was none
    or its record cannot be read.  With "elsewhere" a daemon runs, on none of the sockets that were tried.  With
    "silent" it holds one of their folders, and does not listen there.
    """

    def __init__(self, text: str, how: str, *, since: str | None = None, pid: int | None = None) -> None:
        super().__init__(text)
        self.how = how
        self.since = since
        self.pid = pid


def find_last_signs(state_dir: str, tried: str, folders: Iterable[str] = ()) -> NobodyListensError:
    """Return the error for a daemon that used this directory and does not listen.

    `tried` names the sockets that were tried, and `folders` are those that hold them.
    """
    from hooklatch.record.storage.reading import Filters, NoRecordError, read_newest

    fault = f"no daemon is reachable at {tried}"
    for folder in folders:
        if is_locked(own := os.path.join(folder, "daemon.lock")):
            pid = read_pid(own)
            holder = "a daemon" if pid is None else f"a daemon (pid {pid})"
            state = (
                f"{holder} holds {folder} and does not listen there: it starts, it drains, or its socket was removed"
            )
            return NobodyListensError(f"{fault}: {state}; {suggest_waiting(pid)}", "silent", pid=pid)
    lock = os.path.join(state_dir, "daemon.lock")
    if is_locked(lock):
        pid = read_pid(lock)
        where = f"one with the same state (pid {pid}) listens elsewhere; name its folder with --runtime-dir"
        return NobodyListensError(f"{fault}: {where}", "elsewhere", pid=pid)
    try:
        last = next(read_newest(os.path.join(state_dir, "record"), Filters()), None)
    except (NoRecordError, OSError):
        last = None
    if last is None:
        return NobodyListensError(f"{fault}: {START}", "unknown")
    at, failure = str(last.get("at")), last.get("failure")
    if last.get("kind") != "stopped":  # the last entry of every daemon that ends by itself
        how, end = "killed", f"was killed or crashed (its last record is from {at})"
    elif failure is None:
        how, end = "stopped", f"was stopped at {at}"
    else:
        how, end = "failed", f"failed at {at}: {failure}"
    return NobodyListensError(f"{fault}: the last one {end}; {START}", how, since=at)


def suggest_waiting(pid: int | None) -> str:
    """Return the remedy for a daemon that holds its folder and does not listen there."""
    return "wait a moment" if pid is None else f"wait a moment, or end it with `kill {pid}`, then {START}"


def is_locked(path: str) -> bool:
    """Return whether a lock is held.  It is not taken, since that could make a daemon that is starting fail."""
    try:
        inode = str(os.stat(path).st_ino)
        with open(LOCKS, encoding="ascii") as file:
            return any(words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode for words in map(str.split, file))
    except (OSError, IndexError):
        return False


def read_pid(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


@contextmanager
def connect_agent_once(arguments: argparse.Namespace) -> Generator[AdminConnection]:
    """Connect to the agents' socket, for a single fire.

    Raises:
        NobodyListensError: there is no daemon.
        DaemonUnreachableError: there is one, and it cannot be reached.
    """
    with closing(connect_socket_named(arguments, AGENT_SOCKET)) as link:
        yield link


@contextmanager
def connect_administrator(arguments: argparse.Namespace) -> Generator[AdminConnection]:
    """Connect to the admin socket and greet.  The errors are those of `connect_agent_once`."""
    with closing(connect_socket_named(arguments, ADMIN_SOCKET)) as link:
        link.greet("hooklatch command")
        yield link


def ask_administrator(arguments: argparse.Namespace, method: str, **params: object) -> Any:
    """Return the result of one request at the admin socket.  The errors are those of the connection and of `ask`."""
    with connect_administrator(arguments) as link:
        return link.ask(method, **params)


def connect_socket_named(arguments: argparse.Namespace, name: str) -> AdminConnection:
    folders = [os.path.abspath(folder) for folder in list_candidate_dirs(arguments.runtime_dir, os.environ)]
    try:
        return connect_first(folders, name, lambda path: open_admin(path, arguments.daemon_uid))
    except DaemonUnreachableError as error:
        if not error.is_absent:
            raise
        raise find_last_signs(state_dir(os.environ), error.tried, folders) from None

"""The paths of the daemon's socket, and connecting and hanging up.  Does not wait itself."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from itertools import count

from hooklatch.client.protocol.liveness import compute_crowd_delay
from hooklatch.credentials import open_connection
from hooklatch.errors import DaemonUnreachableError
from hooklatch.paths import AGENT_SOCKET, list_runtime_dirs

__all__ = ["list_socket_candidates", "connect_to_first", "hang_up", "make_poll"]


def list_socket_candidates(
    path: str | os.PathLike[str] | None, runtime_dir: str | os.PathLike[str] | None
) -> list[str]:
    """Return the sockets to try, in turn. A path that was given is the only one."""
    if path is not None:
        return [os.path.abspath(path)]
    named = None if runtime_dir is None else os.fspath(runtime_dir)
    return [os.path.abspath(os.path.join(folder, AGENT_SOCKET)) for folder in list_runtime_dirs(named, os.environ)]


def connect_to_first(
    paths: Sequence[str], daemon_uid: int | None, budget: float
) -> Generator[float, None, socket.socket]:
    """Connect to the first of `paths` where a daemon listens that may be taken, within `budget` seconds each.

    Yields the seconds to wait before the next attempt, and returns the socket. Neither library's own way to connect is
    used: with a full backlog they return a socket that is not connected.

    Raises:
        DaemonUnreachableError: nothing listens, or another user does.
    """
    failures: list[tuple[str, OSError]] = []
    for path in paths:
        deadline = time.monotonic() + budget
        try:
            for attempts in count():
                with suppress(BlockingIOError):  # the backlog is full, and a later attempt may succeed
                    return open_connection(path, daemon_uid)
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"its backlog was full for {budget:g} s")
                yield compute_crowd_delay(attempts)
        except OSError as error:
            failures.append((path, error))
    raise DaemonUnreachableError.at(failures)


def make_poll(connection: socket.socket) -> select.poll:
    """Return what tells whether the socket has something to read, or its end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return poll


def hang_up(connection: socket.socket) -> None:
    """Wake the socket's reader and writer, which find its end; only the reader closes it."""
    with suppress(OSError):  # the daemon hung up first, or it is closed already
        connection.shutdown(socket.SHUT_RDWR)

"""Where the daemon's socket may be, and one attempt to connect to it.  Waits for nothing."""

from __future__ import annotations

import os
import socket

from hooklatch.paths import AGENT_SOCKET, runtime_dirs

__all__ = ["attempt", "candidates"]


def candidates(path: str | os.PathLike[str] | None, runtime_dir: str | os.PathLike[str] | None) -> list[str]:
    """Return the sockets to try, in turn. A path that somebody named stands alone."""
    if path is not None:
        return [os.path.abspath(path)]
    named = None if runtime_dir is None else os.fspath(runtime_dir)
    return [os.path.abspath(os.path.join(folder, AGENT_SOCKET)) for folder in runtime_dirs(named, os.environ)]


def attempt(path: str) -> socket.socket | None:
    """Return a connected non-blocking socket, or None where the backlog is full and a later attempt may succeed.

    Raises:
        OSError: nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
        connection.getpeername()  # unix(7): EAGAIN from connect leaves a socket that only looks connected
    except BlockingIOError:
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection

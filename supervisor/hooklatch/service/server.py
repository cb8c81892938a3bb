"""The two listening sockets.  Knows folders, modes and peers; knows no request."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress

import trio

from hooklatch.core.protocol import ErrorCode, RpcError, encode_error
from hooklatch.processes.supervisor import Supervisor
from hooklatch.service.connection import Connection
from hooklatch.service.peers import PeerGoneError, Peers
from hooklatch.service.safety import UnsafeFileError, check_folders

__all__ = ["RuntimeDirError", "accept_connections", "check_nobody_listens", "listen", "make_runtime_dir"]

logger = logging.getLogger("hooklatch.server")
BACKLOG = 1024
MAX_PATH = 107  # bytes of a Unix socket's path (unix(7))
MAX_CONNECTIONS = 8192
ACCEPT_PAUSE = 0.1  # seconds to wait when the system has no descriptor left


class RuntimeDirError(Exception):
    """The folder for the sockets cannot be used."""


def make_runtime_dir(path: str) -> None:
    """Make the folder, readable by nobody else, or check the one that is there.

    Raises:
        RuntimeDirError: it is somebody else's, or open to others, or its path is too long.
    """
    if len(os.fsencode(os.path.join(path, "agent.sock"))) > MAX_PATH:
        raise RuntimeDirError(
            f"{path} is too long for a Unix socket ({MAX_PATH} bytes); choose a shorter --runtime-dir"
        )
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.stat(path)
    except OSError as error:
        raise RuntimeDirError(f"{path} cannot be made: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise RuntimeDirError(f"{path} is not a folder of this user; choose another --runtime-dir")
    if status.st_mode & 0o077:
        raise RuntimeDirError(f"{path} is open to others; mend it with: chmod 700 {path}")
    try:
        check_folders(path)
    except (UnsafeFileError, OSError) as error:
        raise RuntimeDirError(f"{error}; or choose another --runtime-dir") from None


def listen(path: str) -> socket.socket:
    """Bind a socket that only its owner can reach.  The caller knows that what is there is stale."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        logger.debug("no stale socket", extra={"path": path})
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)  # bind makes the file with the umask's mode; a later chmod would leave a gap
    try:
        listener.bind(path)
    finally:
        os.umask(umask)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def check_nobody_listens(path: str) -> None:
    """Return if a socket there is stale, for one who holds the folder's lock.

    Raises:
        RuntimeDirError: somebody listens who needs no lock: a service manager, for a daemon that it starts.
    """
    if is_listened_to(path):
        raise RuntimeDirError(
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


async def accept_connections(
    listener: socket.socket,
    make: Callable[[socket.socket], Connection],
    connections: dict[int, Connection],
    peers: Peers,
    door: trio.CancelScope,
    serving: Supervisor,
) -> None:
    """Have every client served that comes, until `door` is cancelled; those that are here are served on."""
    with door:
        while not door.cancel_called:
            try:
                stream, _ = listener.accept()
            except BlockingIOError:
                await trio.lowlevel.wait_readable(listener)
                continue
            except OSError as error:
                logger.error("accept failed: %s", error)
                await trio.sleep(ACCEPT_PAUSE)
                continue
            try:
                if serving.counts[0] >= MAX_CONNECTIONS:
                    refuse(stream, RpcError(ErrorCode.OVERLOAD, f"{MAX_CONNECTIONS} connections are open already"))
                elif not serving.spawn("connection", serve_one, stream, make, connections, peers):
                    stream.close()
            except BaseException:
                stream.close()
                raise


async def serve_one(
    stream: socket.socket,
    make: Callable[[socket.socket], Connection],
    connections: dict[int, Connection],
    peers: Peers,
) -> None:
    """Serve one client, if it may connect."""
    with stream:
        is_gone = False
        try:
            peers.check(stream)
        except RpcError as error:
            logger.warning("connection refused: %s", error)
            refuse(stream, error)
            return
        except PeerGoneError:
            is_gone = True
            if not peers.hears(trio.current_time()):
                return
        connection = make(stream)
        if is_gone:
            connection.hear_out()
        connections[connection.number] = connection
        await connection.run()


def refuse(stream: socket.socket, error: RpcError) -> None:
    with stream, suppress(OSError):
        stream.send(encode_error(None, error))

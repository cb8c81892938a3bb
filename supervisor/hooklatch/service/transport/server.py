"""The listeners of the two sockets: they bind, accept, check and refuse."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress

import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.core.protocol import ErrorCode, RpcError, encode_error
from hooklatch.processes.supervisor import Supervisor
from hooklatch.service.transport.connection import Connection
from hooklatch.service.transport.peers import PeerGoneError, PeerInspector

__all__ = ["Listener", "listen_on"]

logger = logging.getLogger("hooklatch.server")
BACKLOG = 1024
ACCEPT_PAUSE = 0.1  # seconds to wait when the system has no descriptor or memory left
READS = 4  # of 256 KiB each, of what a refused client has sent already


def listen_on(path: str) -> socket.socket:
    """Bind a socket that only its owner can reach, in place of one that the caller knows to be stale."""
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


class Listener:
    """The listener of one socket. It accepts clients up to a limit, and reports why it cannot."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        connect: Callable[[socket.socket], Connection],
        peers: PeerInspector,
        faults: ActiveFaults,
        *,
        maximum: int,
    ) -> None:
        self.name = name
        self.connections = Supervisor(f"{name} connections")
        self._socket = listening
        self._connect = connect
        self._peers = peers
        self._faults = faults
        self._maximum = maximum
        self._fault: str | None = None
        self._scope = trio.CancelScope()

    def close(self) -> None:
        """Accept no more clients. The connected ones are still served."""
        self._scope.cancel()

    async def run(self) -> None:
        """Serve every client that connects, until the listener is closed."""
        with self._scope, ExitStack() as spare:
            reserve_descriptor(spare)
            while not self._scope.cancel_called:
                try:
                    stream, _ = self._socket.accept()
                except BlockingIOError:
                    self._set_fault(None)
                    await trio.lowlevel.wait_readable(self._socket)
                except OSError as error:
                    self._set_fault(f"clients of {self.name}s cannot be accepted: {error.strerror}")
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        refuse_one(self._socket, spare)
                    await trio.sleep(ACCEPT_PAUSE)
                else:
                    self._set_fault(None)
                    self._take(stream)

    def _set_fault(self, fault: str | None) -> None:
        if fault == self._fault:
            return
        if fault is not None:
            logger.error("%s", fault)
        self._fault = fault
        self._faults.report(self.name, *([fault] if fault is not None else []))

    def _take(self, stream: socket.socket) -> None:
        try:
            if self.connections.counts[0] >= self._maximum:
                text = f"{self._maximum} connections of {self.name}s are open already, and more are not allowed"
                refuse_connection(stream, RpcError(ErrorCode.OVERLOAD, text))
            elif not self.connections.spawn("connection", self._serve, stream):
                stream.close()
        except BaseException:
            stream.close()
            raise

    def _serve(self, stream: socket.socket) -> Awaitable[None]:
        """Return the service of one client, which closes the connection; if it may not connect, there is none."""
        with ExitStack() as refused:
            refused.callback(stream.close)
            is_gone = False
            try:
                self._peers.check(stream)
            except RpcError as error:
                logger.warning("connection refused: %s", error)
                refuse_connection(stream, error)
                return serve_nothing()
            except PeerGoneError:
                is_gone = True
                if not self._peers.accepts_gone(trio.current_time()):
                    return serve_nothing()
            connection = self._connect(stream)
            if is_gone:
                connection.serve_last_event()
            refused.pop_all()
            return connection.run()


async def serve_nothing() -> None:
    """Serve a client that was refused, or is gone."""


def reserve_descriptor(spare: ExitStack) -> None:
    """Reserve a descriptor. When no other is left, it is used to refuse a client with a reason."""
    with suppress(OSError):  # tried again later
        spare.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def refuse_one(listener: socket.socket, spare: ExitStack) -> None:
    """Accept one client with the reserved descriptor, and refuse it with the reason."""
    spare.close()
    with suppress(OSError):
        stream, _ = listener.accept()
        refuse_connection(stream, RpcError(ErrorCode.OVERLOAD, "no descriptor is left"))
    reserve_descriptor(spare)


def refuse_connection(stream: socket.socket, error: RpcError) -> None:
    with stream, suppress(OSError):
        stream.send(encode_error(None, error))
        stream.shutdown(socket.SHUT_WR)
        for _ in range(READS):  # if we close with input unread, the client sees a reset instead of the error
            if not stream.recv(2**18, socket.MSG_DONTWAIT):
                break

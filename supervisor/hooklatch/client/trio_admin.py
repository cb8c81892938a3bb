"""The administrator's client under trio, for the dashboard and the fleet's link.

An answer that does not come in time ends its connection, as does one that cannot be read or is not waited for: a later
request would take it for its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import trio

from hooklatch.client.admin import connect_first
from hooklatch.client.protocol.admin_exchange import AdminExchange
from hooklatch.core.text import format_duration
from hooklatch.credentials import open_connection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError, explain_error
from hooklatch.paths import ADMIN_SOCKET

if TYPE_CHECKING:
    from hooklatch.client.protocol.admin_exchange import AdminSteps

__all__ = ["TIMEOUT", "AdminConnector", "TrioAdminConnection", "convert_answer"]

T = TypeVar("T")
TIMEOUT = 10.0  # seconds for an answer
CHUNK = 2**16


class TrioAdminConnection:
    """A connection for one request at a time, or for announcements.  It is closed at the end of its block."""

    def __init__(self, stream: socket.socket, path: str) -> None:
        self.path = path
        self._stream = stream
        self._exchange = AdminExchange(path)

    async def __aenter__(self) -> TrioAdminConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Return whether it was neither closed nor hung up by the daemon, without a request."""
        try:
            return bool(self._stream.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def greet(self, client: str, *, timeout: float = TIMEOUT, **params: object) -> None:
        """Introduce this process as `client`.  The errors are those of `ask`."""
        await self._answer("hello", self._exchange.greet(client, **params), object, timeout)

    async def ask(self, method: str, shape: type[T], /, *, timeout: float = TIMEOUT, **params: object) -> T:
        """Return the daemon's answer. A parameter that is None is left out.

        Raises:
            RequestFailedError: it is an error.
            DaemonUnreachableError: there is none within `timeout` seconds.
            UnreadableAnswerError: it is not an answer, or has another shape.
        """
        return await self._answer(method, self._exchange.ask(method, **params), shape, timeout)

    async def announcement(self) -> dict[str, Any]:
        """Wait for the next announcement.

        Raises:
            DaemonUnreachableError: the daemon hung up.
            UnreadableAnswerError: it sent an invalid message.
        """
        return convert_answer("subscribe", await self._run(self._exchange.announcement()), dict[str, Any])

    def close(self) -> None:
        """Close the connection; a task that waits for an answer gets an error."""
        if self._stream.fileno() >= 0:
            trio.lowlevel.notify_closing(self._stream)
            self._stream.close()

    async def _answer(self, method: str, steps: AdminSteps[Any], shape: type[T], timeout: float) -> T:
        with trio.move_on_after(timeout):
            try:
                return convert_answer(method, await self._run(steps), shape)
            except RequestFailedError:
                raise
            except BaseException:
                self.close()
                raise
        raise DaemonUnreachableError(
            f"the daemon did not answer {method} within {format_duration(timeout)}; see: hooklatch status"
        )

    async def _run(self, steps: AdminSteps[T]) -> T:
        try:
            line = next(steps)
            while True:
                line = steps.send(await self._send(line) if line else await self._receive())
        except StopIteration as end:
            result: T = end.value
            return result
        except (OSError, trio.ClosedResourceError) as error:
            raise DaemonUnreachableError(
                f"the connection to the daemon at {self.path} broke: {explain_error(error)}"
            ) from None

    async def _send(self, line: bytes) -> bytes:
        unsent = memoryview(line)
        while unsent:
            await trio.lowlevel.wait_writable(self._stream)
            try:
                unsent = unsent[self._stream.send(unsent) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                break  # it hung up, perhaps after it sent an error, which the next read returns
        return b""

    async def _receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._stream)
            try:
                return self._stream.recv(CHUNK)
            except BlockingIOError:
                continue


class AdminConnector(msgspec.Struct, frozen=True):
    """The daemon of this user, of root, or of the user `daemon_uid`, for a process that calls itself `client`.

    `folders` returns the directories in which it may listen, anew for each connection. `identify` returns what else a
    hello says to the daemon of a directory.
    """

    client: str
    folders: Callable[[], Sequence[str]]
    daemon_uid: int | None = None
    identify: Callable[[str], Mapping[str, object]] = lambda folder: {}

    async def connect(self, *, timeout: float = TIMEOUT) -> TrioAdminConnection:
        """Return a connection that the daemon has greeted.

        Raises:
            DaemonUnreachableError: no program listens, or it does not answer.
            UnreadableAnswerError: it is not a daemon.
            RequestFailedError: the daemon refuses this client.
        """
        connection, params = connect_first(map(os.path.abspath, self.folders()), ADMIN_SOCKET, self._open)
        try:
            await connection.greet(self.client, timeout=timeout, **params)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, path: str) -> tuple[TrioAdminConnection, Mapping[str, object]]:
        connection = TrioAdminConnection(open_connection(path, self.daemon_uid), path)
        try:
            return connection, self.identify(os.path.dirname(path))
        except OSError:
            connection.close()
            raise


def convert_answer(method: str, result: object, shape: type[T]) -> T:
    """Return a result in its shape.

    Raises:
        UnreadableAnswerError: it has another one.
    """
    try:
        return msgspec.convert(result, shape)
    except msgspec.ValidationError as error:
        raise UnreadableAnswerError(f"the daemon's answer to {method!r} cannot be understood: {error}") from None

"""The connection to the daemon's admin socket, for as long as one page or one watch needs it.

Knows the protocol and not the methods.  Each page connects anew, so a restart of the daemon is not a special case, and
one page that waits does not delay another.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import msgspec
import trio

from hooklatch.core.protocol import (
    LineBuffer,
    Request,
    Response,
    RpcError,
    convert_params,
    encode_request,
    read_message,
)
from hooklatch.core.text import format_duration
from hooklatch.credentials import open_connection
from hooklatch.paths import ADMIN_SOCKET
from hooklatch.version import PROTOCOL, VERSION

__all__ = ["TIMEOUT", "DaemonConnector", "DaemonLink", "RequestRejectedError", "DaemonUnansweredError"]

T = TypeVar("T")
TIMEOUT = 10.0  # seconds for an answer
CHUNK = 2**16


class DaemonUnansweredError(Exception):
    """The daemon sent no response, or an unreadable one. The text has the reason and the remedy."""


class RequestRejectedError(DaemonUnansweredError):
    """The daemon responded with an error. `name` is the protocol's name for it."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class DaemonLink:
    """A greeted connection, for one request at a time, or for announcements."""

    def __init__(self, stream: trio.SocketStream, path: str) -> None:
        self.path = path
        self._stream = stream
        self._lines = LineBuffer()
        self._count = 0
        self._announced: deque[msgspec.Raw] = deque()

    async def ask(self, method: str, shape: type[T], /, *, timeout: float = TIMEOUT, **params: object) -> T:
        """Return the daemon's response. A parameter that is None is left out.

        Raises:
            RequestRejectedError: it is an error.
            DaemonUnansweredError: there is none within `timeout` seconds, or it has another shape.
        """
        self._count += 1
        given_params = {key: value for key, value in params.items() if value is not None}
        with trio.move_on_after(timeout):
            await self._send(encode_request(self._count, method, given_params))
            while not isinstance(message := await self._receive(), Response) or message.id not in (self._count, None):
                if isinstance(message, Request):
                    self._announced.append(message.params)
            return read_reply(message, method, shape)
        raise DaemonUnansweredError(
            f"the daemon did not answer {method!r} within {format_duration(timeout)}; see: hooklatch status"
        )

    async def announcement(self) -> dict[str, Any]:
        """Wait for the next announcement.

        Raises:
            DaemonUnansweredError: the daemon hung up, or sent an invalid message.
        """
        while not self._announced:
            message = await self._receive()
            if isinstance(message, Request) and message.method == "announce":
                self._announced.append(message.params)
        try:
            return convert_params(self._announced.popleft(), dict[str, Any])
        except RpcError as error:
            raise DaemonUnansweredError(f"an announcement of the daemon cannot be understood: {error}") from None

    async def _send(self, line: bytes) -> None:
        try:
            await self._stream.send_all(line)
        except trio.BrokenResourceError:
            return  # it hung up, perhaps after it sent an error, which the next read returns

    async def _receive(self) -> Request | Response:
        try:
            while (line := self._lines.take()) is None:
                data = await self._stream.receive_some(CHUNK)
                if not data:
                    raise DaemonUnansweredError(f"the daemon at {self.path} hung up; see: hooklatch status")
                self._lines.feed(data)
            return read_message(line)
        except trio.BrokenResourceError:
            raise DaemonUnansweredError(
                f"the connection to the daemon at {self.path} broke; see: hooklatch status"
            ) from None
        except RpcError as error:
            raise DaemonUnansweredError(f"the program at {self.path} is not a hooklatch daemon: {error}") from None


def read_reply(message: Response, method: str, shape: type[T]) -> T:
    if message.error is not None:
        data: object = message.error.get("data")
        name = cast("dict[str, object]", data).get("name") if isinstance(data, dict) else ""
        raise RequestRejectedError(str(name or ""), str(message.error.get("message")))
    try:
        return convert_params(message.result or msgspec.Raw(b"null"), shape)
    except RpcError as error:
        raise DaemonUnansweredError(f"the daemon's answer to {method!r} cannot be understood: {error}") from None


class DaemonConnector:
    """The daemon of this user, of root, or of the user `daemon_uid`.

    `folders` returns the directories in which it may listen, anew for each connection: `candidate_dirs`.
    """

    def __init__(self, folders: Callable[[], Sequence[str]], daemon_uid: int | None = None) -> None:
        self._folders = folders
        self._daemon_uid = daemon_uid

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[DaemonLink]:
        """Connect and greet for the duration of the block.

        Raises:
            DaemonUnansweredError: no program listens, or it is not a daemon.
        """
        raw, path = self._open_socket()
        async with trio.SocketStream(trio.socket.from_stdlib_socket(raw)) as stream:
            link = DaemonLink(stream, path)
            client = {"name": "hooklatch dashboard", "version": VERSION}
            await link.ask("hello", dict[str, Any], protocol=PROTOCOL, client=client)
            yield link

    def _open_socket(self) -> tuple[socket.socket, str]:
        failures: list[str] = []
        for folder in self._folders():
            path = os.path.join(os.path.abspath(folder), ADMIN_SOCKET)
            try:
                return open_connection(path, self._daemon_uid), path
            except OSError as error:
                failures.append(f"{path} ({error.strerror or error})")
        tried = " or ".join(failures) or "any known path"
        raise DaemonUnansweredError(f"no hooklatch daemon listens at {tried}; start one: hooklatch serve --detach")

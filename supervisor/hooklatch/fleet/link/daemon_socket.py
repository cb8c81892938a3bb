"""The connection to the daemon on its admin socket, in the role of a link.

It connects when there is a request, each time with the token that is in the file then, since every daemon makes its
own.  There is one request at a time.  A daemon that does not answer in time is given up with its connection.
"""

from __future__ import annotations

import base64
import errno
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

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
from hooklatch.files import open_regular
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, FollowAnswer
from hooklatch.paths import ADMIN_SOCKET, FLEET_TOKEN
from hooklatch.version import PROTOCOL, VERSION

__all__ = ["DaemonSocket"]

TIMEOUT = 10.0  # seconds for an answer
APPLY_TIMEOUT = 180.0  # seconds for a bundle: its files are imported for the first time
CHUNK = 2**16
MAX_TOKEN = 4096
# Errors after which the connection, or the token, is useless; the others are about the request.
LOST = frozenset({"draining", "overload", "not_permitted", "not_admin", "hello_required", "method_not_found"})


class DaemonSocket:
    """A daemon that listens in one of some folders, which `folders` returns anew for each attempt.

    The daemon is this user's, root's, or that of the user `daemon_uid`.  The owner calls `close` at the end.
    """

    def __init__(
        self, folders: Callable[[], Sequence[str]], daemon_uid: int | None = None, *, timeout: float = TIMEOUT
    ) -> None:
        self._folders = folders
        self._daemon_uid = daemon_uid
        self._timeout = timeout
        self._requesting = trio.Lock()
        self._raw: socket.socket | None = None
        self._lines = LineBuffer()
        self._count = 0

    def is_connected(self) -> bool:
        if self._raw is None:
            return False
        try:
            return bool(self._raw.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def follow(self, manifests: Sequence[str] | None) -> FollowAnswer:
        params = {} if manifests is None else {"manifests": list(manifests)}
        answer: FollowAnswer = await self._request("fleet_follow", params, FollowAnswer)
        return answer

    async def apply(self, version: int, bundle: bytes) -> None:
        params = {"version": version, "bundle": base64.b64encode(bundle).decode()}
        await self._request("fleet_apply", params, dict[str, Any], timeout=APPLY_TIMEOUT)

    async def report_shipped(self, seq: int) -> None:
        await self._request("fleet_shipped", {"seq": seq}, dict[str, Any] | None)

    def close(self) -> None:
        """Close the connection, on which no task may wait for an answer."""
        self._close()

    async def _request(self, method: str, params: Mapping[str, object], shape: Any, *, timeout: float = 0.0) -> Any:
        """Send a request, over a new connection if there is none, and return the result.

        Raises:
            DaemonAbsentError: there is no answer.
            DaemonRefusedError: the answer is an error.
        """
        async with self._requesting:
            async with self._closed_on_failure():
                if not self.is_connected():
                    self._close()
                    await self._connect()
                answer = await self._exchange(method, params, max(timeout, self._timeout))
            error = answer.error
            if error is None:
                return self._decode(answer, shape)
            data, message = error.get("data"), str(error.get("message"))
            if isinstance(data, dict) and cast("dict[str, object]", data).get("name") in LOST:
                self._close()
                raise DaemonAbsentError(f"the daemon does not serve its link now: {message}")
            raise DaemonRefusedError(message)

    def _decode(self, answer: Response, shape: Any) -> Any:
        try:
            return convert_params(answer.result or msgspec.Raw(b"null"), shape)
        except RpcError as error:
            self._close()
            raise DaemonAbsentError(f"the daemon's answer cannot be understood: {error}") from None

    @asynccontextmanager
    async def _closed_on_failure(self) -> AsyncGenerator[None]:
        """Close the connection if a request got no answer: the answer would be taken for that of the next request."""
        is_answered = False
        try:
            yield
            is_answered = True
        except OSError as error:
            raise DaemonAbsentError(f"the daemon's connection broke: {error.strerror or error}") from None
        except RpcError as error:
            raise DaemonAbsentError(f"the daemon sent what cannot be understood: {error}") from None
        finally:
            if not is_answered:
                self._close()

    async def _connect(self) -> None:
        failures: list[str] = []
        for folder in self._folders():
            path = os.path.join(folder, ADMIN_SOCKET)
            try:
                self._raw, self._lines = open_connection(path, self._daemon_uid), LineBuffer()
                token = read_token(os.path.join(folder, FLEET_TOKEN), self._daemon_uid)
            except OSError as error:
                self._close()
                failures.append(f"{error.filename or path} ({error.strerror or error})")
                continue
            await self._greet(token)
            return
        raise DaemonAbsentError(f"no daemon takes a link: {', '.join(failures) or 'there is no folder to look in'}")

    async def _greet(self, token: str) -> None:
        client = {"name": "hooklatch link", "version": VERSION}
        hello = {"protocol": PROTOCOL, "role": "link", "token": token, "client": client}
        answer = await self._exchange("hello", hello, self._timeout)
        if answer.error is not None:
            self._close()
            raise DaemonRefusedError(f"the daemon refuses this link: {answer.error.get('message')}")

    async def _exchange(self, method: str, params: Mapping[str, object], timeout: float) -> Response:
        assert self._raw is not None
        stream = trio.socket.from_stdlib_socket(self._raw)
        self._count += 1
        rest_bytes = memoryview(encode_request(self._count, method, params))
        with trio.move_on_after(timeout):
            while rest_bytes:
                rest_bytes = rest_bytes[await stream.send(rest_bytes) :]
            while True:
                message = await self._receive(stream)
                if isinstance(message, Response) and message.id in (self._count, None):
                    return message
        raise DaemonAbsentError(f"the daemon did not answer {method} within {format_duration(timeout)}")

    async def _receive(self, stream: trio.socket.SocketType) -> Request | Response:
        while (line := self._lines.take()) is None:
            data = await stream.recv(CHUNK)
            if not data:
                raise DaemonAbsentError("the daemon hung up")
            self._lines.feed(data)
        return read_message(line)

    def _close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None


def read_token(path: str, daemon_uid: int | None) -> str:
    """Return the token of the daemon that runs; its file is this user's, or that of `daemon_uid`.

    Raises:
        OSError: there is no file, as [fleet] is not configured there, or it is another user's.
    """
    fd = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_uid not in (os.getuid(), daemon_uid):
            raise PermissionError(errno.EPERM, "it is another user's", path)
        return os.read(fd, MAX_TOKEN).decode("ascii", "replace").strip()
    finally:
        os.close(fd)

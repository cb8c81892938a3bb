"""Asks the daemon, one thing after another.  Knows sockets and lines; imports no trio, so that a command starts fast.

A daemon that says nothing for 5 s is pinged on the same connection, and given up after 5 s more: a slow hook costs
nothing, a stopped daemon costs ten seconds.
"""

from __future__ import annotations

import argparse
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from hooklatch.core.protocol import (
    PROTOCOL,
    LineBuffer,
    Request,
    Response,
    RpcError,
    encode_request,
    read_message,
)
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError
from hooklatch.paths import ADMIN_SOCKET, AGENT_SOCKET, runtime_dirs, state_dir

__all__ = ["CommandLink", "administrator", "directories", "one_shot"]

SILENCE = 5  # seconds without a byte before the daemon is pinged, and that the ping may take
CHUNK = 2**16
ABSENT = (errno.ENOENT, errno.ECONNREFUSED)  # connect(2): no socket, or one that nobody listens on
PING = 0  # the number of a ping; requests begin at 1


class CommandLink:
    """A connection to the daemon."""

    def __init__(self, stream: socket.socket, path: str) -> None:
        self.path = path
        self._stream = stream
        self._lines = LineBuffer()
        self._count = PING

    def request(self, method: str, params: Mapping[str, object]) -> msgspec.Raw:
        """Send a request and wait for its result.

        Raises:
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: it sent something that is no message.
            DaemonUnreachableError: it hung up, or is silent even to pings.
        """
        self._count += 1
        self._send(encode_request(self._count, method, params))
        while True:
            message = self._receive()
            if isinstance(message, Response) and message.id in (self._count, None):
                return result_of(message)

    def ask(self, method: str, **params: object) -> Any:
        """Send a request and give its result, decoded.  Raises what `request` does."""
        given = {key: value for key, value in params.items() if value is not None}
        return msgspec.json.decode(self.request(method, given))

    def announcement(self) -> msgspec.Raw:
        """Wait for the next announcement.

        Raises:
            DaemonUnreachableError: the daemon hung up, or is silent even to pings.
        """
        while True:
            message = self._receive()
            if isinstance(message, Request) and message.method == "announce":
                return message.params

    @contextmanager
    def watch_end(self) -> Generator[End]:
        """Watch for the daemon's end, from before it is asked to."""
        process = process_behind(self._stream)
        try:
            yield End(self._stream, process)
        finally:
            if process is not None:
                os.close(process[1])

    def _send(self, line: bytes) -> None:
        try:
            self._stream.sendall(line)
        except TimeoutError:
            raise self._lost("it takes nothing") from None
        except BrokenPipeError:
            return  # it hung up; what it said before that is still to be read
        except OSError as error:
            raise self._lost(str(error.strerror)) from None

    def _receive(self) -> Request | Response:
        try:
            while (line := self._lines.take()) is None:
                self._lines.feed(self._read())
            return read_message(line)
        except RpcError as error:
            raise UnreadableAnswerError(f"what answers at {self.path} is no hooklatch daemon: {error}") from None

    def _read(self) -> bytes:
        is_pinged = False
        while True:
            try:
                data = self._stream.recv(CHUNK)
            except TimeoutError:
                if is_pinged:
                    raise self._lost("it is connected but silent, even to a ping") from None
                is_pinged = True
                self._send(encode_request(PING, "ping", {}))
                continue
            except OSError as error:
                raise self._lost(str(error.strerror)) from None
            if not data:
                raise self._lost("it hung up")
            return data

    def _lost(self, why: str) -> DaemonUnreachableError:
        return DaemonUnreachableError(f"the daemon at {self.path} is lost: {why}")


class End:
    """The end of a daemon: of its connection, and of its process where that is surely the one that listens."""

    def __init__(self, stream: socket.socket, process: tuple[int, int] | None) -> None:
        self._stream = stream
        self._process = process

    def wait(self, seconds: float, pid: int) -> bool:
        """Wait until it is gone, for so long; `pid` is what it calls itself."""
        deadline = time.monotonic() + seconds
        while select.select([self._stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                is_over = not self._stream.recv(CHUNK)
            except OSError:
                is_over = True
            if is_over:
                break
        else:
            return False
        # A manager's sockets were made by the manager, and one in a container counts its processes otherwise.
        if self._process is None or self._process[0] != pid:
            return True
        return bool(select.select([self._process[1]], [], [], max(0.0, deadline - time.monotonic()))[0])


def process_behind(stream: socket.socket) -> tuple[int, int] | None:
    """Return pid and pidfd of the process that listens; None where that cannot be known."""
    try:
        pid, _, _ = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return (pid, os.pidfd_open(pid)) if pid > 0 else None
    except (OSError, AttributeError):  # it has ended; or this is no Linux
        return None


def result_of(message: Response) -> msgspec.Raw:
    if message.error is not None:
        error = message.error
        data: object = error.get("data")
        name = data.get("name", "") if isinstance(data, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        code: object = error.get("code")
        raise RequestFailedError(code if isinstance(code, int) else 0, str(name), str(error.get("message")))  # pyright: ignore[reportUnknownArgumentType]
    return message.result or msgspec.Raw(b"null")


def directories(arguments: argparse.Namespace) -> list[str]:
    """Return the folders that may hold the sockets, whole."""
    return [os.path.abspath(folder) for folder in runtime_dirs(arguments.runtime_dir, os.environ)]


@contextmanager
def one_shot(arguments: argparse.Namespace) -> Generator[CommandLink]:
    """Connect to the agents' socket, for a single fire.

    Raises:
        DaemonUnreachableError: nobody listens.
    """
    stream, path = connect(directories(arguments), AGENT_SOCKET)
    with stream:
        yield CommandLink(stream, path)


@contextmanager
def administrator(arguments: argparse.Namespace) -> Generator[CommandLink]:
    """Connect to the admin socket and greet.

    Raises:
        NobodyListensError: there is no daemon.
        DaemonUnreachableError: there is one, and it cannot be reached.
    """
    from hooklatch.version import VERSION

    stream, path = connect(directories(arguments), ADMIN_SOCKET)
    with stream:
        link = CommandLink(stream, path)
        link.ask("hello", protocol=PROTOCOL, client={"name": "hooklatch command", "version": VERSION})
        yield link


def connect(folders: list[str], name: str) -> tuple[socket.socket, str]:
    failures: list[tuple[str, str]] = []
    are_absent = True
    for folder in folders:
        path = os.path.join(folder, name)
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # unix(7): with a full backlog a non-blocking connect fails, a blocking one waits for this long.
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SILENCE, 0))
            stream.connect(path)
        except OSError as error:
            stream.close()
            are_absent = are_absent and error.errno in ABSENT
            failures.append((path, error.strerror or str(error)))
        else:
            stream.settimeout(SILENCE)
            return stream, path
    if are_absent:
        from hooklatch.cli.terminal.last_signs import NobodyListensError, look

        tried = " or ".join(f"{path} ({why})" for path, why in failures) or "any known path"
        raise NobodyListensError(tried, look(state_dir(os.environ)))
    raise DaemonUnreachableError.at(failures)

"""The requests of commands to the daemon, one after another.  It imports little, to start fast.

    with connect_administrator(arguments) as link:
        status = link.ask("status")

A daemon that sends nothing for 5 s is pinged, and given up after 5 s more: a slow hook costs nothing, and a stopped
daemon costs ten seconds.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import time
from contextlib import closing, contextmanager

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.connection import SILENCE, CommandConnection, NoDaemonError, OversizedAnswerError, sockets
from hooklatch.cli.terminal.light_json import is_list, is_object, parse_json, serialize_json
from hooklatch.core.text import is_unicode
from hooklatch.credentials import connect_socket, read_credentials
from hooklatch.errors import (
    DaemonUnreachableError,
    InvalidPayloadError,
    RequestFailedError,
    UnreadableAnswerError,
    explain_error,
)
from hooklatch.paths import ADMIN_SOCKET, AGENT_SOCKET, list_candidate_dirs, list_runtime_dirs, state_dir
from hooklatch.version import PROTOCOL, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator
    from typing import Any

__all__ = ["CommandLink", "connect_administrator", "encode_argument", "list_socket_directories", "connect_agent_once"]

DEAD_CHECK = 0.5  # seconds between two checks of a process that does not end
ABSENT = (errno.ENOENT, errno.ECONNREFUSED)  # connect(2): no socket, or one that no process listens on


def encode_argument(value: object) -> object:
    """Return a value of the command line as the protocol carries it: words and paths in UTF-8, in every locale.

    Raises:
        InvalidPayloadError: a word is not UTF-8 at all.
    """
    if is_object(value):
        return {key: encode_argument(item) for key, item in value.items()}
    if is_list(value):
        return [encode_argument(item) for item in value]
    if not isinstance(value, str) or is_unicode(value):
        return value
    data = os.fsencode(value)
    try:
        return data.decode()  # in a locale of ASCII alone Python read its bytes as surrogates
    except UnicodeDecodeError:
        text = data.decode(errors="backslashreplace")
        raise InvalidPayloadError(f"{text!r} is not UTF-8, as all names have to be; rename it") from None


class CommandLink:
    """A connection to the daemon for requests and announcements."""

    def __init__(self, stream: sockets.socket, path: str, daemon_uid: int | None) -> None:
        self.path = path
        self._stream = stream
        self._connection = CommandConnection(stream, path, daemon_uid)
        self._count = 0

    def ask(self, method: str, **params: object) -> Any:
        """Send a request and return its result; params that are None are left out.

        Raises:
            InvalidPayloadError: a param is not UTF-8; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: it sent something that is not a message.
            DaemonUnreachableError: it hung up, or is silent even to pings.
        """
        document = {key: encode_argument(value) for key, value in params.items() if value is not None}
        return self.request(method, serialize_json(document).encode())

    def request(self, method: str, params: bytes) -> Any:
        """Send a request whose params are JSON already, and return its result.  The errors are those of `ask`."""
        self._count += 1
        line = b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' % (self._count, method.encode(), params)
        try:
            self._connection.send(line)
        except NoDaemonError as error:
            raise DaemonUnreachableError(f"the daemon {error}") from None
        while "method" in (message := self._receive()):
            pass  # an announcement
        failure, number = message.get("error"), message.get("id")
        is_ours = type(number) is int and number == self._count  # True and 1.0 are equal to 1
        if not is_ours and (number is not None or failure is None):  # an error has none if its request was unreadable
            raise self._make_unreadable_error(f"an answer to request {number!r}, which was never sent")
        if failure is not None:
            raise make_request_error(failure)
        return message["result"]

    def announcement(self) -> Any:
        """Wait for the next announcement, and return it.  The errors are those of `ask`."""
        while (message := self._receive()).get("method") != "announce":
            pass
        return message.get("params")

    @property
    def has_line(self) -> bool:
        """Return whether a line has been received that was not taken yet."""
        return self._connection.has_line

    def fileno(self) -> int:
        """Return its descriptor, for `select`."""
        return self._stream.fileno()

    @contextmanager
    def watch_end(self) -> Generator[DaemonExit]:
        """Watch for the daemon's end; enter this before the daemon is asked to end."""
        process = process_behind(self._stream)
        try:
            yield DaemonExit(self._stream, process)
        finally:
            if process is not None:
                os.close(process[1])

    def _receive(self) -> dict[str, object]:
        try:
            line = self._connection.receive_line()
            message = parse_json(line.decode())
            if b"\\ud" in line or b"\\uD" in line:
                output.format_json(message).encode()  # a lone surrogate is not UTF-8
        except NoDaemonError as error:
            raise DaemonUnreachableError(f"the daemon {error}") from None
        except (OversizedAnswerError, ValueError, RecursionError) as error:
            raise self._make_unreadable_error(str(error)) from None
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            raise self._make_unreadable_error("not a JSON-RPC message")
        if ("method" in message) + ("result" in message) + (message.get("error") is not None) != 1:
            raise self._make_unreadable_error("a message is a request, a result or an error")
        return message

    def _make_unreadable_error(self, reason: str) -> UnreadableAnswerError:
        return UnreadableAnswerError(f"what answers at {self.path} is not a hooklatch daemon: {reason}")


class DaemonExit:
    """The end of a daemon: of its connection, and of its process if that is certainly the one that listens."""

    def __init__(self, stream: sockets.socket, process: tuple[int, int] | None) -> None:
        self._stream = stream
        self._process = process

    def wait(self, seconds: float, pid: int) -> bool:
        """Wait for at most `seconds`; return whether the daemon has ended.  `pid` is the one that it reported."""
        deadline = time.monotonic() + seconds
        while select.select([self._stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                is_over = not self._stream.recv(2**16)
            except OSError:
                is_over = True
            if is_over:
                break
        else:
            return False
        # SO_PEERCRED names the process that called listen(2): a service manager, for sockets that it made.  A daemon
        # in a container has another pid there than here.
        if self._process is None or self._process[0] != pid:
            return True
        while not select.select([self._process[1]], [], [], max(0.0, min(DEAD_CHECK, deadline - time.monotonic())))[0]:
            if is_dead(pid):
                return True
            if time.monotonic() >= deadline:
                return False
        return True


def is_dead(pid: int) -> bool:
    """Return whether a process is a zombie: it has ended but for a thread that waits for a disk (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == b"Z"
    except OSError:
        return False  # it has ended, and its descriptor says so


def process_behind(stream: sockets.socket) -> tuple[int, int] | None:
    """Return pid and pidfd of the process that listens; None where that cannot be known."""
    try:
        pid, _ = read_credentials(stream)
        return (pid, os.pidfd_open(pid)) if pid > 0 else None
    except (OSError, AttributeError):  # it has ended, or this is not Linux
        return None


def make_request_error(error: object) -> RequestFailedError:
    table = error if is_object(error) else {"message": error}
    code, data = table.get("code"), table.get("data")
    name = data.get("name", "") if is_object(data) else ""
    return RequestFailedError(code if isinstance(code, int) else 0, str(name), str(table.get("message")))


def list_socket_directories(arguments: argparse.Namespace) -> list[str]:
    """Return the absolute paths of the folders that may hold the sockets."""
    return [os.path.abspath(folder) for folder in list_runtime_dirs(arguments.runtime_dir, os.environ)]


@contextmanager
def connect_agent_once(arguments: argparse.Namespace) -> Generator[CommandLink]:
    """Connect to the agents' socket, for a single fire.

    Raises:
        DaemonUnreachableError: no daemon listens there.
    """
    stream, path = connect_socket_named(arguments, AGENT_SOCKET)
    with closing(stream):
        yield CommandLink(stream, path, arguments.daemon_uid)


@contextmanager
def connect_administrator(arguments: argparse.Namespace) -> Generator[CommandLink]:
    """Connect to the admin socket and greet.

    Raises:
        NobodyListensError: there is no daemon.
        DaemonUnreachableError: there is one, and it cannot be reached.
    """
    stream, path = connect_socket_named(arguments, ADMIN_SOCKET)
    with closing(stream):
        link = CommandLink(stream, path, arguments.daemon_uid)
        link.ask("hello", protocol=PROTOCOL, client={"name": "hooklatch command", "version": VERSION})
        yield link


def connect_socket_named(arguments: argparse.Namespace, name: str) -> tuple[sockets.socket, str]:
    failures: list[tuple[str, str]] = []
    are_absent, is_denied = True, False
    folders = [os.path.abspath(folder) for folder in list_candidate_dirs(arguments.runtime_dir, os.environ)]
    for folder in folders:
        path = os.path.join(folder, name)
        stream = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            # unix(7): with a full backlog a non-blocking connect fails, a blocking one waits for this long.
            stream.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDTIMEO, struct.pack("ll", int(SILENCE), 0))
            connect_socket(stream, path, arguments.daemon_uid)
        except OSError as error:
            stream.close()
            are_absent = are_absent and error.errno in ABSENT
            is_denied = is_denied or isinstance(error, PermissionError)
            failures.append((path, explain_error(error)))
        else:
            return stream, path
    if are_absent:
        from hooklatch.cli.terminal.last_signs import find_last_signs

        tried = " or ".join(f"{path} ({reason})" for path, reason in failures) or "any known path"
        raise find_last_signs(state_dir(os.environ), tried, folders)
    raise DaemonUnreachableError.at(failures, is_denied=is_denied)

"""A connection to the daemon, over which lines are sent and received.

Every failure to get a complete line is a NoDaemonError, whose text names the socket's path and the reason.
"""

import time
from math import inf

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

from hooklatch.credentials import connect_socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    A = TypeVar("A")
    T = TypeVar("T")

__all__ = ["MAX_FRAME", "CommandConnection", "NoDaemonError", "OversizedAnswerError", "SILENCE", "sockets"]

MAX_FRAME = 9 * 2**20  # bytes; the protocol's limit for a line
SILENCE = 5.0  # seconds without progress before the daemon is pinged, and the timeout of the ping
SENDING = 60.0  # seconds for a whole line: a process that answers pings may never read anything else
CHUNK = 2**18
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


class NoDaemonError(Exception):
    """No daemon accepted and answered the line."""


class OversizedAnswerError(Exception):
    """The response is longer than the protocol allows."""


class CommandConnection:
    """A connection whose daemon, if silent for longer than `silence`, is pinged over a second one.

    So a stopped daemon costs seconds, while a slow hook costs nothing.
    """

    def __init__(
        self,
        socket: "sockets.socket",
        path: str,
        daemon_uid: "int | None",
        *,
        silence: float = SILENCE,
        sending: float = SENDING,
    ) -> None:
        self._socket = socket
        self._path = path
        self._daemon_uid = daemon_uid
        self._silence = silence
        self._sending = sending
        self._received = bytearray()

    def send(self, line: bytes) -> None:
        unsent = memoryview(line)
        deadline = time.monotonic() + self._sending
        while unsent:
            try:
                unsent = unsent[self._retry_while_alive(self._socket.send, unsent, deadline) :]
            except OSError:
                return  # the daemon hung up, perhaps after sending an error: reading the response will show it

    @property
    def has_line(self) -> bool:
        """Return whether a whole line has been received that was not taken yet."""
        return b"\n" in self._received

    def receive_line(self) -> bytes:
        received, searched = self._received, 0
        while (end := received.find(b"\n", searched)) < 0:
            searched = len(received)
            if searched > MAX_FRAME:
                raise OversizedAnswerError(f"the daemon's answer is longer than {MAX_FRAME} bytes")
            try:
                chunk = self._retry_while_alive(self._socket.recv, CHUNK)
            except OSError as error:
                raise NoDaemonError(f"broke off at {self._path} ({error.strerror or error})") from None
            if not chunk:
                raise NoDaemonError(f"hung up at {self._path} {'in mid-answer' if received else 'without an answer'}")
            received += chunk
        line = bytes(received[:end])
        del received[: end + 1]
        return line

    def _retry_while_alive(self, step: "Callable[[A], T]", argument: "A", deadline: float = inf) -> "T":
        """Repeat a call that times out for as long as the daemon answers pings, and until the deadline."""
        while True:
            remaining = deadline - time.monotonic()
            self._socket.settimeout(max(0.001, min(self._silence, remaining)))  # 0 would mean non-blocking
            try:
                return step(argument)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise NoDaemonError(f"does not read what it is sent at {self._path}") from None
                if not _is_alive(self._path, self._daemon_uid, self._silence):
                    raise NoDaemonError(f"is silent at {self._path}, even to a ping") from None


def _is_alive(path: str, daemon_uid: "int | None", timeout: float) -> bool:
    """Return whether the daemon reacts to a new connection at all: by an answer, an error or a hang-up."""
    probe = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    probe.settimeout(timeout)
    try:
        connect_socket(probe, path, daemon_uid)
    except OSError:
        probe.close()
        return False
    try:
        probe.send(_PING)
        probe.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True  # it reset the connection
    finally:
        probe.close()
    return True

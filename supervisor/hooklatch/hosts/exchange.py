"""One line to the daemon, one line back.

Knows sockets and patience; knows no event and no verdict. Whatever leaves us without a whole line is one
error, NoDaemonError, whose text says at which path and why.
"""

import time

from hooklatch.paths import AGENT_SOCKET

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    A = TypeVar("A")
    T = TypeVar("T")

__all__ = ["MAX_FRAME", "NoDaemonError", "OversizedAnswerError", "exchange"]

MAX_FRAME = 9 * 2**20  # bytes; the protocol's limit for a line
SILENCE = 5.0  # seconds without progress before the daemon is pinged, and that the ping may take
CHUNK = 2**18
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


class NoDaemonError(Exception):
    """No daemon took the line and answered it."""


class OversizedAnswerError(Exception):
    """The answer is longer than the protocol allows."""


def exchange(line: bytes, directories: "Sequence[str]", *, timeout: float, silence: float = SILENCE) -> bytes:
    """Send `line` to the first daemon that listens in `directories`; return the line that it answers.

    A daemon silent for longer than `silence` is asked for a sign of life on a connection of its own, so that
    a stopped one costs seconds and a slow hook costs nothing.

    Raises:
        NoDaemonError: nobody listens, or hung up early, or gave no sign of life, or `timeout` has passed.
        OversizedAnswerError: the answer exceeds the frame limit.
    """
    deadline = time.monotonic() + timeout
    socket, path = _connect(directories, silence)
    try:
        connection = _Connection(socket, path, deadline=deadline, silence=silence)
        connection.send(line)
        return connection.receive_line()
    finally:
        socket.close()


def _connect(directories: "Sequence[str]", timeout: float) -> "tuple[sockets.socket, str]":
    failures: list[str] = []
    for directory in directories:
        path = f"{directory.rstrip('/')}/{AGENT_SOCKET}"
        socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        socket.settimeout(timeout)
        try:
            socket.connect(path)
        except (OSError, ValueError) as error:
            socket.close()
            failures.append(f"{path} ({getattr(error, 'strerror', None) or error})")
        else:
            return socket, path
    raise NoDaemonError(f"is not reachable at {' or '.join(failures) or 'any known path'}")


class _Connection:
    def __init__(self, socket: "sockets.socket", path: str, *, deadline: float, silence: float) -> None:
        self._socket = socket
        self._path = path
        self._deadline = deadline
        self._silence = silence

    def send(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            try:
                rest = rest[self._patiently(self._socket.send, rest) :]
            except OSError:
                return  # hung up on us, perhaps after it said why: the answer tells

    def receive_line(self) -> bytes:
        received = bytearray()
        while len(received) <= MAX_FRAME:
            try:
                chunk = self._patiently(self._socket.recv, CHUNK)
            except OSError as error:
                raise NoDaemonError(f"broke off at {self._path} ({error.strerror or error})") from None
            if not chunk:
                how = "in mid-answer" if received else "without an answer"
                raise NoDaemonError(f"hung up at {self._path} {how}")
            end = chunk.find(b"\n")
            if end >= 0:
                return bytes(received + chunk[:end])
            received += chunk
        raise OversizedAnswerError(f"the daemon's answer is longer than {MAX_FRAME} bytes")

    def _patiently(self, step: "Callable[[A], T]", argument: "A") -> "T":
        while True:
            remaining = self._deadline - time.monotonic()
            self._socket.settimeout(max(0.001, min(self._silence, remaining)))  # 0 would mean not to wait at all
            try:
                return step(argument)
            except TimeoutError:
                if time.monotonic() >= self._deadline:
                    raise NoDaemonError(f"did not answer in time at {self._path}") from None
                if not _is_alive(self._path, self._silence):
                    raise NoDaemonError(f"is silent at {self._path}, even to a ping") from None


def _is_alive(path: str, timeout: float) -> bool:
    """Whether the daemon does anything at all with a new connection: an answer, an error, a hang-up."""
    probe = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    probe.settimeout(timeout)
    try:
        probe.connect(path)
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

"""The administrator's client for commands: it blocks, and imports little.

A daemon that sends nothing for 5 s is pinged over a second connection, and given up after 5 s more: a slow hook costs
nothing, and a stopped daemon costs ten seconds.
"""

import struct
import time
from math import inf

try:
    import _socket as sockets  # `socket` itself costs as much as starting the interpreter
except ImportError:
    import socket as sockets  # type: ignore[no-redef]

from hooklatch.client.protocol.admin_exchange import AdminExchange
from hooklatch.credentials import connect_socket
from hooklatch.errors import DaemonUnreachableError, explain_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from hooklatch.client.protocol.admin_exchange import AdminSteps

    A = TypeVar("A")
    T = TypeVar("T")

__all__ = ["AdminConnection", "connect_first", "open_admin"]

SILENCE = 5.0  # seconds without progress before the daemon is pinged, and the timeout of the ping
SENDING = 60.0  # seconds for a whole line: a process that answers pings may never read anything else
CHUNK = 2**18
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


class AdminConnection:
    """A connection for requests and announcements.  The owner calls `close` at the end."""

    def __init__(
        self,
        stream: "sockets.socket",
        path: str,
        daemon_uid: "int | None",
        *,
        silence: float = SILENCE,
        sending: float = SENDING,
    ) -> None:
        self.stream = stream
        self.path = path
        self._exchange = AdminExchange(path)
        self._daemon_uid = daemon_uid
        self._silence = silence
        self._sending = sending

    def greet(self, client: str) -> None:
        """Introduce this process as `client`.  The errors are those of `ask`."""
        self._run(self._exchange.greet(client))

    def ask(self, method: str, **params: object) -> "Any":
        """Return the result of `AdminExchange.ask`.

        Raises:
            DaemonUnreachableError: the daemon hung up, or is silent even to pings.
            HooklatchError: any other that `AdminExchange.ask` raises.
        """
        return self._run(self._exchange.ask(method, **params))

    def ask_encoded(self, method: str, params: bytes) -> "Any":
        """Send a request whose params are JSON already, and return its result.  The errors are those of `ask`."""
        return self._run(self._exchange.ask_encoded(method, params))

    def announcement(self) -> "Any":
        """Wait for the next announcement, and return it.  The errors are those of `ask`."""
        return self._run(self._exchange.announcement())

    @property
    def has_line(self) -> bool:
        """Return whether something was received that was not taken yet, so that `select` may never see it."""
        return self._exchange.has_line

    def fileno(self) -> int:
        """Return its descriptor, for `select`."""
        return self.stream.fileno()

    def close(self) -> None:
        self.stream.close()

    def _run(self, steps: "AdminSteps[T]") -> "T":
        try:
            line = next(steps)
            while True:
                line = steps.send(self._send(line) if line else self._receive())
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, line: bytes) -> bytes:
        unsent = memoryview(line)
        deadline = time.monotonic() + self._sending
        while unsent:
            try:
                unsent = unsent[self._retry_while_alive(self.stream.send, unsent, deadline) :]
            except DaemonUnreachableError:
                raise
            except OSError:
                break  # the daemon hung up, perhaps after sending an error: reading the response will show it
        return b""

    def _receive(self) -> bytes:
        try:
            return self._retry_while_alive(self.stream.recv, CHUNK)
        except DaemonUnreachableError:
            raise
        except OSError as error:
            raise DaemonUnreachableError(f"the daemon broke off at {self.path} ({explain_error(error)})") from None

    def _retry_while_alive(self, step: "Callable[[A], T]", argument: "A", deadline: float = inf) -> "T":
        """Repeat a call that times out for as long as the daemon answers pings, and until the deadline."""
        while True:
            remaining = deadline - time.monotonic()
            self.stream.settimeout(max(0.001, min(self._silence, remaining)))  # 0 would mean non-blocking
            try:
                return step(argument)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise DaemonUnreachableError(f"the daemon does not read what it is sent at {self.path}") from None
                if not is_alive(self.path, self._daemon_uid, self._silence):
                    raise DaemonUnreachableError(f"the daemon is silent at {self.path}, even to a ping") from None


def connect_first(folders: "Iterable[str]", name: str, open_path: "Callable[[str], T]") -> "T":
    """Return what `open_path` returns for the first socket `name` in `folders` that it can connect to.

    Raises:
        DaemonUnreachableError: there is none.
    """
    failures: list[tuple[str, OSError]] = []
    for folder in folders:
        path = f"{folder}/{name}"
        try:
            return open_path(path)
        except OSError as error:
            failures.append((path, error))
    raise DaemonUnreachableError.at(failures)


def open_admin(path: str, daemon_uid: "int | None") -> AdminConnection:
    """Connect to a socket, without a greeting.

    Raises:
        OSError: no daemon of this user, root or `daemon_uid` listens there.
    """
    stream = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        # unix(7): with a full backlog a non-blocking connect fails, a blocking one waits for this long.
        stream.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDTIMEO, struct.pack("ll", int(SILENCE), 0))
        connect_socket(stream, path, daemon_uid)
    except OSError:
        stream.close()
        raise
    return AdminConnection(stream, path, daemon_uid)


def is_alive(path: str, daemon_uid: "int | None", timeout: float) -> bool:
    """Return whether the daemon reacts to a new connection at all: by an answer, an error or a hang-up."""
    probe = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    probe.settimeout(timeout)
    try:
        connect_socket(probe, path, daemon_uid)
    except OSError:
        probe.close()
        return False
    try:
        probe.send(PING)
        probe.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True  # it reset the connection
    finally:
        probe.close()
    return True

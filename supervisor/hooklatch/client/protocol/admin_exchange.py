"""An administrator's end of the protocol, as steps: one request at a time, and announcements in between.

The command line, the dashboard and the fleet's link run these steps, each waiting in its own way (`client.admin`,
`client.trio_admin`).  A step is a line to send, or nothing: then the step waits for data, which are sent back.

    greet         ─▶ the hello, which the daemon has to accept before anything else
    ask           ─▶ a request, and its result
    announcement  ─▶ the next announcement; those that come before an answer are kept

Knows no socket, task or clock, and imports little: a command that only asks has to start fast.
"""

from __future__ import annotations

import os
from collections import deque

from hooklatch.core.light_json import is_all_unicode, is_list, is_object, parse_json, serialize_json
from hooklatch.core.text import is_unicode
from hooklatch.errors import DaemonUnreachableError, InvalidPayloadError, RequestFailedError, UnreadableAnswerError
from hooklatch.version import PROTOCOL, VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, TypeAlias, TypeVar

    T = TypeVar("T")
    AdminSteps: TypeAlias = Generator[bytes, bytes, T]

__all__ = ["MAX_FRAME", "AdminExchange", "encode_argument"]

MAX_FRAME = 9 * 2**20  # bytes; the protocol's limit for a line


class AdminExchange:
    """The requests and announcements of one connection. `path` is that of the socket, for the texts of errors."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._received = bytearray()
        self._announced: deque[object] = deque()
        self._count = 0

    @property
    def has_line(self) -> bool:
        """Return whether an announcement was kept, or a whole line was received that was not read yet."""
        return bool(self._announced) or b"\n" in self._received

    def greet(self, client: str, **params: object) -> AdminSteps[Any]:
        """Introduce this process as `client`.  The errors are those of `ask`."""
        return self.ask("hello", protocol=PROTOCOL, client={"name": client, "version": VERSION}, **params)

    def ask(self, method: str, **params: object) -> AdminSteps[Any]:
        """Send a request and return its result; params that are None are left out.

        Raises:
            InvalidPayloadError: a param is not plain finite JSON in UTF-8; nothing was sent.
            RequestFailedError: the daemon answered with an error.
            UnreadableAnswerError: it sent something that is not a message.
            DaemonUnreachableError: it hung up.
        """
        given = {key: encode_argument(value) for key, value in params.items() if value is not None}
        return self.ask_encoded(method, serialize_json(given).encode())

    def ask_encoded(self, method: str, params: bytes) -> AdminSteps[Any]:
        """Send a request whose params are JSON already, and return its result.  The errors are those of `ask`."""
        self._count += 1
        yield b'{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' % (self._count, method.encode(), params)
        while "method" in (message := (yield from self._receive())):
            self._keep(message)
        failure, number = message.get("error"), message.get("id")
        is_ours = type(number) is int and number == self._count  # True and 1.0 are equal to 1
        if not is_ours and (number is not None or failure is None):  # an error has none if its request was unreadable
            raise self._make_unreadable_error(f"an answer to request {number!r}, which was never sent")
        if failure is not None:
            raise make_request_error(failure)
        return message["result"]

    def announcement(self) -> AdminSteps[Any]:
        """Return the next announcement.  The errors are those of `ask`."""
        while not self._announced:
            self._keep((yield from self._receive()))
        return self._announced.popleft()

    def _keep(self, message: dict[str, object]) -> None:
        if message.get("method") == "announce":
            self._announced.append(message.get("params"))

    def _receive(self) -> AdminSteps[dict[str, object]]:
        received, searched = self._received, 0
        while (end := received.find(b"\n", searched)) < 0:
            if (searched := len(received)) > MAX_FRAME:
                raise self._make_unreadable_error(f"the daemon's answer is longer than {MAX_FRAME} bytes")
            data = yield b""
            if not data:
                when = "in mid-answer" if received else "without an answer"
                raise DaemonUnreachableError(f"the daemon hung up at {self.path} {when}")
            received += data
        line = bytes(received[:end])
        del received[: end + 1]
        try:
            return read_admin_message(line)
        except (ValueError, RecursionError) as error:
            raise self._make_unreadable_error(str(error)) from None

    def _make_unreadable_error(self, reason: str) -> UnreadableAnswerError:
        return UnreadableAnswerError(f"what answers at {self.path} is not a hooklatch daemon: {reason}")


def read_admin_message(line: bytes) -> dict[str, object]:
    """Return the message of a line.

    Raises:
        ValueError, RecursionError: it is not one, or parsers would read it differently.
    """
    message = parse_json(line.decode())
    if not is_object(message) or message.get("jsonrpc") != "2.0":
        raise ValueError("not a JSON-RPC message")
    if ("method" in message) + ("result" in message) + (message.get("error") is not None) != 1:
        raise ValueError("a message is a request, a result or an error")
    if (b"\\ud" in line or b"\\uD" in line) and not is_all_unicode(message):
        raise ValueError("a string holds a lone surrogate")
    return message


def make_request_error(error: object) -> RequestFailedError:
    table = error if is_object(error) else {"message": error}
    code, data = table.get("code"), table.get("data")
    name = data.get("name", "") if is_object(data) else ""
    return RequestFailedError(code if isinstance(code, int) else 0, str(name), str(table.get("message")))


def encode_argument(value: object) -> object:
    """Return a value as the protocol carries it: words and paths of the command line in UTF-8, in every locale.

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

"""The client's end of the protocol: bytes in, events out.  Does not know sockets, tasks, threads or clocks.

request(method, params) ─▶ (number, bytes to send)
receive_data(bytes)     ─▶ ResultReceived | ErrorReceived   an answer to the request of that number
                           CallRequested                    the daemon wants a served hook run: answer() or fail()
                           ReplyDue                         an answer that needs no decision: send it
                           Announced                        something changed
                           ProtocolFault                    the stream makes no sense: close it, nothing follows
receive_eof()           ─▶ ConnectionLost                   the daemon is gone: nothing follows

A shell sends what it is given, reads, and passes on what happened; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.core.protocol import (
    MAX_FRAME,
    ErrorCode,
    LineBuffer,
    Request,
    Response,
    RpcError,
    convert,
    encode_error,
    encode_request,
    encode_result,
    read_message,
)
from hooklatch.errors import InvalidPayloadError
from hooklatch_worker.author.verdicts import GarbageError, check_plain

__all__ = [
    "Announced",
    "CallRequested",
    "ClientConnection",
    "ConnectionLost",
    "ErrorReceived",
    "Incoming",
    "ProtocolFault",
    "ReplyDue",
    "ResultReceived",
    "encode_plain",
]


class ResultReceived(msgspec.Struct, frozen=True):
    """The request of this number succeeded."""

    number: int
    result: msgspec.Raw


class ErrorReceived(msgspec.Struct, frozen=True):
    """The request of this number failed; `name` is the error in one word, if the daemon gave it."""

    number: int
    code: int
    name: str
    message: str


class Announced(msgspec.Struct, frozen=True):
    """The daemon announced a change."""

    announcement: Announcement


class CallRequested(msgspec.Struct, frozen=True):
    """The daemon wants the verdict of a hook that this client serves. `number` identifies the answer."""

    number: int | str
    hook: str
    event: str
    payload: dict[str, Any]
    envelope: dict[str, Any]
    merged: dict[str, Any] | None = None
    reinvoked: bool = False
    config: dict[str, Any] | None = None


class ReplyDue(msgspec.Struct, frozen=True):
    """The daemon made a request that no client serves; these bytes answer that."""

    data: bytes


class ProtocolFault(msgspec.Struct, frozen=True):
    """The daemon sent something unintelligible; it is unknown which request that would have answered."""

    message: str


class ConnectionLost(msgspec.Struct, frozen=True):
    """The daemon hung up."""

    message: str


Incoming: TypeAlias = (
    ResultReceived | ErrorReceived | Announced | CallRequested | ReplyDue | ProtocolFault | ConnectionLost
)


class CallParams(msgspec.Struct, frozen=True):
    """The params of `call`; the call's own id is only for the daemon's records."""

    hook: str
    event: str
    payload: dict[str, Any]
    envelope: dict[str, Any] = {}
    merged: dict[str, Any] | None = None
    reinvoked: bool = False
    config: dict[str, Any] | None = None


class ClientConnection:
    """One connection, from its first request to its end."""

    def __init__(self) -> None:
        self._lines = LineBuffer()
        self._next_number = 1
        self._unanswered: set[int] = set()
        self._is_over = False

    def request(self, method: str, params: Mapping[str, object]) -> tuple[int, bytes]:
        """Return a new request's number and its bytes.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON, or all are too big for one message.
        """
        encoded = {key: encode_plain(value, key) for key, value in params.items()}
        number = self._next_number
        line = encode_request(number, method, encoded)
        if len(line) > MAX_FRAME:
            raise InvalidPayloadError(f"{method} would be a message of {len(line)} bytes; the limit is {MAX_FRAME}")
        self._next_number += 1
        self._unanswered.add(number)
        return number, line

    def answer(self, call: CallRequested, verdict: bytes) -> bytes:
        """Return the bytes that answer a call with an encoded verdict; an empty one is no opinion."""
        line = encode_result(call.number, msgspec.Raw(verdict or b"null"))
        if len(line) > MAX_FRAME:
            return self.fail(call, f"the answer of {len(line)} bytes is over the limit of {MAX_FRAME}")
        return line

    def fail(self, call: CallRequested, message: str) -> bytes:
        """Return the bytes that report a failed call."""
        safe = message.encode("utf-8", "replace").decode()  # an exception's text may contain a lone surrogate
        return encode_error(call.number, RpcError(ErrorCode.INTERNAL_ERROR, safe))

    def receive_data(self, data: bytes) -> list[Incoming]:
        """Take what the daemon sent; ignore what follows a fault."""
        incoming: list[Incoming] = []
        if self._is_over:
            return incoming
        self._lines.feed(data)
        try:
            while (line := self._lines.take()) is not None:
                incoming += self._read(line)
        except RpcError as error:
            self._is_over = True
            incoming.append(ProtocolFault(str(error)))
        return incoming

    def receive_eof(self) -> list[Incoming]:
        """Take the end of the daemon's stream; half a line is ignored."""
        if self._is_over:
            return []
        self._is_over = True
        return [ConnectionLost("the daemon hung up" + ("" if self._lines.is_empty else " in the middle of a message"))]

    def _read(self, line: bytes) -> Sequence[Incoming]:
        message = read_message(line)
        if isinstance(message, Response):
            return (self._read_response(message),)
        if message.method == "announce":
            return (Announced(convert(message.params, Announcement)),)
        if message.is_notification:
            return ()  # a newer daemon may announce more than we know
        return (read_call(message),)

    def _read_response(self, response: Response) -> Incoming:
        number = response.id
        error = response.error or {}
        if not isinstance(number, int) or number not in self._unanswered:
            said = f": {error['message']}" if "message" in error else ""
            raise RpcError(ErrorCode.INVALID_REQUEST, f"an answer to request {number!r}, which was never sent{said}")
        self._unanswered.discard(number)
        if response.result is not None:
            return ResultReceived(number, response.result)
        return read_error(number, error)


def read_call(message: Request) -> CallRequested | ReplyDue:
    number = message.id
    if not isinstance(number, (int, str)):
        raise RpcError(ErrorCode.INVALID_REQUEST, "a request whose id is null can have no answer")
    try:
        if message.method != "call":
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"no client serves {message.method!r}")
        call = convert(message.params, CallParams)
    except RpcError as error:
        return ReplyDue(encode_error(number, error))
    return CallRequested(
        number, call.hook, call.event, call.payload, call.envelope, call.merged, call.reinvoked, call.config
    )


def read_error(number: int, error: dict[str, Any]) -> ErrorReceived:
    code, data = error.get("code"), error.get("data")
    name = cast("dict[str, object]", data).get("name") if isinstance(data, dict) else None
    return ErrorReceived(
        number,
        code if isinstance(code, int) else 0,
        name if isinstance(name, str) else "",
        str(error.get("message", "it gave no reason")),
    )


def encode_plain(value: object, where: str) -> msgspec.Raw:
    """Return a value as JSON that every reader reads alike; `where` names it in the error. Raw JSON stays as it is.

    Raises:
        InvalidPayloadError: it holds NaN, an infinity, a lone surrogate, a key that is not a str, or an object.
    """
    if isinstance(value, msgspec.Raw):
        return value
    try:
        check_plain(value, where)
        return msgspec.Raw(msgspec.json.encode(value))
    except GarbageError as error:
        raise InvalidPayloadError(str(error)) from None
    except UnicodeEncodeError:
        raise InvalidPayloadError(f"{where} contains a lone surrogate, which UTF-8 cannot encode") from None
    except RecursionError:
        raise InvalidPayloadError(f"{where} is nested too deep, or holds itself") from None
    # ValueError, OverflowError: an int with too many digits to be written.
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidPayloadError(f"{where} cannot be written as JSON: {error}") from None

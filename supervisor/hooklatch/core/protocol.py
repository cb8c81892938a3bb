"""JSON-RPC 2.0 over newline-delimited JSON, for both ends of a socket.

Knows bytes, requests and errors; does not know sockets.

LineBuffer.feed(bytes) ─▶ take() ─▶ one line ─▶ read_message() ─▶ Request | Response     bad line ─▶ RpcError
encode_request / encode_result / encode_error / encode_notification ─▶ one line
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from hooklatch_worker.author.failures import clip_error_text

__all__ = [
    "MAX_FRAME", "MAX_IN_FLIGHT", "ErrorCode", "LineBuffer", "LineTooLongError", "Request", "Response",
    "RpcError", "convert_params", "encode_error", "encode_notification", "encode_request", "encode_result",
    "read_ends", "read_message",
]  # fmt: skip

T = TypeVar("T")
MAX_FRAME = 9 * 2**20  # bytes in one line: a payload of 8 MiB plus its envelope
MAX_IN_FLIGHT = 64  # unanswered requests per connection


class ErrorCode(IntEnum):
    """Codes of the `error` member; those up to -32600 are defined by JSON-RPC, the others by this protocol."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    NOT_ADMIN = -32001
    UNKNOWN_EVENT = -32002
    HELLO_REQUIRED = -32003
    SESSION_IN_USE = -32004
    FRAME_TOO_LARGE = -32005
    DRAINING = -32006
    NOT_FOUND = -32007
    LOAD_FAILED = -32008
    OVERLOAD = -32009
    NOT_PERMITTED = -32010

    @property
    def label(self) -> str:
        return self.name.lower()


class RpcError(Exception):
    """An error response: what went wrong and how to fix it; `request_id` if it could be read from the bad line."""

    def __init__(self, code: ErrorCode, message: str, *, request_id: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id


class LineTooLongError(RpcError):
    """A line over the limit.  Framing is lost, so the connection has to end."""


class Request(msgspec.Struct, frozen=True):
    """A request, or a notification if `id` is unset."""

    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def is_notification(self) -> bool:
        return self.id is msgspec.UNSET


class Response(msgspec.Struct, frozen=True):
    """A response: either `result` or `error`."""

    id: int | str | None
    result: msgspec.Raw | None = None
    error: dict[str, Any] | None = None


class MessageLine(msgspec.Struct, frozen=True):
    """The union of a request and a response, which `method` tells apart."""

    jsonrpc: str = ""
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


MESSAGES = msgspec.json.Decoder(MessageLine)
to_lines = msgspec.json.Encoder().encode_lines
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
ENDS = 2048  # bytes at each end of a line that is not kept
SCALAR = rb'("(?:[^"\\]|\\.)*"|-?\d+|null)'
FIRST_MEMBER = re.compile(rb'\s*[{,]\s*"(\w+)"\s*:\s*(?:' + SCALAR + rb"(?=\s*[,}]))?")
LAST_MEMBER = re.compile(rb',\s*"(\w+)"\s*:\s*' + SCALAR + rb"\s*\}\s*$")
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError)


class LineBuffer:
    """Splits a byte stream into lines of at most `limit` bytes."""

    __slots__ = ("_begin", "_end", "_limit", "_received", "_size", "_started", "has_line", "is_empty", "is_skipping")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._started: list[bytes] = []  # parts of a line that has not ended; joined once, since joining each is square
        self._size = 0  # bytes in `_started`
        self._received = b""  # the data in which the next line ends; that line continues there at `_begin`
        self._begin = 0
        self._end = -1  # where the newline of the next line is, if that has arrived
        self._limit = limit
        self.has_line = False  # whether `take` would return a line or raise
        self.is_empty = True
        self.is_skipping = False  # whether only the ends of the line that has begun are kept

    def __len__(self) -> int:
        """Return the number of bytes in the buffer."""
        return self._size + len(self._received)

    def feed(self, data: bytes) -> None:
        if self._end >= 0:
            self._received += data
        elif (end := data.find(b"\n")) >= 0:
            self._received, self._begin, self._end, self.has_line, self.is_empty = data, 0, end, True, False
        elif data:
            self.is_empty = False
            self._started.append(data)
            self._size += len(data)
            self.has_line = self._size > self._limit
            if self.is_skipping:
                self._started[1:] = [b"".join(self._started[1:])[-ENDS:]]

    def skip(self) -> None:
        """Keep only the two ends of the line that has begun, which `take` will return."""
        begun = b"".join(self._started)
        self._started = [begun[:ENDS], begun[ENDS:][-ENDS:]]
        self.is_skipping = True

    def clear(self) -> bytes:
        """Empty the buffer, and return the line that has begun, as far as it was kept."""
        begun = b"".join(self._started)
        self.__init__(self._limit)  # type: ignore[misc]
        return begun

    def take(self) -> bytes | None:
        """Return the next complete line without its newline, or None.

        Raises:
            LineTooLongError: the line exceeds the limit, whether or not it is complete.
        """
        received, begin, end = self._received, self._begin, self._end
        if (self._size if end < 0 else self._size + end - begin) > self._limit:
            raise LineTooLongError(
                ErrorCode.FRAME_TOO_LARGE,
                f"a line is over the limit of {self._limit} bytes; fire what does not fit with truncated: true",
            )
        if end < 0:
            return None
        line = received[begin:end]
        if self._started:
            line = b"".join((*self._started, line if not self.is_skipping else line[-ENDS:]))
            self._started, self._size, self.is_skipping = [], 0, False
        self._begin = begin = end + 1
        self.is_empty = begin == len(received)  # nearly always
        self._end = -1 if self.is_empty else received.find(b"\n", begin)
        if self._end < 0:
            self._received, self.has_line = b"", False
            if not self.is_empty:
                self._started.append(received[begin:])
                self._size = len(received) - begin
                self.has_line = self._size > self._limit
        return line


def read_message(line: bytes) -> Request | Response:
    """Parse one line.

    Raises:
        RpcError: the line is not JSON, or not a JSON-RPC 2.0 message; the text names the problem.
    """
    try:
        if not line.isascii():
            line.decode()  # msgspec does not check the encoding of strings that it skips
        message = MESSAGES.decode(line)
    except msgspec.ValidationError as error:
        if line.lstrip().startswith(b"["):
            raise RpcError(ErrorCode.INVALID_REQUEST, "batches are not supported; send one object a line") from None
        raise RpcError(ErrorCode.INVALID_REQUEST, f"not a request: {error}", request_id=find_id(line)) from None
    except RecursionError:
        raise RpcError(ErrorCode.PARSE_ERROR, "the JSON is nested too deep") from None
    except DECODE_ERRORS as error:
        problem = f"not JSON: {describe_json_problem(error, line)}"
        raise RpcError(ErrorCode.PARSE_ERROR, problem, request_id=find_id(line)) from None
    if message.jsonrpc != "2.0":
        number = None if message.id is msgspec.UNSET else message.id
        raise RpcError(ErrorCode.INVALID_REQUEST, 'a message needs "jsonrpc": "2.0"', request_id=number)
    kinds = message.method is not msgspec.UNSET, message.result is not msgspec.UNSET, isinstance(message.error, dict)
    if sum(kinds) > 1:
        raise RpcError(ErrorCode.INVALID_REQUEST, "a message is a request, a result or an error, and not two of them")
    if message.method is not msgspec.UNSET:
        return Request(message.method, message.params, message.id)
    if message.id is msgspec.UNSET:
        raise RpcError(ErrorCode.INVALID_REQUEST, "a message needs a method, or an id with a result or an error")
    if isinstance(message.error, dict):  # some libraries also send `"error": null` with a result
        return Response(message.id, error=message.error)
    if message.result is not msgspec.UNSET:
        return Response(message.id, result=message.result)
    raise RpcError(ErrorCode.INVALID_REQUEST, "a response needs a result or an error")


def describe_json_problem(error: BaseException, data: bytes | msgspec.Raw) -> str:
    """Return what is wrong with some JSON, naming lone surrogates."""
    text = str(error)
    # msgspec reports "\\ud800" just before the end of a string as truncated input.
    if ("surrogate" in text or "truncated" in text) and SURROGATE.search(data):
        return f"a string holds a lone surrogate ({text})"
    return text


def find_id(line: bytes) -> int | str | None:
    """Return the id of a request that is almost JSON (NaN, a lone surrogate), so that its sender gets the error."""
    try:
        document = json.loads(line)
        number = cast("dict[str, object]", document).get("id") if isinstance(document, dict) else None
        if isinstance(number, str):
            number.encode()  # the error response must be encodable
    except (ValueError, RecursionError, MemoryError):
        return None
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None


def read_ends(line: bytes) -> tuple[int | str | None, bool]:
    """Return the id of a line of which only the ends were kept (None if it is missing), and whether it is a response.

    Members are read from both ends inwards, up to the first whose value is neither a string, a number nor null.
    """
    members: dict[bytes, bytes | None] = {}
    position = 0
    while (member := FIRST_MEMBER.match(line, position)) is not None:
        key, value = member.groups()
        members.setdefault(key, value)
        if value is None:
            break
        position = member.end()
    while (member := LAST_MEMBER.search(line, max(len(line) - ENDS, 0))) is not None:
        key, value = member.groups()
        members.setdefault(key, value)
        line = line[: member.start()] + b"}"
    try:
        number = msgspec.json.decode(members.get(b"id") or b"null", type=int | str | None)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        number = None
    return number, b"method" not in members and (b"result" in members or b"error" in members)


def convert_params(params: msgspec.Raw, shape: type[T]) -> T:
    """Decode params into a struct.

    Raises:
        RpcError: the params do not fit; the text names the field.
    """
    try:
        return cast("T", make_decoder(cast("Hashable", shape)).decode(params))
    except RecursionError:
        raise RpcError(ErrorCode.INVALID_PARAMS, "params are nested too deep") from None
    except DECODE_ERRORS as error:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"bad params: {describe_json_problem(error, params)}") from None


@cache
def make_decoder(shape: Hashable) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(cast("type[object]", shape))


def encode_request(number: int, method: str, params: object) -> bytes:
    return to_lines([{"jsonrpc": "2.0", "id": number, "method": method, "params": params}])


def encode_notification(method: str, params: object) -> bytes:
    return to_lines([{"jsonrpc": "2.0", "method": method, "params": params}])


def encode_result(number: object, result: object) -> bytes:
    return to_lines([{"jsonrpc": "2.0", "id": number, "result": result}])


def encode_error(number: object, error: RpcError) -> bytes:
    body = {"code": int(error.code), "message": clip_error_text(error.message), "data": {"name": error.code.label}}
    return to_lines([{"jsonrpc": "2.0", "id": number, "error": body}])

"""JSON-RPC 2.0 over lines, as both ends of a socket see it.  Knows bytes, requests and errors; knows no socket.

LineBuffer.feed(bytes) ─▶ take() ─▶ one line ─▶ read_message() ─▶ Request | Response     bad line ─▶ RpcError
encode_request / encode_result / encode_error / encode_notification ─▶ one line
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import Any, TypeVar, cast

import msgspec

from hooklatch_worker.author.failures import clipped

__all__ = [
    "MAX_FRAME",
    "MAX_IN_FLIGHT",
    "PROTOCOL",
    "ErrorCode",
    "LineBuffer",
    "LineTooLongError",
    "Request",
    "Response",
    "RpcError",
    "convert",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "read_message",
]

T = TypeVar("T")
PROTOCOL = 1
MAX_FRAME = 9 * 2**20  # bytes of one line: a payload of 8 MiB and an envelope beside it
MAX_IN_FLIGHT = 64  # requests of one connection that may be unanswered


class ErrorCode(IntEnum):
    """The codes of the `error` member; those up to -32600 are JSON-RPC's own, the others ours."""

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
    """An answer that is an error: what is wrong and what to do about it; `request_id` if a bad line has one."""

    def __init__(self, code: ErrorCode, message: str, *, request_id: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.request_id = request_id


class LineTooLongError(RpcError):
    """A line without end in sight; the stream cannot be brought back in step."""


class Request(msgspec.Struct, frozen=True):
    """A request, or a notification where `id` is unset."""

    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def is_notification(self) -> bool:
        return self.id is msgspec.UNSET


class Response(msgspec.Struct, frozen=True):
    """An answer: `result` or `error`."""

    id: int | str | None
    result: msgspec.Raw | None = None
    error: dict[str, Any] | None = None


class Message(msgspec.Struct, frozen=True):
    """Any line; which of the two it is shows by `method`."""

    jsonrpc: str = ""
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


MESSAGES = msgspec.json.Decoder(Message)
ENCODER = msgspec.json.Encoder()
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError)


class LineBuffer:
    """Cuts a stream of bytes into lines, none longer than `limit`."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._searched = 0

    @property
    def is_empty(self) -> bool:
        return not self._buffer

    @property
    def has_line(self) -> bool:
        """Return whether there is something to take: a line, or one that is too long."""
        return len(self._buffer) > self._limit or self._buffer.find(b"\n", self._searched) >= 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> bytes | None:
        """Return the next whole line without its end, or None.

        Raises:
            LineTooLongError: a line is over the limit, ended or not.
        """
        buffer = self._buffer
        end = buffer.find(b"\n", self._searched)
        if (len(buffer) if end < 0 else end) > self._limit:
            raise LineTooLongError(
                ErrorCode.FRAME_TOO_LARGE,
                f"a line is over the limit of {self._limit} bytes; fire what does not fit with truncated: true",
            )
        if end < 0:
            self._searched = len(buffer)
            return None
        self._searched = 0
        line = bytes(memoryview(buffer)[:end])
        del buffer[: end + 1]
        return line

    def take_rest(self) -> bytes:
        """Return what follows the last line's end: at end of input it is a last line."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest


def read_message(line: bytes) -> Request | Response:
    """Read one line.

    Raises:
        RpcError: it is no JSON, or no message of JSON-RPC 2.0; the text names the problem.
    """
    try:
        if not line.isascii():
            line.decode()  # msgspec passes over strings that it does not keep
        message = MESSAGES.decode(line)
    except msgspec.ValidationError as error:
        if line.lstrip().startswith(b"["):
            raise RpcError(ErrorCode.INVALID_REQUEST, "batches are not supported; send one object a line") from None
        raise RpcError(ErrorCode.INVALID_REQUEST, f"no request: {error}", request_id=find_id(line)) from None
    except RecursionError:
        raise RpcError(ErrorCode.PARSE_ERROR, "the JSON is nested too deep") from None
    except DECODE_ERRORS as error:
        raise RpcError(ErrorCode.PARSE_ERROR, f"no JSON: {problem_of(error, line)}", request_id=find_id(line)) from None
    if message.jsonrpc != "2.0":
        number = None if message.id is msgspec.UNSET else message.id
        raise RpcError(ErrorCode.INVALID_REQUEST, 'a message needs "jsonrpc": "2.0"', request_id=number)
    if message.method is not msgspec.UNSET:
        return Request(message.method, message.params, message.id)
    if message.id is msgspec.UNSET:
        raise RpcError(ErrorCode.INVALID_REQUEST, "a message needs a method, or an id with a result or an error")
    if isinstance(message.error, dict):  # some libraries write a null beside the result
        return Response(message.id, error=message.error)
    if message.result is not msgspec.UNSET:
        return Response(message.id, result=message.result)
    raise RpcError(ErrorCode.INVALID_REQUEST, "an answer needs a result or an error")


def problem_of(error: BaseException, data: bytes | msgspec.Raw) -> str:
    """Return what is wrong with JSON in words that name it."""
    text = str(error)
    # msgspec calls "\\ud800" before the end of a string truncated input.
    if ("surrogate" in text or "truncated" in text) and SURROGATE.search(data):
        return f"a string holds a lone surrogate ({text})"
    return text


def find_id(line: bytes) -> int | str | None:
    """Find the id of a request that is nearly JSON (NaN, half a surrogate pair), so that its sender hears the error."""
    try:
        document = json.loads(line)
        number = cast("dict[str, object]", document).get("id") if isinstance(document, dict) else None
        if isinstance(number, str):
            number.encode()  # it must be possible to send it back
    except (ValueError, RecursionError, MemoryError):
        return None
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None


def convert(params: msgspec.Raw, shape: type[T]) -> T:
    """Read params into a struct.

    Raises:
        RpcError: they have another shape; the text names the field.
    """
    try:
        return msgspec.json.decode(params, type=shape)
    except RecursionError:
        raise RpcError(ErrorCode.INVALID_PARAMS, "params are nested too deep") from None
    except DECODE_ERRORS as error:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"bad params: {problem_of(error, params)}") from None


def encode_request(number: int, method: str, params: object) -> bytes:
    return ENCODER.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n"


def encode_notification(method: str, params: object) -> bytes:
    return ENCODER.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def encode_result(number: object, result: object) -> bytes:
    return ENCODER.encode({"jsonrpc": "2.0", "id": number, "result": result}) + b"\n"


def encode_error(number: object, error: RpcError) -> bytes:
    body = {"code": int(error.code), "message": clipped(error.message), "data": {"name": error.code.label}}
    return ENCODER.encode({"jsonrpc": "2.0", "id": number, "error": body}) + b"\n"

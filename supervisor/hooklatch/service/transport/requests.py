"""The parser of lines: from a line to a request.

Nearly every line is a fire, so it is read as a fire first: one typed decode for method and params, and one scan that
all parsers would agree on it.  A line that fails is read as any other method is, with its params left for later
(`core/protocol.py`), and that code words the error.

A forwarder copies a host's document into its line as the last of the params.  The document is taken out as it came:

    {"jsonrpc":"2.0","id":1,"method":"host","params":{"host":…,"event":…,"environ":…,"budget":…,"document": ⟨bytes⟩ }}

So the daemon reads the document alone.  Bytes that close the object early would make a JSON parser find another event.
Here they make a document that is not JSON, and is refused.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from hooklatch.core.fire_params import FireParams, HostParams, WaitBudget
from hooklatch.core.limits import Name, Path
from hooklatch.core.protocol import ErrorCode, Request, Response, RpcError, convert_params, read_message
from hooklatch_worker.author.ambiguity import decode_checked, find_ambiguity

__all__ = ["FireRequest", "HostRequest", "IncomingRequest", "read_host_params", "read_line"]


class FireRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fire whose params are valid, and that all parsers read alike."""

    method: Literal["fire"]
    params: FireParams
    jsonrpc: Literal["2.0"]
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET


class HostRequest(msgspec.Struct, frozen=True):
    """An event of a host from a forwarder, with the document as it came, which may be anything."""

    id: int
    params: HostParams
    method: Literal["host"] = "host"


class ForwardedParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The params before the document: all that a forwarder writes, so that none can be behind it."""

    host: Name
    event: Name
    environ: dict[Name, Path]
    budget: WaitBudget


class ForwardedHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A forwarder's line without the document."""

    jsonrpc: Literal["2.0"]
    id: int
    method: Literal["host"]
    params: ForwardedParams


IncomingRequest: TypeAlias = FireRequest | HostRequest | Request

FIRES = msgspec.json.Decoder(FireRequest)
FORWARDED = msgspec.json.Decoder(ForwardedHead)
FORWARDED_HEAD = b'{"jsonrpc":"2.0","id":1,"method":"host","params":{'
DOCUMENT = b',"document":'  # in a string the quotation marks would be escaped
ENDS = b"}}"
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError)


def read_line(line: bytes) -> IncomingRequest | Response:
    """Parse one line.

    Raises:
        RpcError: the line is not JSON, or not a JSON-RPC 2.0 message. The text names the problem.
    """
    if line.startswith(FORWARDED_HEAD):
        if (request := read_forwarded_line(line)) is not None:
            return request
        message = read_message(line)
        if (fault := find_ambiguity(line)) is not None:  # a document may close the object early, and name a key again
            raise RpcError(ErrorCode.INVALID_REQUEST, f"not a request: {fault}", request_id=1)
        return message
    try:
        fire = FIRES.decode(line)
    except UNDECODABLE:
        return read_message(line)
    return fire if decode_checked(line)[1] is None else read_message(line)


def read_forwarded_line(line: bytes) -> HostRequest | None:
    """Return the request that a forwarder wrote; None if another client wrote the line."""
    begin, end = line.find(DOCUMENT), len(line) - len(ENDS)
    head = line[:begin] + ENDS
    if begin < 0 or begin + len(DOCUMENT) > end or line[end:] != ENDS or decode_checked(head)[1] is not None:
        return None
    try:
        forwarded = FORWARDED.decode(head)
    except UNDECODABLE:
        return None
    params, document = forwarded.params, msgspec.Raw(line[begin + len(DOCUMENT) : end])
    return HostRequest(forwarded.id, HostParams(params.host, document, params.event, params.environ, params.budget))


def read_host_params(params: msgspec.Raw) -> HostParams:
    """Return the params of a `host` that no forwarder sent, in which the document may be a text that holds it.

    Raises:
        RpcError: the params do not fit, or parsers may read them differently.
    """
    if (fault := find_ambiguity(bytes(params))) is not None:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"bad params: {fault}")
    event = convert_params(params, HostParams)
    if bytes(event.document).startswith(b'"'):
        text = msgspec.json.decode(event.document, type=str)
        event = msgspec.structs.replace(event, document=msgspec.Raw(text.encode()))
    return event

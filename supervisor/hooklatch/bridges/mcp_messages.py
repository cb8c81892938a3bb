"""MCP's messages, as far as a proxy that guards tools has to know them: JSON-RPC, one message a line.

Pure: knows texts and objects; knows no stream and no guard.  What a client sends is read strictly and written anew,
since a server may read the same bytes in another way: it may keep the first of two equal keys, or end a line at a
carriage return, and so be called with something that no guard saw.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias, cast

import msgspec

__all__ = [
    "CallRequest", "Id", "Message", "UnreadableMessageError", "find_cancelled_id", "read_call", "encode_message",
    "make_error_message", "is_call", "read_strictly", "make_refused_result", "read_result", "replace_arguments",
]  # fmt: skip

Id: TypeAlias = "str | int"
Message: TypeAlias = "dict[str, Any]"

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
CLAUDE_ID: Final = "claudecode/toolUseId"  # in `_meta`: the model's own id of the call


class UnreadableMessageError(ValueError):
    """A line that is not a message, or that parsers read differently; `code` is JSON-RPC's."""

    def __init__(self, text: str, code: int = PARSE_ERROR) -> None:
        super().__init__(text)
        self.code = code


class CallRequest(msgspec.Struct, frozen=True):
    """A request to call a tool; `name` is the server's own name for it, `server` is "" where the server has no name."""

    id: Id
    server: str
    name: str
    arguments: dict[str, Any]
    tool_use_id: str

    @property
    def tool(self) -> str:
        """Return the tool's name as hooks see it: `mcp__SERVER__TOOL` if the server has a name."""
        return f"mcp__{self.server}__{self.name}" if self.server else self.name

    @property
    def kind(self) -> dict[str, Any]:
        """Return the kind of the tool and its canonical arguments."""
        tool_args = {"server": self.server, "tool": self.name, "arguments": self.arguments}
        return {"tool_kind": "mcp", "tool_args": tool_args}


def read_strictly(line: bytes) -> Message:
    """Return the one message of a line.

    Raises:
        UnreadableMessageError: it is not JSON, has a key twice or a number that JSON does not allow, or is not an
            object, as a batch, which no client needs any more.
    """
    try:
        value: object = json.loads(
            line.decode(), object_pairs_hook=refuse_repeated_keys, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError) as problem:
        raise UnreadableMessageError(f"not a message: {problem}") from None
    if not isinstance(value, dict):
        raise UnreadableMessageError("a message is one JSON object; batches are not accepted", INVALID_REQUEST)
    return cast("Message", value)


def refuse_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def encode_message(message: Message) -> bytes:
    """Return a message as a line; all but ASCII is escaped, so that no reader can find another line's end."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def is_call(message: Message) -> bool:
    """Return whether it asks for a tool to be called."""
    return message.get("method") == "tools/call"


def read_call(message: Message, server: str | None) -> CallRequest:
    """Return what is called.

    Raises:
        UnreadableMessageError: it has no usable id, name or arguments.
    """
    identity = message.get("id")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise UnreadableMessageError("a call of a tool needs an id, a text or a whole number", INVALID_REQUEST)
    params = message.get("params")
    if not isinstance(params, dict):
        raise UnreadableMessageError("a call of a tool needs params", INVALID_PARAMS)
    fields = cast("dict[str, Any]", params)
    name, arguments = fields.get("name"), fields.get("arguments")
    if not isinstance(name, str) or not name:
        raise UnreadableMessageError("a call of a tool needs its name", INVALID_PARAMS)
    if arguments is not None and not isinstance(arguments, dict):
        raise UnreadableMessageError("the arguments of a tool are an object", INVALID_PARAMS)
    meta = fields.get("_meta")
    claude_id = cast("dict[str, Any]", meta).get(CLAUDE_ID) if isinstance(meta, dict) else None
    tool_use_id = claude_id if isinstance(claude_id, str) and claude_id else f"mcp-{identity}"
    return CallRequest(identity, server or "", name, cast("dict[str, Any]", arguments or {}), tool_use_id)


def replace_arguments(message: Message, arguments: dict[str, Any]) -> Message:
    """Return the call with other arguments."""
    return {**message, "params": {**message["params"], "arguments": arguments}}


def make_refused_result(identity: Id, text: str) -> Message:
    """Return the answer to a call that was refused: a result that is an error, which clients show to the model."""
    content = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": identity, "result": {"content": content, "isError": True}}


def make_error_message(message: object, problem: UnreadableMessageError) -> Message:
    """Return the answer to a message that is not passed on."""
    identity = cast("Message", message).get("id") if isinstance(message, dict) else None
    usable = identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None
    return {"jsonrpc": "2.0", "id": usable, "error": {"code": problem.code, "message": f"hooklatch: {problem}"}}


def find_cancelled_id(message: Message) -> Id | None:
    """Return which request a notification cancels, if it is one that does."""
    params = message.get("params")
    if message.get("method") != "notifications/cancelled" or not isinstance(params, dict):
        return None
    identity = cast("dict[str, Any]", params).get("requestId")
    return identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None


def read_result(answer: Message) -> tuple[bool, object]:
    """Return whether a call has failed, and its result or its error."""
    if (failure := answer.get("error")) is not None:
        return True, failure
    has_failed = isinstance(answer.get("result"), dict) and answer["result"].get("isError") is True
    return has_failed, answer.get("result")

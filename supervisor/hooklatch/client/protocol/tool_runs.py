"""The result of a tool call, and the question to the host on the way.  Knows the Messages API's block; runs nothing."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hooklatch.client.protocol.decisions import Decision, RefusedError
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.client.protocol.served import describe_exception
from hooklatch.errors import InvalidPayloadError

__all__ = ["PermissionQuestion", "ToolRun", "append_text", "make_plain_result", "print_value_as_text"]


class PermissionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question to a host's own dialog: may this tool run with this input?

    `decision` is the one that left it open: an ask, whose `reason` says why, or a pass.
    """

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str | None
    decision: Decision

    @property
    def reason(self) -> str | None:
        """Return why a hook asks; None if none did."""
        return self.decision.reason


class ToolRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one tool call.

    allowed: the tool was called; with `tool_input`, as hooks may have changed it.
    decision: the one that settled whether it may; see `Decision.cause` for why not.
    result: what the tool returned; if that is text, with what hooks appended.
    error: what the tool raised.
    append: what hooks want added to the result, which `as_tool_result` does.
    inject: messages that hooks want put into the conversation.
    halt: a hook, or the session's `denial_breaker`, wants the run to end; `halt_reason` says why.
    context: the free map that is passed from hook to hook, as they left it.
    decisions: all that were made on the way, in order.
    """

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str | None
    decision: Decision
    allowed: bool
    result: Any = None
    error: Exception | None = None
    append: str | None = None
    inject: list[dict[str, Any]] = []
    halt: bool = False
    halt_reason: str | None = None
    context: dict[str, Any] | None = None
    decisions: list[Decision] = []

    @property
    def is_error(self) -> bool:
        """Return whether the tool was refused, or failed."""
        return not self.allowed or self.error is not None

    def unwrap(self) -> Any:
        """Return the result.

        Raises:
            RefusedError: the tool was refused.
            Exception: the exception that the tool itself raised.
        """
        if not self.allowed:
            raise RefusedError(self.decision)
        if self.error is not None:
            raise self.error
        return self.result

    def as_tool_result(self, tool_use_id: str | None = None) -> dict[str, Any]:
        """Return the block that answers the call in the Messages API, also after a refusal or a failure.

        Text stays text, and a list of content blocks stays one; anything else becomes its JSON, else its `str`.

        Raises:
            ValueError: the call's id was given neither here nor to `run_tool`.
        """
        known = tool_use_id or self.tool_use_id
        if known is None:
            raise ValueError("the block needs the tool_use_id of the call; give it here or to run_tool")
        block = {"type": "tool_result", "tool_use_id": known, "content": self.content}
        return {**block, "is_error": True} if self.is_error else block

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """Return the content for the model: the reason of a refusal, the error of a failure, otherwise the result."""
        if not self.allowed:
            return self.decision.reason or self.decision.explanation
        if self.error is not None:
            return append_text(print_value_as_text(self.error), self.append)
        if isinstance(self.result, str):
            return self.result
        if is_blocks(self.result):
            return [*self.result, *([{"type": "text", "text": self.append}] if self.append else [])]
        return append_text("" if self.result is None else format_tool_result(self.result), self.append)


def append_text(text: str, append: str | None) -> str:
    """Append what hooks add to a result, after a blank line."""
    return "\n\n".join(part for part in (text, append) if part)


def make_plain_result(value: object) -> object:
    """Return a tool's result as hooks get it: unchanged if it is plain JSON, else as text."""
    try:
        encode_plain(value, "the result")
    except InvalidPayloadError:
        return print_value_as_text(value)
    return value


def format_tool_result(value: object) -> str:
    try:
        return bytes(encode_plain(value, "the result")).decode()
    except InvalidPayloadError:
        return print_value_as_text(value)


def print_value_as_text(value: object) -> str:
    """Return any value as text that can be sent; an exception with its type's name."""
    try:
        text = describe_exception(value) if isinstance(value, BaseException) else str(value)
    except Exception:
        text = type(value).__name__
    return text.encode("utf-8", "replace").decode()  # it may contain a lone surrogate


def is_blocks(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    parts = cast("list[object]", value)
    return all(isinstance(part, dict) and "type" in part for part in parts)

"""The Messages API of Anthropic, streamed or not, as far as a command line program needs it."""

from __future__ import annotations

import json
from typing import Any

from real_hosts.model.conversation import Conversation, Reply, play_in, turns_of

__all__ = ["read", "render"]


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation that a request carries."""
    texts: list[str] = []
    ids: list[str] = []
    told: dict[str, str] = {}
    for message in body["messages"]:
        for block in _blocks(message["content"]):
            match block["type"]:
                case "text" if message["role"] == "user":
                    texts.append(block["text"])
                case "tool_use":
                    ids.append(block["id"])
                case "tool_result":
                    told[block["tool_use_id"]] = _text(block.get("content", ""))
                case _:
                    pass
    return Conversation(play_in(texts), turns_of(ids), bool(body.get("tools")), told)


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: str | list[dict[str, Any]]) -> str:
    return "\n".join(block.get("text", "") for block in _blocks(content))


def render(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    """Return the content type and the body of an answer."""
    blocks = [{"type": "tool_use", "id": name, "name": call.tool, "input": call.input} for name, call in reply.calls]
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": blocks,
        "stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }  # fmt: skip
    if not body.get("stream"):
        return "application/json", json.dumps(message).encode()
    return "text/event-stream", b"".join(_line(event) for event in _events(message))


def _line(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _events(message: dict[str, Any]) -> list[dict[str, Any]]:
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for number, block in enumerate(message["content"]):
        is_call = block["type"] == "tool_use"
        empty = {**block, "input": {}} if is_call else {"type": "text", "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if is_call
            else {"type": "text_delta", "text": block["text"]}
        )
        events += [
            {"type": "content_block_start", "index": number, "content_block": empty},
            {"type": "content_block_delta", "index": number, "delta": delta},
            {"type": "content_block_stop", "index": number},
        ]
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": ending, "usage": message["usage"]}, {"type": "message_stop"}]

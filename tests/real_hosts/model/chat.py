"""The chat completions of OpenAI, streamed or not, as many programs speak them."""

from __future__ import annotations

import json
from typing import Any

from real_hosts.model.conversation import Conversation, Reply, play_in, turns_of

__all__ = ["read", "render"]


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation that a request carries."""
    texts = [_text(message["content"]) for message in body["messages"] if message["role"] == "user"]
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    told = {
        message["tool_call_id"]: _text(message["content"]) for message in body["messages"] if message["role"] == "tool"
    }
    return Conversation(play_in(texts), turns_of(ids), bool(body.get("tools")), told)


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or ())


def render(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    """Return the content type and the body of an answer."""
    calls = [
        {
            "index": number, "id": name, "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.input)},
        }
        for number, (name, call) in enumerate(reply.calls)
    ]  # fmt: skip
    said: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if calls:
        said["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    head = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": reason}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(whole).encode()
    head["object"] = "chat.completion.chunk"
    chunks = [
        {**head, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**head, "choices": [], "usage": usage},
    ]
    lines = [*(json.dumps(chunk) for chunk in chunks), "[DONE]"]
    return "text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode()

"""The Responses API of OpenAI, streamed, as far as Codex needs it."""

from __future__ import annotations

import json
from typing import Any

from real_hosts.model.conversation import Call, Conversation, Reply, play_in, turns_of

__all__ = ["read", "render"]


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation that a request carries."""
    texts: list[str] = []
    ids: list[str] = []
    told: dict[str, str] = {}
    for item in body["input"]:
        match item["type"]:
            case "message" if item["role"] == "user":
                texts += [part.get("text", "") for part in item["content"]]
            case "function_call" | "custom_tool_call":
                ids.append(item["call_id"])
            case "function_call_output" | "custom_tool_call_output":
                told[item["call_id"]] = _text(item["output"])
            case _:
                pass
    return Conversation(play_in(texts), turns_of(ids), bool(body.get("tools")), told)


def _text(output: str | list[dict[str, Any]]) -> str:
    return output if isinstance(output, str) else "\n".join(part.get("text", "") for part in output)


def _item(call_id: str, call: Call, texts: set[str]) -> dict[str, Any]:
    space, _, name = call.tool.rpartition("/")  # Codex offers some of its tools in namespaces
    if name in texts:
        said = {"id": f"ct_{call_id}", "call_id": call_id, "name": name, "status": "completed", **call.input}
        return {"type": "custom_tool_call", **said}
    return {
        "type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "status": "completed",
        "arguments": json.dumps(call.input), **({"namespace": space} if space else {}),
    }  # fmt: skip


def render(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    """Return the content type and the body of an answer."""
    texts = {tool["name"] for tool in body.get("tools", ()) if tool["type"] == "custom"}  # their input is a text
    items = [_item(name, call, texts) for name, call in reply.calls]
    if reply.text:
        said = {"type": "output_text", "text": reply.text, "annotations": []}
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]})
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20,
    }  # fmt: skip
    response = {"id": "resp_1", "object": "response", "model": body["model"], "status": "completed"}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    for number, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": number, "item": item})
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    events.append({"type": "response.completed", "response": {**response, "output": items, "usage": usage}})
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    return "text/event-stream", b"".join(lines)

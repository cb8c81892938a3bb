"""The API of Augment's service, as far as Auggie needs it: one document a line, and one is enough."""

from __future__ import annotations

import json
from typing import Any

from real_hosts.model.conversation import Conversation, Reply, play_in, turns_of

__all__ = ["ANSWERS", "read", "render"]

TOOL_USE, STOPS, CALLS = 5, 1, 3  # the kind of a node, and reasons to stop
# What it asks before the first message.
ANSWERS: dict[str, dict[str, Any]] = {
    "/get-models": {"default_model": "fake", "models": [], "languages": [], "feature_flags": {"enable_hooks": True}},
    "/agents/list-remote-tools": {"tools": []},
}


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation that a request carries."""
    exchanges: list[dict[str, Any]] = body.get("chat_history") or []
    nodes: list[dict[str, Any]] = [node for each in exchanges for node in each.get("request_nodes") or ()]
    nodes += body.get("nodes") or []
    said: list[dict[str, Any]] = [node for each in exchanges for node in each.get("response_nodes") or ()]
    texts: list[str] = [node["text_node"]["content"] for node in nodes if node.get("text_node")]
    ids: list[str] = [node["tool_use"]["tool_use_id"] for node in said if node.get("tool_use")]
    results: list[dict[str, Any]] = [node["tool_result_node"] for node in nodes if node.get("tool_result_node")]
    told: dict[str, str] = {result["tool_use_id"]: str(result["content"]) for result in results}
    return Conversation(play_in(texts), turns_of([*ids, *told]), bool(body.get("tool_definitions")), told)


def render(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    """Return the content type and the body of an answer."""
    nodes: list[dict[str, Any]] = [
        {
            "id": number, "type": TOOL_USE, "content": "",
            "tool_use": {"tool_use_id": name, "tool_name": call.tool, "input_json": json.dumps(call.input)},
        }
        for number, (name, call) in enumerate(reply.calls, 1)
    ]  # fmt: skip
    if reply.text:
        nodes.append({"id": len(nodes) + 1, "type": 0, "content": reply.text})
    whole = {"text": reply.text, "nodes": nodes, "stop_reason": CALLS if reply.calls else STOPS}
    return "application/json", json.dumps(whole).encode() + b"\n"

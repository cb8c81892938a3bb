"""The Gemini API, streamed or not.  Calls have no ids there, so their places in the conversation stand for them."""

from __future__ import annotations

import json
from typing import Any

from real_hosts.model.conversation import Conversation, Reply, call_id, play_in

__all__ = ["read", "render"]


def read(body: dict[str, Any]) -> Conversation:
    """Return the conversation that a request carries."""
    texts: list[str] = []
    results: list[list[str]] = []
    turns = 0
    for content in body["contents"]:
        parts = content.get("parts", [])
        if content.get("role") == "model":
            turns += any("functionCall" in part for part in parts)
            continue
        texts += [part["text"] for part in parts if "text" in part]
        answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
        if answers:
            results.append([json.dumps(answer) for answer in answers])
    play = play_in(texts)
    told = {
        call_id(play or "", turn, number): text
        for turn, answers in enumerate(results)
        for number, text in enumerate(answers)
    }
    return Conversation(play, turns, bool(body.get("tools")), told)


def render(body: dict[str, Any], reply: Reply) -> tuple[str, bytes]:
    """Return the content type and the body of an answer; `body["stream"]` is the server's, which knows the path."""
    parts: list[dict[str, Any]] = [{"functionCall": {"name": call.tool, "args": call.input}} for _, call in reply.calls]
    if reply.text:
        parts.append({"text": reply.text})
    whole = json.dumps(
        {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
            "modelVersion": "fake",
        }
    )
    if not body.get("stream"):
        return "application/json", whole.encode()
    return "text/event-stream", f"data: {whole}\r\n\r\n".encode()

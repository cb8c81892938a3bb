"""Where the kit's interception points stand among the events, and how a context becomes a payload and back again.

Read by the harness and, as a copy beside hooks.toml, by the worker. Knows no verdict, and nothing of the kit's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

__all__ = ["POINTS", "Point", "point_of"]

MISSING: Final = object()


class Point(NamedTuple):
    """An interception point as an event. Keys of the payload and their places in the context are dotted paths."""

    event: str
    target: str  # where the context says again what "target" says
    fields: Mapping[str, str]  # in the order in which they are taken out of the context
    words: frozenset[str] = frozenset({"allow", "deny", "ask"})

    def payload_of(self, context: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what an event has a field for, and the rest, which travels as its metadata."""
        rest = deepcopy({key: value for key, value in context.items() if key != "target"})
        payload: dict[str, Any] = {}
        for key, place in self.fields.items():
            if (value := take(rest, place)) is not MISSING:
                put(payload, key, value)
        return payload, rest

    def context_of(self, payload: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the context back."""
        context = deepcopy(dict(rest))
        for key, place in reversed(self.fields.items()):
            if (value := find(payload, key)) is not MISSING:
                put(context, place, deepcopy(value))
        context["target"] = find(context, self.target)
        return context

    def patch_of(self, context: Mapping[str, Any], target: object) -> dict[str, Any]:
        """Return the keys of the payload that another target changes, with their whole new values."""
        before, _ = self.payload_of(context)
        changed = deepcopy(dict(context))
        put(changed, self.target, target)
        after, _ = self.payload_of(changed)
        return {key: value for key, value in after.items() if value != before.get(key, MISSING)}


POINTS: Final[Mapping[str, Point]] = {
    "agent_startup": Point("agent_startup", "agent_init", {"agent_init": "agent_init"}),
    "input": Point(
        "user_prompt_submit",
        "input",
        {"prompt": "input.content", "params": "input"},
        frozenset({"deny", "ask"}),
    ),
    "pre_model_call": Point(
        "pre_model",
        "messages",
        {"model_id": "model.id", "request.messages": "messages", "request.tools": "tools"},
        frozenset({"deny"}),
    ),
    "post_model_call": Point("post_model_call", "response", {"model_id": "model.id", "response": "response"}),
    "pre_tool_call": Point(
        "pre_tool_use",
        "tool_call.args",
        {"tool_name": "tool_call.name", "tool_input": "tool_call.args", "tool_use_id": "tool_call.id"},
    ),
    "post_tool_call": Point(
        "post_tool_call",
        "tool_result.value",
        {
            "tool_name": "tool_call.name",
            "tool_input": "tool_call.args",
            "tool_use_id": "tool_call.id",
            "tool_response": "tool_result.value",
            "is_error": "tool_result.is_error",
        },
    ),
    "output": Point("output", "output", {"output": "output"}),
    "agent_shutdown": Point("agent_shutdown", "summary", {"summary": "summary"}),
}


def point_of(event: str) -> Point:
    """Return the point that an event stands for."""
    return next(point for point in POINTS.values() if point.event == event)


def take(tree: dict[str, Any], path: str) -> object:
    *parents, leaf = path.split(".")
    found = find(tree, ".".join(parents)) if parents else tree
    return found.pop(leaf, MISSING) if isinstance(found, dict) else MISSING


def find(tree: Mapping[str, Any], path: str) -> Any:
    found: Any = tree
    for name in path.split("."):
        found = found.get(name, MISSING) if isinstance(found, Mapping) else MISSING
    return found


def put(tree: dict[str, Any], path: str, value: object) -> None:
    *parents, leaf = path.split(".")
    for name in parents:
        tree = tree.setdefault(name, {})
    tree[leaf] = value

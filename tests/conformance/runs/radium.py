"""Hooks as Radium's registry has them, run through a daemon, and what came of it as a list of results."""

from __future__ import annotations

from typing import Any

from conformance.native import NativeClient, Place

__all__ = ["MODEL", "TOOL", "good", "hook", "results", "run", "served", "stopped", "wrong"]

TOOL = {"tool_name": "write_file", "arguments": {"path": "a.ts"}}
MODEL = {"model_id": "m-1", "input": "Hello"}
DATA = {"event_type": "model_call", "data": {"tokens": 1}}
FAULT = {"error_type": "rate_limit", "error_message": "slow down", "error_source": "provider"}
KINDS = {
    "before_tool": TOOL,
    "after_tool": {**TOOL, "result": "done"},
    "tool_selection": TOOL,
    "before_model": MODEL,
    "after_model": {"model_id": "m-1", "response": "hi"},
    "error_interception": FAULT,
    "error_transformation": FAULT,
    "error_recovery": FAULT,
    "error_logging": FAULT,
    "telemetry_collection": DATA,
    "custom_logging": DATA,
    "metrics_aggregation": DATA,
    "performance_monitoring": DATA,
}


def hook(place: Place, function: str, kind: str = "before_tool", **settings: Any) -> dict[str, Any]:
    """Declare a hook of a type as Radium's configuration does, with a function of ours in the place of its factory."""
    return {"name": function, "type": kind, "run": f"{place.hooks_file}:{function}", **settings}


def served(name: str, kind: str = "before_tool", **settings: Any) -> dict[str, Any]:
    """Declare a hook that the client runs itself, as Radium's own are."""
    return {"name": name, "type": kind, **settings}


async def run(client: NativeClient, kind: str = "before_tool", **payload: Any) -> list[dict[str, Any]]:
    """Fire a type, and give the results."""
    rendered: list[dict[str, Any]] = await client.render(kind, **(payload or KINDS[kind]))
    return rendered


async def results(place: Place, kind: str, *hooks: dict[str, Any], **payload: Any) -> list[dict[str, Any]]:
    """Fire a type with these hooks, and give the results."""
    async with place.session("radium", *hooks) as client:
        return await run(client, kind, **payload)


def good(**data: Any) -> dict[str, Any]:
    return {"success": True, "message": None, "modified_data": data or None, "should_continue": True}


def wrong(message: str) -> dict[str, Any]:
    return {"success": False, "message": message, "modified_data": None, "should_continue": True}


def stopped(message: str) -> dict[str, Any]:
    return {"success": False, "message": message, "modified_data": None, "should_continue": False}

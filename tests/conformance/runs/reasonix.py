"""Hooks as Reasonix's settings have them, run through a daemon, and what came of it in Reasonix's words."""

from __future__ import annotations

import json
import sys
from typing import Any

from conformance.native import Place
from hooklatch.importing import read_hooks

__all__ = ["CLAUDE", "EDIT", "answered", "read", "run", "seen", "settings", "specific"]

CLAUDE = {"payload": "claude", "output": "json"}
EDIT = {"toolName": "edit_file", "toolArgs": {"path": "a.ts"}}


def read(text: str | bytes, name: str = "settings.json") -> list[dict[str, Any]]:
    """Return the hooks of a file as the importer reads them."""
    data = text if isinstance(text, bytes) else text.encode()
    return [hook.settings for hook in read_hooks(name, data).hooks]


def settings(**events: list[Any]) -> list[dict[str, Any]]:
    """Return the hooks of a settings.json with these events."""
    return read(json.dumps({"hooks": events}))


async def run(place: Place, event: str, *entries: dict[str, Any], **payload: Any) -> dict[str, Any]:
    """Fire one event with these entries of a settings.json, and give the answer in Reasonix's words."""
    async with place.session("reasonix", *settings(**{event: list(entries)})) as client:
        answer: dict[str, Any] = await client.render(event, **(payload or about(event)))
        return answer


async def answered(place: Place, event: str, printed: str, **settings: Any) -> dict[str, Any]:
    """Fire one event with a hook in Claude form that prints this and exits with 0; give the whole decision."""
    printer = {"argv": [sys.executable, "-c", "import sys; sys.stdout.write(sys.argv[1])", printed]}
    hook = {"id": "h", "event": event, **printer, **(CLAUDE | settings)}
    async with place.session("reasonix", hook) as client:
        return await client.fire(event, **about(event))


async def seen(place: Place, event: str, **payload: Any) -> dict[str, Any]:
    """Return what a hook in Claude form reads of an event."""
    hook = {"id": "h", "event": event, "command": "cat > seen", **CLAUDE}
    async with place.session("reasonix", hook) as client:
        await client.fire(event, **payload)
    document: dict[str, Any] = json.loads((place.folder / "seen").read_text())
    return document


def about(event: str) -> dict[str, Any]:
    return EDIT if "Tool" in event or "Permission" in event else {}


def specific(event: str, **answer: object) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **answer}})

"""One native payload for each event of each dialect, and fires played through the real machines."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from hooklatch.dialects.beam import CONTEXT
from hooklatch.dialects.dialect import Dialect, EventMapping, adapt_spec, is_due
from hooklatch.dialects.find import find_dialect, list_dialects
from hooklatch.dialects.rendering import NativeAnswer, render_decision
from hooklatch.dialects.translation import carry_patch, translate_to_canonical
from support.plays import CATALOGUE, Reply, play

VALUES = {
    "tool_input": {"command": "ls", "cwd": "/w"},
    "params": {"depth": 2},
    "request": {"model": "m-1", "temperature": 0},
    "request.request_modifications": {"top_p": 1},
    "messages": [{"role": "user", "content": "hi"}],
    "message": {"text": "hi", "id": 7},
    "history": [],
    "usage": {"inputTokens": 1},
    "metadata": {"before": 2},
    "turn": 3,
    "is_interrupt": False,
    "stop_hook_active": True,
    "duration_ms": 1.5,
}


def dialects() -> list[Dialect]:
    found = [find_dialect(name) for name in list_dialects()]
    return [dialect for dialect in found if dialect is not None]


def cases() -> list[tuple[Dialect, str]]:
    return [(dialect, event) for dialect in dialects() for event in dialect.events]


def label(value: object) -> str:
    """Name a case by what does not change from run to run: a set's text does."""
    match value:
        case Dialect(name=name):
            return name
        case EventMapping(event=event):
            return event
        case _:
            return str(value)


def sample(dialect: Dialect, event: str) -> dict[str, Any]:
    """A payload with a value for each key that the tables know, and one that none knows."""
    feed = dialect.events[event].feeds[0]
    payload: dict[str, Any] = {"extraKey": {"kept": True}}
    if dialect.event_key:
        payload[dialect.event_key] = event
    for native, path in feed.keys.items():
        *parents, last = native.split(".")
        place = payload
        for parent in parents:
            place = place[parent]
        place[last] = VALUES.get(path, f"<{path}>")
    if feed.gathers:
        payload |= {"command": "ls", "path": "a.ts"}
    if dialect.name == "beam":
        assert set(CONTEXT) <= set(payload)
    return payload


def wire(decision: object) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(msgspec.json.encode(decision))
    return read


def fire(
    dialect: Dialect,
    event: str,
    *,
    payload: dict[str, Any] | None = None,
    later: Reply = None,
    context: dict[str, Any] | None = None,
    marks: Mapping[str, Mapping[str, Any]] | None = None,
    **replies: Reply | list[Reply],
) -> tuple[list[dict[str, Any]], NativeAnswer]:
    """Fire a native event through every feed; `replies` answer the first one, `later` the others."""
    native = sample(dialect, event) if payload is None else payload
    decisions: list[dict[str, Any]] = []
    for index, fed in enumerate(translate_to_canonical(dialect, event, native)):
        if not is_due(fed.feed, [decision["verdict"] for decision in decisions]):
            continue
        for earlier in decisions:
            fed = carry_patch(fed, earlier.get("patch"))
        own = replies if index == 0 else {"later": later}
        spec = adapt_spec(fed.feed, CATALOGUE[fed.event])
        decisions.append(wire(play(spec, payload=fed.payload, context=context, marks=marks, **own).decision))
    return decisions, render_decision(dialect, event, decisions[0], decisions[1:], native)


def gates() -> list[tuple[Dialect, str, EventMapping]]:
    return [(d, e, f) for d, e in cases() for f in d.events[e].feeds if f.fails_closed]

"""A few payloads from sessions of Claude Code, to try a hook with before it has seen any.

Two of them are made up, for calls that guards are written for and no recorded session has tried.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import msgspec

__all__ = ["RecordedEvent", "list_recorded_events"]


class RecordedEvent(msgspec.Struct, frozen=True):
    """A host's own document."""

    host: str
    payload: dict[str, Any]
    made_up: bool = False


def list_recorded_events() -> list[RecordedEvent]:
    """Return the payloads in the order of a session."""
    text = resources.files("hooklatch.testing").joinpath("recorded.jsonl").read_text(encoding="utf-8")
    return [msgspec.convert(json.loads(line), RecordedEvent) for line in text.splitlines()]

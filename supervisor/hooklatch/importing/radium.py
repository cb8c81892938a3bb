"""Radium's hooks.toml: hooks by name, type and priority.  Knows its keys; its types are those of its dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from hooklatch.dialects.radium import RADIUM
from hooklatch.importing.collecting import Collector
from hooklatch.importing.commands import nearest_event

__all__ = ["DIFFERENCES", "KIND", "TYPES", "read"]

KIND = "radium"
TYPES = {alias: event.feeds[0].event for event in RADIUM.events.values() for alias in event.aliases}
KEYS = frozenset({"name", "type", "script", "priority", "enabled", "config", "amends"})
MAX_PRIORITY = 1000
DEFAULT_PRIORITY = 100
DIFFERENCES = (
    "Radium reads these scripts and never runs them; here they run, so try them out first (observe = true)",
    "a script reads the event as JSON on its standard input and answers with an exit code, or with JSON such as"
    ' {"verdict": "deny", "reason": "..."}; one that cannot start, fails or is late refuses on a gate',
    "a relative script is looked for in the session's working directory",
)


def read(entries: list[object], document: Mapping[str, Any], collector: Collector) -> None:
    """Read all hooks of a file, in the order in which Radium would run them."""
    collector.kinds.append(KIND)
    collector.note_unused("", document, frozenset({"hooks", "enable_profiling"}))
    if document.get("enable_profiling") is True:
        collector.note("enable_profiling", "times are always taken here: hooklatch hooks")
    found: list[tuple[int, dict[str, Any], str]] = []
    for number, entry in enumerate(entries, 1):
        place = f"hooks[{number}]"
        table = cast("Mapping[str, Any]", entry if isinstance(entry, Mapping) else {})
        settings = read_hook(table, place, collector)
        if settings is not None:
            found.append((priority_of(table, place, collector), settings, place))
    # Of priorities that do not fit, the order stays: it is that of the file then.
    for priority, settings, place in sorted(found, key=lambda one: -one[0]):
        fitting = max(0, min(priority, MAX_PRIORITY))
        if fitting != priority:
            collector.note(place, f"priority {priority} was cut to {fitting}")
        if fitting != DEFAULT_PRIORITY:
            settings["priority"] = fitting
        collector.keep(place, settings.pop("name"), settings)


def read_hook(table: Mapping[str, Any], place: str, collector: Collector) -> dict[str, Any] | None:
    name, kind, script = table.get("name"), table.get("type"), table.get("script")
    if not isinstance(name, str) or not name:
        collector.lose(place, "it has no name")
        return None
    if not isinstance(kind, str) or kind not in TYPES:
        near = nearest_event(kind, TYPES) if isinstance(kind, str) else ""
        collector.lose(place, f"{name!r}: there is no hook type {kind!r}{near}")
        return None
    if not isinstance(script, str) or not script.strip():
        collector.lose(place, f"{name!r}: it has no script, and the code that its name stands for is not in the file")
        return None
    collector.note_unused(place, table, KEYS)
    settings: dict[str, Any] = {"name": name, "event": TYPES[kind], "command": script, "output": "json"}
    for key, shape in (("enabled", bool), ("config", dict)):
        value = table.get(key)
        if isinstance(value, shape):
            settings[key] = cast("object", value)
        elif value is not None:
            collector.note(place, f"{key} {value!r} cannot be used; the hook runs without it")
    collector.take_mark(place, table, settings)
    return settings


def priority_of(table: Mapping[str, Any], place: str, collector: Collector) -> int:
    value = table.get("priority", DEFAULT_PRIORITY)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    collector.note(place, f"priority {value!r} is no whole number; it has {DEFAULT_PRIORITY}")
    return DEFAULT_PRIORITY

"""A reader of Radium's hooks.toml: hooks by name, type and priority.  The types come from Radium's dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from hooklatch.dialects.radium import RADIUM
from hooklatch.importing.claude import recognise_event
from hooklatch.importing.collecting import Collector

__all__ = ["DIFFERENCES", "KIND", "TYPES", "read_radium_hooks"]

KIND = "radium"
TYPES = {alias: event.feeds[0].event for event in RADIUM.events.values() for alias in event.aliases}
KEYS = frozenset({"name", "type", "script", "priority", "enabled", "config", "amends", "only_judges"})
MAX_PRIORITY = 1000
UNFIT = re.compile(r"\W")  # not allowed in the name of a function
DEFAULT_PRIORITY = 100
DIFFERENCES = (
    "Radium reads these scripts but never runs them; here they run, so try them out first (observe = true)",
    "a script reads the event as JSON on its standard input and answers with an exit code, or with JSON such as"
    ' {"verdict": "deny", "reason": "..."}; one that cannot start, fails or times out refuses on a gate',
    "a relative script path is resolved in the session's working directory",
)


class RadiumEntry(NamedTuple):
    """One [[hooks]] table and its place."""

    place: str
    table: Mapping[str, Any]
    priority: int


def read_radium_hooks(entries: list[object], document: Mapping[str, Any], collector: Collector) -> None:
    """Read all hooks of a file, in Radium's firing order."""
    collector.kinds.append(KIND)
    collector.note_unused("", document, frozenset({"hooks", "enable_profiling"}))
    if document.get("enable_profiling") is True:
        collector.note("enable_profiling", "durations are always measured here: hooklatch hooks")
    read_entries: list[RadiumEntry] = []
    for number, entry in enumerate(entries, 1):
        place = f"hooks[{number}]"
        table = cast("Mapping[str, Any]", entry if isinstance(entry, Mapping) else {})
        read_entries.append(RadiumEntry(place, table, read_priority(table, place, collector)))
    # Sort before priorities are cut to the valid range, so that the order is kept among those that are cut.
    for entry in sorted(read_entries, key=lambda entry_item: -entry_item.priority):
        read_hook(entry, collector)


def read_hook(entry: RadiumEntry, collector: Collector) -> None:
    place, table = entry.place, entry.table
    name, kind, script = table.get("name"), table.get("type"), table.get("script")
    if not isinstance(name, str) or not name:
        collector.lose(place, "it has no name")
        return
    event, problem = recognise_event(str(kind), TYPES)
    if event is None:
        collector.lose(place, f"{name!r}: there is no hook type {kind!r}")
        return
    collector.note_unused(place, table, KEYS)
    settings: dict[str, Any] = {"event": TYPES[event], **read_common_keys(entry, collector)}
    override: dict[str, Any] | None = None
    if isinstance(script, str) and script.strip():
        settings |= {"command": script, "output": "json"}
    else:
        # In Radium such an entry configures a hook from its code: here that is a function of the user or a plugin.
        settings["run"] = f"radium_hooks.py:{UNFIT.sub('_', name)}"
        problem = problem or f"{name!r} has no script; its code is not in the file"
        switches: dict[str, Any] = {key: settings[key] for key in ("enabled", "priority") if key in settings}
        override = {"id": name, **switches}
    collector.keep(place, name, settings, problem, is_named=True, override=override)


def read_common_keys(entry: RadiumEntry, collector: Collector) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    fitting = max(0, min(entry.priority, MAX_PRIORITY))
    if fitting != entry.priority:
        collector.note(entry.place, f"priority {entry.priority} was cut to {fitting}")
    if fitting != DEFAULT_PRIORITY:
        settings["priority"] = fitting
    for key, shape in (("enabled", bool), ("config", dict)):
        value = entry.table.get(key)
        if isinstance(value, shape):
            settings[key] = cast("object", value)
        elif value is not None:
            collector.note(entry.place, f"{key} {value!r} cannot be used; the hook runs without it")
    collector.read_own_keys(entry.place, entry.table, settings)
    return settings


def read_priority(table: Mapping[str, Any], place: str, collector: Collector) -> int:
    value = table.get("priority", DEFAULT_PRIORITY)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    collector.note(place, f"priority {value!r} is not an integer; {DEFAULT_PRIORITY} is used")
    return DEFAULT_PRIORITY

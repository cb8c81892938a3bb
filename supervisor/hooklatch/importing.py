"""Turns other systems' hook files into ours.  Knows their shapes; opens no file and starts nothing.

    Claude Code   {"hooks": {Event: [{"matcher", "hooks": [{"type": "command", "command", "timeout"}]}]}}   seconds
    Reasonix      {"hooks": {Event: [{"match", "command", "timeout", "cwd", "description"}]}}          milliseconds
    Radium        [[hooks]] name, type, priority, enabled, script, config

What is imported keeps its payload form and its table of exit codes, so a script goes on working as it stands.  What
cannot be kept is said, one line each; nothing is dropped in silence.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from hooklatch.core.matchers import MatcherError, compile_matcher
from hooklatch.hosts.claude_code import EVENTS as CLAUDE_EVENTS

__all__ = ["Imported", "ImportedHook", "UnreadableFileError", "read_hooks", "write_toml"]

REASONIX_EVENTS = {
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "UserPromptSubmit": "user_prompt_submit",
    "PreToolUse": "pre_tool_use",
    "PostToolUse": "post_tool_use",
    "PostToolUseFailure": "post_tool_use_failure",
    "PermissionRequest": "permission_request",
    "PostLLMCall": "post_model",
    "Stop": "stop",
    "StopFailure": "stop_failure",
    "SubagentStop": "subagent_stop",
    "PreSubagent": "subagent_start",
    "Notification": "notification",
    "PreCompact": "pre_compact",
}
RADIUM_TYPES = {
    "before_model": "pre_model",
    "after_model": "post_model",
    "before_tool": "pre_tool_use",
    "after_tool": "tool_result",
    "tool_selection": "tool_selection",
    "error_interception": "error_intercept",
    "error_transformation": "error_transform",
    "error_recovery": "error_recover",
    "error_logging": "error_log",
    "telemetry_collection": "telemetry",
    "custom_logging": "custom_log",
    "metrics_aggregation": "metrics",
    "performance_monitoring": "performance",
}
EXACT = re.compile(r"[A-Za-z0-9_ ,|-]*")  # a Claude matcher of these characters is a name or a list of names
CLAUDE_KEYS = {"type", "command", "args", "timeout", "statusMessage", "onFailure", "description"}
REASONIX_KEYS = {"match", "command", "timeout", "cwd", "description", "event", "args"}
MAX_TIMEOUT = 600.0  # seconds


class UnreadableFileError(ValueError):
    """A file that holds no hooks of a kind we know, with what it should hold."""


class ImportedHook(msgspec.Struct, frozen=True):
    """One hook of ours; `settings` are the keys of a [[hook]] table."""

    settings: dict[str, Any]


class Imported(msgspec.Struct, frozen=True):
    """What a file gave: hooks, and a line for each thing that was dropped or means something else here."""

    kind: str
    hooks: list[ImportedHook]
    notes: list[str]


def read_hooks(name: str, data: bytes) -> Imported:
    """Read a file of another system; its kind shows by its content.

    Raises:
        UnreadableFileError: it is none of them.
    """
    notes: list[str] = []
    text = decode(data, notes)
    document = parse(name, text)
    reader = Reader(notes)
    if isinstance(document.get("hooks"), list):
        hooks = list(reader.flat(document["hooks"]))
    elif isinstance(document.get("hooks"), Mapping):
        hooks = list(reader.events(cast("Mapping[str, Any]", document["hooks"])))
    else:
        raise UnreadableFileError(f'{name} has no hooks: expected {{"hooks": {{...}}}} or [[hooks]]')
    return Imported(reader.kind or "unknown", [ImportedHook(settings) for settings in hooks], notes)


def decode(data: bytes, notes: list[str]) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode("gb18030")
        except UnicodeDecodeError as error:
            raise UnreadableFileError(f"neither UTF-8 nor GB18030: {error.reason}; save the file as UTF-8") from None
        notes.append("the file is GB18030; it was read as that, and what is written is UTF-8")
        return text


def parse(name: str, text: str) -> Mapping[str, Any]:
    try:
        document: object = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableFileError(f"{name}: {error}") from None
    if isinstance(document, list):
        return {"hooks": document}
    if not isinstance(document, Mapping):
        raise UnreadableFileError(f"{name} holds {type(document).__name__}, not an object with hooks")
    return cast("Mapping[str, Any]", document)


class Reader:
    """Reads entries of all three shapes, and notes what it drops."""

    def __init__(self, notes: list[str]) -> None:
        self.kind = ""
        self._notes = notes
        self._ids: set[str] = set()

    def events(self, events: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Entries below the name of their event: Claude's groups or Reasonix's flat ones."""
        for event, entries in events.items():
            if not isinstance(entries, list):
                self._drop(event, "its entries are no list")
                continue
            for number, entry in enumerate(cast("list[object]", entries), 1):
                yield from self._entry(event, entry, f"{event}[{number}]")

    def flat(self, entries: object) -> Iterator[dict[str, Any]]:
        """A list of entries that each name their own event: Radium's tables, or Reasonix's array."""
        for number, entry in enumerate(cast("list[object]", entries), 1):
            place = f"hooks[{number}]"
            if not isinstance(entry, Mapping):
                self._drop(place, "it is no table")
                continue
            table = cast("Mapping[str, Any]", entry)
            if "type" in table and "event" not in table:
                yield from self._radium(table, place)
            else:
                yield from self._entry(str(table.get("event", "")), table, place)

    def _entry(self, event: str, entry: object, place: str) -> Iterator[dict[str, Any]]:
        if not isinstance(entry, Mapping):
            self._drop(place, "it is no object")
            return
        table = cast("Mapping[str, Any]", entry)
        if isinstance(table.get("hooks"), list):
            self.kind = self.kind or "claude"
            for number, handler in enumerate(cast("list[object]", table["hooks"]), 1):
                yield from self._claude(event, table.get("matcher"), handler, f"{place}.hooks[{number}]")
        else:
            self.kind = self.kind or "reasonix"
            yield from self._reasonix(event, table, place)

    def _claude(self, event: str, matcher: object, handler: object, place: str) -> Iterator[dict[str, Any]]:
        if not isinstance(handler, Mapping):
            self._drop(place, "it is no object")
            return
        table = cast("Mapping[str, Any]", handler)
        kind = table.get("type", "command")
        if kind != "command":
            self._drop(place, f"a handler of type {kind!r} has no counterpart here; only commands are imported")
            return
        canonical = CLAUDE_EVENTS.get(event)
        if canonical is None:
            self._drop(place, f"there is no event for {event!r}")
            return
        for key in table.keys() - CLAUDE_KEYS:
            self._notes.append(f"{place}: {key!r} was dropped; the hook runs without it")
        if "onFailure" in table:
            self._notes.append(f"{place}: onFailure has no meaning here: a guard that fails is a deny anyway")
        settings = self._common(event, canonical, table, place)
        if settings is None:
            return
        match = claude_matcher(matcher)
        if match is not None and not self._takes(settings, match, place):
            return
        settings |= {"payload": "claude", "output": "json", "exit_codes": "advisory"}
        if "timeout" in table:
            settings["timeout"] = self._seconds(table["timeout"], 1.0, place)
        yield settings

    def _reasonix(self, event: str, table: Mapping[str, Any], place: str) -> Iterator[dict[str, Any]]:
        canonical = REASONIX_EVENTS.get(event)
        if canonical is None:
            self._drop(place, f"there is no event for {event!r}")
            return
        for key in table.keys() - REASONIX_KEYS:
            self._notes.append(f"{place}: {key!r} was dropped; the hook runs without it")
        settings = self._common(event, canonical, table, place)
        if settings is None:
            return
        match = table.get("match")
        if isinstance(match, str) and match not in ("", "*") and not self._takes(settings, {"regex": match}, place):
            return
        settings |= {"payload": "reasonix", "exit_codes": "advisory"}
        if "timeout" in table:
            settings["timeout"] = self._seconds(table["timeout"], 0.001, place)
        if isinstance(table.get("cwd"), str):
            settings["cwd"] = table["cwd"]
        yield settings

    def _radium(self, table: Mapping[str, Any], place: str) -> Iterator[dict[str, Any]]:
        self.kind = self.kind or "radium"
        canonical = RADIUM_TYPES.get(str(table["type"]))
        name, script = table.get("name"), table.get("script")
        if canonical is None:
            self._drop(place, f"there is no hook type {table['type']!r}")
            return
        if not isinstance(name, str) or not name:
            self._drop(place, "it has no name")
            return
        if not isinstance(script, str) or not script:
            self._drop(place, "it has no script, and what its factory was is not in the file")
            return
        settings: dict[str, Any] = {"id": self._id(name), "event": canonical, "command": script, "output": "json"}
        for key, shape in (("priority", int), ("enabled", bool), ("config", dict)):
            if isinstance(table.get(key), shape):
                settings[key] = table[key]
        for key in table.keys() - {"name", "type", "script", "priority", "enabled", "config"}:
            self._notes.append(f"{place}: {key!r} was dropped; the hook runs without it")
        yield settings

    def _common(self, event: str, canonical: str, table: Mapping[str, Any], place: str) -> dict[str, Any] | None:
        command, arguments = table.get("command"), table.get("args")
        if not isinstance(command, str) or not command.strip():
            self._drop(place, "it has no command")
            return None
        settings: dict[str, Any] = {"id": self._id(event), "event": canonical}
        if isinstance(arguments, list):
            settings["argv"] = [command, *(str(word) for word in cast("list[object]", arguments))]
        else:
            settings["command"] = command
        if isinstance(table.get("description"), str):
            settings["description"] = table["description"]
        return settings

    def _takes(self, settings: dict[str, Any], match: object, place: str) -> bool:
        if settings["event"] not in MATCHED:
            self._notes.append(f"{place}: {settings['event']} has no field to match on; the matcher was dropped")
            return True
        try:
            compile_matcher(match)
        except MatcherError as error:
            self._drop(place, str(error))
            return False
        settings["match"] = match
        return True

    def _seconds(self, value: object, unit: float, place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            self._notes.append(f"{place}: timeout {value!r} is no time; the event's default holds")
            return 30.0
        seconds = value * unit
        if seconds > MAX_TIMEOUT:
            self._notes.append(f"{place}: timeout was cut to {MAX_TIMEOUT:.0f} s")
        return round(min(seconds, MAX_TIMEOUT), 3)

    def _id(self, name: str) -> str:
        base = f"imported-{name}"
        number, found = 1, base
        while found in self._ids:
            number += 1
            found = f"{base}-{number}"
        self._ids.add(found)
        return found

    def _drop(self, place: str, reason: str) -> None:
        self._notes.append(f"{place}: dropped: {reason}")


def matched_events() -> frozenset[str]:
    from hooklatch.core.catalogue import Catalogue

    catalogue = Catalogue.standard()
    return frozenset(name for name in catalogue if catalogue[name].match is not None)


MATCHED = matched_events()


def claude_matcher(matcher: object) -> object:
    """Read a Claude matcher: nothing or "*" for all, names, a list of names, else a regular expression's search."""
    if not isinstance(matcher, str) or matcher in ("", "*"):
        return None
    if EXACT.fullmatch(matcher):
        names = [name.strip() for name in re.split(r"[|,]", matcher) if name.strip()]
        return names[0] if len(names) == 1 else names
    return {"regex": matcher, "search": True}


def write_toml(imported: Imported, origin: str) -> str:
    """Give the text of a file for hooks.d."""
    lines = [f"# Imported from {origin} ({imported.kind})."]
    lines += [f"# {note}" for note in imported.notes]
    for hook in imported.hooks:
        lines += ["", "[[hook]]", *(f"{key} = {toml_value(value)}" for key, value in hook.settings.items())]
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return "[" + ", ".join(toml_value(item) for item in cast("list[object]", value)) + "]"
        case dict():
            pairs = cast("dict[str, object]", value).items()
            return "{ " + ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in pairs) + " }"
        case _:
            raise TypeError(f"{value!r} has no form in TOML")

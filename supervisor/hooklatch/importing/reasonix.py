"""A reader of Reasonix's flat entries, one command each: its keys, units and matchers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from hooklatch.importing import claude
from hooklatch.importing.claude import note_missing_variables, read_command_target, recognise_event
from hooklatch.importing.collecting import Collector
from hooklatch_worker.runtime.shell_forms import REASONIX_NAMES

__all__ = ["DIFFERENCES", "EVENTS", "KIND", "read_entry"]

KIND = "reasonix"
EVENTS = {theirs: ours for ours, theirs in REASONIX_NAMES.items()}
KEYS = frozenset(
    {
        "match", "command", "timeout", "cwd", "description", "event", "args", "shell", "env", "async", "payloadFormat",
        "amends", "only_judges",
    }
)  # fmt: skip
MATCHED = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})  # matchers apply to these
NAMES = re.compile(r"[A-Za-z0-9_-]+(\|[A-Za-z0-9_-]+)*")  # a pattern that is a list of names
MILLISECONDS = 0.001
HARMLESS = frozenset({"PermissionRequest", "PreCompact"})  # cannot be refused there, but can here
READ_OUTPUT = {
    "PostLLMCall": "Reasonix takes its output as the new reasoning; here its output is ignored",
    "PreCompact": "Reasonix takes its output as guidance; here its output is ignored",
}
DIFFERENCES = (
    "a command that cannot start or is killed refuses on a gate here; Reasonix only warns (a late one refuses in both)",
    "matchers and arguments are those of Reasonix's tools (edit_file, toolArgs.path): adapt them for another agent,"
    " whose tools have other names",
    "commands run in a clean environment; set other variables with env = { NAME = ... }",
)


def read_entry(event: str, entry: Mapping[str, Any], place: str, collector: Collector) -> None:
    """Read one hook."""
    collector.kinds.append(KIND)
    name, problem = recognise_event(event, EVENTS)
    if name is None:
        collector.lose(place, str(problem))
        return
    target, unusable = read_command_target(entry, KEYS | {"hooks"})
    if "contextFile" in entry:
        unusable = 'a contextFile without a command is not supported here; write command = "cat FILE"'
    settings: dict[str, Any] = {"event": EVENTS[name], **target}
    match = read_reasonix_pattern(name, entry.get("match"), place, collector)
    if match is not None:
        settings["match"] = match
    problem = problem or unusable
    if problem is not None:
        collector.keep(place, event, settings, problem, entry=entry)
        return
    collector.note_unused(place, entry, KEYS)
    is_claude = entry.get("payloadFormat") == "claude" and EVENTS[event] in claude.EVENTS.values()
    settings |= {"payload": "claude", "output": "json"} if is_claude else {"payload": "reasonix"}
    settings["exit_codes"] = "advisory"
    if "timeout" in entry:
        timeout = collector.seconds(place, entry["timeout"], MILLISECONDS, None)
        if timeout is not None:
            settings["timeout"] = timeout
    copy_common_keys(settings, entry, place, collector)
    collector.read_own_keys(place, entry, settings)
    if event in HARMLESS and not is_claude:
        collector.note(place, f"on {event} exit code 2 refuses here, and only warns in Reasonix")
    if event in READ_OUTPUT and not is_claude:
        collector.note(place, READ_OUTPUT[event], is_loss=True)
    if entry.get("async") is True:
        claude.make_notification_only(settings, place, collector)
    provided = claude.PROVIDED if is_claude else frozenset[str]()
    problem = note_missing_variables(settings, provided, place, collector)
    collector.keep(place, event, settings, problem, entry=entry)


def read_reasonix_pattern(event: str, pattern: object, place: str, collector: Collector) -> object:
    """Read a pattern, which must match the whole name."""
    if pattern in (None, "", "*"):
        return None
    if event not in MATCHED:
        collector.note(place, f"the matcher {pattern!r} has no effect on {event}, there or here")
        return None
    if isinstance(pattern, str) and NAMES.fullmatch(pattern):
        names = pattern.split("|")
        return names[0] if len(names) == 1 else names
    return {"regex": pattern}


def copy_common_keys(settings: dict[str, Any], entry: Mapping[str, Any], place: str, collector: Collector) -> None:
    for key, shape in (("cwd", str), ("description", str), ("env", dict)):
        value = entry.get(key)
        if isinstance(value, shape) and value:
            settings[key] = cast("object", value)
        elif value:
            collector.note(place, f"{key} {value!r} cannot be used; the hook runs without it")

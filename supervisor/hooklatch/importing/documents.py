"""A parser from bytes to entries, which detects the system by the content.  Knows encodings and shapes, but no keys."""

from __future__ import annotations

import codecs
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

from hooklatch.core.hooks.registry import EVERY_GATE
from hooklatch.hosts.own_entries import is_entry_alone
from hooklatch.importing import claude, radium, reasonix
from hooklatch.importing.claude import recognise_event
from hooklatch.importing.collecting import Collector, ImportResult, index_json_lines
from hooklatch_worker.author.failures import clip_error_text, suggest_whole_save

__all__ = ["UnreadableFileError", "read_hooks"]

EVENTS = {**claude.EVENTS, **reasonix.EVENTS}
SHAPES = 'expected {"hooks": {...}} of Claude Code or Reasonix, or [[hooks]] of Radium'
SYSTEMS = (claude, reasonix, radium)
TOML = re.compile(r"(\s|#.*)*(\[\[?[A-Za-z_.-]+\]|[\w.-]+\s*=)")  # as no JSON begins
ENTRY_KEYS = frozenset({"command", "hooks", "match", "matcher"})  # keys by which an entry is recognised


class UnreadableFileError(ValueError):
    """A file holds no known kind of hooks; the text says where, and what is expected."""

    def __init__(self, message: str) -> None:
        super().__init__(clip_error_text(message))


def read_hooks(name: str, data: bytes, *, may_lack_hooks: bool = False) -> ImportResult:
    """Read a file of another system; `name` appears in messages, and its suffix tells JSON from TOML.

    With `may_lack_hooks` the file may have only other settings, if nothing in it looks like hooks at a wrong place.

    Raises:
        UnreadableFileError: it cannot be parsed, or holds no hooks.
    """
    collector = Collector()
    text = decode_document(name, data, collector)
    document, is_toml = parse_document(name, text)
    if isinstance(document, list):
        read_list(name, cast("list[object]", document), collector)
    elif isinstance(document, Mapping):
        table = cast("Mapping[str, Any]", document)
        if not may_lack_hooks or "hooks" in table or any(list_misplaced_keys(table)):
            read_table(name, table, collector, is_toml=is_toml)
    else:
        raise UnreadableFileError(f"{name} holds no table of hooks; {SHAPES}")
    if collector.own:
        why = "as hooks they would ask the daemon that runs them"
        collector.note("", f"hooklatch's own entries are left out ({collector.own}): {why}")
    if collector.is_disabled and set(collector.kinds) != {reasonix.KIND}:
        collector.note("disableAllHooks", "none of these hooks runs there; they were written with enabled = false")
    kind = collector.kinds[0] if collector.kinds else "unknown"
    for system in SYSTEMS:
        if system.KIND in collector.kinds:
            for difference in system.DIFFERENCES:
                collector.note("", difference)
    hooks = collector.hooks()
    return ImportResult(kind, hooks, collector.notes, {} if is_toml else locate_entries(text))


def locate_entries(text: str) -> dict[str, int]:
    """Return the line numbers of a JSON document's entries, by place as in messages, without the leading `hooks`."""
    lines = index_json_lines(text)
    if "hooks" not in lines:
        return lines
    return {place.removeprefix("hooks").removeprefix("."): line for place, line in lines.items()}


def decode_document(name: str, data: bytes, collector: Collector) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    for attempt in (encoding, "gb18030"):  # Reasonix reads GB18030 too, which Windows editors in China write
        try:
            text = data.decode(attempt)
        except UnicodeDecodeError:
            continue
        if attempt != "utf-8-sig":
            collector.note("", f"the file is not UTF-8; it was read as {attempt.upper()}: check its texts")
        return text
    raise UnreadableFileError(f"{name} is neither UTF-8 nor GB18030; save it as UTF-8")


def parse_document(name: str, text: str) -> tuple[object, bool]:
    """Return the document, and whether it is TOML; without a suffix, JSON is tried first."""
    is_json = name.endswith((".json", ".jsonc")) or text.lstrip().startswith("{")
    if name.endswith(".toml"):
        return parse_toml(name, text), True
    try:
        return parse_json(name, text), False
    except UnreadableFileError:
        if is_json:
            raise
        return parse_toml(name, text), True


def parse_json(name: str, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=refuse_duplicate_keys)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}"
        if name.endswith(".json") and TOML.match(text) is not None:
            raise UnreadableFileError(
                f"{place}: it is TOML, and a .json file is read as JSON: rename it .toml"
            ) from None
        is_at_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        hint = suggest_whole_save(name, is_at_end=is_at_end)
        raise UnreadableFileError(f"{place}: not JSON: {error.msg} (column {error.colno}){hint}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a number with more digits than int() accepts
        raise UnreadableFileError(f"{name}: not JSON: {error}") from None


def refuse_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object's entries; a duplicate key is an error, since one entry and its guards would be lost."""
    entries: dict[str, object] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"the key {key[:100]!a} occurs twice in one object; put both entries into one")
        entries[key] = value
    return entries


def parse_toml(name: str, text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = found[1] if found else len(text.splitlines())  # without a line, the message says "at end of document"
        raise UnreadableFileError(f"{name}:{line}: not TOML: {error}") from None
    except (RecursionError, ValueError) as error:
        raise UnreadableFileError(f"{name}: not TOML: {error}") from None


def read_table(name: str, document: Mapping[str, Any], collector: Collector, *, is_toml: bool) -> None:
    hooks = document.get("hooks")
    if document.get("disableAllHooks") is True:
        collector.is_disabled = True
    if isinstance(hooks, list) and is_toml:
        radium.read_radium_hooks(cast("list[object]", hooks), document, collector)
    elif isinstance(hooks, list):
        read_list(name, cast("list[object]", hooks), collector)
    elif isinstance(hooks, Mapping):
        read_events(cast("Mapping[str, object]", hooks), collector)
        for key in list_misplaced_keys(document):
            problem = "it is beside 'hooks' and not in it, so it never runs; move it into that object"
            keep_unreadable(key, key, problem, document[key], collector)
    elif hooks is None and any(isinstance(document[key], list) for key in document.keys() & EVENTS.keys()):
        read_events(document, collector, is_whole_file=True)
    elif is_toml and isinstance(document.get("hook"), list):
        raise UnreadableFileError(f"{name} has [[hook]]: it is in hooklatch's own format already; copy it into hooks.d")
    else:
        instead = "".join(f", but {key!r:.80}" for key in islice(list_misplaced_keys(document), 1))
        raise UnreadableFileError(f"{name} has no hooks{instead}; {SHAPES}")


def read_list(name: str, entries: list[object], collector: Collector) -> None:
    if not any(isinstance(entry, Mapping) and "event" in entry for entry in entries):
        raise UnreadableFileError(f"{name} is a list, but not of hooks: each needs an event and a command")
    for number, entry in enumerate(entries, 1):
        place = f"[{number}]"
        if not isinstance(entry, Mapping):
            collector.lose(place, "it is not an object")
            continue
        table = cast("Mapping[str, Any]", entry)
        event = table.get("event")
        if not isinstance(event, str):
            collector.lose(place, "it names no event")
            continue
        read_entry(event, table, place, collector)


def read_events(events: Mapping[str, object], collector: Collector, *, is_whole_file: bool = False) -> None:
    """Read entries listed under the name of their event; at the top level of a file other keys are allowed."""
    for event, entries in events.items():
        if is_whole_file and not (
            has_entry_keys(entries) or recognise_event(event, EVENTS)[0] or any(list_misplaced_keys({event: entries}))
        ):
            continue
        if not isinstance(entries, list):
            keep_unreadable(event, event, f"its entries are a list, not {entries!r:.80}", entries, collector)
            continue
        for number, entry in enumerate(cast("list[object]", entries), 1):
            place = f"{event}[{number}]"
            if isinstance(entry, Mapping):
                read_entry(event, cast("Mapping[str, Any]", entry), place, collector)
            else:
                keep_unreadable(place, event, f"it is {entry!r:.80}, not an object", entry, collector)


def list_misplaced_keys(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys beside `hooks` that look like it, or like something that belongs into it."""
    for key, value in document.items():
        if key != "hooks" and (
            key in EVENTS
            or is_like_hooks(key)
            or has_hook_entries(value)
            or (has_entry_keys(value) and recognise_event(key, EVENTS)[0] is not None)
        ):
            yield key


def is_like_hooks(key: str) -> bool:
    return recognise_event(key, ("hooks",))[0] is not None


def has_entry_keys(value: object) -> bool:
    entries = cast("list[object]", value) if isinstance(value, list) else [value]
    return any(isinstance(entry, Mapping) and ENTRY_KEYS & cast("Mapping[str, Any]", entry).keys() for entry in entries)


def has_hook_entries(value: object) -> bool:
    """Return whether entries are listed under the name of an event somewhere in a value."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            inside = cast("Mapping[str, object]", value)
            if any(has_entry_keys(inside[event]) for event in inside.keys() & EVENTS.keys()):
                return True
            pending += inside.values()
        elif isinstance(value, list):
            pending += cast("list[object]", value)
    return False


def keep_unreadable(place: str, event: str, problem: str, entry: object, collector: Collector) -> None:
    """Keep an unreadable entry as a hook with a problem if its event is known, or if it may be a guard."""
    name, _ = recognise_event(event, EVENTS)
    if name is None and not (is_like_hooks(event) or has_hook_entries(entry)):
        collector.lose(place, problem)
    else:
        collector.keep(place, event, {"event": EVENTS[name] if name else EVERY_GATE}, problem, entry=entry)


def read_entry(event: str, table: Mapping[str, Any], place: str, collector: Collector) -> None:
    """Read one entry: Claude Code's group of handlers, or a hook of Reasonix."""
    handlers: object = [table] if "command" in table else table.get("hooks")
    if isinstance(handlers, list) and handlers and all(map(is_entry_alone, cast("list[object]", handlers))):
        collector.own += len(cast("list[object]", handlers))
    elif "hooks" in table and "command" in table:
        keep_unreadable(place, event, "it has both a command and hooks, of which one would never run", table, collector)
    elif "hooks" in table or ("matcher" in table and "command" not in table):
        claude.read_group(event, table, place, collector)
    else:
        reasonix.read_entry(event, table, place, collector)

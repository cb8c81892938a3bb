"""Our handlers in the hooks of a settings file: text in, text out.

Programs have two shapes of hooks: a list of handlers for each event, or a list of groups of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hooklatch.cli.hosts.editing import append_to_list, find_node, insert_value, parse_jsonc, remove_child
from hooklatch.hosts.own_entries import read_handler_command

__all__ = [
    "STATUS_LINE", "InstalledHandler", "SettingsShape", "add_entries", "find_entries", "has_status_line", "is_nothing",
    "list_flat_handlers", "list_handlers", "list_text_handlers", "remove_entries", "remove_handlers", "restore_handler",
]  # fmt: skip


STATUS_LINE = ("statusLine",)  # where Claude Code's settings have the command of its status line
WORD = r"/[\w./+=:-]*"  # a path that is one word in every shell
# All of the command that `install --status-line` writes; what has anything else in it is the user's own.
LINE = re.compile(rf"{WORD} -I -m hooklatch( --runtime-dir {WORD})?( --daemon-uid -?[0-9]+)? status --line", re.ASCII)


@dataclass(frozen=True, slots=True)
class SettingsShape:
    """The shape of hooks in a file: grouped as `{"matcher": …, "hooks": [handler]}` or not, and its required keys."""

    is_grouped: bool = True
    root: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledHandler:
    """A handler in a file: `path` is its place, and `words` its command line if it is ours, else empty."""

    event: str
    handler: dict[str, Any]
    words: tuple[str, ...]
    path: tuple[str | int, ...]
    matcher: object = None


def list_handlers(events: Iterable[tuple[str, object]]) -> Iterator[InstalledHandler]:
    """Yield every handler in lists of handlers, or of groups of them, by event."""
    for event, entries in events:
        for group_index, entry in enumerate(read_items(entries)):
            path, inner = ("hooks", event, group_index), read_items(entry.get("hooks"))
            for index, handler in enumerate(inner):
                words = read_handler_command(handler) or ()
                yield InstalledHandler(event, handler, words, (*path, "hooks", index), entry.get("matcher"))
            words = read_handler_command(entry) or ()
            if words or not inner:
                yield InstalledHandler(event, entry, words, path, entry.get("matcher"))


def list_flat_handlers(hooks: object) -> Iterator[InstalledHandler]:
    """Yield every handler in a list of them, each of which names its event."""
    for index, entry in enumerate(read_items(hooks)):
        path: tuple[str | int, ...] = ("hooks", index)
        event, words = str(entry.get("event", "")), read_handler_command(entry) or ()
        yield InstalledHandler(event, entry, words, path, entry.get("matcher"))


def read_items(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list; an element of another kind keeps its place as an empty one."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) if isinstance(item, dict) else {} for item in items]


def list_text_handlers(text: str) -> Iterator[InstalledHandler]:
    """Yield every handler in the hooks of a text."""
    hooks = find_node(parse_jsonc(text), ("hooks",))
    return list_handlers((member.key, member.value.value) for member in (hooks.members if hooks is not None else ()))


def find_entries(text: str) -> Iterator[InstalledHandler]:
    """Yield our handlers in a text."""
    return (handler for handler in list_text_handlers(text) if handler.words)


def add_entries(text: str, shape: SettingsShape, handlers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text with a handler for each event."""
    if not handlers:
        return text
    root = parse_jsonc(text)
    for key, value in shape.root:
        if root is None or root.get(key) is None:
            text = insert_value(text, (key,), value, is_list=False)
            root = parse_jsonc(text)
    for event, handler in handlers.items():
        text = append_to_list(text, ("hooks", event), {"hooks": [dict(handler)]} if shape.is_grouped else dict(handler))
    return text


def restore_handler(text: str, event: str, handler: Mapping[str, Any], matcher: str, *, is_grouped: bool) -> str:
    """Return the text with a handler that was taken out of it, as the last one of its event."""
    group = {**({"matcher": matcher} if matcher else {}), "hooks": [dict(handler)]}
    return append_to_list(text, ("hooks", event), group if is_grouped else dict(handler))


def remove_entries(text: str, original: object = None) -> str:
    """Return the text without our handlers and status line, and without parents that only they have made."""
    text = remove_child(text, STATUS_LINE) if has_status_line(text) else text
    return remove_handlers(text, lambda handler: bool(handler.words), original)


def has_status_line(text: str) -> bool:
    """Return whether a text has our command for Claude Code's status line."""
    command = find_node(parse_jsonc(text), (*STATUS_LINE, "command"))
    return command is not None and LINE.fullmatch(str(command.value)) is not None


def remove_handlers(text: str, is_meant: Callable[[InstalledHandler], bool], original: object = None) -> str:
    """Return the text without some handlers, as `remove_entries` does it."""
    while (found := next(filter(is_meant, list_text_handlers(text)), None)) is not None:
        path, root = found.path, parse_jsonc(text)
        while len(path) > 1 and (parent := find_node(root, path[:-1])) is not None:
            # A group that loses its only list of handlers goes, with any matcher; so does a list or object left empty.
            is_group = isinstance(path[-2], int)
            if not is_group and (len(parent.children) > 1 or contains_path(original, path[:-1])):
                break
            path = path[:-1]
        text = remove_child(text, path)
    return text


def contains_path(value: object, path: tuple[str | int, ...]) -> bool:
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return False
        value = cast("dict[str | int, object]", value)[step]
    return True


def is_nothing(text: str, shape: SettingsShape) -> bool:
    """Return whether a text holds only the keys that every file of this shape has."""
    root = parse_jsonc(text)
    if root is None:
        return not text.strip("\ufeff \t\r\n")
    needed = dict(shape.root)
    return root.value in ({}, needed, {**needed, "hooks": {}}) and not has_text_around(text)


def has_text_around(text: str) -> bool:
    return "//" in text or "/*" in text

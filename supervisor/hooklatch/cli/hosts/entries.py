"""Our handlers in the hooks of a settings file: text in, text out.

Programs have two shapes of hooks: a list of handlers for each event, or a list of groups of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hooklatch.cli.hosts.editing import append_to_list, find_node, insert_value, remove_child
from hooklatch.cli.hosts.jsonc import parse_jsonc
from hooklatch.hosts.own_entries import read_handler_command

__all__ = ["InstalledHandler", "SettingsShape", "find_entries", "is_nothing", "add_entries", "remove_entries"]


@dataclass(frozen=True, slots=True)
class SettingsShape:
    """The shape of hooks in a file: grouped as `{"matcher": …, "hooks": [handler]}` or not, and its required keys."""

    is_grouped: bool = True
    root: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledHandler:
    """One of our handlers in a file: `words` is its command line, `path` its place."""

    event: str
    handler: dict[str, Any]
    words: tuple[str, ...]
    path: tuple[str | int, ...]
    matcher: object = None


def find_entries(text: str) -> Iterator[InstalledHandler]:
    """Yield our handlers in a text.

    Raises:
        JsoncError: the text is not JSON with comments.
    """
    hooks = find_node(parse_jsonc(text), ("hooks",))
    if hooks is None:
        return
    for member in hooks.members:
        for group_index, handler_or_group in enumerate(member.value.items):
            path = ("hooks", member.key, group_index)
            words = read_handler_command(handler_or_group.value)
            if words is not None:
                yield InstalledHandler(member.key, handler_or_group.value, words, path)
            inner = handler_or_group.get("hooks")
            for index, handler in enumerate(inner.items if inner is not None else ()):
                words = read_handler_command(handler.value)
                if words is not None:
                    matcher = handler_or_group.value.get("matcher")
                    yield InstalledHandler(member.key, handler.value, words, (*path, "hooks", index), matcher)


def add_entries(text: str, shape: SettingsShape, handlers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text with a handler for each event.

    Raises:
        JsoncError: the text is not JSON with comments, or its hooks are not lists.
    """
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


def remove_entries(text: str, original: object = None) -> str:
    """Return the text without our handlers, and without parents that are empty then and not so in the `original` value.

    Raises:
        JsoncError: the text is not JSON with comments.
    """
    while (own_handler := next(find_entries(text), None)) is not None:
        path = own_handler.path
        text = remove_child(text, path)
        while len(path) > 1:
            path = path[:-1]
            parent = find_node(parse_jsonc(text), path)
            # A group that has lost its only handler goes, with any matcher; so does an empty list or object.
            is_group = isinstance(path[-1], int)
            is_empty = parent is not None and not (parent.value.get("hooks") if is_group else parent.value)
            if not is_empty or (not is_group and contains_path(original, path)):
                break
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

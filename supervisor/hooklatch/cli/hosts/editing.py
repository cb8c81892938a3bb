"""An editor for a text of JSON with comments, which adds and removes values and leaves every other byte as it is.

Nothing is serialised anew.  An added value is text in the file's own style (its indentation, its line ends, one line if
the file is on one line), and a removed value takes its line and comma along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from hooklatch.cli.hosts.jsonc import JsoncError, JsonNode, parse_jsonc

__all__ = ["Path", "append_to_list", "find_node", "remove_child"]

Path = Sequence[str | int]

SPACE: Final = re.compile(r"[ \t]*")
REST_OF_LINE: Final = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/[ \t]*(?=[\r\n]))?")


def find_node(root: JsonNode | None, path: Path) -> JsonNode | None:
    """Return the value at a path of keys and indices, None if it is not there."""
    node = root
    for step in path:
        if node is None:
            return None
        node = node.get(step) if isinstance(step, str) else next(iter(node.items[step : step + 1]), None)
    return node


def append_to_list(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value as the last of the list at `path`, whose missing parents are made.

    Raises:
        JsoncError: the text is not JSON with comments, or a value on the path is not an object or not a list.
    """
    return insert_value(text, path, value, is_list=True)


def insert_value(text: str, path: Sequence[str], value: Any, *, is_list: bool) -> str:
    """Return the text with a value in the list at `path`, or as the value of that key."""
    root = parse_jsonc(text)
    if root is None:
        return start_document(text, path, [value] if is_list else value)
    node = root
    for number, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise JsoncError(f"expected an object for {'.'.join(path[:number]) or 'the whole'}", text, node.start)
        inner = node.get(key)
        if inner is None:
            rest: Any = [value] if is_list else value
            for outer in reversed(path[number + 1 :]):
                rest = {outer: rest}
            return append_child(text, node, rest, key)
        node = inner
    if not is_list:
        raise JsoncError(f"{'.'.join(path)} is there already", text, node.start)
    if not isinstance(node.value, list):
        raise JsoncError(f"expected a list for {'.'.join(path)}", text, node.start)
    return append_child(text, node, value, None)


def start_document(text: str, path: Sequence[str], value: Any) -> str:
    for key in reversed(path):
        value = {key: value}
    end = find_newline(text)
    lead = "" if not text or text.endswith(("\n", "\r", "\ufeff")) else end
    return f"{text}{lead}{json.dumps(value, indent=2, ensure_ascii=False).replace(chr(10), end)}{end}"


def append_child(text: str, node: JsonNode, value: Any, key: str | None) -> str:
    """Return the text with a child behind the last one of a list or an object."""
    end, unit = find_newline(text), find_indent_unit(text)
    is_flat = not has_lines(text) or (bool(node.children) and "\n" not in text[node.start : node.children[0].start])
    if is_flat:
        new = ("" if key is None else f"{dump_json(key)}: ") + dump_json(value)
        if not node.children:
            place = find_insertion_point(text, node, " \t")
            return text[:place] + new + text[place:]
        if node.commas[-1] >= 0:
            place = node.commas[-1] + 1
            return f"{text[:place]} {new},{text[place:]}"
        place = node.children[-1].end
        return f"{text[:place]}, {new}{text[place:]}"
    outer = find_indent(text, node.start)
    inner = find_indent(text, node.children[0].start) if node.children else outer + unit
    new = ("" if key is None else f"{dump_json(key)}: ") + json.dumps(value, indent=unit, ensure_ascii=False)
    new = end + inner + new.replace("\n", end + inner)
    if not node.children:
        place = find_insertion_point(text, node, " \t\r\n")
        close = "" if has_lines(text[place : node.end - 1]) else end + outer
        return text[:place] + new + close + text[place:]
    last, comma = node.children[-1].end, node.commas[-1]
    # A comment behind the last child, on its line, stays with it.
    place = end_of_line(text, comma + 1 if comma >= 0 else last)
    if comma >= 0:
        return f"{text[:place]}{new},{text[place:]}"
    return f"{text[:last]},{text[last:place]}{new}{text[place:]}"


def remove_child(text: str, path: Path) -> str:
    """Return the text without the child at a path, its comma, and its line if nothing else is on it.

    Raises:
        JsoncError: the text is not JSON with comments.
        KeyError: there is no such child.
    """
    node = find_node(parse_jsonc(text), path[:-1])
    index = find_index(node, path[-1])
    if node is None or index is None:
        raise KeyError(path)
    child = node.children[index]
    start, end, comma = child.start, child.end, node.commas[index]
    is_only = len(node.children) == 1
    if comma >= 0 and text[end:comma].strip(" \t\r\n") == "":
        end = comma + 1
        comma = -1
    line = text[:start].rstrip(" \t")
    rest = REST_OF_LINE.match(text, end)
    is_own_line = line.endswith("\n") and rest is not None and text[rest.end() : rest.end() + 1] in ("\r", "\n")
    if is_own_line and (text[end : rest.end()].strip() == "" if rest else True):
        start = len(line) - (
            2 if line.endswith("\r\n") else 1
        )  # the line end before the child goes, the one behind it stays
        end = rest.end() if rest else end
    elif index == 0:
        end = SPACE.match(text, end).end() if not is_only else end  # type: ignore[union-attr]
    else:
        start = len(line)
    head, tail = text[:start], text[end:]
    if comma >= 0:  # a comment between the child and its comma, which stays
        tail = text[end:comma] + text[comma + 1 :]
    elif index and index == len(node.children) - 1 and node.commas[index] < 0:
        before = node.commas[index - 1]
        head = head[:before] + head[before + 1 :]
    if is_only and text[node.start + 1 : node.end - 1].strip() == text[child.start : child.end].strip():
        return text[: node.start + 1] + text[node.end - 1 :]  # `{}` rather than an empty line
    return head + tail


def find_index(node: JsonNode | None, step: str | int) -> int | None:
    if node is None:
        return None
    if isinstance(step, int):
        return step if step < len(node.items) else None
    return next((number for number, member in enumerate(node.members) if member.key == step), None)


def find_insertion_point(text: str, node: JsonNode, spaces: str) -> int:
    """Return the position for the first child of an empty list or object: behind its bracket, or a comment in it."""
    return node.start + 1 + len(text[node.start + 1 : node.end - 1].rstrip(spaces))


def end_of_line(text: str, position: int) -> int:
    match = REST_OF_LINE.match(text, position)
    end = match.end() if match else position
    return end if text[position:end].strip() else position


def find_indent(text: str, position: int) -> str:
    begin = text.rfind("\n", 0, position) + 1
    match = SPACE.match(text, begin)
    return match.group() if match else ""


def find_indent_unit(text: str) -> str:
    """Return the indentation of the file, from the first key or element that has its own line."""
    match = re.search(r'[{\[](?:[ \t]*(?://[^\n]*)?\r?\n)+([ \t]+)["{\[]', text)
    return match.group(1) if match else "  "


def find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def has_lines(text: str) -> bool:
    return "\n" in text.strip()


def dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

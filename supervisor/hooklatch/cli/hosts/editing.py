"""A parser and an editor for a text of JSON with comments and trailing commas, which keeps every other byte as it is.

A key that occurs twice is refused, since of two parsers each may take another value: that raises JsoncError here, as
does any text of another form.  Nothing is serialised anew.  An added value is text in the file's own style (its
indentation, its line ends, one line if the file is on one line), and a removed value takes its line and comma along.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = [
    "MARK", "JsoncError", "JsonNode", "find_beyond_json", "parse_jsonc", "Path", "append_to_list", "find_node",
    "remove_child",
]  # fmt: skip

MAX_DEPTH: Final = 200  # far above any settings file, far below Python's own limit
TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WORDS: Final = {"true": True, "false": False, "null": None}
MARK: Final = "\ufeff"  # a byte order mark


class JsoncError(ValueError):
    """A text that is not JSON with comments; `line` and `column` count from 1."""

    def __init__(self, what: str, text: str, position: int) -> None:
        self.line = text.count("\n", 0, position) + 1
        self.column = position - (text.rfind("\n", 0, position) + 1) + 1
        self.what = what
        super().__init__(f"line {self.line}, column {self.column}: {what}")


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A key of an object, from its opening quotation mark to the end of its value."""

    key: str
    start: int
    value: JsonNode

    @property
    def end(self) -> int:
        return self.value.end


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value and its place: text[start:end].

    `commas` has the position of the comma behind each child, -1 for the last one where it has none.
    """

    start: int
    end: int
    value: Any
    members: list[JsonMember] = field(default_factory=list[JsonMember])
    items: list[JsonNode] = field(default_factory=list["JsonNode"])
    commas: list[int] = field(default_factory=list[int])

    @property
    def children(self) -> list[JsonMember] | list[JsonNode]:
        return self.members or self.items

    def get(self, key: str) -> JsonNode | None:
        """Return the value of a key of an object."""
        return next((member.value for member in self.members if member.key == key), None)


class JsoncParser:
    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, position: int) -> int:
        match = TRIVIA.match(self.text, position)
        position = match.end() if match else position
        if self.text.startswith("/*", position):
            raise JsoncError("a comment is not closed", self.text, position)
        return position

    def parse_value(self, position: int, depth: int) -> JsonNode:
        text = self.text
        if depth > MAX_DEPTH:
            raise JsoncError("it is nested too deeply", text, position)
        letter = text[position : position + 1]
        if letter == "{":
            return self.parse_container(position, depth, "}")
        if letter == "[":
            return self.parse_container(position, depth, "]")
        if letter == '"':
            return self.parse_string(position)
        if match := NUMBER.match(text, position):
            return JsonNode(position, match.end(), json.loads(match.group()))
        for word, value in WORDS.items():
            if text.startswith(word, position):
                return JsonNode(position, position + len(word), value)
        raise JsoncError(f"expected a value, found {self.format_letter(position)}", text, position)

    def parse_string(self, position: int) -> JsonNode:
        match = STRING.match(self.text, position)
        if match is None:
            problem = "a text in quotation marks that is not closed or has an invalid character"
            if self.text[position : position + 1] != '"':
                problem = f"expected a key in quotation marks, found {self.format_letter(position)}"
            raise JsoncError(problem, self.text, position)
        literal = match.group()
        return JsonNode(position, match.end(), json.loads(literal) if "\\" in literal else literal[1:-1])

    def parse_container(self, start: int, depth: int, close: str) -> JsonNode:
        members: list[JsonMember] = []
        items: list[JsonNode] = []
        commas: list[int] = []
        position = self.skip(start + 1)
        while self.text[position : position + 1] != close:
            if commas and commas[-1] < 0:
                raise JsoncError(
                    f"expected ',' or {close!r}, found {self.format_letter(position)}", self.text, position
                )
            if close == "}":
                members.append(self.parse_member(position, depth, members))
                position = self.skip(members[-1].end)
            else:
                items.append(self.parse_value(position, depth + 1))
                position = self.skip(items[-1].end)
            is_comma = self.text[position : position + 1] == ","
            commas.append(position if is_comma else -1)
            position = self.skip(position + 1) if is_comma else position
        value = (
            {member.key: member.value.value for member in members} if close == "}" else [item.value for item in items]
        )
        return JsonNode(start, position + 1, value, members, items, commas)

    def parse_member(self, position: int, depth: int, before: list[JsonMember]) -> JsonMember:
        key = self.parse_string(position)
        if any(member.key == key.value for member in before):
            raise JsoncError(f"the key {key.value!r} occurs twice", self.text, position)
        colon = self.skip(key.end)
        if self.text[colon : colon + 1] != ":":
            raise JsoncError(f"expected ':', found {self.format_letter(colon)}", self.text, colon)
        return JsonMember(key.value, position, self.parse_value(self.skip(colon + 1), depth + 1))

    def format_letter(self, position: int) -> str:
        return repr(self.text[position]) if position < len(self.text) else "the end of the file"


@functools.lru_cache(maxsize=4)  # an edit parses each of its texts several times
def parse_jsonc(text: str) -> JsonNode | None:
    """Return the value in a text, None if it holds only space and comments; callers must not change it."""
    parser = JsoncParser(text)
    position = parser.skip(0)
    if position == len(text):
        return None
    root = parser.parse_value(position, 0)
    end = parser.skip(root.end)
    if end != len(text):
        raise JsoncError(f"expected the end of the file, found {parser.format_letter(end)}", text, end)
    return root


def find_beyond_json(text: str, *, has_comments: bool, has_commas: bool = False) -> JsoncError | None:
    """Return the first part of a text that a parser of plain JSON refuses: a comment, or a comma too many.

    `has_comments`, `has_commas`: the parser accepts these.
    """
    position = 0
    while position < len(text):
        if match := STRING.match(text, position):
            position = match.end()
        elif text.startswith(("//", "/*"), position):
            if not has_comments:
                return JsoncError("a comment", text, position)
            position = max(JsoncParser(text).skip(position), position + 1)
        elif (
            not has_commas and text[position] == "," and text[JsoncParser(text).skip(position + 1) :][:1] in ("}", "]")
        ):
            return JsoncError("a comma before a closing bracket", text, position)
        else:
            position += 1
    return None


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
    """Return the text with a value as the last of the list at `path`, whose missing parents are made."""
    return insert_value(text, path, value, is_list=True)


def insert_value(text: str, path: Sequence[str], value: Any, *, is_list: bool) -> str:
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

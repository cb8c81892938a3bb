"""A parser for JSON with comments and trailing commas, which keeps the position of every value.

A key that occurs twice is refused, since of two parsers each may take another value.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["JsoncError", "JsonMember", "JsonNode", "find_beyond_json", "parse_jsonc"]

MAX_DEPTH: Final = 200  # far above any settings file, far below Python's own limit
TRIVIA: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WORDS: Final = {"true": True, "false": False, "null": None}


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
        return JsonNode(position, match.end(), json.loads(match.group()))

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
    """Return the value in a text, None if it holds only space and comments; callers must not change it.

    Raises:
        JsoncError: it is not JSON with comments, or a key occurs twice in one object.
    """
    parser = JsoncParser(text)
    position = parser.skip(0)
    if position == len(text):
        return None
    root = parser.parse_value(position, 0)
    end = parser.skip(root.end)
    if end != len(text):
        raise JsoncError(f"expected the end of the file, found {parser.format_letter(end)}", text, end)
    return root


def find_beyond_json(text: str, *, has_comments: bool) -> JsoncError | None:
    """Return the first part of a text that a parser of plain JSON refuses: a comment, or a comma too many.

    `has_comments`: the parser accepts comments.
    """
    position = 0
    while position < len(text):
        if match := STRING.match(text, position):
            position = match.end()
        elif text.startswith(("//", "/*"), position):
            if not has_comments:
                return JsoncError("a comment", text, position)
            position = max(JsoncParser(text).skip(position), position + 1)
        elif text[position] == "," and text[JsoncParser(text).skip(position + 1) :][:1] in ("}", "]"):
            return JsoncError("a comma before a closing bracket", text, position)
        else:
            position += 1
    return None

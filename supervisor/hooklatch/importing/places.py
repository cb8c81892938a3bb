"""An index of the line of each part of a JSON document, which must be valid.

The standard parser does not report positions, and a message about a guard must name the line to look at.
"""

from __future__ import annotations

import json
import re

__all__ = ["find_line", "index_json_lines"]

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n')
STEP = re.compile(r"(?:\.[^.\[]*|\[\d+\])$")  # the last step of a place


def index_json_lines(text: str) -> dict[str, int]:
    """Return the line of each member and element of valid JSON, by its place such as `hooks.Stop[1].command`.

    Elements are counted from 1, as in messages.
    """
    lines: dict[str, int] = {}
    line = 1
    path: list[str | int] = []  # a key for each open object, a number for each open list
    is_key = False
    for found in TOKEN.finditer(text):
        token = found[0]
        match token:
            case "\n":
                line += 1
            case "{":
                path.append("")
                is_key = True
            case "[":
                path.append(1)
                lines.setdefault(format_json_path(path), line)
            case "}" | "]":
                path.pop()
                is_key = False
            case ",":
                step = path[-1]
                is_key = isinstance(step, str)
                if isinstance(step, int):
                    path[-1] = step + 1
            case ":":
                is_key = False
            case _:
                if is_key:
                    path[-1] = json.loads(token, strict=False)
                    lines[format_json_path(path)] = line
                elif path and isinstance(path[-1], int):
                    lines[format_json_path(path)] = line
        if token == "{" and len(path) > 1 and isinstance(path[-2], int):
            lines[format_json_path(path[:-1])] = line
    return lines


def find_line(lines: dict[str, int], place: str) -> int:
    """Return the line of a place, or of the nearest enclosing one; 0 if unknown."""
    while place and place not in lines:
        shorter = STEP.sub("", place)
        place = shorter if shorter != place else ""
    return lines.get(place, 0)


def format_json_path(path: list[str | int]) -> str:
    place = ""
    for step in path:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place

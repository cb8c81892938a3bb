"""The subject of a decision: what was judged, such as a command, a path or a URL, for the first place in each list.

It is made from what is recorded of the payload, so it holds no secret that the record hides, and possibly no more than
the beginning.  Every character of it can be shown at a terminal.  No field is trusted to be there, or of its type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hooklatch.core.light_json import as_object, is_list, is_object, parse_own_object, quote_unicode, serialize_json
from hooklatch.core.text import escape_text
from hooklatch_worker.author.tools import KINDS, OTHER, UnclearToolError, arguments, find_tool_kind_by_name

__all__ = ["MAX_SUBJECT", "describe_subject", "find_kind", "read_payload", "read_subject", "read_tool_name"]

MAX_SUBJECT = 300  # characters; a list cuts it further, to its width
# Of an event that is not about a tool's input, the first of these that it has.
KEYS = (
    "prompt", "text", "message", "subject", "command_name", "url", "path", "file_path", "worktree_path", "name",
    "to_model", "to", "title", "error", "reason", "trigger", "source", "finish_reason", "agent_type", "tool_name",
)  # fmt: skip
TOKENS = r'(?s)"(?:[^"\\]|\\.)*("?)|[{}\[\],]'
CLOSING = {"{": "}", "[": "]"}
LONGEST_ESCAPE = 6  # characters, as in \u001b


def read_subject(table: Mapping[str, object]) -> str:
    """Return the subject of a record of a decision, or of an ask, which have their payload in the same fields."""
    if isinstance(known := table.get("subject"), str):
        return clip_subject(known)
    return describe_subject(str(table.get("event") or ""), read_tool_name(table), read_payload(table))


def read_tool_name(table: Mapping[str, object]) -> str | None:
    """Return the tool of a record or of an ask; None if it is not about one, or that is not recorded."""
    if not isinstance(name := table.get("tool"), str):
        name = payload.get("tool_name") if (payload := read_payload(table)) else None
    return name if isinstance(name, str) else None


def read_payload(table: Mapping[str, object]) -> Mapping[str, object] | None:
    cut, excerpt = table.get("excerpt_cut"), table.get("excerpt")
    if isinstance(cut, str):
        return read_cut_object(cut)
    return excerpt if is_object(excerpt) else None


def describe_subject(event: str, tool: str | None, payload: object) -> str:
    """Return the subject of an event from its payload, as far as that is known; else the tool's name, or the event's.

    A payload that is not an object is one that is not known.
    """
    fields = as_object(payload)
    name = fields.get("tool_name")
    tool = name if isinstance(name, str) else tool
    subject = ""
    for key in ("tool_input", "tool_args"):
        if not subject and is_object(tool_input := fields.get(key)):
            subject = describe_tool_input(find_kind(tool or "", fields.get("tool_kind")), tool or "", tool_input)
    values = (value for key in KEYS if isinstance(value := fields.get(key), str) and value.strip())
    return clip_subject(subject or next(values, "") or tool or event)


def clip_subject(text: str) -> str:
    shown = escape_text(text[: MAX_SUBJECT + 1])
    return shown if len(shown) <= MAX_SUBJECT else f"{shown[: MAX_SUBJECT - 1]}…"


def find_kind(tool: str, claimed: object) -> str:
    """Return the kind of a tool: by its name if that is known, since an agent can claim another one."""
    kind = find_tool_kind_by_name(tool)
    return claimed if kind == OTHER and isinstance(claimed, str) and claimed in KINDS else kind


def describe_tool_input(kind: str, tool: str, tool_input: Mapping[str, object]) -> str:
    if isinstance(size := tool_input.get("omitted_bytes"), int) and len(tool_input) == 1:
        return f"{tool} ({size} bytes)"
    if kind == OTHER and len(tool_input) == 1 and isinstance(only := next(iter(tool_input.values())), str) and only:
        return only
    try:
        whole = serialize_json(dict(tool_input), quote_unicode) if tool_input else ""
    except (ValueError, RecursionError):  # not of a record, which holds plain JSON
        whole = ""
    if kind == "mcp":
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return " ".join(filter(None, (server, name, whole)))
    try:
        given = arguments(kind, tool_input)
    except UnclearToolError:
        return whole  # all of it: two of its fields may say different things
    paths = given.get("paths")
    match kind:
        case "shell":
            parts = [given.get("command")]
        case "read" | "write":
            parts = [given.get("path")]
        case "edit" if is_list(paths):
            parts = paths
        case "search":
            parts = [given.get("pattern"), given.get("path")]
        case "fetch":
            parts = [given.get("url") or given.get("query") or given.get("prompt")]
        case "subagent":
            parts = [given.get("type"), given.get("prompt")]
        case _:
            parts = []
    return " ".join(part for part in parts if isinstance(part, str) and part) or whole


def read_cut_object(text: str) -> dict[str, object] | None:
    """Return what the beginning of an object's JSON holds; a text in it that is cut ends in an ellipsis."""
    open_brackets: list[str] = []
    is_in_text, safe = False, ""
    for token in re.finditer(TOKENS, text):
        mark = token[0][0]
        if mark == '"':
            is_in_text = not token[1]
        elif mark in CLOSING:
            open_brackets.append(CLOSING[mark])
            safe = text[: token.end()] + "".join(reversed(open_brackets))
        elif mark == ",":
            safe = text[: token.start()] + "".join(reversed(open_brackets))
        elif open_brackets:
            open_brackets.pop()
    ends = [len(text) - fewer for fewer in range(LONGEST_ESCAPE + 1)] if is_in_text else [len(text)]
    closing = ('…"' if is_in_text else "") + "".join(reversed(open_brackets))
    candidates = (*(f"{text[:end]}{closing}" for end in ends), safe)
    return next((found for text in candidates if (found := parse_own_object(text.encode())) is not None), None)

"""Answers to exactly one call, which a person gave each time: what `hooklatch suggest` writes into hooks.

A call is the same if its event, tool, folder and whole input are; a shell's `description` and `timeout` do not count.
"""

from __future__ import annotations

import functools
import json
import os
import stat
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, cast

from msgspec.structs import replace

from hooklatch_worker.author.composition import is_verdict
from hooklatch_worker.author.event import Event
from hooklatch_worker.author.tools import UnclearToolError, find_tool_kind_by_name

__all__ = ["allow_same_call", "describe_call", "is_same_call"]

PARTS = ("tool_input", "tool_args", "tool_kind")
SAYING = {"shell": ("description", "timeout")}  # keys of an input that do not change what is done
CO_COROUTINE = 0x80  # from inspect, whose import takes long


def describe_call(payload: Mapping[str, Any]) -> str:
    """Return what a tool was called with, as JSON in ASCII: the same for the same calls of one tool."""
    skipped = SAYING.get(find_tool_kind_by_name(str(payload.get("tool_name"))), ())
    parts: dict[str, object] = {}
    for name in PARTS:
        if name in payload:
            part = payload[name]
            known = cast("dict[str, object]", part) if isinstance(part, dict) else None
            parts[name] = part if known is None else {key: known[key] for key in known if key not in skipped}
    return json.dumps(parts, sort_keys=True)


def is_same_call(event: Event, *, of: str, tool: str, cwd: str | None, call: str) -> bool:
    """Return whether an event is this call: the event's name `of`, the tool's name, the folder, and `describe_call`."""
    is_of_tool = event.event == of and event.payload.get("tool_name") == tool and event.cwd == cwd
    return is_of_tool and describe_call(event.payload) == call


def allow_same_call(*, of: str, tool: str, cwd: str, call: str, reason: str) -> Callable[[Any], Any]:
    """Return a decorator that allows one call where the decorated hook asks about it; every other answer stays.

    It goes below `@hook`.  An ask about a file stays too if its path has a link by now, or "..".
    """

    def decorate(function: FunctionType) -> Callable[[Event], object]:
        def is_allowed(event: Event) -> bool:
            same = is_same_call(event, of=of, tool=tool, cwd=cwd, call=call)
            return same and (find_tool_kind_by_name(tool) not in ("read", "write", "edit") or has_plain_paths(event))

        def answer_ask(answer: object, *, is_ours: bool) -> object:
            if is_ours and is_verdict(answer) and answer.verdict == "ask":
                return replace(answer, verdict="allow", reason=reason, instead=None)
            return answer

        # Compared before the function is called, which could change the payload.
        @functools.wraps(function)
        def answered(event: Event) -> object:
            is_ours = is_allowed(event)
            return answer_ask(function(event), is_ours=is_ours)

        @functools.wraps(function)
        async def answered_later(event: Event) -> object:
            is_ours = is_allowed(event)
            return answer_ask(await function(event), is_ours=is_ours)

        return answered_later if function.__code__.co_flags & CO_COROUTINE else answered

    return decorate


def has_plain_paths(event: Event) -> bool:
    """Return whether the files of a tool are what their paths say, without links, ".." and "~"."""
    try:
        paths = cast("list[object]", cast("Any", event).paths)
    except (AttributeError, UnclearToolError):
        return False
    return bool(paths) and all(isinstance(path, str) and is_plain_path(event.cwd or "/", path) for path in paths)


def is_plain_path(cwd: str, path: str) -> bool:
    whole = os.path.join(cwd, path)
    if path.startswith("~") or ".." in whole.split("/"):  # the folder above a link is not the one in the path
        return False
    whole = os.path.normpath(whole)
    folder = os.path.dirname(whole)
    try:
        return os.path.realpath(folder, strict=True) == folder and not stat.S_ISLNK(os.lstat(whole).st_mode)
    except FileNotFoundError:
        return os.path.isdir(folder)  # a new file; a folder that is not seen from here may be a link
    except (OSError, ValueError):
        return False

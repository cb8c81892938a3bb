"""The data of one `@hook` marker, an event and the hook's settings, and the checks of what an author wrote there.

It knows shapes, but neither the catalogue nor the syntax of patterns: the daemon checks the names of events, patterns
and conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any, Literal, cast

from msgspec import Struct

from hooklatch_worker.author.verdicts import GarbageError, check_plain

__all__ = [
    "BOTH", "MAX_TIMEOUT", "MarkedEvent", "validate_config", "validate_events", "validate_files", "validate_flag",
    "validate_match", "validate_priority", "validate_runtime", "validate_text", "validate_hook_timeout",
    "validate_where", "find_file_name_fault",
]  # fmt: skip

BOTH = "amends says that it changes the payload, only_judges that it changes nothing: remove one of them"
MAX_TIMEOUT = 600.0  # seconds; a larger number is most likely in milliseconds


class MarkedEvent(Struct, frozen=True, kw_only=True):
    """One event that a function serves, with the settings of that hook."""

    event: str
    match: str | list[str] | dict[str, Any] | None = None
    where: dict[str, Any] | None = None
    id: str | None = None
    priority: int = 100
    timeout: float | None = None
    description: str = ""
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False
    only_judges: bool = False
    config: dict[str, Any] | None = None
    runtime: Literal["trio", "asyncio"] = "trio"
    files: tuple[str, ...] = ()


def validate_events(event: object) -> list[str]:
    if event is None or isinstance(event, FunctionType):
        raise TypeError('@hook needs the event: write @hook("pre_tool_use")')
    if isinstance(event, str):
        return [validate_text("event", event)]
    if not isinstance(event, list):
        raise TypeError(f"event is a str or a list of str, not a {type(event).__name__!r}")
    names = [validate_text("event", name) for name in cast("list[object]", event)]
    if not names:
        raise ValueError("event is an empty list; name at least one event")
    if len(set(names)) < len(names):
        raise ValueError(f"event names one event twice: {names!r}")
    return names


def validate_match(match: object) -> str | list[str] | dict[str, Any] | None:
    if match is None:
        return None
    if isinstance(match, str):
        return validate_text("match", match)
    if isinstance(match, list):
        names = [validate_text("match", name) for name in cast("list[object]", match)]
        if not names:
            raise ValueError("match is an empty list, which matches nothing; leave it out to match all")
        return names
    if isinstance(match, Mapping):
        return validate_match_pattern(dict(cast("Mapping[object, object]", match)))
    raise TypeError(f"match is a str, a list of str or a dict, not a {type(match).__name__!r}")


def validate_match_pattern(pattern: dict[object, object]) -> dict[str, Any]:
    match pattern:
        case {"glob": glob, **others} if not others:
            return {"glob": validate_text("match glob", glob)}
        case {"regex": regex, "search": search, **others} if not others:
            return {"regex": validate_text("match regex", regex), "search": validate_flag("match search", search)}
        case {"regex": regex, **others} if not others:
            return {"regex": validate_text("match regex", regex)}
        case _:
            raise ValueError(
                f'match is {pattern!r}; write {{"glob": "mcp__*"}}, {{"regex": "Edit|Write"}} '
                'or {"regex": "Edit", "search": True}'
            )


def validate_where(where: object) -> dict[str, Any] | None:
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise TypeError(f"where is a dict of fields, not a {type(where).__name__!r}")
    table = dict(cast("Mapping[str, Any]", where))
    if not table:
        raise ValueError('where is empty; write {"command": "git push"}, or leave it out to match all')
    try:
        check_plain(table, "where")
    except GarbageError as error:
        raise ValueError(str(error)) from None
    return table


def validate_priority(priority: object) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"priority is an int, not a {type(priority).__name__!r}")
    if not 0 <= priority <= 1000:
        raise ValueError(f"priority is {priority}; it goes from 0 to 1000, and higher ones are asked first")
    return priority


def validate_hook_timeout(timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is a number of seconds, not a {type(timeout).__name__!r}")
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ValueError(
            f"timeout is {timeout}; it is in seconds, not milliseconds: more than 0, at most {MAX_TIMEOUT:g}"
        )
    return float(timeout)


def validate_config(config: object) -> dict[str, Any] | None:
    if config is None:
        return None
    if not isinstance(config, dict):
        raise TypeError(f"config is a dict, not a {type(config).__name__!r}")
    try:
        check_plain(cast("object", config), "config")
    except GarbageError as error:
        raise ValueError(str(error)) from None
    return cast("dict[str, Any]", config)


def validate_runtime(runtime: object) -> Literal["trio", "asyncio"]:
    if runtime == "trio":
        return "trio"
    if runtime == "asyncio":
        return "asyncio"
    raise ValueError(f"runtime is {runtime!r}; write 'trio' or 'asyncio'")


def validate_files(files: object) -> tuple[str, ...]:
    if not isinstance(files, (list, tuple)):
        raise TypeError(f"files is a list of names, not a {type(files).__name__!r}")
    names = tuple(validate_text("files", name) for name in cast("list[object]", files))
    for name in names:
        if (fault := find_file_name_fault(name)) is not None:
            raise ValueError(fault)
    return names


def find_file_name_fault(name: str) -> str | None:
    """Return why a file beside a source cannot be named so; None if it can."""
    if not name or name.startswith("/") or "\0" in name or {"", ".", ".."}.intersection(name.split("/")):
        return f"files names {name!r}; it takes files in the folder of the hooks' file or below it, relative to that"
    return None


def validate_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not a {type(value).__name__!r}")
    return value


def validate_text(name: str, value: object, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not a {type(value).__name__!r}")
    if not value and not may_be_empty:
        raise ValueError(f"{name} is empty")
    return value

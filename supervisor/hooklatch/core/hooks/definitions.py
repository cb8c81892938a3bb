"""What a person writes to declare a hook, checked.  Knows shapes and names; knows no file and no catalogue of events.

The same definition comes from a TOML table, from `register`, and from a function marked with @hook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, cast

import msgspec

from hooklatch.core.hooks.matchers import Matcher, MatcherError, compile_matcher
from hooklatch.core.hooks.names import is_like_a_name
from hooklatch.core.hooks.shell_definitions import SHELL_KEYS, ShellCommand, read_shell
from hooklatch.core.text import did_you_mean
from hooklatch_worker.author.failures import clipped
from hooklatch_worker.author.marker import Marker

__all__ = [
    "HookDefinition",
    "InvalidHookError",
    "from_marker",
    "is_id",
    "read_changes",
    "read_definition",
    "refuse_unknown_keys",
]

MAX_TIMEOUT = 600.0  # seconds
MAX_PRIORITY = 1000
MAX_ID = 200  # characters
FORBIDDEN = frozenset("\n\r\0")  # in ids: they would break a line of the log or of a table
KEYS = (
    "id", "event", "match", "run", "served", "priority", "timeout", "description",
    "enabled", "observe", "optional", "amends", "config", "plugin", *SHELL_KEYS,
)  # fmt: skip


class InvalidHookError(ValueError):
    """A definition that cannot be accepted: which one, what is wrong, what to write."""

    def __init__(self, hook_id: str, reason: str) -> None:
        self.hook_id = hook_id
        self.reason = clipped(reason)
        super().__init__(f"hook {clipped(hook_id)!r}: {self.reason}" if hook_id else self.reason)


class HookDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One hook as declared; `problem` says why its matcher cannot be used, where that did not refuse it."""

    id: str
    event: str
    matcher: Matcher
    run: str | None = None
    shell: ShellCommand | None = None
    served: bool = False
    priority: int = 100
    timeout: float | None = None
    description: str = ""
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False
    config: bytes = b""
    runtime: str = "trio"
    line: int = 0
    problem: str | None = None
    plugin: str | None = None


def refuse_unknown_keys(table: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse a key that nobody reads, naming the nearest one that somebody does.

    Raises:
        InvalidHookError: there is such a key.
    """
    known = list(known)
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"; it takes {', '.join(known)}"
            raise InvalidHookError("", f"{what} has no key {key!r}{hint}")


def read_definition(table: object, *, is_lenient: bool = False) -> list[HookDefinition]:
    """Read one definition; it gives a hook for each of its events.

    `is_lenient` keeps a hook whose matcher is bad and marks it with the `problem`, as a file's hooks are: a gate
    that cannot be matched must deny and be seen, not vanish.

    Raises:
        InvalidHookError: it is no definition; the text says what to write instead.
    """
    if not isinstance(table, Mapping):
        raise InvalidHookError("", f"a hook is a table, not {type(table).__name__}")
    raw = cast("Mapping[str, Any]", table)
    hook_id = text_of(raw, "id", "", default=None)
    name = hook_id or ""
    try:
        refuse_unknown_keys(raw, KEYS, "a hook")
    except InvalidHookError as error:
        raise InvalidHookError(name, error.reason) from None
    run, served = text_of(raw, "run", name, default=None), flag_of(raw, "served", name)
    try:
        shell = read_shell(raw)
    except ValueError as error:
        raise InvalidHookError(name, str(error)) from None
    if (run is not None) + (shell is not None) + served != 1:
        raise InvalidHookError(
            name, 'it needs one target: run = "file.py:function", a command or argv, or served = true over the API'
        )
    if run is not None and not run.partition(":")[2]:
        raise InvalidHookError(name, f'run is "file.py:function" or "module:function", not {run!r}')
    events = events_of(raw, name)
    if hook_id is None:
        if run is None:
            raise InvalidHookError("", 'it has no id; write id = "a-name"')
        hook_id = default_id(run)
    matcher, problem = matcher_of(raw.get("match"), hook_id, is_lenient=is_lenient)
    return [
        HookDefinition(
            id=hook_id if len(events) == 1 else f"{hook_id}@{event}",
            event=event,
            matcher=matcher,
            run=run,
            shell=shell,
            served=served,
            priority=priority_of(raw, hook_id),
            timeout=timeout_of(raw.get("timeout"), hook_id),
            description=text_of(raw, "description", hook_id, default=""),
            enabled=flag_of(raw, "enabled", hook_id, default=True),
            observe=flag_of(raw, "observe", hook_id),
            optional=flag_of(raw, "optional", hook_id),
            amends=flag_of(raw, "amends", hook_id),
            config=config_of(raw.get("config"), hook_id),
            problem=problem,
            plugin=text_of(raw, "plugin", hook_id, default=None),
        )
        for event in events
    ]


def from_marker(marker: Marker, *, stem: str, function: str, line: int, has_siblings: bool) -> HookDefinition:
    """Make the definition that a decorated function stands for; a bad matcher is its `problem`.

    Raises:
        InvalidHookError: its id or its config cannot be used.
    """
    hook_id = text_of({"id": marker.id}, "id", function, default=None) if marker.id else f"{stem}:{function}"
    if has_siblings:
        hook_id = f"{hook_id}@{marker.event}"
    matcher, problem = matcher_of(marker.match, hook_id, is_lenient=True)
    return HookDefinition(
        id=hook_id,
        event=marker.event,
        matcher=matcher,
        priority=marker.priority,
        timeout=marker.timeout,
        description=marker.description,
        enabled=marker.enabled,
        observe=marker.observe,
        optional=marker.optional,
        amends=marker.amends,
        config=config_of(marker.config, hook_id),
        runtime=marker.runtime,
        line=line,
        problem=problem,
    )


def read_changes(table: Mapping[str, Any], hook_id: str) -> dict[str, Any]:
    """Check what an operator changes of a hook that somebody else declared.

    Raises:
        InvalidHookError: a value is one that the key cannot have.
    """
    readers: dict[str, Any] = {
        "priority": lambda: priority_of(table, hook_id),
        "timeout": lambda: timeout_of(table["timeout"], hook_id),
    }
    return {key: readers.get(key, lambda key=key: flag_of(table, key, hook_id))() for key in table}


def matcher_of(source: object, name: str, *, is_lenient: bool) -> tuple[Matcher, str | None]:
    try:
        return compile_matcher(source), None
    except MatcherError as error:
        if not is_lenient:
            raise InvalidHookError(name, f"match: {error}") from None
        return compile_matcher(None), f"match: {error}"


def default_id(run: str) -> str:
    place, _, function = run.partition(":")
    return f"{place.rsplit('/', 1)[-1].removesuffix('.py')}:{function}"


def events_of(raw: Mapping[str, Any], name: str) -> list[str]:
    match raw.get("event"):
        case str() as event if event:
            return [event]
        case [*events] if events and all(isinstance(event, str) and event for event in cast("list[object]", events)):
            return cast("list[str]", events)
        case None:
            raise InvalidHookError(name, 'it has no event; write event = "pre_tool_use"')
        case other:
            raise InvalidHookError(name, f"event is a name or a list of names, not {other!r}")


def text_of(raw: Mapping[str, Any], key: str, name: str, *, default: Any) -> Any:
    value = raw.get(key, default)
    if value is default:
        return value
    if not isinstance(value, str):
        raise InvalidHookError(name, f"{key} is a string, not {value!r}")
    if key == "id" and not is_id(value):
        raise InvalidHookError(name, f"id is a line of text, at most {MAX_ID} characters, not {value[:80]!r}")
    if key == "id" and is_like_a_name(value):
        raise InvalidHookError(name, f"no id begins like {value[:80]!r}: that is how hooks are named in full")
    return value


def is_id(value: str) -> bool:
    """Return whether a text can name a hook or a session: one line, and not a long one."""
    return 0 < len(value) <= MAX_ID and FORBIDDEN.isdisjoint(value)


def flag_of(raw: Mapping[str, Any], key: str, name: str, *, default: bool = False) -> bool:
    value = raw.get(key, default)
    if not isinstance(value, bool):
        raise InvalidHookError(name, f"{key} is true or false, not {value!r}")
    return value


def priority_of(raw: Mapping[str, Any], name: str) -> int:
    value = raw.get("priority", 100)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PRIORITY:
        raise InvalidHookError(name, f"priority is a whole number from 0 to {MAX_PRIORITY}, not {value!r}")
    return value


def timeout_of(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidHookError(name, f"timeout is a number of seconds, not {value!r}")
    if not 0 < value <= MAX_TIMEOUT:
        raise InvalidHookError(
            name, f"timeout is over 0 and at most {MAX_TIMEOUT:.0f} (seconds, not milliseconds), not {value!r}"
        )
    return float(value)


def config_of(value: object, name: str) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, Mapping):
        raise InvalidHookError(name, f"config is a table, not {value!r}")
    try:
        is_sayable = is_finite(cast("object", value))
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidHookError(name, f"config holds what JSON cannot: {error}") from None
    if not is_sayable:
        raise InvalidHookError(name, "config holds nan or inf, which JSON cannot say")
    return encoded


def is_finite(value: object) -> bool:
    """Return whether no number in a value is one that JSON turns into null."""
    if isinstance(value, Mapping):
        return all(is_finite(part) for part in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return all(is_finite(part) for part in cast("Iterable[object]", value))
    return not isinstance(value, float) or isfinite(value)

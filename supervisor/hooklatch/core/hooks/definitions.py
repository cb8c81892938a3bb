"""Definitions of hooks, read and checked.  Knows shapes and names; does not know files or the event catalogue.

The same definition comes from a TOML table, from `register`, and from a function marked with @hook.

    read_definition({"id": "no-push", "event": "pre_tool_use", "run": "guards.py:no_push"})
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import msgspec
from msgspec import Meta

from hooklatch.core.hooks.matchers import InvalidConditionError, Matcher, MatcherError, compile_matcher
from hooklatch.core.hooks.names import LIKE_A_NAME, make_hook_id
from hooklatch.core.hooks.shell_definitions import ARGV, ShellCommand
from hooklatch.core.tables import InvalidTableError, Path, read_table
from hooklatch_worker.author.failures import clip_error_text
from hooklatch_worker.author.marker import BOTH, MAX_TIMEOUT, MarkedEvent

if TYPE_CHECKING:
    from hooklatch.core.hooks.conditions import CompiledWhere

__all__ = [
    "HookDefinition", "HookTable", "InvalidHookError", "NativeHook", "Priority", "Timeout", "derive_hook_id",
    "define_hooks", "define_marked_hook", "is_id", "read_definition",
]  # fmt: skip

MAX_ID = 200  # characters
ONE_LINE = r"^[^\n\r\x00]+$(?!\n)"  # other characters would break a line of the log or of a table
LINE = re.compile(ONE_LINE)
TARGETS = 'run = "file.py:function", a command or argv, or served = true over the API'
KEPT = ("priority", "description", "enabled", "observe", "optional", "plugin")  # settings of the hook that stands in

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Id: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_ID,
        pattern=ONE_LINE,
        extra={"is": f"one line of at most {MAX_ID} characters"},
        description="What the hook is called; several hooks of one layer cannot share it.",
    ),
]
Event: TypeAlias = Annotated[
    Name | Annotated[list[Name], Meta(min_length=1)],
    Meta(examples=["pre_tool_use"], extra={"is": "a name or a list of names"}),
]
Run: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r":[\s\S]",
        extra={"is": '"file.py:function" or "module:function"'},
        description="The function to call; a path is relative to the folder of the file.",
    ),
]
Priority: TypeAlias = Annotated[int, Meta(ge=0, le=1000, description="Hooks with a higher one are asked first.")]
Timeout: TypeAlias = Annotated[
    float,
    Meta(
        gt=0,
        le=int(MAX_TIMEOUT),
        extra={"note": "seconds, not milliseconds"},
        description="Seconds that a call may take; the event has a default.",
    ),
]
TEXT = {"type": "string", "minLength": 1}
MATCHERS = [
    TEXT,
    {"type": "array", "items": TEXT, "minItems": 1},
    {"type": "object", "properties": {"glob": TEXT}, "required": ["glob"], "additionalProperties": False},
    {
        "type": "object",
        "properties": {"regex": TEXT, "search": {"type": "boolean"}},
        "required": ["regex"],
        "additionalProperties": False,
    },
]
# Compiled separately: a hook whose only fault is its matcher can keep its place.
Match: TypeAlias = Annotated[
    Any,
    Meta(
        description="Which values of the event's match field the hook is for; all where there is none.",
        extra_json_schema={"anyOf": MATCHERS},
    ),
]


Conditions: TypeAlias = Annotated[
    Any,
    Meta(
        description="On which inputs the hook is called: fields, and what their values are.",
        extra_json_schema={"type": "object", "minProperties": 1},
    ),
]


class InvalidHookError(InvalidTableError):
    """A definition that is refused; the text names the hook, the fault and what to write instead."""

    def __init__(self, hook_id: str, reason: str, path: Path = ()) -> None:
        self.hook_id = hook_id
        super().__init__(reason, path, table=f"hook {clip_error_text(hook_id)!r}" if hook_id else "")


class HookTable(ShellCommand, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook as a person writes it; a shell hook's table also has the keys of its command."""

    id: Id | None = None
    event: Event
    match: Match = None
    where: Conditions = None
    run: Run | None = None
    served: Annotated[bool, Meta(description="A client serves it: for `register`, not for a file.")] = False
    priority: Priority = 100
    timeout: Timeout | None = None
    description: str = ""
    enabled: bool = True
    observe: Annotated[bool, Meta(description="Run it and record what it says; enforce nothing.")] = False
    optional: Annotated[bool, Meta(description="Its failure lets the action pass, on a gate too.")] = False
    amends: Annotated[bool, Meta(description="It changes the payload, so it runs before the guards.")] = False
    only_judges: Annotated[bool, Meta(description="It changes nothing, so such guards run at the same time.")] = False
    config: dict[str, Any] | None = None
    plugin: str | None = None

    def __post_init__(self) -> None:
        if self.id is not None and (fault := find_id_fault(self.id)) is not None:
            raise InvalidTableError(fault, ("id",))
        if self.command is not None and self.argv is not None:
            raise InvalidTableError("write either command (a shell line) or argv (a program and its arguments)")
        if self.argv is not None and not self.argv[0]:
            raise InvalidTableError(f"argv is {ARGV}, not {self.argv!r}", ("argv",))
        if (self.run is not None) + (self.command is not None or self.argv is not None) + self.served != 1:
            raise InvalidTableError(f"it needs one target: {TARGETS}")
        if self.amends and self.only_judges:
            raise InvalidTableError(BOTH, ("only_judges",))
        if self.id is None and self.run is None:
            raise InvalidTableError('it has no id; write id = "a-name"')


class HookDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One hook as declared; `problem` says why it fails, if it was kept nevertheless."""

    id: str
    event: str
    matcher: Matcher
    where: CompiledWhere | None = None
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
    only_judges: bool = False
    config: bytes = b""
    runtime: str = "trio"
    line: int = 0
    problem: str | None = None
    plugin: str | None = None


class NativeHook(msgspec.Struct, frozen=True):
    """A definition from another system's, and its event there ("" if its event is canonical already).

    With a `fault` it is refused: its table then holds the readable keys, and `written` is the event as it was written.
    """

    table: dict[str, Any]
    event: str
    fault: InvalidHookError | None = None
    written: object = None


def read_definition(table: object, *, is_lenient: bool = False) -> list[HookDefinition]:
    """Read one definition, and return a hook for each of its events.

    `is_lenient`, for the hooks of files, keeps a hook whose matcher or `where` is bad, with the `problem`.  A gate that
    cannot be matched must deny and be visible, not vanish.  A table that states its own `problem` is kept too.

    Raises:
        InvalidHookError: it is not a definition; the text says what to write instead.
    """
    written: Mapping[str, object] = cast("Any", table) if isinstance(table, Mapping) else {}
    if isinstance(problem := written.get("problem"), str):
        return define_stand_ins(written, problem)
    try:
        read = read_table(cast("Any", table), HookTable, "hook")
    except InvalidTableError as error:
        hook_id = written.get("id")
        raise InvalidHookError(hook_id if isinstance(hook_id, str) else "", error.reason, error.path) from None
    return define_hooks(read, written, is_lenient=is_lenient)


def define_hooks(
    table: HookTable, written: Collection[str], *, is_lenient: bool, line: int = 0
) -> list[HookDefinition]:
    """Return the hooks that a table declares, one for each of its events; `written` are the keys in the table.

    Raises:
        InvalidHookError: a key of a shell hook is in another hook, its config cannot be sent, or its matcher or its
            `where` is bad and this is not `is_lenient`.
    """
    hook_id = table.id if table.id is not None else derive_hook_id(table.run or "")
    is_shell = table.command is not None or table.argv is not None
    for key in () if is_shell else ShellCommand.__struct_fields__:
        if key in written:
            raise InvalidHookError(hook_id, f"{key} belongs to a shell hook: one with command or argv", (key,))
    matcher, problem = read_matcher(table.match, hook_id, is_lenient=is_lenient)
    where, unusable = read_where(table.where, hook_id, is_lenient=is_lenient)
    events = [table.event] if isinstance(table.event, str) else table.event
    return [
        HookDefinition(
            id=hook_id if len(events) == 1 else f"{hook_id}@{event}",
            event=event,
            matcher=matcher,
            where=where,
            run=table.run,
            shell=msgspec.convert(table, ShellCommand, from_attributes=True) if is_shell else None,
            served=table.served,
            config=encode_hook_config(table.config, hook_id),
            line=line,
            problem=problem or unusable,
            plugin=table.plugin,
            **collect_hook_settings(table),
        )
        for event in events
    ]


def define_stand_ins(table: Mapping[str, object], problem: str) -> list[HookDefinition]:
    """Return hooks that fail in place of a table's, with all of its keys that can be used."""
    usable = {key: table.get(key) for key in ("id", "event", "match", "where")} | {"served": True}
    for key in KEPT:
        if key in table:
            with suppress(InvalidTableError):
                read_table({**usable, key: table[key]}, HookTable, "hook")
                usable[key] = table[key]
    return [
        msgspec.structs.replace(definition, served=False, problem=problem or "its source gives no problem")
        for definition in read_definition(usable, is_lenient=True)
    ]


def define_marked_hook(
    marker: MarkedEvent, *, stem: str, function: str, line: int, has_siblings: bool
) -> HookDefinition:
    """Return the definition of a decorated function; a bad matcher or `where` is its `problem`.

    Raises:
        InvalidHookError: its id or its config cannot be used.
    """
    if marker.id and (fault := find_id_fault(marker.id)) is not None:
        raise InvalidHookError(function, fault)
    hook_id = marker.id or make_hook_id(stem, function)
    if has_siblings:
        hook_id = f"{hook_id}@{marker.event}"
    matcher, problem = read_matcher(marker.match, hook_id, is_lenient=True)
    where, unusable = read_where(marker.where, hook_id, is_lenient=True)
    return HookDefinition(
        id=hook_id,
        event=marker.event,
        matcher=matcher,
        where=where,
        config=encode_hook_config(marker.config, hook_id),
        runtime=marker.runtime,
        line=line,
        problem=problem or unusable,
        **collect_hook_settings(marker),
    )


def collect_hook_settings(declared: HookTable | MarkedEvent) -> dict[str, Any]:
    keys = ("priority", "timeout", "description", "enabled", "observe", "optional", "amends", "only_judges")
    return {key: getattr(declared, key) for key in keys}


def read_matcher(source: object, name: str, *, is_lenient: bool) -> tuple[Matcher, str | None]:
    try:
        return compile_matcher(source), None
    except MatcherError as error:
        if not is_lenient:
            raise InvalidHookError(name, f"match: {error}", ("match",)) from None
        return compile_matcher(None), f"match: {error}"


def load_where(source: object) -> CompiledWhere | None:
    """Compile a `where`.  The first hook that has one loads what reads conditions, and the parser of shells with it.

    Raises:
        InvalidConditionError: it cannot be used.
    """
    if source is None:
        return None
    try:
        from hooklatch.core.hooks.conditions import compile_where
    except ImportError as error:  # then the hook denies, as with any other condition that cannot be used
        raise InvalidConditionError(f"what reads conditions cannot be loaded: {error}") from error
    return compile_where(source)


def read_where(source: object, name: str, *, is_lenient: bool) -> tuple[CompiledWhere | None, str | None]:
    try:
        return load_where(source), None
    except InvalidConditionError as error:
        if not is_lenient:
            raise InvalidHookError(name, f"where: {error}", ("where",)) from None
        return None, f"where: {error}"


def derive_hook_id(run: str) -> str:
    place, _, function = run.partition(":")
    return make_hook_id(place.rsplit("/", 1)[-1].removesuffix(".py"), function)


def is_id(value: str) -> bool:
    """Return whether a text can be the id of a hook or a session: one line, and not too long."""
    return 0 < len(value) <= MAX_ID and LINE.match(value) is not None


def find_id_fault(value: str) -> str | None:
    if not is_id(value):
        return f"id is one line of at most {MAX_ID} characters, not {value[:80]!r}"
    if re.match(LIKE_A_NAME, value) is not None:
        return f"an id cannot begin like {value[:80]!r}, which looks like a hook's full name; choose another id"
    return None


def encode_hook_config(value: Mapping[str, Any] | None, name: str) -> bytes:
    if value is None:
        return b""
    try:
        is_sayable = is_finite(value)
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidHookError(name, f"config contains values that JSON cannot express: {error}", ("config",)) from None
    if not is_sayable:
        raise InvalidHookError(name, "config contains nan or inf, which JSON cannot express", ("config",))
    return encoded


def is_finite(value: object) -> bool:
    """Return whether no number in a value is nan or inf, for which msgspec would write null."""
    if isinstance(value, Mapping):
        return all(is_finite(part) for part in cast("Mapping[object, object]", value).values())
    if isinstance(value, list | tuple):
        return all(is_finite(part) for part in cast("Iterable[object]", value))
    return not isinstance(value, float) or isfinite(value)

"""A converter of hook definitions in a dialect: its event names, matchers, groups and models.  Knows no registry.

It returns canonical definitions, which are checked afterwards like any other.  An unreadable one is returned with its
fault, since it may be one of many: the caller refuses them all, or registers a hook that fails in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, cast

import msgspec

from hooklatch.core.hooks.definitions import InvalidHookError, NativeHook, derive_hook_id
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.core.hooks.registry import EVERY_GATE
from hooklatch.dialects.dialect import Dialect, UnknownNativeEventError

__all__ = ["read_matcher", "read_registration"]

METACHARACTERS: Final = frozenset("\\^$.|?*+()[]{}")
TARGETS = ("run", "served", "command", "argv", "problem")


class NativeDefinition(msgspec.Struct, frozen=True):
    """One hook on one native event, with the matcher of its group, or the fault of an unreadable one."""

    event: object
    table: dict[str, Any]
    matcher: object = None
    fault: str | None = None


def read_matcher(dialect: Dialect, source: object) -> object:
    """Return the canonical JSON of a matcher.  A string is read as in the dialect; other forms are canonical already.

    Raises:
        MatcherError: the dialect has no matchers, or RE2 cannot run the pattern.
    """
    if source is None:
        return None
    if dialect.matcher == "none":
        raise MatcherError(f"{dialect.name} has no matchers; leave it out and test the tool's name in the hook")
    matcher = read_pattern(dialect, source) if isinstance(source, str) else source
    compile_matcher(matcher)
    return matcher


def read_pattern(dialect: Dialect, pattern: str) -> object:
    if dialect.matcher == "full":
        return None if pattern in ("", "*") else {"regex": pattern}
    if dialect.matcher == "exact_or_search" and METACHARACTERS.isdisjoint(pattern):
        return pattern
    return {"regex": pattern, "search": True}


def read_registration(dialect: Dialect, native: object) -> list[NativeHook]:
    """Return canonical definitions for one native definition, or for a map of native events to lists of them.

    A hook is registered for the first event that its native event feeds, whose decision is the answer.  A hook has a
    fault if it is not a definition in that dialect, names an unknown event, or claims another model.
    """
    hooks = [convert_native_hook(dialect, entry) for entry in list_native_definitions(dialect, native)]
    definitions = [hook.table for hook in hooks]
    ids = [definition.get("id") or find_default_id(definition.get("run")) for definition in definitions]
    for index, (definition, hook_id) in enumerate(zip(definitions, ids, strict=True)):
        if hook_id is not None and ids.count(hook_id) > 1:
            definition["id"] = f"{hook_id}@{definition['event']}"
            if any(other["id"] == definition["id"] for other in definitions[:index] if "id" in other):
                definition["id"] = f"{definition['id']}#{index}"
    return hooks


def find_default_id(run: object) -> str | None:
    """Return the default id of a hook by its target: one function on two events needs two ids."""
    return derive_hook_id(run) if isinstance(run, str) else None


def list_native_definitions(dialect: Dialect, native: object) -> Iterator[NativeDefinition]:
    if not isinstance(native, Mapping):
        yield NativeDefinition(None, {}, fault=f"a hook of {dialect.name} is a table, not {native!r}")
        return
    table = dict(cast("Mapping[str, Any]", native))
    if find_native_key(dialect, "event", table) in table:
        events = table.get(find_native_key(dialect, "event", table))
        for event in cast("list[object]", events) if isinstance(events, list) else [events]:
            yield NativeDefinition(event, table)
        return
    inner = table["hooks"] if table.keys() == {"hooks"} else table
    if not isinstance(inner, Mapping):
        yield NativeDefinition(None, {}, fault=f"hooks is a table of events, not {inner!r}")
        return
    for event, groups in cast("Mapping[str, Any]", inner).items():
        if not isinstance(groups, list):
            yield NativeDefinition(event, {}, fault=f"{event} holds a list of hooks, not {groups!r}")
            continue
        for group in cast("list[object]", groups):
            yield from list_group_definitions(dialect, event, group)


def find_native_key(dialect: Dialect, ours: str, table: Mapping[str, Any]) -> str:
    native_keys = (native for native, own in dialect.registration.items() if own == ours and native in table)
    return next(native_keys, ours)


def list_group_definitions(dialect: Dialect, event: str, group: object) -> Iterator[NativeDefinition]:
    table = dict(cast("Mapping[str, Any]", group)) if isinstance(group, Mapping) else {}
    if "hooks" in table:
        hooks, key = table.pop("hooks"), find_native_key(dialect, "match", table)
        matcher = table.pop(key, None)
        if table or not isinstance(hooks, list):
            fault = f"a group of {event} has a matcher and a list of hooks, and nothing else"
            yield NativeDefinition(event, {}, matcher, fault)
            return
        for hook in cast("list[object]", hooks):
            yield expand_named_hook(event, hook, matcher)
    else:
        yield expand_named_hook(event, cast("Any", group))


def expand_named_hook(event: str, hook: object, matcher: object = None) -> NativeDefinition:
    """Expand a hook given by name only: "file.py:function" is run by a worker, any other name is served."""
    if isinstance(hook, str) and hook:
        table = {"run": hook} if ":" in hook.strip(":") else {"id": hook, "served": True}
        return NativeDefinition(event, table, matcher)
    if isinstance(hook, Mapping):
        return NativeDefinition(event, dict(cast("Mapping[str, Any]", hook)), matcher)
    return NativeDefinition(event, {}, matcher, f"a hook of {event} is a name or a table, not {hook!r}")


def convert_native_hook(dialect: Dialect, native: NativeDefinition) -> NativeHook:
    has_problem = isinstance(native.table.get("problem"), str)
    if has_problem and native.event == EVERY_GATE:
        return NativeHook(read_remainder(dialect, native), "")
    try:
        event = resolve_native_event(dialect, native)
        table = (read_remainder if has_problem else convert_definition)(dialect, native)
        return NativeHook(table, event, written=native.event)
    except InvalidHookError as error:
        return NativeHook(read_remainder(dialect, native), "", error, native.event)


def read_remainder(dialect: Dialect, native: NativeDefinition) -> dict[str, Any]:
    """Return the readable part of a refused hook: its keys under our names, with our event and matcher."""
    definition: dict[str, Any] = {dialect.registration.get(key, key): value for key, value in native.table.items()}
    hook_matcher, definition["event"] = definition.pop("match", None), native.event
    with suppress(InvalidHookError):
        event = resolve_native_event(dialect, native)
        definition["event"] = dialect.events[event].feeds[0].event
        definition["match"] = convert_matcher(dialect, event, hook_matcher, native.matcher, "")
    return definition


def resolve_native_event(dialect: Dialect, native: NativeDefinition) -> str:
    """Return the native event that a definition is for.

    Raises:
        InvalidHookError: there is no such event.
    """
    if not isinstance(native.event, str):
        raise InvalidHookError("", native.fault or f"event is a string, not {native.event!r}")
    try:
        return dialect.resolve(native.event)
    except UnknownNativeEventError as error:
        raise InvalidHookError(find_native_name(dialect, native), str(error)) from None


def find_native_name(dialect: Dialect, native: NativeDefinition) -> str:
    return str(native.table.get(find_native_key(dialect, "id", native.table)) or "")


def convert_definition(dialect: Dialect, native: NativeDefinition) -> dict[str, Any]:
    table, name, event = dict(native.table), find_native_name(dialect, native), resolve_native_event(dialect, native)
    if native.fault is not None:
        raise InvalidHookError(name, native.fault)
    for key, reason in dialect.unkept.items():
        if key in table:
            raise InvalidHookError(name, f"{dialect.name}'s {key}: {reason}")
    check_model(dialect, event, table, name)
    definition = {dialect.registration.get(key, key): value for key, value in table.items()}
    definition["event"] = dialect.events[event].feeds[0].event
    matcher = convert_matcher(dialect, event, definition.pop("match", None), native.matcher, name)
    if matcher is not None:
        definition["match"] = matcher
    if not any(key in definition for key in TARGETS):
        definition["served"] = True
    if "timeout" in definition:
        definition["timeout"] = convert_timeout(dialect, definition["timeout"])
    if "command" in definition:
        definition.setdefault("id", f"{event}: {definition['command']}"[:200].replace("\n", " "))
    if definition.keys() & {"command", "argv"}:
        definition = {**dialect.shell, **definition}
    return definition


def check_model(dialect: Dialect, event: str, table: dict[str, Any], name: str) -> None:
    model = dialect.events[event].model
    if model is None or "model" not in table:
        return
    stated = table.pop("model")
    if stated != model:
        raise InvalidHookError(name, f"{event} is a {model} point; it takes no {stated} hooks")


def convert_matcher(dialect: Dialect, event: str, hook_matcher: object, group_matcher: object, name: str) -> object:
    source: object = hook_matcher if hook_matcher is not None else group_matcher
    if hook_matcher is not None and group_matcher is not None:
        raise InvalidHookError(name, "it has a matcher and its group has one; keep one of them")
    source = read_pattern_map(dialect, source, name)
    if source is None:
        return None
    if dialect.matcher != "none" and dialect.events[event].feeds[0].match != "tool_name":
        if dialect.matcher_elsewhere == "ignored":
            return None  # the hook then always fires, as in that system
        raise InvalidHookError(name, f"{event} is not about a tool, so a matcher has nothing to match; remove it")
    try:
        return read_matcher(dialect, source)
    except MatcherError as error:
        raise InvalidHookError(name, f"match: {error}") from None


def read_pattern_map(dialect: Dialect, source: object, name: str) -> object:
    """Return the pattern of a matcher that is a map; canonical matchers stay as they are."""
    field = dialect.matcher_field
    if field is None or not isinstance(source, Mapping):
        return source
    fields = cast("Mapping[str, object]", source)
    if fields.keys() & {"regex", "glob"}:
        return fields
    if fields.keys() - {field}:
        raise InvalidHookError(name, f"a matcher of {dialect.name} has only {field!r}")
    return fields.get(field)


def convert_timeout(dialect: Dialect, timeout: object) -> object:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or dialect.timeout_unit == "s":
        return timeout  # anything but a number is rejected with the rest of the definition
    try:
        return timeout / 1000
    except OverflowError:
        return timeout  # an integer beyond the range of floats is rejected too

"""Carries payloads between a dialect's keys and the canonical ones.  Knows paths and maps; knows no verdict.

Mapped keys move, unknown keys stay as they are, and where two spellings of one field disagree the payload is refused:
nobody could say which of the two is going to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from hooklatch.core.payload import PayloadError, canonical
from hooklatch.dialects.dialect import Dialect, Feed

__all__ = ["MISSING", "Fed", "carry", "dig", "is_same", "known_keys", "to_canonical", "to_native"]

MISSING: Final = object()


class Fed(msgspec.Struct, frozen=True):
    """One canonical event to fire, with its payload."""

    event: str
    payload: dict[str, Any]
    feed: Feed


def to_canonical(dialect: Dialect, native_event: str, payload: dict[str, Any]) -> list[Fed]:
    """Return the canonical events that a native one stands for, in the order to fire them.

    Raises:
        UnknownNativeEventError: the dialect has no such event.
        PayloadError: the payload names another event, or says one field in two ways.
    """
    name = dialect.resolve(native_event)
    own = dict(payload)
    if dialect.event_key is not None and dialect.event_key in own:
        stated = own.pop(dialect.event_key)
        if stated not in (name, native_event):
            raise PayloadError(f"the payload says {dialect.event_key} = {stated!r}, but {name!r} was fired")
    return [Fed(feed.event, _inward(feed, own), feed) for feed in dialect.events[name].feeds]


def to_native(
    dialect: Dialect,
    native_event: str,
    canonical_payload: dict[str, Any],
    *,
    feed: Feed | None = None,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a payload in the dialect's keys, as its own hooks expect it; `feed` is the first one unless given.

    In a dialect that threads one context (style "threaded"), `context` is laid over it, but never over a field of the
    event.  Where a field gathers all other keys, canonical keys beside it have no place and are left out.
    """
    name = dialect.resolve(native_event)
    native = _outward(feed or dialect.events[name].feeds[0], canonical_payload)
    if dialect.event_key is not None:
        native = {dialect.event_key: name, **native}
    if dialect.style == "threaded" and context:
        native = overlaid(native, context, known_keys(dialect, name))
    return native


def carry(fed: Fed, patch: Mapping[str, Any] | None) -> Fed:
    """Return a later feed of the same native event with an earlier one's patch in its payload."""
    known = {path.partition(".")[0] for path in fed.feed.keys.values()} | fed.payload.keys()
    changed = {key: value for key, value in (patch or {}).items() if key in known}
    return msgspec.structs.replace(fed, payload={**fed.payload, **changed}) if changed else fed


def known_keys(dialect: Dialect, native_event: str) -> frozenset[str]:
    """Return every top-level key, native or canonical, that is a field of the event: no context may stand in for it."""
    known = {dialect.event_key} if dialect.event_key is not None else set[str]()
    for feed in dialect.event(native_event).feeds:
        for path in (*feed.keys, *feed.keys.values(), *feed.fills, *feed.defaults):
            known.add(path.partition(".")[0])
    return frozenset(known)


def overlaid(native: dict[str, Any], context: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Lay a context over a payload's unknown keys; null takes a key away."""
    free = {key: value for key, value in context.items() if key not in known}
    merged = {**native, **free}
    return {key: value for key, value in merged.items() if value is not None or key not in free}


def dig(value: object, path: str) -> object:
    """Follow a path into nested objects; MISSING where it leads nowhere."""
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = cast("dict[str, object]", value)[key]
    return value


def is_same(one: object, other: object) -> bool:
    """Compare as JSON does: 1, 1.0 and true are three values."""
    return canonical(msgspec.json.encode(one)) == canonical(msgspec.json.encode(other))


def _inward(feed: Feed, payload: dict[str, Any]) -> dict[str, Any]:
    rest, found = dict(payload), dict[str, Any]()
    for native, path in feed.keys.items():
        value = dig(payload, native)
        if value is not MISSING:
            _put(found, path, value)
            if "." not in native:
                rest.pop(native)
    if feed.gathers is not None:
        found[feed.gathers] = {_unquoted(key, feed): value for key, value in rest.items()}
        rest = {}
    for key, value in rest.items():
        found[key] = _merged(found[key], value, key) if key in found else value
    for field, source in feed.fills.items():
        value = dig(found, source)
        if field not in found and value is not MISSING:
            found[field] = value
    for field, value in feed.defaults.items():
        found.setdefault(field, value)
    return found


def _outward(feed: Feed, payload: dict[str, Any]) -> dict[str, Any]:
    rest = _without_filled(feed, payload)
    native: dict[str, Any] = {}
    copied: dict[str, Any] = {}
    for path, own in ((own, path) for path, own in feed.keys.items()):
        value = _take(rest, path)
        if value is not MISSING:
            (copied if "." in own else native)[own] = value
    if feed.gathers is not None:
        arguments = rest.get(feed.gathers)
        if isinstance(arguments, dict):
            for key, value in cast("dict[str, Any]", arguments).items():
                native[_quoted(key, feed)] = value
        rest = {}
    native.update(rest)
    for own, value in copied.items():
        if not _set_nested(native, own, value):
            native[feed.keys[own]] = value
    return native


def _without_filled(feed: Feed, payload: dict[str, Any]) -> dict[str, Any]:
    rest = dict(payload)
    for field, source in feed.fills.items():
        value = dig(payload, source)
        if field in rest and value is not MISSING and is_same(rest[field], value):
            del rest[field]
    for field, value in feed.defaults.items():
        if field in rest and is_same(rest[field], value):
            del rest[field]
    return rest


def _put(found: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for key in parents:
        found = found.setdefault(key, {})
    found[last] = value


def _take(rest: dict[str, Any], path: str) -> object:
    """Remove the value at a path; an object that it leaves empty goes too."""
    key, _, below = path.partition(".")
    if not below:
        return rest.pop(key, MISSING)
    inner = rest.get(key)
    if not isinstance(inner, dict):
        return MISSING
    copy = dict(cast("dict[str, Any]", inner))
    value = _take(copy, below)
    if value is not MISSING:
        rest[key] = copy
        if not copy:
            del rest[key]
    return value


def _set_nested(native: dict[str, Any], path: str, value: object) -> bool:
    key, _, below = path.partition(".")
    inner = native.get(key)
    if not isinstance(inner, dict):
        return False
    copy = dict(cast("dict[str, Any]", inner))
    if "." in below:
        is_set = _set_nested(copy, below, value)
    else:
        copy[below], is_set = value, True
    native[key] = copy
    return is_set


def _merged(one: Any, other: Any, key: str) -> Any:
    if not _are_objects(one, other):
        if not is_same(one, other):
            raise PayloadError(f"the payload says {key!r} in two ways, and they differ")
        return one
    merged: dict[str, Any] = dict(one)
    for name, value in other.items():
        merged[name] = _merged(merged[name], value, f"{key}.{name}") if name in merged else value
    return merged


def _are_objects(*values: object) -> bool:
    return all(isinstance(value, dict) for value in values)


# An argument that has the name of one of the event's own keys stands in quotation marks, as a string key beside an
# atom does in Elixir.  What is mapped by its plain name is never an argument, so no argument can pass for it.
def _quoted(key: str, feed: Feed) -> str:
    return f'"{key}"' if key.strip('"') in feed.keys else key


def _unquoted(key: str, feed: Feed) -> str:
    is_quoted = len(key) > 1 and key[0] == key[-1] == '"' and key.strip('"') in feed.keys
    return key[1:-1] if is_quoted else key

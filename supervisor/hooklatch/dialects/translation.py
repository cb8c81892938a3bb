"""The mapping of payloads between a dialect's keys and the canonical ones.  Knows no verdicts.

Mapped keys move, unknown keys stay as they are.  If two spellings of one field disagree, the payload is refused, since
the agent may use either of the two.  A key that describes the session (its folder, its id) goes into the envelope too,
unless the event has a field of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

import msgspec

from hooklatch.core.fire_params import EnvelopeParams
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.payload import PayloadError, canonicalize_json
from hooklatch.dialects.dialect import Dialect, EventMapping

__all__ = [
    "MISSING", "TranslatedEvent", "carry_patch", "find_at_path", "is_same", "list_known_keys",
    "translate_to_canonical", "translate_to_native",
]  # fmt: skip

MISSING: Final = object()
SESSION_FIELDS: Final = frozenset({*EnvelopeParams.__struct_fields__, "call_id"})


class TranslatedEvent(msgspec.Struct, frozen=True):
    """One canonical event to fire, with its payload; `stated` has the payload's facts for the envelope."""

    event: str
    payload: dict[str, Any]
    feed: EventMapping
    stated: dict[str, Any] = {}


def translate_to_canonical(dialect: Dialect, native_event: str, payload: dict[str, Any]) -> list[TranslatedEvent]:
    """Return the canonical events that a native event feeds, in firing order.

    Raises:
        UnknownNativeEventError: the dialect has no such event.
        PayloadError: the payload names another event, or holds two different values for one field.
    """
    name = dialect.resolve(native_event)
    own = dict(payload)
    if dialect.event_key is not None and dialect.event_key in own:
        stated = own.pop(dialect.event_key)
        if stated not in (name, native_event):
            raise PayloadError(f"the payload says {dialect.event_key} = {stated!r}, but {name!r} was fired")
    return [_feed_event(feed, _translate_inward(feed, own)) for feed in dialect.events[name].feeds]


def translate_to_native(
    dialect: Dialect,
    native_event: str,
    canonical_payload: dict[str, Any],
    *,
    feed: EventMapping | None = None,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a payload in the dialect's keys, as its hooks expect it; `feed` defaults to the first one.

    In a dialect with style "threaded", `context` overrides other keys, but never a field of the event.  If a field
    gathers all other keys, canonical keys besides it are left out.
    """
    name = dialect.resolve(native_event)
    native = _translate_outward(feed or dialect.events[name].feeds[0], canonical_payload)
    if dialect.event_key is not None:
        native = {dialect.event_key: name, **native}
    if dialect.style == "threaded" and context:
        native = overlay_context(native, context, list_known_keys(dialect, name))
    return native


def carry_patch(later_event: TranslatedEvent, patch: Mapping[str, Any] | None) -> TranslatedEvent:
    """Return a later feed of the same native event with the patch of an earlier one applied to its payload."""
    known = {path.partition(".")[0] for path in later_event.feed.keys.values()} | later_event.payload.keys()
    changed = {key: value for key, value in (patch or {}).items() if key in known}
    return msgspec.structs.replace(later_event, payload={**later_event.payload, **changed}) if changed else later_event


def list_known_keys(dialect: Dialect, native_event: str) -> frozenset[str]:
    """Return every top-level key, native or canonical, that is a field of the event and thus closed to context."""
    known = {dialect.event_key} if dialect.event_key is not None else set[str]()
    for feed in dialect.event(native_event).feeds:
        for path in (*feed.keys, *feed.keys.values(), *feed.fills, *feed.defaults):
            known.add(path.partition(".")[0])
    return frozenset(known)


def overlay_context(native: dict[str, Any], context: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the payload with the context's other keys added or replaced; null removes a key."""
    free = {key: value for key, value in context.items() if key not in known}
    merged = {**native, **free}
    return {key: value for key, value in merged.items() if value is not None or key not in free}


def find_at_path(value: object, path: str) -> object:
    """Return the value at a path in nested objects, or MISSING."""
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = cast("dict[str, object]", value)[key]
    return value


def is_same(value: object, other: object) -> bool:
    """Compare as JSON: 1, 1.0 and true are three different values."""
    return canonicalize_json(msgspec.json.encode(value)) == canonicalize_json(msgspec.json.encode(other))


def _feed_event(feed: EventMapping, payload: dict[str, Any]) -> TranslatedEvent:
    names = SESSION_FIELDS.intersection(feed.keys.values()) - _list_own_fields(feed.event)
    stated = {name: payload[name] for name in names if payload.get(name) is not None}
    return TranslatedEvent(feed.event, payload, feed, stated)


@cache
def _list_own_fields(event: str) -> frozenset[str]:
    """Return the event's own fields, which are not about its session even if a session has one of that name."""
    spec = Catalogue.standard().get(event)
    return frozenset(field.name for field in spec.fields) if spec is not None else frozenset()


def _translate_inward(feed: EventMapping, payload: dict[str, Any]) -> dict[str, Any]:
    rest, canonical = dict(payload), dict[str, Any]()
    for native, path in feed.keys.items():
        value = find_at_path(payload, native)
        if value is not MISSING:
            _put_at_path(canonical, path, value)
            if "." not in native:
                rest.pop(native)
    if feed.gathers is not None:
        canonical[feed.gathers] = _gather_keys(feed, rest)
        rest = {}
    for key, value in rest.items():
        canonical[key] = _merge_values(canonical[key], value, key) if key in canonical else value
    for field, source in feed.fills.items():
        value = find_at_path(canonical, source)
        if field not in canonical and value is not MISSING:
            canonical[field] = value
    for field, value in feed.defaults.items():
        canonical.setdefault(field, value)
    return canonical


def _gather_keys(feed: EventMapping, rest: dict[str, Any]) -> dict[str, Any]:
    whole = rest.get(feed.nested) if feed.nested is not None else None
    if not isinstance(whole, dict):
        return {_unquote_key(key, feed): value for key, value in rest.items()}
    if len(rest) > 1:
        beside = next(key for key in rest if key != feed.nested)
        raise PayloadError(
            f"the payload has arguments in {feed.nested!r} and beside it ({beside!r:.80}); keep one form"
        )
    return cast("dict[str, Any]", whole)


def _translate_outward(feed: EventMapping, payload: dict[str, Any]) -> dict[str, Any]:
    rest = _drop_filled(feed, payload)
    native: dict[str, Any] = {}
    copied: dict[str, Any] = {}
    for path, own in ((own, path) for path, own in feed.keys.items()):
        value = _take_at_path(rest, path)
        if value is not MISSING:
            (copied if "." in own else native)[own] = value
    if feed.gathers is not None:
        arguments = rest.get(feed.gathers)
        if isinstance(arguments, dict):
            for key, value in cast("dict[str, Any]", arguments).items():
                native[_quote_key(key, feed)] = value
        rest = {}
    native.update(rest)
    for own, value in copied.items():
        if not _set_nested(native, own, value):
            native[feed.keys[own]] = value
    return native


def _drop_filled(feed: EventMapping, payload: dict[str, Any]) -> dict[str, Any]:
    rest = dict(payload)
    for field, source in feed.fills.items():
        value = find_at_path(payload, source)
        if field in rest and value is not MISSING and is_same(rest[field], value):
            del rest[field]
    for field, value in feed.defaults.items():
        if field in rest and is_same(rest[field], value):
            del rest[field]
    return rest


def _put_at_path(target: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for key in parents:
        target = target.setdefault(key, {})
    target[last] = value


def _take_at_path(rest: dict[str, Any], path: str) -> object:
    """Remove and return the value at a path; also remove objects that become empty."""
    key, _, below = path.partition(".")
    if not below:
        return rest.pop(key, MISSING)
    inner = rest.get(key)
    if not isinstance(inner, dict):
        return MISSING
    copy = dict(cast("dict[str, Any]", inner))
    value = _take_at_path(copy, below)
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


def _merge_values(value: Any, other: Any, key: str) -> Any:
    if not all(isinstance(each, dict) for each in (value, other)):
        if not is_same(value, other):
            raise PayloadError(f"the payload holds two different values for {key!r}")
        return value
    merged: dict[str, Any] = dict(value)
    for name, item in other.items():
        merged[name] = _merge_values(merged[name], item, f"{key}.{name}") if name in merged else item
    return merged


# An argument with the name of one of the event's own keys is put in quotation marks, just as Elixir has a string key
# besides an atom.  A plain mapped name is never an argument, so no argument can be mistaken for a field.
def _quote_key(key: str, feed: EventMapping) -> str:
    return f'"{key}"' if key.strip('"') in (*feed.keys, feed.nested) else key


def _unquote_key(key: str, feed: EventMapping) -> str:
    is_quoted = len(key) > 1 and key[0] == key[-1] == '"' and key.strip('"') in (*feed.keys, feed.nested)
    return key[1:-1] if is_quoted else key

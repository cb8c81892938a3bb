"""Looks up dialects by name, and builds custom ones from tables.

Custom dialects pass the same checks as the built-in ones: none can loosen an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.text import did_you_mean
from hooklatch.dialects.dialect import (
    Answers,
    Dialect,
    Feed,
    InvalidDialectError,
    NativeEvent,
    UnknownNativeEventError,
    checked,
    nearest,
)
from hooklatch.dialects.systems.beam import BEAM
from hooklatch.dialects.systems.ethos import ETHOS
from hooklatch.dialects.systems.exathena import EXATHENA
from hooklatch.dialects.systems.radium import RADIUM
from hooklatch.dialects.systems.reasonix import REASONIX

__all__ = ["GROUP", "canonical_of", "find", "from_table", "load_entry_points", "names"]

GROUP: Final = "hooklatch.dialects"
BUILT_IN: Final[Mapping[str, Dialect]] = MappingProxyType(
    {dialect.name: checked(dialect) for dialect in (ETHOS, EXATHENA, REASONIX, RADIUM, BEAM)}
)
DERIVED = frozenset({"verdicts", "match"})  # fields of a feed that come from the catalogue and are never written


def find(name: str, more: Mapping[str, Dialect] | None = None) -> Dialect | None:
    """Return the dialect with this name; built-in ones take precedence, so they cannot be replaced."""
    return BUILT_IN.get(name) or (more or {}).get(name)


def names(more: Mapping[str, Dialect] | None = None) -> tuple[str, ...]:
    """Return the names of all dialects."""
    return tuple(dict.fromkeys((*BUILT_IN, *(more or {}))))


def canonical_of(event: str) -> tuple[str, str] | None:
    """Return the dialect with an event of this name, and the canonical event; None if there is none."""
    for dialect in BUILT_IN.values():
        try:
            native = dialect.events[dialect.resolve(event)]
        except UnknownNativeEventError:
            continue
        return dialect.name, native.feeds[0].event
    return None


def from_table(table: Mapping[str, Any], catalogue: Catalogue | None = None) -> Dialect:
    """Build a dialect from a table; an event may be written as just the name of the event that it feeds.

    Raises:
        InvalidDialectError: an unknown key, axis, event or verdict (the text names the nearest known one), or a gate
            that could not refuse.
    """
    catalogue = catalogue or Catalogue.standard()
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidDialectError("", 'it has no name; write name = "mine"')
    if name in BUILT_IN:
        raise InvalidDialectError(name, "there is a dialect of that name; choose another")
    refuse_unknown(name, table, Dialect.__struct_fields__, "a dialect")
    events = table_at(name, table.get("events", {}), "events")
    written = {**table, "events": {key: event_of(name, key, value, catalogue) for key, value in events.items()}}
    try:
        return checked(msgspec.convert(written, Dialect), catalogue)
    except msgspec.ValidationError as error:
        raise InvalidDialectError(name, str(error)[:1].lower() + str(error)[1:]) from None


def load_entry_points() -> tuple[dict[str, Dialect], list[str]]:
    """Load the dialects of installed packages; return them by name, and why others could not be loaded."""
    dialects: dict[str, Dialect] = {}
    problems: list[str] = []
    try:
        points = tuple(entry_points(group=GROUP))
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:  # corrupt metadata raises many types
        return dialects, [f"the dialects of installed packages cannot be found: {error}"]
    for point in points:
        try:
            dialect = dialect_of(point.load())
            if dialect.name in dialects or dialect.name in BUILT_IN:
                raise InvalidDialectError(dialect.name, "there is a dialect of that name; choose another")
            dialects[dialect.name] = dialect
        # This runs third-party code; whatever it raises, the daemon starts and reports what is missing.
        except Exception as error:
            problems.append(f"dialect entry point {point.name!r} ({point.value}): {error}")
    return dialects, problems


def dialect_of(value: object) -> Dialect:
    if isinstance(value, Dialect):
        return checked(value)
    if isinstance(value, Mapping):
        return from_table(cast("Mapping[str, Any]", value))
    raise InvalidDialectError("", f"it is neither a Dialect nor a table, but {type(value).__name__}")


def event_of(dialect: str, name: str, value: object, catalogue: Catalogue) -> dict[str, Any]:
    what = f"event {name!r}"
    table: Mapping[str, Any] = {"feeds": [value]} if isinstance(value, str) else table_at(dialect, value, what)
    event = dict(table)
    refuse_unknown(dialect, event, NativeEvent.__struct_fields__, what)
    answers = table_at(dialect, event.get("answers", {}), f"the answers of {what}")
    refuse_unknown(dialect, answers, Answers.__struct_fields__, f"the answers of {what}")
    feeds = event.get("feeds", [])
    if not isinstance(feeds, list | tuple):
        raise InvalidDialectError(dialect, f"the feeds of {what} are a list, not {feeds!r}")
    event["feeds"] = [feed_of(dialect, what, feed, catalogue) for feed in cast("Iterable[object]", feeds)]
    return event


def feed_of(dialect: str, what: str, value: object, catalogue: Catalogue) -> dict[str, Any]:
    table: Mapping[str, Any] = {"event": value} if isinstance(value, str) else table_at(dialect, value, "a feed")
    feed = dict(table)
    known = [field for field in Feed.__struct_fields__ if field not in DERIVED]
    refuse_unknown(dialect, feed, known, f"a feed of {what}")
    spec = catalogue.get(str(feed.get("event")))
    if spec is None:
        hint = did_you_mean(str(feed.get("event")), catalogue)
        raise InvalidDialectError(dialect, f"{what} feeds {feed.get('event')!r}, which is not an event{hint}")
    return {**feed, "verdicts": list(spec.verdicts), "match": spec.match}


def refuse_unknown(dialect: str, table: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near!r}?" if near else f"it takes {', '.join(known)}"
            raise InvalidDialectError(dialect, f"{what} has no key {key!r}; {hint}")


def table_at(dialect: str, value: object, what: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    raise InvalidDialectError(dialect, f"{what} is a table, not {value!r}")

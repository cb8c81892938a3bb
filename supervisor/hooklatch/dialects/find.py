"""Looks up dialects by name, and builds custom ones from tables.

Custom dialects pass the same checks as the built-in ones: none can loosen an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final, cast

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.tables import InvalidTableError, read_table, unknown_key
from hooklatch.core.text import did_you_mean
from hooklatch.dialects.dialect import (
    Dialect,
    Feed,
    InvalidDialectError,
    UnknownNativeEventError,
    checked,
)
from hooklatch.dialects.systems.beam import BEAM
from hooklatch.dialects.systems.ethos import ETHOS
from hooklatch.dialects.systems.exathena import EXATHENA
from hooklatch.dialects.systems.radium import RADIUM
from hooklatch.dialects.systems.reasonix import REASONIX

__all__ = ["GROUP", "find", "from_table", "load_entry_points", "names", "unknown_event"]

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


def unknown_event(catalogue: Catalogue, event: str) -> str:
    """Return the message for an event that is not defined, with the event that was probably meant.

    Another system's name for one of our events comes first.
    """
    for dialect in BUILT_IN.values():
        try:
            native = dialect.events[dialect.resolve(event)]
        except UnknownNativeEventError:
            continue
        return f"there is no event {event!r}; {dialect.name}'s {event} is {native.feeds[0].event!r} here"
    return f"there is no event {event!r}" + (did_you_mean(event, catalogue) or "; see: hooklatch events")


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
    events = table_at(name, table.get("events", {}), "events")
    written = {**table, "events": {key: event_of(name, key, value, catalogue) for key, value in events.items()}}
    try:
        return checked(read_table(written, Dialect, "dialect"), catalogue)
    except InvalidTableError as error:
        raise InvalidDialectError(name, error.reason) from None


def load_entry_points() -> tuple[dict[str, Dialect], list[str]]:
    """Load the dialects of installed packages; return them by name, and why others could not be loaded."""
    dialects: dict[str, Dialect] = {}
    problems: list[str] = []
    try:
        points = tuple(entry_points(group=GROUP))
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:  # corrupt metadata raises many types
        return dialects, [
            f"the dialects of installed packages cannot be found: {getattr(error, 'strerror', None) or error}"
        ]
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
    feeds = table.get("feeds")
    if not isinstance(feeds, list | tuple):  # which reading the table says better
        return dict(table)
    return {**table, "feeds": [feed_of(dialect, what, feed, catalogue) for feed in cast("Iterable[object]", feeds)]}


def feed_of(dialect: str, what: str, value: object, catalogue: Catalogue) -> dict[str, Any]:
    table: Mapping[str, Any] = {"event": value} if isinstance(value, str) else table_at(dialect, value, "a feed")
    known = [field for field in Feed.__struct_fields__ if field not in DERIVED]
    for key in table:
        if key not in known:
            raise InvalidDialectError(dialect, unknown_key(f"a feed of {what}", key, known))
    spec = catalogue.get(str(table.get("event")))
    if spec is None:
        hint = did_you_mean(str(table.get("event")), catalogue)
        raise InvalidDialectError(dialect, f"{what} feeds {table.get('event')!r}, which is not an event{hint}")
    return {**table, "verdicts": list(spec.verdicts), "match": spec.match}


def table_at(dialect: str, value: object, what: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    raise InvalidDialectError(dialect, f"{what} is a table, not {value!r}")

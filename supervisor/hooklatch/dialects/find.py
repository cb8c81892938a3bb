"""The index of dialects by name, and the builder of custom ones from tables.

Custom dialects pass the same checks as the built-in ones: none can loosen an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Final, cast

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.tables import InvalidTableError, describe_unknown_key, read_table
from hooklatch.core.text import suggest_name
from hooklatch.dialects.beam import BEAM
from hooklatch.dialects.dialect import (
    Dialect,
    EventMapping,
    InvalidDialectError,
    UnknownNativeEventError,
    validate_dialect,
)
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.exathena import EXATHENA
from hooklatch.dialects.radium import RADIUM
from hooklatch.dialects.reasonix import REASONIX

__all__ = ["GROUP", "find_dialect", "build_dialect", "load_entry_points", "list_dialects", "describe_undefined_event"]

GROUP: Final = "hooklatch.dialects"
BUILT_IN: Final[Mapping[str, Dialect]] = MappingProxyType(
    {dialect.name: validate_dialect(dialect) for dialect in (ETHOS, EXATHENA, REASONIX, RADIUM, BEAM)}
)
DERIVED = frozenset({"verdicts", "match"})  # fields of a feed that come from the catalogue and are never written


def find_dialect(name: str, more: Mapping[str, Dialect] | None = None) -> Dialect | None:
    """Return the dialect with this name; built-in ones take precedence, so they cannot be replaced."""
    return BUILT_IN.get(name) or (more or {}).get(name)


def list_dialects(more: Mapping[str, Dialect] | None = None) -> tuple[str, ...]:
    """Return the names of all dialects."""
    return tuple(dict.fromkeys((*BUILT_IN, *(more or {}))))


def describe_undefined_event(catalogue: Catalogue, event: str) -> str:
    """Return the message for an event that is not defined, with the event that was probably meant.

    Another system's name for one of our events comes first.
    """
    for dialect in BUILT_IN.values():
        try:
            native = dialect.events[dialect.resolve(event)]
        except UnknownNativeEventError:
            continue
        return f"there is no event {event!r}; {dialect.name}'s {event} is {native.feeds[0].event!r} here"
    return f"there is no event {event!r}" + (suggest_name(event, catalogue) or "; see: hooklatch events")


def build_dialect(table: Mapping[str, Any], catalogue: Catalogue | None = None) -> Dialect:
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
    events = require_table(name, table.get("events", {}), "events")
    written = {**table, "events": {key: convert_event(name, key, value, catalogue) for key, value in events.items()}}
    try:
        return validate_dialect(read_table(written, Dialect, "dialect"), catalogue)
    except InvalidTableError as error:
        raise InvalidDialectError(name, error.reason) from None


def load_entry_points() -> tuple[dict[str, Dialect], list[str]]:
    """Load the dialects of installed packages; return them by name, and the problems of those that failed."""
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
            dialect = convert_dialect(point.load())
            if dialect.name in dialects or dialect.name in BUILT_IN:
                raise InvalidDialectError(dialect.name, "there is a dialect of that name; choose another")
            dialects[dialect.name] = dialect
        # This runs third-party code, so it may raise anything: the daemon starts all the same, and reports the problem.
        except Exception as error:
            problems.append(f"dialect entry point {point.name!r} ({point.value}): {error}")
    return dialects, problems


def convert_dialect(value: object) -> Dialect:
    if isinstance(value, Dialect):
        return validate_dialect(value)
    if isinstance(value, Mapping):
        return build_dialect(cast("Mapping[str, Any]", value))
    raise InvalidDialectError("", f"it is neither a Dialect nor a table, but {type(value).__name__}")


def convert_event(dialect: str, name: str, value: object, catalogue: Catalogue) -> dict[str, Any]:
    what = f"event {name!r}"
    table: Mapping[str, Any] = {"feeds": [value]} if isinstance(value, str) else require_table(dialect, value, what)
    feeds = table.get("feeds")
    if not isinstance(feeds, list | tuple):  # `read_table` reports it with a better message
        return dict(table)
    return {
        **table,
        "feeds": [convert_feed(dialect, what, feed, catalogue) for feed in cast("Iterable[object]", feeds)],
    }


def convert_feed(dialect: str, what: str, value: object, catalogue: Catalogue) -> dict[str, Any]:
    table: Mapping[str, Any] = {"event": value} if isinstance(value, str) else require_table(dialect, value, "a feed")
    known = [field for field in EventMapping.__struct_fields__ if field not in DERIVED]
    for key in table:
        if key not in known:
            raise InvalidDialectError(dialect, describe_unknown_key(f"a feed of {what}", key, known))
    spec = catalogue.get(str(table.get("event")))
    if spec is None:
        hint = suggest_name(str(table.get("event")), catalogue)
        raise InvalidDialectError(dialect, f"{what} feeds {table.get('event')!r}, which is not an event{hint}")
    return {**table, "verdicts": list(spec.verdicts), "match": spec.match}


def require_table(dialect: str, value: object, what: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    raise InvalidDialectError(dialect, f"{what} is a table, not {value!r}")

"""The builder of dialects that are not built in: from tables of the configuration, and from installed packages.

They pass the same checks as the built-in ones: none can loosen an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, cast

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.tables import InvalidTableError, describe_unknown_key, read_table
from hooklatch.core.text import suggest_name
from hooklatch.dialects import BUILT_IN
from hooklatch.dialects.dialect import Dialect, EventMapping, InvalidDialectError, validate_dialect

__all__ = ["build_dialect", "load_dialects"]

DERIVED = frozenset({"verdicts", "match"})  # fields of a feed that come from the catalogue and are never written


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


def load_dialects(points: Iterable[EntryPoint]) -> tuple[dict[str, Dialect], list[str]]:
    """Load the dialects of installed packages; return them by name, and the problems of those that failed."""
    dialects: dict[str, Dialect] = {}
    problems: list[str] = []
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

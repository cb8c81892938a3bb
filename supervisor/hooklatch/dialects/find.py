"""The index of dialects: their names.  The module of one is imported when it is used first.

A dialect whose module cannot be imported fails what needs it: a fire ends in an error, which a client takes as a deny.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.text import suggest_name
from hooklatch.dialects import BUILT_IN

if TYPE_CHECKING:
    from hooklatch.dialects.dialect import Dialect

__all__ = [
    "describe_undefined_event", "find_dialect", "list_dialects", "load_built_in",
]  # fmt: skip


@cache
def load_built_in(name: str) -> Dialect:
    """Import the table of a built-in dialect, and check it."""
    from hooklatch.dialects.dialect import validate_dialect

    return validate_dialect(getattr(import_module(f"hooklatch.dialects.{name}"), name.upper()))


def find_dialect(name: str, more: Mapping[str, Dialect] | None = None) -> Dialect | None:
    """Return the dialect with this name; built-in ones take precedence, so they cannot be replaced."""
    return load_built_in(name) if name in BUILT_IN else (more or {}).get(name)


def list_dialects(more: Mapping[str, Dialect] | None = None) -> tuple[str, ...]:
    """Return the names of all dialects."""
    return tuple(dict.fromkeys((*BUILT_IN, *(more or {}))))


def describe_undefined_event(catalogue: Catalogue, event: str) -> str:
    """Return the message for an event that is not defined, with the event that was probably meant.

    An agent's name for one of our events comes first, and then that of another system.
    """
    from hooklatch.hosts.find import HOSTS, load_host  # only a mistake needs them

    for host in map(load_host, HOSTS):
        if event in host.events and host.events[event].event != event:
            own = (host.events[event].after or host.events[event]).event
            where = f"{own!r} here" if own else "never fired"
            return f"there is no event {event!r}; {host.title}'s {event} is {where}"
    for dialect in map(load_built_in, BUILT_IN):
        if dialect.has_event(event):
            own = dialect.event(event).feeds[0].event
            return f"there is no event {event!r}; {dialect.name}'s {event} is {own!r} here"
    return f"there is no event {event!r}" + (suggest_name(event, catalogue) or "; see: hooklatch events")

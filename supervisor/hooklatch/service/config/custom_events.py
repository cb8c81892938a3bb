"""The events and dialects that configuration files add to the standard ones.  Knows tables; does not know hooks."""

from __future__ import annotations

from collections.abc import Iterable

from hooklatch.core.hooks.catalogue import Catalogue, InvalidEventError
from hooklatch.core.text import did_you_mean
from hooklatch.dialects.dialect import Dialect, InvalidDialectError
from hooklatch.dialects.find import canonical_of, from_table
from hooklatch.service.config.configuration import Diagnostic, FileConfig

__all__ = ["catalogue_of", "dialects_of", "unknown_event"]


def catalogue_of(configs: Iterable[FileConfig]) -> tuple[Catalogue, list[Diagnostic]]:
    """Return the standard catalogue with the events of these files, and which of them cannot be used."""
    catalogue, diagnostics = Catalogue.standard(), list[Diagnostic]()
    for path, event in [(config.path, event) for config in configs for event in config.events]:
        try:
            catalogue = catalogue.with_custom([event])
        except InvalidEventError as error:
            diagnostics.append(Diagnostic(path, 0, str(error)))
    return catalogue, diagnostics


def dialects_of(configs: Iterable[FileConfig], catalogue: Catalogue) -> tuple[dict[str, Dialect], list[Diagnostic]]:
    """Return the dialects of these files by name, and which of them cannot be used."""
    found, diagnostics = dict[str, Dialect](), list[Diagnostic]()
    for path, custom in [(config.path, custom) for config in configs for custom in config.dialects]:
        try:
            dialect = from_table(custom.table, catalogue)
            found[dialect.name] = dialect
        except InvalidDialectError as error:
            diagnostics.append(Diagnostic(path, custom.line, str(error)))
    return found, diagnostics


def unknown_event(catalogue: Catalogue, event: str) -> str:
    """Return the message for an event that is not defined, with the event that was probably meant.

    Another system's name for one of our events comes first.
    """
    meant = canonical_of(event)
    if meant is not None:
        return f"there is no event {event!r}; {meant[0]}'s {event} is {meant[1]!r} here"
    return f"there is no event {event!r}" + (did_you_mean(event, catalogue) or "; see: hooklatch events")

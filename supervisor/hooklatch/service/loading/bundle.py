"""What a reload needs of the fleet: what is in force of its policy, and a bundle that is to be.

Knows files that are signed, and what is wrong in them; does not know where they are kept, or who brings them.
A bundle is taken whole or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from hooklatch.service.building.pinning import is_below
from hooklatch.service.building.source_builder import BuildResults
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.reading.declared_files import FleetFiles

__all__ = ["BundleError", "BundleCandidate", "Fleet", "find_bundle_faults"]


class Fleet(Protocol):
    """Says what is in force of the fleet's policy, and hears what its hooks are spared."""

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        """Return how to read it, in a thread; it uses nothing that may change meanwhile."""
        ...

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        """Return what hooks are to be made of as of now: with or without the denial of every gate."""
        ...

    def record_active(self, files: FleetFiles | None) -> None:
        """Note what hooks are made of from now on."""
        ...

    def record_attempt(self, what: str, hook: str) -> None:
        """Record that somebody tried to take something from a hook of the fleet."""
        ...


class BundleCandidate(NamedTuple):
    """A bundle that is to be in force, and how to keep that on the disk: in between it can no longer be refused."""

    files: FleetFiles
    keep: Callable[[], Awaitable[None]]


class BundleError(Exception):
    """Something is wrong in a bundle of the fleet, so nothing of it is taken."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(f"{diagnostics[0]}{more}")


def find_bundle_faults(root: str, built: BuildResults, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return all that is wrong in a bundle, beside what was `found` in its files: one thing is enough to refuse it."""
    of_sources = [one for location, one in built.faults.items() if is_below(location, root)]
    return list(
        dict.fromkeys(
            [*of_sources, *found, *(diagnostic for diagnostic in built.diagnostics if is_below(diagnostic.file, root))]
        )
    )

"""A bundle of the fleet that is to become active, and why it may not.

Knows signed files and their diagnostics, and not how they are stored or fetched.  A bundle is taken whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.loading.build import BuildResults, is_below
from hooklatch.service.loading.see import FleetFiles

__all__ = ["BundleError", "BundleCandidate", "find_bundle_faults"]


class BundleCandidate(NamedTuple):
    """A bundle that is to become active beside those of other policies, whose present files `join` is given.

    `keep` stores it.  After that it cannot be refused any more.
    """

    root: str
    join: Callable[[FleetFiles | None], FleetFiles]
    keep: Callable[[], Awaitable[None]]


class BundleError(Exception):
    """A bundle of the fleet has diagnostics, so nothing of it is taken."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = diagnostics
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(f"{diagnostics[0]}{more}")


def find_bundle_faults(root: str, built: BuildResults, hooks: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics of a bundle, with those of its hooks. One is enough to refuse the bundle."""
    of_sources = [fault for location, fault in built.faults.items() if is_below(location, root)]
    others = (found for found in (*hooks, *built.diagnostics) if is_below(f"{found.file}/", root))
    return list(dict.fromkeys([*of_sources, *others]))

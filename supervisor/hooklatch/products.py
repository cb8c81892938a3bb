"""The products beside the core, which installed packages name by entry points, ours included.

    hooklatch.commands   a word of the command line  ─▶ a function of the words after it, which returns the exit code
    hooklatch.files      the ending of another system's files in hooks.d  ─▶ its `ForeignFile`
    hooklatch.tables     a table of the main hooks.toml  ─▶ its `MainTable`
    hooklatch.sources    a module with hooks  ─▶ its `BuiltinSource`, with the rights that no user's source has
    hooklatch.daemon     a part of the daemon  ─▶ the class of its `Contribution`, or its `EnvironmentProduct`

A product is imported where it is used, and no earlier.  One that is configured and cannot be loaded is a
`ProductError`: its users deny, and never go on as if it were not there.  So is one whose code raises, also
SystemExit.  Knows entry points, and no product.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, MetadataPathFinder, entry_points
from typing import TypeVar

__all__ = [
    "COMMANDS", "DAEMON", "FILES", "SOURCES", "TABLES", "ProductError", "find_products", "list_products",
    "load_product", "run_product", "search_anew",
]  # fmt: skip

COMMANDS, DAEMON, FILES = "hooklatch.commands", "hooklatch.daemon", "hooklatch.files"
SOURCES, TABLES = "hooklatch.sources", "hooklatch.tables"
CORRUPT = (OSError, ValueError, TypeError, AttributeError, KeyError)  # what unreadable metadata raises
T = TypeVar("T")


class ProductError(Exception):
    """A product cannot be loaded, or it is unknown whether there is one; the text says why, and what to do."""


@cache
def find_products() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each group.  The packages are read once for all groups, until `search_anew`.

    Raises:
        ProductError: the metadata of the installed packages cannot be read.
    """
    try:
        points = entry_points()
        return {group: tuple(points.select(group=group)) for group in (COMMANDS, DAEMON, FILES, SOURCES, TABLES)}
    except CORRUPT as error:
        reason = getattr(error, "strerror", None) or error
        raise ProductError(f"the entry points of installed packages cannot be read: {reason}") from None


def search_anew() -> None:
    """Have the installed packages searched again: one may have been repaired.  What is imported stays."""
    importlib.invalidate_caches()
    MetadataPathFinder().invalidate_caches()
    find_products.cache_clear()


def list_products(group: str) -> list[str]:
    """Return the names of a group's products.

    Raises:
        ProductError: the metadata of the installed packages cannot be read.
    """
    return list(dict.fromkeys(point.name for point in find_products()[group]))


def load_product(group: str, name: str, kind: type[T]) -> T:
    """Return the product of a name, which its entry point loads.

    Raises:
        ProductError: no package names it, several do, or it cannot be loaded.
    """
    point = choose_point(group, name, (point for point in find_products()[group] if point.name == name))
    return run_product(f"{point.value} cannot be loaded", kind, point.load)


def run_product(failure: str, kind: type[T], code: Callable[[], object], *refusals: type[Exception]) -> T:
    """Return what a product's code returns.  What it raises is raised only if it is one of its `refusals`.

    Raises:
        ProductError: the code raised anything else, or returned something that is not of this kind.
    """
    try:
        result = code()
    except refusals:
        raise
    except BaseException as error:  # also SystemExit: no package may end the daemon
        raise ProductError(f"{failure}: {type(error).__name__}: {error}") from error
    if not isinstance(result, kind):
        raise ProductError(f"{failure}: it is a {type(result).__name__}, not a {kind.__name__}")
    return result


def choose_point(group: str, name: str, points: Iterable[EntryPoint]) -> EntryPoint:
    values = {point.value: point for point in points}  # a package that is on the path twice counts once
    if not values:
        raise ProductError(f"no installed package has the entry point {name!r} in {group!r}; install hooklatch anew")
    if len(values) > 1:
        raise ProductError(f"several packages have the entry point {name!r} in {group!r}: {', '.join(sorted(values))}")
    return next(iter(values.values()))

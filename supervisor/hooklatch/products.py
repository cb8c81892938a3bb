"""The products beside the core, which installed packages name by entry points, ours included.

    hooklatch.commands   a word of the command line  ─▶ a function of the words after it, which returns the exit code
    hooklatch.files      the ending of another system's files in hooks.d  ─▶ its `ForeignFile`
    hooklatch.tables     a table of the main hooks.toml  ─▶ its `MainTable`
    hooklatch.sources    a module with hooks  ─▶ its `BuiltinSource`, with the rights that no user's source has
    hooklatch.daemon     a part of the daemon  ─▶ the class of its `Contribution`

A product is imported where it is used, and no earlier.  One that is configured and cannot be loaded is a
`ProductError`: its users deny, and never go on as if it were not there.  Knows entry points, and no product.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

__all__ = [
    "COMMANDS", "DAEMON", "FILES", "SOURCES", "TABLES", "ProductError", "find_products", "list_products",
    "load_product",
]  # fmt: skip

COMMANDS, DAEMON, FILES = "hooklatch.commands", "hooklatch.daemon", "hooklatch.files"
SOURCES, TABLES = "hooklatch.sources", "hooklatch.tables"
CORRUPT = (OSError, ValueError, TypeError, AttributeError, KeyError)  # what unreadable metadata raises
T = TypeVar("T")


class ProductError(Exception):
    """A product cannot be loaded, or it is unknown whether there is one; the text says why, and what to do."""


@cache
def find_products(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group.  They are searched once in a process, since what is imported stays.

    Raises:
        ProductError: the metadata of the installed packages cannot be read.
    """
    try:
        return tuple(entry_points(group=group))
    except CORRUPT as error:
        reason = getattr(error, "strerror", None) or error
        raise ProductError(f"the entry points {group!r} of installed packages cannot be read: {reason}") from None


def list_products(group: str) -> list[str]:
    """Return the names of a group's products.

    Raises:
        ProductError: the metadata of the installed packages cannot be read.
    """
    return list(dict.fromkeys(point.name for point in find_products(group)))


def load_product(group: str, name: str, kind: type[T]) -> T:
    """Return the product of a name, which its entry point loads.

    Raises:
        ProductError: no package names it, several do, or it cannot be loaded.
    """
    point = choose_point(group, name, (point for point in find_products(group) if point.name == name))
    try:
        product = point.load()
    except Exception as error:  # it runs the package's code, which may raise anything
        raise ProductError(f"{point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(product, kind):
        raise ProductError(f"{point.value} is not a {kind.__name__}")
    return product


def choose_point(group: str, name: str, points: Iterable[EntryPoint]) -> EntryPoint:
    values = {point.value: point for point in points}  # a package that is on the path twice counts once
    if not values:
        raise ProductError(f"no installed package has the entry point {name!r} in {group!r}; install hooklatch anew")
    if len(values) > 1:
        raise ProductError(f"several packages have the entry point {name!r} in {group!r}: {', '.join(sorted(values))}")
    return next(iter(values.values()))

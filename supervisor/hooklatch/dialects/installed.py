"""The dialects that installed packages bring, by their entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hooklatch.dialects.dialect import Dialect

__all__ = ["load_entry_points"]


def load_entry_points() -> tuple[dict[str, Dialect], list[str]]:
    """Load the dialects of installed packages; return them by name, and the problems of those that failed."""
    try:
        points = tuple(entry_points(group="hooklatch.dialects"))
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:  # corrupt metadata raises many types
        return {}, [f"the dialects of installed packages cannot be found: {getattr(error, 'strerror', None) or error}"]
    if not points:
        return {}, []
    from hooklatch.dialects.custom import load_dialects

    return load_dialects(points)

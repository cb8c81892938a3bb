"""What to say where an SDK is not installed.  Knows the names of the extras."""

from __future__ import annotations

__all__ = ["missing"]


def missing(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error for a bridge whose SDK cannot be imported."""
    text = f"the bridge to {extra} needs {error.name!r}; install it with: pip install 'hooklatch[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)

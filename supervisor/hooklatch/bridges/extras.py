"""The error for an SDK that is not installed."""

from __future__ import annotations

__all__ = ["make_missing_sdk_error"]


def make_missing_sdk_error(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error for a bridge whose SDK cannot be imported."""
    text = f"the bridge to {extra} needs {error.name!r}; install it with: pip install 'hooklatch[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)

"""Texts of others made harmless for a page, and moments in words.  Pure; escapes no HTML.

What an agent or a hook wrote may hold control characters, characters that turn the direction of writing, or megabytes.
`harmless` is applied to every value that a template prints (`web/rendering.py`), so no page can forget it.  HTML is
escaped after that by the templates' engine.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hooklatch.core.text import escaped

__all__ = ["MOST", "cut", "harmless", "instant", "moment", "moment_of", "pretty"]

MOST = 20_000  # characters of one value on a page
KEPT = "\n\t"


def harmless(text: str) -> str:
    """Return a text in which everything is visible: other characters as their escapes, and at most MOST of them."""
    if len(text) > MOST:
        text = f"{text[:MOST]}… ({len(text)} characters)"
    return escaped(text, kept=KEPT)


def cut(text: object, most: int) -> str:
    """Return the beginning of a text, and that it is one."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[:most]}…"


def pretty(value: object) -> str:
    """Return JSON for people: indented, with its strings as they are."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError):
        return f"what cannot be shown as JSON: {type(value).__name__}"


def moment_of(at: object) -> datetime | None:
    """Return a moment that was told as seconds since 1970, or as the record spells it; None if it is none."""
    try:
        if isinstance(at, str):
            told = datetime.fromisoformat(at)
            return (told if told.tzinfo is not None else told.replace(tzinfo=UTC)).astimezone()
        if isinstance(at, int | float) and not isinstance(at, bool):
            return datetime.fromtimestamp(at, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return None


def moment(at: object) -> str:
    """Return a moment as `2026-01-31 12:00:00` in this machine's zone; what is none, as it is."""
    told = moment_of(at)
    return f"{told:%Y-%m-%d %H:%M:%S}" if told is not None else cut(at, 40)


def instant(at: object) -> str:
    """Return a moment as the `datetime` of a `<time>`; an empty text for what is none."""
    told = moment_of(at)
    return told.isoformat(timespec="milliseconds") if told is not None else ""

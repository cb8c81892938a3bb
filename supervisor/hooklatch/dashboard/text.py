"""Foreign texts made harmless for a page, and moments in words.  Pure; escapes no HTML.

The text of an agent or a hook may hold control characters, characters that turn the direction of writing, or megabytes.
`make_visible` is applied to every value that a template prints (`rendering.py`), so no page can forget it.  HTML is
escaped after that by the templates' engine.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hooklatch.core.text import escape_text

__all__ = [
    "MAX_TEXT", "clip_page_text", "make_visible", "format_instant", "format_moment", "parse_moment",
    "format_page_json",
]  # fmt: skip

MAX_TEXT = 20_000  # characters of one value on a page
KEPT_CHARACTERS = "\n\t"


def make_visible(text: str) -> str:
    """Return a text in which everything is visible: other characters as their escapes, and at most MAX_TEXT of them."""
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text)} characters)"
    return escape_text(text, kept=KEPT_CHARACTERS)


def clip_page_text(text: object, maximum: int) -> str:
    """Return the beginning of a text, marked as such."""
    whole = str(text)
    return whole if len(whole) <= maximum else f"{whole[:maximum]}…"


def format_page_json(value: object) -> str:
    """Return JSON for people: indented, with its strings as they are."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError):
        return f"a value that cannot be shown as JSON: {type(value).__name__}"


def parse_moment(at: object) -> datetime | None:
    """Return the moment of seconds since 1970, or of a text in the record's form, or None for any other value."""
    try:
        if isinstance(at, str):
            moment = datetime.fromisoformat(at)
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone()
        if isinstance(at, int | float) and not isinstance(at, bool):
            return datetime.fromtimestamp(at, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return None


def format_moment(at: object) -> str:
    """Return a moment as `2026-01-31 12:00:00` in this machine's zone, and any other value as it is."""
    moment = parse_moment(at)
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else clip_page_text(at, 40)


def format_instant(at: object) -> str:
    """Return a moment as the `datetime` of a `<time>`, and an empty text for any other value."""
    moment = parse_moment(at)
    return moment.isoformat(timespec="milliseconds") if moment is not None else ""

"""The templates' environment: it makes each printed value harmless and then escapes it, in every template.  Pure.

The text of an agent or a hook may hold control characters, characters that turn the direction of writing, or megabytes.
`make_visible` is applied to every value that a template prints, so no page can forget it.  The charts are SVG that is
made here.  Each has a text beside it with the same values, so they are hidden from screen readers.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hooklatch.core.text import escape_text, format_duration

__all__ = [
    "MAX_TEXT", "make_visible", "format_moment", "format_page_json", "draw_bar", "FOLDER", "build_environment",
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


WIDTH, HEIGHT = 160, 10  # of a bar beside a number


def draw_bar(*lengths: tuple[float, str], begin: float = 0, whole: float = 0) -> Markup:
    """Return a bar of parts, each with its length and its class, from `begin` on in the scale of the `whole`."""
    if not (0 < whole < math.inf and 0 <= begin < math.inf):
        return Markup("")
    parts: list[str] = []
    for length, kind in lengths:
        if 0 < length < math.inf:
            width = max(min(length / whole, 1) * WIDTH, 1.5)
            left = min(begin / whole * WIDTH, WIDTH - width)
            parts.append(f'<rect class="{escape(kind)}" x="{left:.1f}" width="{width:.1f}" height="{HEIGHT}"/>')
            begin += length
    return Markup(
        f'<svg class="bar" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'{"".join(parts)}</svg>'
    )  # fmt: skip


NONE = "\u2013"
# What is written from right to left: Hebrew to Arabic, their presentation forms, and the blocks kept for more of them.
LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]+")
FOLDER = Path(__file__).resolve().parent


def build_environment(base: str | None, home: str = "") -> Environment:
    """Return the templates' environment. Links begin with `base`, and without one there are none.

    Paths below the folder `home` are shown with `~`.
    """
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=print_template_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )

    def link(*parts: str, **query: object) -> str:
        """Return the URL of a page. Names in it may hold any character."""
        if base is None:
            return ""
        path = "/".join((base, *(quote(part, safe="") for part in parts)))
        given = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(given)}" if given else path

    names: Any = environment.globals
    names.update(base=base, link=link, bar=draw_bar)
    filters: Any = environment.filters
    filters.update(
        cut=clip_page_text,
        in_order=isolate_text_direction,
        tilde=partial(shorten_home, home=home.rstrip("/")),
        stamp=format_stamp,
        json=format_data,
        moment=format_moment,
        instant=format_instant,
        span=format_duration,
        ms=format_ms,
    )
    return environment


def print_template_value(value: object) -> object:
    """Return the printed form of a value, before it is escaped. Our own markup passes as it is."""
    if value is None:
        return NONE
    return value if isinstance(value, Markup) else make_visible(str(value))


def isolate_text_direction(text: str) -> Markup:
    """Return a text whose words keep their order, also those that are written from right to left.

    A browser would show `mv` and two words of Hebrew with these the other way round.
    """
    return Markup(LEFTWARDS.sub(r"<bdi>\g<0></bdi>", str(escape(make_visible(text)))))


def shorten_home(text: object, *, home: str) -> str:
    """Return a path with `~` for the home directory."""
    path = "" if text is None else str(text)
    return f"~{path[len(home) :]}" if home and (path == home or path.startswith(f"{home}/")) else path


def format_stamp(at: object) -> int | None:
    """Return a moment as seconds since 1970."""
    moment = parse_moment(at)
    return int(moment.timestamp()) if moment is not None else None


def format_data(value: object) -> str:
    """Return JSON for an attribute that our script reads."""
    return json.dumps(value, separators=(",", ":"))


def format_ms(value: object) -> str:
    """Return milliseconds for people, or a dash for none."""
    if not isinstance(value, int | float):
        return NONE
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"

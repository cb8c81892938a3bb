"""The templates' environment: it makes each printed value harmless and then escapes it, in every template.  Pure.

The text of an agent or a hook may hold control characters, characters that turn the direction of writing, or megabytes.
`make_visible` is applied to every value that a template prints, so no page can forget it.  The charts are SVG that is
made here.  Each has a text beside it with the same values, so they are hidden from screen readers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hooklatch.core.status_answers import HookTimings
from hooklatch.core.text import escape_text, format_duration

__all__ = [
    "MAX_TEXT", "make_visible", "format_moment", "format_page_json", "draw_columns", "draw_range_bar", "FOLDER",
    "build_environment",
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


LOW, HIGH = 0.1, 60_000.0  # milliseconds at both ends of a range bar
WIDTH, HEIGHT = 140, 16
COLUMNS, TALL = 60, 48
STEP = 5


def draw_range_bar(timings: HookTimings) -> Markup:
    """Return a bar from the shortest to the longest of the latest calls. Its thick part is from p50 to p99.

    The scale is logarithmic, the same for all hooks: 0.1 ms at the left, 60 s at the right.
    """
    values = (timings["min_ms"], timings["p50_ms"], timings["p99_ms"], timings["max_ms"])
    known = [scale_position(value) for value in values if value is not None]
    if len(known) != len(values):
        return Markup("")
    first, middle, late, last = known
    ticks = "".join(
        f'<line class="tick" x1="{scale_position(ms):.1f}" x2="{scale_position(ms):.1f}" y1="1" y2="15"/>'
        for ms in (1, 10, 100, 1000)
    )
    thick = max(late - middle, 2)
    return Markup(
        f'<svg class="range" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
        f'{ticks}<line class="reach" x1="{first:.1f}" x2="{max(last, first + 1):.1f}" y1="8" y2="8"/>'
        f'<rect class="most" x="{middle:.1f}" y="4" width="{thick:.1f}" height="8" rx="2"/></svg>'
    )  # fmt: skip


def scale_position(ms: float) -> float:
    bounded = min(max(ms, LOW), HIGH)
    return WIDTH * math.log(bounded / LOW) / math.log(HIGH / LOW)


def draw_columns(counts: Sequence[tuple[int, int]]) -> Markup:
    """Return one column for each interval, oldest first: calls, and in another colour the failed ones."""
    intervals = list(counts)[-COLUMNS:]
    maximum = max((calls for calls, _ in intervals), default=0)
    if not maximum:
        return Markup("")
    width = COLUMNS * STEP
    parts: list[str] = []
    for number, (calls, failed) in enumerate(intervals, COLUMNS - len(intervals)):
        for count, kind in ((calls, "calls"), (min(failed, calls), "failed")):
            if count > 0:
                tall = max(count / maximum * TALL, 1.5)
                parts.append(
                    f'<rect class="{kind}" x="{number * STEP}" y="{TALL - tall:.1f}" width="{STEP - 1}"'
                    f' height="{tall:.1f}"/>'
                )
    return Markup(
        f'<svg class="columns" width="{width}" height="{TALL}" viewBox="0 0 {width} {TALL}" aria-hidden="true">'
        f'{"".join(parts)}</svg>'
    )  # fmt: skip


NONE = "\u2013"
# What is written from right to left: Hebrew to Arabic, their presentation forms, and the blocks kept for more of them.
LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]+")
FOLDER = Path(__file__).resolve().parent


def build_environment(base: str) -> Environment:
    """Return the templates' environment. Links begin with `base`."""
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
        path = "/".join((base, *(quote(part, safe="") for part in parts)))
        given = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(given)}" if given else path

    names: Any = environment.globals
    names.update(base=base, link=link, range_bar=draw_range_bar, columns=draw_columns)
    filters: Any = environment.filters
    filters.update(
        cut=clip_page_text,
        in_order=isolate_text_direction,
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


def format_ms(value: object) -> str:
    """Return milliseconds for people, or a dash for none."""
    if not isinstance(value, int | float):
        return NONE
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"

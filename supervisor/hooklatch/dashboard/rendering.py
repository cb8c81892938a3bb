"""The templates' environment: it makes each printed value harmless and then escapes it, in every template."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hooklatch.core.text import format_duration
from hooklatch.dashboard import charts
from hooklatch.dashboard.text import clip_page_text, format_instant, format_moment, make_visible

__all__ = ["FOLDER", "build_environment"]

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
    names.update(base=base, link=link, range_bar=charts.draw_range_bar, columns=charts.draw_columns)
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

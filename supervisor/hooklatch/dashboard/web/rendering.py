"""The templates.  Knows how values are printed: harmless, then escaped, each of them, whatever a template says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from hooklatch.core.text import shown
from hooklatch.dashboard.views import charts
from hooklatch.dashboard.views.text import cut, harmless, instant, moment

__all__ = ["FOLDER", "new_environment"]

NONE = "\u2013"
# What is written from right to left: Hebrew to Arabic, their presentation forms, and the blocks kept for more of them.
LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]+")
FOLDER = Path(__file__).resolve().parent.parent


def new_environment(base: str) -> Environment:
    """Return the templates' environment; links begin with `base`."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )

    def link(*parts: str, **query: object) -> str:
        """Return the URL of a page; names in it may hold anything."""
        path = "/".join((base, *(quote(part, safe="") for part in parts)))
        given = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(given)}" if given else path

    names: Any = environment.globals
    names.update(base=base, link=link, range_bar=charts.range_bar, columns=charts.columns)
    filters: Any = environment.filters
    filters.update(cut=cut, in_order=in_order, moment=moment, instant=instant, span=shown, ms=ms)
    return environment


def printed(value: object) -> object:
    """Return what a template prints for a value, before it is escaped; our own markup passes as it is."""
    if value is None:
        return NONE
    return value if isinstance(value, Markup) else harmless(str(value))


def in_order(text: str) -> Markup:
    """Return a text whose words stand in their order, those that are written from right to left too.

    A browser would show `mv` and two words of Hebrew with these the other way round.
    """
    return Markup(LEFTWARDS.sub(r"<bdi>\g<0></bdi>", str(escape(harmless(text)))))


def ms(value: object) -> str:
    """Return milliseconds for people; a dash for none."""
    if not isinstance(value, int | float):
        return NONE
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"

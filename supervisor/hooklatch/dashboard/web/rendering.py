"""The templates.  Knows how values are printed: harmless, then escaped, each of them, whatever a template says."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hooklatch.core.text import shown
from hooklatch.dashboard.views import charts
from hooklatch.dashboard.views.text import cut, harmless, instant, moment

__all__ = ["FOLDER", "new_environment"]

NONE = "\u2013"
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
    filters.update(cut=cut, moment=moment, instant=instant, span=shown, ms=ms)
    return environment


def printed(value: object) -> object:
    """Return what a template prints for a value, before it is escaped; our own markup passes as it is."""
    if value is None:
        return NONE
    return value if isinstance(value, Markup) else harmless(str(value))


def ms(value: object) -> str:
    """Return milliseconds for people; a dash for none."""
    if not isinstance(value, int | float):
        return NONE
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms" if value < 10_000 else f"{value / 1000:.1f} s"

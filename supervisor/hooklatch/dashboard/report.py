"""The report on a time as one HTML file, which loads and runs nothing: for `hooklatch report`, and for a page."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

from hooklatch.dashboard.counts import Summary
from hooklatch.dashboard.rendering import FOLDER, build_environment

__all__ = ["render_report"]


def render_report(summary: Summary, made: datetime, home: str) -> str:
    """Return the report."""
    environment = build_environment(None, home)
    style = Markup((FOLDER / "static" / "style.css").read_text())
    return environment.get_template("report.html").render(summary=summary, made=made.isoformat(), style=style)

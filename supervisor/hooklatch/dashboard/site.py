"""The parts that all pages share: the daemon, the user, the templates, and notices for the next page."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractAsyncContextManager

from jinja2 import Environment
from starlette.responses import HTMLResponse, RedirectResponse

from hooklatch.client.trio_admin import AdminConnector
from hooklatch.dashboard.checks import Checks
from hooklatch.dashboard.doors import Keys
from hooklatch.dashboard.feed import DaemonQueries, DashboardFeed, Samples, open_asker
from hooklatch.dashboard.rendering import build_environment

__all__ = ["PLACES", "DashboardSite"]

PLACES = (
    ("", "Overview"),
    ("asks", "Asks"),
    ("hooks", "Hooks"),
    ("record", "Record"),
    ("sessions", "Sessions"),
    ("revisions", "Revisions"),
    ("suspensions", "Suspensions"),
)
MAX_NOTICES = 5


class DashboardSite:
    """The parts of a running dashboard. `who` is the user of its actions, as the record names them."""

    def __init__(self, daemon: AdminConnector, keys: Keys, who: str) -> None:
        self.daemon = daemon
        self.keys = keys
        self.who = who
        self.samples = Samples()
        self.feed = DashboardFeed(daemon, self.samples)
        self.checks = Checks()
        self.environment: Environment = build_environment(keys.base)
        self._notices: deque[str] = deque(maxlen=MAX_NOTICES)

    def asking(self) -> AbstractAsyncContextManager[DaemonQueries]:
        """Connect to the daemon for the requests of one page."""
        return open_asker(self.daemon)

    def notice(self, text: str) -> None:
        """Show a text on the next page, once."""
        self._notices.append(text)

    def fragment(self, template: str, **values: object) -> str:
        """Return a part of a page."""
        return self.environment.get_template(template).render(**values)

    def page(self, template: str, *, title: str, place: str = "", status: int = 200, **values: object) -> HTMLResponse:
        """Return a whole page. `place` is its key in the menu."""
        notices = list(self._notices)
        self._notices.clear()
        common = {"title": title, "place": place, "places": PLACES, "notices": notices, "form_key": self.keys.form_key}
        return HTMLResponse(self.fragment(template, **common, **values), status)

    def wrong(self, status: int, what: str, *, place: str = "") -> HTMLResponse:
        """Return a page with the fault of a request."""
        return self.page("wrong.html", title="Not done", place=place, status=status, what=what)

    def go(self, page: str) -> RedirectResponse:
        """Redirect the browser to a page, which it reads anew."""
        return RedirectResponse(f"{self.keys.base}/{page}", 303)

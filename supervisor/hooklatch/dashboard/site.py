"""The parts that all pages share: the daemon, the user, the templates, notices for the next page, and the last check.

A check of the decision record runs in a thread, since a long record takes a while, and one at a time.  It reads the
record's files, and changes none.  The head of the record that the dashboard saw first is a witness: earlier entries
cannot be rewritten unnoticed while the dashboard runs.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio
from jinja2 import Environment
from starlette.responses import HTMLResponse, RedirectResponse

from hooklatch.client.trio_admin import AdminConnector
from hooklatch.core.answers import AsksAnswer
from hooklatch.core.status_answers import StatusAnswer
from hooklatch.dashboard.counts import RecordCounts
from hooklatch.dashboard.doors import Keys
from hooklatch.dashboard.feed import DaemonQueries, DashboardFeed, open_asker
from hooklatch.dashboard.rendering import build_environment
from hooklatch.errors import describe_error
from hooklatch.record.findings import ChainWitness, VerifyReport
from hooklatch.record.storage.reading import NoRecordError
from hooklatch.record.verify import verify_record
from hooklatch.threads import in_thread

__all__ = ["Checks", "LooksAtFleet", "PLACES", "DashboardSite"]


LooksAtFleet = Callable[[], Awaitable[tuple[Any, str]]]


class RecordVerification(msgspec.Struct, frozen=True):
    """A check that has ended: its start, its folder, and its report or the reason why there is none."""

    at: float
    folder: str
    report: VerifyReport | None = None
    fault: str = ""


class Checks:
    """The task that checks the record when a page requests it, while `run` runs."""

    def __init__(self) -> None:
        self.last: RecordVerification | None = None
        self.witness: ChainWitness | None = None
        self.progress: int | None = None  # percent, while one runs
        self._send, self._receive = trio.open_memory_channel[str](1)

    def note_head(self, seq: int, digest: str) -> None:
        """Keep the first head that the daemon showed."""
        if self.witness is None and seq > 0:
            self.witness = ChainWitness(seq, digest)

    def begin(self, folder: str) -> bool:
        """Begin a check of a record, unless one runs already. Return whether it has begun."""
        if self.progress is not None:
            return False
        self.progress = 0
        self._send.send_nowait(folder)
        return True

    async def run(self) -> None:
        """Run the requested checks until cancelled."""
        async for folder in self._receive:
            try:
                self.last = await in_thread(self._check, folder, abandon_on_cancel=True)
            finally:
                self.progress = None

    def _check(self, folder: str) -> RecordVerification:
        began = time.time()
        witnesses = [self.witness] if self.witness is not None else []
        try:
            return RecordVerification(began, folder, verify_record(folder, witnesses, on_progress=self._note_progress))
        except (NoRecordError, OSError) as error:
            return RecordVerification(began, folder, fault=describe_error(error))

    def _note_progress(self, done: int, total: int) -> None:
        self.progress = min(done * 100 // max(total, 1), 99)


PLACES = (
    ("", "Overview"), ("asks", "Asks"), ("hooks", "Hooks"), ("record", "Record"), ("counts", "Counts"),
    ("sessions", "Sessions"), ("revisions", "Revisions"), ("suspensions", "Suspensions"),
)  # fmt: skip
FLEET = ("fleet", "Fleet")  # where this machine has [fleet]
MAX_NOTICES = 5


class DashboardSite:
    """The parts of a running dashboard. `who` is the user of its actions, as the record names them.

    `look_at_fleet` reads the hosts of this machine's fleet, or returns why not, or not all; None without one.
    """

    def __init__(self, daemon: AdminConnector, keys: Keys, who: str, look_at_fleet: LooksAtFleet | None) -> None:
        self.look_at_fleet = look_at_fleet
        self.daemon = daemon
        self.keys = keys
        self.who = who
        self.feed = DashboardFeed(daemon)
        self.checks = Checks()
        self.counts = RecordCounts()
        self.waiting: int | None = None  # asks, when a page was last read; None if that is not known
        self.home = os.environ.get("HOME", "")
        self.environment: Environment = build_environment(keys.base, self.home)
        self._notices: deque[str] = deque(maxlen=MAX_NOTICES)

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[DaemonQueries]:
        """Connect to the daemon for the requests of one page, and count the asks for its menu and title."""
        async with open_asker(self.daemon) as asker:
            yield asker
            asks = await asker.ask("asks", AsksAnswer)
            self.waiting = len(asks.value["asks"]) if asks.value is not None else None

    async def begin_counting(self) -> None:
        """Count what the record has by now, so that the first page need not wait for that."""
        async with open_asker(self.daemon) as asker:
            status = await asker.ask("status", StatusAnswer)
        if status.value is not None:
            await self.counts.look(status.value["record"]["folder"])

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
        places = (*PLACES, FLEET) if self.look_at_fleet is not None else PLACES
        common = {
            "title": title, "place": place, "places": places, "notices": notices, "form_key": self.keys.form_key,
            "waiting": self.waiting,
        }  # fmt: skip
        return HTMLResponse(self.fragment(template, **common, **values), status)

    def wrong(self, status: int, what: str, *, place: str = "") -> HTMLResponse:
        """Return a page with the fault of a request."""
        return self.page("wrong.html", title="Not done", place=place, status=status, what=what)

    def go(self, page: str) -> RedirectResponse:
        """Redirect the browser to a page, which it reads anew."""
        return RedirectResponse(f"{self.keys.base}/{page}", 303)

"""Asks the daemon for reports, in a thread of its own, so that a silent daemon never holds up a key.

Knows the connection; does not know the screen.  If the daemon is gone, it says why and asks again.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from hooklatch.cli.live.top_state import TopReport
from hooklatch.cli.terminal.requests import CommandLink, connect_administrator
from hooklatch.errors import DaemonUnreachableError, RequestFailedError

__all__ = ["AGAIN", "HookDetail", "TopPoller", "PollFailure", "is_passing", "fetch_top_report"]

AGAIN = 1.0  # seconds between attempts to reach a daemon that is gone


class HookDetail(NamedTuple):
    """What the daemon says of one hook, with its last failures; None if there is no such hook any more."""

    hook: dict[str, Any] | None


class PollFailure(NamedTuple):
    """Why there is no report; `is_final`: asking again does not help."""

    error: Exception
    is_final: bool


def fetch_top_report(link: CommandLink, session: str | None, wanted: str | None = None) -> TopReport:
    """Return a report of all hooks, and of the wanted one its failures.

    Raises:
        HooklatchError: there is none.
    """
    status, hooks = link.ask("status"), link.ask("hooks", session=session)["hooks"]
    detail = fetch_hook_detail(link, session, wanted).hook if wanted is not None else None
    return TopReport(time.monotonic(), time.time(), status, hooks, detail)


def fetch_hook_detail(link: CommandLink, session: str | None, name: str) -> HookDetail:
    try:
        found = link.ask("hook", id=name, session=session)["hooks"]
    except RequestFailedError as error:
        if error.name != "not_found":
            raise
        return HookDetail(None)
    return HookDetail(next((hook for hook in found if hook["name"] == name), None))


class TopPoller(threading.Thread):
    """Puts a report into `news` each `interval` seconds, and a detail when one is wanted; calls `poke` for each."""

    def __init__(self, arguments: argparse.Namespace, interval: float, poke: Callable[[], None]) -> None:
        super().__init__(name="feed", daemon=True)  # it may be waiting for a daemon that is silent
        self.news: SimpleQueue[TopReport | HookDetail | PollFailure] = SimpleQueue()
        self._arguments = arguments
        self._interval = interval
        self._poke = poke
        self._wanted: str | None = None
        self._is_asked = threading.Event()
        self._is_over = False

    def want(self, name: str | None) -> None:
        """Have the failures of one hook come at once, and with each report from now on; None: of no hook."""
        self._wanted = name
        if name is not None:
            self._is_asked.set()

    def end(self) -> None:
        self._is_over = True
        self._is_asked.set()

    def run(self) -> None:
        while not self._is_over:
            try:
                with connect_administrator(self._arguments) as link:
                    self._ask(link)
            except Exception as error:
                is_final = not is_passing(error)
                self._tell(PollFailure(error, is_final))
                if is_final:
                    return
                self._is_asked.wait(AGAIN)
                self._is_asked.clear()

    def _ask(self, link: CommandLink) -> None:
        session: str | None = self._arguments.session
        due = 0.0
        while not self._is_over:
            self._is_asked.clear()
            wanted = self._wanted
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval
                self._tell(fetch_top_report(link, session, wanted))
            elif wanted is not None:
                self._tell(fetch_hook_detail(link, session, wanted))
            self._is_asked.wait(max(0.0, due - time.monotonic()))

    def _tell(self, news: TopReport | HookDetail | PollFailure) -> None:
        if not self._is_over:
            self.news.put(news)
            self._poke()


def is_passing(error: Exception) -> bool:
    """Return whether asking again may help: the daemon is gone, or about to leave, or has too much to do."""
    if isinstance(error, RequestFailedError):
        return error.name in ("draining", "overload")
    return isinstance(error, DaemonUnreachableError)

"""The poller of `top`: it asks the daemon for reports in a thread of its own, so that keys work beside a silent daemon.

If the daemon is gone, it reports the error and tries again.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

from hooklatch.cli.live.top_state import TopReport
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import ShownHook

__all__ = ["RETRY_INTERVAL", "HookDetail", "TopPoller", "PollFailure", "is_transient", "fetch_top_report"]

RETRY_INTERVAL = 1.0  # seconds between attempts to reach a daemon that is gone


class HookDetail(NamedTuple):
    """The daemon's report on one hook, with its last failures; None if the hook was removed."""

    hook: ShownHook | None


class PollFailure(NamedTuple):
    """The error in place of a report; with `is_final` a further attempt does not help."""

    error: Exception
    is_final: bool


def fetch_top_report(link: AdminConnection, session: str | None, selected: str | None = None) -> TopReport:
    """Return a report on all hooks, with the failures of the selected one.

    Raises:
        HooklatchError: the daemon gives none.
    """
    status, hooks = link.ask("status"), link.ask("hooks", session=session)["hooks"]
    detail = fetch_hook_detail(link, session, selected).hook if selected is not None else None
    return TopReport(time.monotonic(), time.time(), status, hooks, detail)


def fetch_hook_detail(link: AdminConnection, session: str | None, name: str) -> HookDetail:
    try:
        hooks: list[ShownHook] = link.ask("hook", id=name, session=session)["hooks"]
    except RequestFailedError as error:
        if error.name != "not_found":
            raise
        return HookDetail(None)
    return HookDetail(next((hook for hook in hooks if hook["name"] == name), None))


class TopPoller(threading.Thread):
    """A thread that puts a report into `reports` each `interval` seconds, and a detail when one is requested.

    It calls `poke` after each.
    """

    def __init__(self, arguments: argparse.Namespace, interval: float, poke: Callable[[], None]) -> None:
        super().__init__(name="feed", daemon=True)  # at the end it may still be waiting for a silent daemon
        self.reports: SimpleQueue[TopReport | HookDetail | PollFailure] = SimpleQueue()
        self._arguments = arguments
        self._interval = interval
        self._poke = poke
        self._selected: str | None = None
        self._woken = threading.Event()
        self._is_over = False

    def select(self, name: str | None) -> None:
        """Report the failures of one hook at once, and with each report from now on; None ends that."""
        self._selected = name
        if name is not None:
            self._woken.set()

    def end(self) -> None:
        self._is_over = True
        self._woken.set()

    def run(self) -> None:
        while not self._is_over:
            try:
                with connect_administrator(self._arguments) as link:
                    self._poll(link)
            except Exception as error:  # also a bug: the thread of the screen raises it, and the terminal is restored
                is_final = not is_transient(error)
                self._put(PollFailure(error, is_final))
                if is_final:
                    return
                self._woken.wait(RETRY_INTERVAL)
                self._woken.clear()

    def _poll(self, link: AdminConnection) -> None:
        session: str | None = self._arguments.session
        due = 0.0
        while not self._is_over:
            self._woken.clear()  # before the selection is read: one that comes later wakes the wait below
            selected = self._selected
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval
                self._put(fetch_top_report(link, session, selected))
            elif selected is not None:
                self._put(fetch_hook_detail(link, session, selected))
            self._woken.wait(max(0.0, due - time.monotonic()))

    def _put(self, report: TopReport | HookDetail | PollFailure) -> None:
        if not self._is_over:
            self.reports.put(report)
            self._poke()


def is_transient(error: Exception) -> bool:
    """Return whether a further attempt may help: the daemon is gone, drains, or is overloaded."""
    if isinstance(error, RequestFailedError):
        return error.name in ("draining", "overload")
    return isinstance(error, DaemonUnreachableError)

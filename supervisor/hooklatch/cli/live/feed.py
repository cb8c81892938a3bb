"""The reports that `top` shows: the poller of them, the rows that they become, and the effect of keys on the view.

report, and the one before ──▶ rows ──▶ ordered by the view       key ──▶ the next view

The poller asks the daemon in a thread of its own, so that keys work beside a silent daemon.  If the daemon is gone, it
reports the error and tries again.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, TypeAlias

from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.errors import DaemonUnreachableError, RequestFailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.cli.schema import TopHook
    from hooklatch.core.answers import HookStatus, ShownHook
    from hooklatch.core.status_answers import StatusAnswer

__all__ = [
    "SORTS", "TopBoard", "TopReport", "TopDisplay", "apply_key", "build_board", "order_rows", "build_rows",
    "RETRY_INTERVAL", "HookDetail", "TopPoller", "PollFailure", "is_transient", "fetch_top_report",
]  # fmt: skip

Page: TypeAlias = Literal["table", "hook", "help"]
STATES = ("quarantined", "inactive", "suspended", "disabled", "active")  # faults first


class TopReport(NamedTuple):
    """A report of the daemon: its moment (monotonic seconds, and seconds since 1970), and the detail of one hook."""

    moment: float
    at: float
    status: StatusAnswer
    hooks: Sequence[HookStatus]
    detail: ShownHook | None = None
    has_new_ask: bool = False  # since the report before


class TopBoard(NamedTuple):
    """The content of the screen: the last report, its rows in order, fires a second, and why no newer report came."""

    report: TopReport
    rows: Sequence[TopHook]
    fires_per_s: float | None = None
    fault: str | None = None


class TopDisplay(NamedTuple):
    """The display that the keys have chosen; `top` is the first line of a page that is longer than the screen."""

    sort: str = "state"
    is_reversed: bool = False
    is_paused: bool = False
    selected: str | None = None
    page: Page = "table"
    top: int = 0


def build_rows(now: TopReport, before: TopReport | None) -> list[TopHook]:
    """Return the rows of a report; rates are those since the report before, if that was of the same daemon."""
    earlier: dict[str, HookStatus] = {}
    seconds = now.moment - before.moment if before is not None else 0.0
    if before is not None and before.status["pid"] == now.status["pid"]:
        earlier = {hook["name"]: hook for hook in before.hooks}
    return [build_top_row(hook, earlier.get(hook["name"]), seconds) for hook in now.hooks]


def build_top_row(hook: HookStatus, before: HookStatus | None, seconds: float) -> TopHook:
    timings = hook["timings"]
    rate = compute_rate(timings["count"], before["timings"]["count"] if before is not None else None, seconds)
    return {
        "name": hook["name"], "event": hook["event"], "state": hook["state"], "calls": timings["count"],
        "calls_per_s": rate, "p50_ms": timings["p50_ms"], "p99_ms": timings["p99_ms"],
        "failures": timings["failures"], "load": hook["load"],
    }  # fmt: skip


def compute_rate(now: int, before: int | None, seconds: float) -> float | None:
    """Return the rate a second; None if it is not known, such as after a restart, which counts from 0."""
    return None if before is None or seconds <= 0 or now < before else (now - before) / seconds


def build_board(now: TopReport, before: TopReport | None, view: TopDisplay) -> TopBoard:
    """Return the content of the screen for two reports."""
    is_same = before is not None and before.status["pid"] == now.status["pid"]
    fired = before.status["fired"] if is_same and before is not None else None
    fires = compute_rate(now.status["fired"], fired, now.moment - before.moment if before is not None else 0.0)
    return TopBoard(now, order_rows(build_rows(now, before), view), fires)


def rank_by_state(row: TopHook) -> tuple[float, ...]:
    known = STATES.index(row["state"]) if row["state"] in STATES else 0
    return (known, -(row["calls_per_s"] or 0.0))


# From the largest to the smallest, except for names; of equal ones the order is that of firing.
SORTS: Mapping[str, Callable[[TopHook], Any]] = {
    "state": rank_by_state,
    "calls/s": lambda row: -(row["calls_per_s"] or 0.0),
    "p50": lambda row: -(row["p50_ms"] or 0.0),
    "p99": lambda row: -(row["p99_ms"] or 0.0),
    "failures": lambda row: -sum(row["failures"].values()),
    "memory": lambda row: -((row["load"] and row["load"]["memory_bytes"]) or 0),
    "queue": lambda row: -(row["load"]["waiting"] if row["load"] else 0),
    "hook": lambda row: row["name"],
}


def order_rows(rows: Sequence[TopHook], view: TopDisplay) -> list[TopHook]:
    """Return rows in the order of a view."""
    ordered = sorted(rows, key=SORTS[view.sort])
    return ordered[::-1] if view.is_reversed else ordered


def apply_key(view: TopDisplay, key: str, names: Sequence[str], page: int) -> TopDisplay | None:
    """Return the view after a key; None ends it.  `names` are the rows as shown, `page` is the lines of a screen."""
    if key in ("q", "Q", "ctrl-c"):
        return None
    if key in ("p", " "):
        return view._replace(is_paused=not view.is_paused)
    if key == "?":
        return view._replace(page="table" if view.page == "help" else "help", top=0)
    if view.page != "table":
        return scroll_view(view, key, page)
    if key in ("s", "S"):
        sorts = list(SORTS)
        index = (sorts.index(view.sort) + (1 if key == "s" else -1)) % len(sorts)
        return view._replace(sort=sorts[index], is_reversed=False)
    if key == "r":
        return view._replace(is_reversed=not view.is_reversed)
    if key == "enter" and names:
        return view._replace(selected=view.selected if view.selected in names else names[0], page="hook", top=0)
    step = list_scroll_steps(page, len(names)).get(key)
    if step is None or not names:
        return view
    index = names.index(view.selected) if view.selected in names else (-1 if step > 0 else 0)
    return view._replace(selected=names[max(0, min(index + step, len(names) - 1))])


def scroll_view(view: TopDisplay, key: str, page: int) -> TopDisplay:
    if key in ("enter", "escape", "left", "backspace"):
        return view._replace(page="table", top=0)
    return view._replace(top=max(0, view.top + list_scroll_steps(page, view.top + page).get(key, 0)))


def list_scroll_steps(page: int, count: int) -> Mapping[str, int]:
    return {
        "up": -1, "k": -1, "down": 1, "j": 1, "page up": -page, "page down": page, "home": -count, "end": count,
    }  # fmt: skip


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
        link.ask("subscribe", topics=["asks"])
        due = 0.0
        while not self._is_over:
            self._woken.clear()  # before the selection is read: one that comes later wakes the wait below
            selected = self._selected
            if time.monotonic() >= due:
                due = time.monotonic() + self._interval
                report = fetch_top_report(link, session, selected)
                while link.has_line:
                    report = report._replace(has_new_ask="opened" in link.announcement() or report.has_new_ask)
                self._put(report)
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

"""The stream of happenings, as server-sent events whose data are parts of pages.

A stream ends when its browser leaves, when it lags too far behind, or with the dashboard. The page then says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hooklatch.dashboard.decisions import build_announced_row, build_record_row
from hooklatch.dashboard.feed import DecisionBatch, Happening, StatusSample, TooManyError
from hooklatch.dashboard.site import DashboardSite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

__all__ = ["LiveStream"]

UNRECORDED = "this decision is not among the newest of the record"
HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class LiveStream:
    """An ASGI application: one stream for each request."""

    def __init__(self, site: DashboardSite) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._site.feed.listening() as happenings:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await send({"type": "http.response.body", "body": b"retry: 3000\n\n", "more_body": True})
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, happenings, send, nursery.cancel_scope)
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    nursery.cancel_scope.cancel()
                await send({"type": "http.response.body", "body": b""})
        except TooManyError as error:
            text = str(error).encode()
            await send({"type": "http.response.start", "status": 503, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": text})

    async def _send(
        self, happenings: trio.MemoryReceiveChannel[Happening], send: Send, scope: trio.CancelScope
    ) -> None:
        async for happening in happenings:
            for name, data in self._render_events(happening):
                await send({"type": "http.response.body", "body": encode_sse_event(name, data), "more_body": True})
        scope.cancel()  # no more will come: it lagged, or the dashboard ends

    def _render_events(self, happening: Happening) -> Iterator[tuple[str, str]]:
        match happening:
            case StatusSample():
                yield "status", self._site.fragment("_status.html", pulse=happening)
                yield "asks", self._site.fragment("_asks.html", pulse=happening)
            case DecisionBatch(decisions=decisions, omitted=omitted):
                entries = [
                    build_record_row(record) if record is not None else build_announced_row(params, fault=UNRECORDED)
                    for params, record in decisions
                ]
                yield "decisions", self._site.fragment("_entries.html", entries=entries[::-1], omitted=omitted)


def encode_sse_event(name: str, data: str) -> bytes:
    """Return an event in the form of the HTML standard, section 9.2.6, with a mark for each line of the data."""
    lines = "".join(f"data: {line}\n" for line in data.replace("\r", "").split("\n"))
    return f"event: {name}\n{lines}\n".encode()

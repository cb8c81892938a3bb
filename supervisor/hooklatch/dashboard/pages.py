"""The pages to read, and the stream of happenings, as server-sent events whose data are parts of pages.

Each page sends its requests to the daemon when it is read, and shows where it got no response.  A stream ends when its
browser leaves, when it lags too far behind, or with the dashboard. The page then says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import trio
from starlette.requests import Request
from starlette.responses import Response

from hooklatch.core.answers import HooksAnswer, SessionsAnswer, ShownHooks
from hooklatch.core.hooks.registry import HookState
from hooklatch.core.messages import Cause, DecisionVerdict
from hooklatch.core.status_answers import LogAnswer, StatusAnswer
from hooklatch.dashboard.counts import WEEK, Summary, Tally
from hooklatch.dashboard.decisions import RecordRow, build_announced_row, build_record_row
from hooklatch.dashboard.feed import (
    DaemonQueries,
    DecisionBatch,
    Happening,
    QueryResult,
    StatusSample,
    TooManyError,
    fetch_status_sample,
)
from hooklatch.dashboard.listing import ORDERS, cut_page, group_files, list_rows
from hooklatch.dashboard.report import render_report
from hooklatch.dashboard.revisions import (
    FieldChange,
    Revision,
    compare_revisions,
    list_revisions,
    list_text_changes,
)
from hooklatch.dashboard.site import DashboardSite
from hooklatch.dashboard.sources import SourceFile, read_sources
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.record.storage.reading import KINDS, read_moment
from hooklatch.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

__all__ = ["LiveStream", "PageHandlers"]

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
                yield "waiting", str(len(happening.asks.value)) if happening.asks.value is not None else ""
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


LATEST = 30  # decisions that the overview begins with
ROWS = 50  # records on a page
REVISIONS = 200
HOSTS = 500  # of a fleet, those with something wrong first
SOURCES = 1000  # versions of sources that are looked through for a text
FILTERS = (
    "text", "tool", "by", "hook", "agent", "project", "session", "event", "verdict", "cause", "kind", "since", "until",
    "before", "after", "oldest",
)  # fmt: skip
SPANS = {"24h": timedelta(hours=24), "7d": WEEK}
GROUPS = 30  # refusals of the overview and of Counts
ENTERED = '<!doctype html><html lang="en"><meta charset="utf-8"><title>hooklatch</title>'


class PageHandlers:
    """The handlers of GET requests."""

    def __init__(self, site: DashboardSite) -> None:
        self._site = site

    async def enter(self, request: Request) -> Response:
        """Take the token, and set the cookie for it.

        The response is a page that leads on by itself, and no redirect. After a redirect from elsewhere, such as
        from a mail, a browser would not send a cookie that is SameSite=Strict.
        """
        has_entered = self._site.keys.admits(request.headers.get("cookie", ""))  # such as one that goes back to it
        if not has_entered and not self._site.keys.enter(request.query_params.get("token", "")):
            text = "this address was used already, or it is not whole; stop `hooklatch dashboard` and start it again"
            return Response(f"{ENTERED}<p>{text}</p></html>", 403, media_type="text/html")
        start = f"{self._site.keys.base}/"
        icon = f'<link rel="icon" href="{start}static/icon.svg">'
        page = f'{ENTERED}{icon}<meta http-equiv="refresh" content="0; url={start}"><a href="{start}">Go on</a></html>'
        return Response(page, headers={"set-cookie": self._site.keys.cookie}, media_type="text/html")

    async def overview(self, request: Request) -> Response:
        """Show the daemon's status, the open asks, what was decided, and the last decisions."""
        async with self._site.asking() as asker:
            pulse = await fetch_status_sample(asker)
            log = await asker.ask("log", LogAnswer, kind="decision", limit=LATEST)
        self._note_head(pulse.status)
        counts = await self._count(pulse.status)
        span = read_span(request)
        yesterday = format_timestamp((datetime.now(UTC) - SPANS["24h"]).timestamp())
        return self._site.page(
            "overview.html", title="Overview", pulse=pulse, log=log, entries=list_record_rows(log), counts=counts,
            span=span, spans=SPANS, summary=await summarize(counts, SPANS[span]),
            week=await summarize(counts, WEEK), yesterday=yesterday,
        )  # fmt: skip

    async def counts(self, request: Request) -> Response:
        """Show what was decided: by guard, verdict and agent, what was never called, and equal refusals as one."""
        counts, summary = await self._summarize_with_hooks(read_span(request))
        return self._site.page(
            "counts.html", title="Counts", place="counts", counts=counts, span=read_span(request), spans=SPANS,
            summary=summary, groups=GROUPS,
        )  # fmt: skip

    async def report(self, request: Request) -> Response:
        """Return the report as a file."""
        counts, summary = await self._summarize_with_hooks(read_span(request))
        if summary is None:
            return self._site.wrong(503, counts.fault, place="counts")
        now = datetime.now(UTC)
        page = await in_thread(render_report, summary, now, self._site.home)
        headers = {"content-disposition": f'attachment; filename="hooklatch-{now:%Y-%m-%d}.html"'}
        return Response(page, headers=headers, media_type="text/html")

    async def _summarize_with_hooks(self, span: str) -> tuple[QueryResult[Tally], Summary | None]:
        """Return the summary of a time, with the hooks that were never called."""
        async with self._site.asking() as asker:
            status = await asker.ask("status", StatusAnswer)
            hooks = await asker.ask("hooks", HooksAnswer)
        counts = await self._count(status)
        known = [hook["name"] for hook in hooks.value["hooks"]] if hooks.value is not None else None
        return counts, await summarize(counts, SPANS[span], known)

    async def _count(self, status: QueryResult[StatusAnswer]) -> QueryResult[Tally]:
        if status.value is None:
            return QueryResult(fault=status.fault)
        return await self._site.counts.look(status.value["record"]["folder"])

    async def hooks(self, request: Request) -> Response:
        """List the hooks, or where they are many their files: the shared ones, or those of one session's snapshot."""
        session = request.query_params.get("session") or None
        given = {key: value for key in ("q", "file", "state", "sort") if (value := request.query_params.get(key, ""))}
        async with self._site.asking() as asker:
            hooks = await asker.ask("hooks", HooksAnswer, session=session)
            status = await asker.ask("status", StatusAnswer)
        counts = await self._count(status)
        summary = await summarize(counts, WEEK)
        rows = list_rows(
            hooks.value["hooks"] if hooks.value is not None else (),
            summary.guards if summary is not None else {},
            given,
        )
        number = parse_page_number(request.query_params.get("page"))
        files = group_files(rows, given)
        return self._site.page(
            "hooks.html", title="Hooks", place="hooks", hooks=hooks, session=session, given=given, orders=ORDERS,
            states=get_args(HookState), counts=counts, files=cut_page(files, number) if files else None,
            part=cut_page(rows, number),
        )  # fmt: skip

    async def hook(self, request: Request) -> Response:
        """Show one hook: its state, its timings, what it decided in the last days, its failures and its source."""
        name = request.query_params.get("name", "")
        async with self._site.asking() as asker:
            answer = await asker.ask("hook", ShownHooks, id=name)
            status = await asker.ask("status", StatusAnswer)
            log = await asker.ask("log", LogAnswer, hook=name, limit=10)
        files: dict[str, list[SourceFile]] = {}
        for hook in answer.value["hooks"] if answer.value is not None else ():
            reading = partial(read_sources, hook["digests"] or {}, hook["origin"])
            files[hook["name"]] = await in_thread(reading)
        counts = await self._count(status)
        tally, summary = counts.value, await summarize(counts, WEEK)
        traces = {each: tally.trace(each, WEEK, datetime.now(UTC)) for each in files} if tally is not None else {}
        return self._site.page(
            "hook.html", title=f"Hook {name}", place="hooks", status=404 if answer.fault else 200, name=name,
            answer=answer, files=files, log=log, entries=list_record_rows(log), counts=counts, summary=summary,
            traces=traces,
        )  # fmt: skip

    async def sessions(self, request: Request) -> Response:
        """List the agents that are connected."""
        async with self._site.asking() as asker:
            sessions = await asker.ask("sessions", SessionsAnswer)
        return self._site.page("sessions.html", title="Sessions", place="sessions", sessions=sessions, now=time.time())

    async def revisions(self, request: Request) -> Response:
        """List the revisions of the hooks, or the difference of two of them."""
        async with self._site.asking() as asker:
            log = await asker.ask("log", LogAnswer, kind="registry", limit=REVISIONS)
            known = list_revisions(log.value["records"]) if log.value is not None else []
            first, last = (parse_page_number(request.query_params.get(key)) for key in ("from", "to"))
            texts = await request_text_changes(asker, known, first, last)
        compared = compare_revisions(known, first, last) if first is not None and last is not None else None
        return self._site.page(
            "revisions.html", title="Revisions", place="revisions", log=log, revisions=known, first=first, last=last,
            compared=compared, texts=texts,
        )  # fmt: skip

    async def record(self, request: Request) -> Response:
        """Show the record, newest first, and the result of its check."""
        given = {key: value.strip() for key in FILTERS if (value := request.query_params.get(key, "")).strip()}
        async with self._site.asking() as asker:
            log = await request_log(asker, given)
            status = await asker.ask("status", StatusAnswer)
        self._note_head(status)
        is_upwards = "oldest" in given
        entries = list_record_rows(log)[:: -1 if is_upwards else 1]
        has_more = log.value is not None and log.value["more"] and bool(entries) and entries[-1].seq is not None
        more = {**given, "after" if is_upwards else "before": entries[-1].seq} if has_more else {}
        return self._site.page(
            "record.html", title="Record", place="record", log=log, entries=entries, given=given, more=more,
            status_answer=status, checks=self._site.checks, kinds=KINDS, verdicts=get_args(DecisionVerdict),
            causes=get_args(Cause),
        )  # fmt: skip

    async def decision(self, request: Request) -> Response:
        """Show all that the record has of one decision."""
        name = request.query_params.get("id", "")
        async with self._site.asking() as asker:
            log = await asker.ask("log", LogAnswer, decision_id=name, limit=10)
        entries = list_record_rows(log)
        return self._site.page(
            "decision.html", title=f"Decision {name}", place="record", status=200 if entries else 404, name=name,
            log=log, entries=entries,
        )  # fmt: skip

    async def suspensions(self, request: Request) -> Response:
        """Show the hooks that are left out: suspended, quarantined or disabled."""
        async with self._site.asking() as asker:
            status = await asker.ask("status", StatusAnswer)
            hooks = await asker.ask("hooks", HooksAnswer)
        return self._site.page(
            "suspensions.html", title="Suspensions", place="suspensions", status_answer=status, hooks=hooks
        )

    async def asks(self, request: Request) -> Response:
        """List the decisions that wait for a person."""
        async with self._site.asking() as asker:
            pulse = await fetch_status_sample(asker)
        return self._site.page("asks.html", title="Asks", place="asks", pulse=pulse)

    async def fleet(self, request: Request) -> Response:
        """Show the hosts of this machine's fleet: their versions, what is wrong with them, and which are silent."""
        if self._site.look_at_fleet is None:
            return self._site.wrong(
                404, "hooks.toml has no [fleet]: this machine is in no fleet, and publishes to none"
            )
        value, fault = await self._site.look_at_fleet()
        return self._site.page("fleet.html", title="Fleet", place="fleet", fleet=QueryResult(value, fault), most=HOSTS)

    def _note_head(self, status: QueryResult[StatusAnswer]) -> None:
        head = status.value["record"]["head"] if status.value is not None else None
        if head is not None:
            self._site.checks.note_head(head["seq"], head["hash"])


async def request_log(asker: DaemonQueries, given: Mapping[str, str]) -> QueryResult[LogAnswer]:
    """Request the records that filters choose. A moment may also be given as a time ago."""
    chosen: dict[str, Any] = dict(given)
    chosen |= {key: parse_page_number(given[key]) for key in ("before", "after") if key in given}
    chosen["oldest"] = "oldest" in given
    for key in ("since", "until"):
        if key in chosen:
            try:
                chosen[key] = read_moment(chosen[key], datetime.now(UTC))
            except ValueError as error:
                return QueryResult(fault=str(error))
    return await asker.ask("log", LogAnswer, limit=ROWS, **chosen)


async def request_text_changes(
    asker: DaemonQueries, known: Sequence[Revision], first: int | None, last: int | None
) -> QueryResult[list[FieldChange]]:
    """Return the difference of the sources at two revisions, as far as the record has their texts."""
    places = {revision.number: revision.seq for revision in known}
    if first is None or last is None or first == last:
        return QueryResult([])
    sides: list[Sequence[Mapping[str, Any]]] = []
    for number in (first, last):
        if number not in places:
            return QueryResult(fault=f"the record of revision {number} is not on this page")
        log = await asker.ask("log", LogAnswer, kind="source", before=places[number], limit=SOURCES)
        if log.value is None:
            return QueryResult(fault=log.fault)
        sides.append(log.value["records"])
    return QueryResult(list_text_changes(*sides))


def list_record_rows(log: QueryResult[LogAnswer]) -> list[RecordRow]:
    """Return the records of a response, newest first, or none if there is no response."""
    records: Sequence[Mapping[str, Any]] = log.value["records"] if log.value is not None else ()
    return [build_record_row(record) for record in reversed(records)]


def read_span(request: Request) -> str:
    """Return the span of time that a page is asked for: one of SPANS."""
    span = request.query_params.get("span", "")
    return span if span in SPANS else next(iter(SPANS))


async def summarize(counts: QueryResult[Tally], span: timedelta, known: Sequence[str] | None = None) -> Summary | None:
    if counts.value is None:
        return None
    return await in_thread(counts.value.summarize, span, datetime.now(UTC), known)


def parse_page_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None

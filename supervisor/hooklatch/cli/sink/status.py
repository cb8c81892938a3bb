"""fleet status: each host as the engine knows it, and what is wrong.  Changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hooklatch.cli.fleet.access import EXITS, access, add_access, run
from hooklatch.cli.sink.hosts import add_hosts, chosen_hosts, described
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.durations import span
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.core.text import counted, shown

if TYPE_CHECKING:
    from hooklatch.fleet.engine.engine import Engine
    from hooklatch.fleet.sink.statuses import HostStatus

__all__ = ["add_status"]

SILENT = 60.0  # seconds without a report after which a host is silent
WIDEST = 20  # characters of what a host calls its health
SKEW = 60.0  # seconds by which a clock may be off before it is shown
DROP = ("RECORD", "LABELS", "HEAD", "UNSHIPPED", "WANTED", "STALE")
TITLES = ("HOST", "LABELS", "HEAD", "WANTED", "APPLIED", "BEHIND", "STALE", "SEEN", "HEALTH", "RECORD", "UNSHIPPED")


def add_status(parser: Parser) -> None:
    parser.runs(status, example="hooklatch fleet status", exits=(*EXITS, Exit.FINDINGS))
    add_hosts(parser)
    parser.add_argument(
        "--silent",
        metavar="TIME",
        type=span,
        default=SILENT,
        help="a host is silent without a report for so long (60s)",
    )
    add_access(parser)


def status(arguments: argparse.Namespace) -> int:
    """Show each host, those that are silent first."""
    reached = access(arguments)

    async def work(engine: Engine) -> tuple[int, dict[str, str], list[HostStatus]]:
        from hooklatch.fleet.sink.statuses import statuses_of

        hosts = set(await chosen_hosts(engine, arguments.host))
        newest, facts = await engine.newest_version(), await engine.facts()
        reports = [report async for report in engine.reports() if report.host in hosts]
        logs = [log async for log in engine.logs() if log[0] in hosts]
        now = int(facts["clock"])
        return newest, facts, statuses_of(reports, logs, newest=newest, now=now, silent_after=arguments.silent)

    newest, facts, found = run(reached, work)
    wrong = sum(1 for one in found if one.wrong)
    if arguments.json:
        output.say_json(
            {"fleet": reached.fleet, "newest": newest, "engine": facts, "ok": not wrong,
             "hosts": [described(one) for one in found]}
        )  # fmt: skip
        return Exit.FINDINGS if wrong else Exit.OK
    output.say_lines(*head_of(reached.fleet, newest, facts, found), width=10)
    if found:
        output.say()
        output.say_table(TITLES, [row_of(one) for one in found], drop=DROP)
    for one in found:
        for text in (*one.wrong, *skew_of(one)):
            output.say(f"{one.host}: {text}")
    return Exit.FINDINGS if wrong else Exit.OK


def head_of(fleet: str, newest: int, facts: dict[str, str], hosts: list[HostStatus]) -> Iterator[tuple[str, Any]]:
    silent, wrong = (sum(1 for one in hosts if getattr(one, name)) for name in ("is_silent", "wrong"))
    yield "fleet", f"{fleet}, version {newest}" if newest else f"{fleet}, nothing was ever pushed"
    yield "hosts", f"{counted(len(hosts), 'host')}, {silent} silent, {wrong} with something wrong"
    syncs = facts.get("appendfsync", "unknown") if facts.get("appendonly") == "yes" else facts.get("appendonly")
    yield "engine", f"{facts.get('engine')} {facts.get('version')}, writes to its log: {syncs}"


def row_of(one: HostStatus) -> tuple[object, ...]:
    unshipped = f"{one.unshipped}" + (f" ({one.lost} lost)" if one.lost else "")
    return (
        one.host, " ".join(one.labels) or None, one.head or None, one.wanted, one.applied, one.behind or None,
        since(one.stale_s), since(one.seen_s) + (" SILENT" if one.is_silent else ""), one.health[:WIDEST],
        f"{one.record.seq}:{one.record.hash[:16]}" if one.record is not None else None, unshipped,
    )  # fmt: skip


def since(seconds: float | None) -> str:
    return shown(seconds) if seconds is not None else "never"


def skew_of(one: HostStatus) -> Iterator[str]:
    if abs(one.skew_s) > SKEW:
        off = "ahead of" if one.skew_s > 0 else "behind"
        yield f"its clock is {shown(abs(one.skew_s))} {off} the engine's, or its link is slow"

"""What is counted of a record, and how hooks are listed: sums by hour, equal refusals as one group, who is new."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from hooklatch.core.answers import HookStatus
from hooklatch.core.messages import CallOutcome
from hooklatch.dashboard.counts import WEEK, GuardSums, RecordCounts, Tally, count_record
from hooklatch.dashboard.listing import cut_page, find_file, group_files, list_rows
from hooklatch.dashboard.report import render_report
from hooklatch.record.storage.querying import LogQuery, query_record
from hooklatch.record.writer import RecordWriter
from hooklatch.service.registry.statistics import UNTIMED
from support.records import SETTINGS, decision, fact
from support.tables import table

NOW = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\u202e"


def line(hours_ago: float, **fields: Any) -> bytes:
    """Make the line of a decision some hours ago."""
    at = (NOW - timedelta(hours=hours_ago)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    given: dict[str, Any] = {
        "seq": 1, "prev": "0" * 64, "at": at, "kind": "decision", "decision_id": f"d-{hours_ago}",
        "event": "pre_tool_use", "verdict": "pass", "host": "codex", **fields,
    }  # fmt: skip
    return json.dumps(given, separators=(",", ":")).encode() + b"\n"


def denied(hours_ago: float, command: str, **fields: Any) -> bytes:
    outcome = {"layer": "global", "hook": "g:no", "outcome": "answered", "verdict": "deny", "cause": "policy"}
    given: dict[str, Any] = {
        "verdict": "deny", "cause": "policy", "reason": "no", "layer": "global", "hook": "g:no",
        "excerpt": {"tool_name": "Bash", "tool_input": {"command": command}}, "outcomes": [outcome], **fields,
    }  # fmt: skip
    return line(hours_ago, **given)


def tally(*lines: bytes) -> Tally:
    counted = Tally()
    counted.take(lines)
    return counted


def test_equal_refusals_are_one_group_with_its_first_and_last() -> None:
    lines = [denied(1, "rm -rf x"), denied(30, "rm -rf x"), denied(5, "rm -rf x"), denied(2, "rm -rf y"), line(3)]

    summary = tally(*lines).summarize(WEEK, NOW)

    assert [(one.subject, one.count, one.hook, one.id) for one in summary.groups] == [
        ("rm -rf x", 3, "global/g:no", "d-1"),
        ("rm -rf y", 1, "global/g:no", "d-2"),
    ]
    assert (summary.groups[0].first, summary.groups[0].last) == ("2026-01-30T06:30:00.000Z", "2026-01-31T11:30:00.000Z")
    assert summary.guards["global/g:no"] == GuardSums(4, 4, last="2026-01-31T11:30:00.000Z")


def test_a_time_line_tells_apart_what_passed_was_asked_refused_and_failed() -> None:
    crashed = denied(2, "ls", cause="crash")
    summary = tally(line(2), line(2), denied(2, "rm"), crashed, line(2, verdict="ask", cause="policy")).summarize(
        timedelta(hours=24), NOW
    )

    (bar,) = [one for one in summary.bars if sum(one.counts)]

    assert bar.counts == [2, 1, 1, 1]
    assert (bar.since, bar.until) == ("2026-01-31T10:00:00.000Z", "2026-01-31T11:00:00.000Z")
    assert len(summary.bars) == 25


def test_a_long_time_has_no_more_bars_than_a_screen() -> None:
    summary = tally(line(1)).summarize(timedelta(days=360), NOW)

    assert len(summary.bars) < 200
    assert sum(map(sum, (one.counts for one in summary.bars))) == 1


def test_what_is_new_since_yesterday_is_known_only_of_a_longer_record() -> None:
    yesterday = (NOW - timedelta(hours=24)).isoformat()
    old = tally(denied(50, "rm a"), denied(2, "rm a"), denied(2, "rm b")).summarize(WEEK, NOW)
    young = tally(denied(2, "rm b")).summarize(WEEK, NOW)

    assert [one.subject for one in old.list_new(yesterday) or []] == ["rm b"]
    assert young.list_new(yesterday) is None


def test_hours_before_the_span_are_forgotten() -> None:
    counted = tally(denied(24 * 8, "rm a"), denied(1, "rm b"))

    counted.forget(NOW)

    assert [one.subject for one in counted.summarize(timedelta(days=30), NOW).groups] == ["rm b"]


@table("text", [b"", b"{", b"\xff" * 9, b'{"kind":"decision","verdict":"deny"}', b'{"kind":"registry","at":1}', b"[]"])
def test_a_line_that_is_no_record_changes_no_count(text: bytes) -> None:
    summary = tally(text, line(1)).summarize(WEEK, NOW)

    assert summary.counts["decisions"] == 1


def test_guards_that_no_decision_called_are_named() -> None:
    summary = tally(denied(1, "rm")).summarize(WEEK, NOW, ["global/g:no", "global/g:idle"])

    assert summary.counts["never"] == ["global/g:idle"]


async def look(counts: RecordCounts, folder: str) -> Tally:
    """Return the counts of a record, however long they take on a busy machine."""
    while (found := await counts.look(folder)).value is None:
        assert "are counted so far" in found.fault
    return found.value


@pytest.fixture
def record(tmp_path: Path) -> RecordWriter:
    folder = tmp_path / "record"
    folder.mkdir(mode=0o700)
    return RecordWriter(str(folder), SETTINGS)


async def test_the_record_is_read_once_and_then_what_is_new(record: RecordWriter) -> None:
    for number in range(3):
        record.append_decision(decision(number), fact())
    counts = RecordCounts()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counts.run)
        first = await look(counts, record.folder)
        before = first.lines
        record.append_decision(decision(4), fact())
        while (second := await look(counts, record.folder)).lines == before:  # a look may end with an earlier reading
            pass
        while "are counted so far" in (gone := await counts.look(f"{record.folder}-gone")).fault or gone.value:
            pass
        nursery.cancel_scope.cancel()
    record.close()

    assert second is first
    assert first.lines - before == 1
    assert first.summarize(WEEK, datetime.now(UTC)).counts["decisions"] == 4
    assert "there is no record in" in gone.fault


async def test_commands_that_guards_named_instead_are_counted_over_the_first_reading_and_later_ones(
    record: RecordWriter,
) -> None:
    def run(number: int, command: str, **fields: Any) -> None:
        payload = {"tool_name": "Bash", "tool_input": {"command": command}}
        record.append_decision(decision(number, **fields), fact(payload))

    run(1, "git push --force", verdict="deny", instead="git push --force-with-lease")
    run(2, "git push --force-with-lease", verdict="pass")
    counts = RecordCounts()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counts.run)
        first = await look(counts, record.folder)
        sums = [first.summarize(WEEK, datetime.now(UTC)).guards["global/guards:no_rm"]]
        run(3, "rm -rf x", verdict="deny", instead="trash x")
        run(4, "rm -rf y", verdict="deny", instead="trash y")
        run(5, "trash y", verdict="pass")
        while (later := await look(counts, record.folder)).lines < 5:
            pass
        sums.append(later.summarize(WEEK, datetime.now(UTC)).guards["global/guards:no_rm"])
        nursery.cancel_scope.cancel()
    record.close()

    assert [(one.offered, one.taken, one.unknown) for one in sums] == [(1, 1, 0), (3, 2, 0)]
    page = render_report(later.summarize(WEEK, datetime.now(UTC)), datetime.now(UTC), "/home/ann")
    assert "2 of 3" in page


def test_a_report_loads_nothing_and_shows_no_text_as_markup(record: RecordWriter) -> None:
    outcome = CallOutcome(layer="global", hook=HOSTILE, outcome="answered", verdict="deny", cause="policy")
    hostile = decision(1, hook=HOSTILE, reason=HOSTILE, outcomes=[outcome])
    record.append_decision(hostile, fact({"tool_name": HOSTILE, "tool_input": {"command": HOSTILE}}, host=HOSTILE))
    record.close()
    counted, now = Tally(), datetime.now(UTC)
    count_record(record.folder, counted, now)

    page = render_report(counted.summarize(WEEK, now, [HOSTILE, "global/idle"]), now, "/home/ann")

    tags: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append((tag, dict(attrs)))  # type: ignore[method-assign]
    parser.feed(page)
    assert {"script", "img", "link", "a"}.isdisjoint(tag for tag, _ in tags)
    assert not [name for _, attributes in tags for name in attributes if name in ("href", "src", "style")]
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "global/idle" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page


def hook(name: str, origin: str, calls: int = 0, **fields: Any) -> HookStatus:
    shown: Any = {
        "name": name, "origin": origin, "target": "t", "event": "pre_tool_use", "match": "", "description": "",
        "state": "active", "timings": {**UNTIMED, "count": calls}, **fields,
    }  # fmt: skip
    return cast("HookStatus", shown)


HOOKS = [hook("global/b", "/x.py:2", 5), hook("global/a", "/y.py:1", 9, state="disabled"), hook("global/c", "a plugin")]


@table(
    ("given", "names"),
    [
        ({}, ["global/b", "global/a", "global/c"]),
        ({"sort": "name"}, ["global/a", "global/b", "global/c"]),
        ({"sort": "calls"}, ["global/a", "global/b", "global/c"]),
        ({"sort": "denies"}, ["global/c", "global/b", "global/a"]),
        ({"sort": "nonsense"}, ["global/b", "global/a", "global/c"]),
        ({"q": "X.PY"}, ["global/b"]),
        ({"state": "disabled"}, ["global/a"]),
        ({"file": "a plugin"}, ["global/c"]),
        ({"q": "nothing"}, []),
    ],
)
def test_hooks_are_chosen_and_ordered(given: dict[str, str], names: list[str]) -> None:
    rows = list_rows(HOOKS, {"global/c": GuardSums(denies=2)}, given)

    assert [row.hook["name"] for row in rows] == names


def test_many_hooks_are_shown_by_file_and_no_page_is_long() -> None:
    many = [hook(f"global/{number}", f"/f{number % 5}.py:{number}") for number in range(502)]
    rows = list_rows(many, {}, {})

    files = group_files(rows, {})
    last = cut_page(rows, 6)

    assert [(one.file, one.hooks) for one in files][:2] == [("/f0.py", 101), ("/f1.py", 101)]
    assert group_files(rows, {"sort": "name"}) == []
    assert group_files(rows[:60], {}) == []
    assert (last.pages, last.total, len(last.rows)) == (6, 502, 2)
    assert cut_page(rows, 99).number == 6
    assert find_file(many[0]) == "/f0.py"


@table(
    ("query", "numbers"),
    [
        ({"limit": 2}, [5, 6]),
        ({"limit": 2, "before": 5}, [3, 4]),
        ({"limit": 2, "oldest": True}, [3, 4]),
        ({"limit": 2, "oldest": True, "after": 4}, [5, 6]),
        ({"before": 3}, []),
        ({"after": 5, "before": 7}, [6]),
    ],
)
def test_the_record_is_paged_in_both_directions(tmp_path: Path, query: dict[str, Any], numbers: list[int]) -> None:
    (tmp_path / "record").mkdir(mode=0o700, exist_ok=True)
    record = RecordWriter(str(tmp_path / "record"), SETTINGS)
    if record.status()["head"]["seq"] < 3:  # type: ignore[index]
        for number in range(4):
            record.append_decision(decision(number), fact())
    record.close()

    found = query_record(record.folder, LogQuery(kind="decision", **query))["records"]

    assert [one["seq"] for one in found] == numbers

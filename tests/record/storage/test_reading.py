"""Reading the record: filters, forwards, backwards, across segments, while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hooklatch.core.messages import CallOutcome
from hooklatch.record.storage.lines import BLOCK
from hooklatch.record.storage.querying import LogQuery, query_record
from hooklatch.record.storage.reading import (
    Filters,
    NoRecordError,
    filter_entries,
    read_backwards,
    read_forwards,
    read_moment,
)
from hooklatch.record.storage.seeking import RecordCursor
from hooklatch.record.writer import RecordWriter
from support.records import SETTINGS, decision, fact, lines, opened, segments
from support.tables import table

OTHER = [
    CallOutcome(layer="global", hook="first", outcome="answered", verdict="allow", cause="policy"),
    CallOutcome(layer="plugin", hook="second", outcome="failed", cause="crash"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record")
    moments = iter(range(1_769_860_800, 1_769_870_000))
    with opened(folder, clock=lambda: next(moments)) as record:
        record.append_decision(decision(1), fact(session="s1"))
        record.append_decision(decision(2, verdict="allow", hook="first", outcomes=OTHER), fact(session="s2"))
        record._journal.begin_segment()
        record.append_decision(
            decision(3, event="stop", verdict="pass", cause=None, hook=None, outcomes=[]), fact(session="s1")
        )
        record.append_decision(decision(4, cause="timeout", reason='"session":"s2"'), fact(session='"s2"'))
        record.append_abandoned("pre_tool_use", "d-5", 7, fact(session="s2"))
        record.append("suspended", hook="first", reason="no")
    return folder


def ids(found: dict[str, Any]) -> list[str]:
    return [one["decision_id"] for one in found["records"] if "decision_id" in one]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (LogQuery(session="s1"), ["d-1", "d-3"]),
        (LogQuery(session="s2"), ["d-2", "d-5"]),
        (LogQuery(session='"s2"'), ["d-4"]),
        (LogQuery(session="s"), []),
        (LogQuery(verdict="deny"), ["d-1", "d-4"]),
        (LogQuery(cause="timeout"), ["d-4"]),
        (LogQuery(cause="crash"), []),
        (LogQuery(event="stop"), ["d-3"]),
        (LogQuery(kind="abandoned"), ["d-5"]),
        (LogQuery(decision_id="d-4"), ["d-4"]),
        (LogQuery(hook="guards:no_rm"), ["d-1", "d-4"]),
        (LogQuery(hook="global/guards:no_rm"), ["d-1", "d-4"]),
        (LogQuery(hook="second"), ["d-2"]),
        (LogQuery(hook="plugin/second"), ["d-2"]),
        (LogQuery(hook="global/second"), []),
        (LogQuery(session="s1", event="stop"), ["d-3"]),
        (LogQuery(session="s1", verdict="deny", cause="policy", hook="guards:no_rm", event="pre_tool_use"), ["d-1"]),
        (LogQuery(), ["d-1", "d-2", "d-3", "d-4", "d-5"]),
    ],
)
def test_filters_all_have_to_hold(folder: Path, filters: LogQuery, expected: list[str]) -> None:
    assert ids(query_record(str(folder), filters)) == expected


def test_moments_bound_what_is_given_and_belong_to_it(folder: Path) -> None:
    at = {
        one["decision_id"]: one["at"]
        for one in query_record(str(folder), LogQuery())["records"]
        if "decision_id" in one
    }

    assert ids(query_record(str(folder), LogQuery(since=at["d-3"]))) == ["d-3", "d-4", "d-5"]
    assert ids(query_record(str(folder), LogQuery(until=at["d-2"]))) == ["d-1", "d-2"]
    assert ids(query_record(str(folder), LogQuery(since=at["d-2"], until=at["d-3"]))) == ["d-2", "d-3"]
    assert ids(query_record(str(folder), LogQuery(since=at["d-2"][:10], until=at["d-2"][:10]))) == []


def test_other_records_are_found_by_their_kind_and_hook(folder: Path) -> None:
    assert [one["kind"] for one in query_record(str(folder), LogQuery(kind="suspended"))["records"]] == ["suspended"]


def test_the_newest_are_given_oldest_first_and_that_there_are_more(folder: Path) -> None:
    found = query_record(str(folder), LogQuery(session="s1", limit=1))

    assert (ids(found), found["more"]) == (["d-3"], True)
    assert query_record(str(folder), LogQuery(session="s1", limit=2))["more"] is False
    assert query_record(str(folder), LogQuery(limit=0)) == {"records": [], "more": True}


def test_an_answer_is_bounded(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        for number in range(1500):
            record.append_decision(decision(number, reason="x" * 1000, warnings=["y" * 1000] * 5), fact())

    found = query_record(str(tmp_path), LogQuery(limit=100_000))

    assert found["more"]
    assert 400 < len(found["records"]) < 1000


def test_backwards_is_forwards_reversed(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        for number in range(900):
            record.append_decision(decision(number, reason="x" * (number % 7) * 100), fact())
            if number % 400 == 399:
                record._journal.begin_segment()

    assert sum(path.stat().st_size for path in segments(tmp_path)) > 2 * BLOCK
    assert list(read_forwards(str(tmp_path))) == lines(tmp_path)
    assert [line + b"\n" for line in read_backwards(str(tmp_path))] == lines(tmp_path)[::-1]


@pytest.mark.parametrize("tail", [b"x", b"x" * (BLOCK + 5), b"{}\nx"])
def test_a_last_line_without_an_end_is_not_there_yet(tmp_path: Path, tail: bytes) -> None:
    with opened(tmp_path) as record:
        record.append_decision(decision(), fact())
    whole = len(lines(tmp_path)) + tail.count(b"\n")
    with segments(tmp_path)[0].open("ab") as file:
        file.write(tail)

    assert len(list(read_forwards(str(tmp_path)))) == len(list(read_backwards(str(tmp_path)))) == whole


@pytest.mark.parametrize("line", [b"garbage\n", b"[]\n", b"\xff\n", b"7\n", b"[" * 100_000 + b"\n"])
def test_a_line_that_is_no_record_is_passed_over(tmp_path: Path, line: bytes) -> None:
    with opened(tmp_path) as record:
        record.append_decision(decision(), fact())
    with segments(tmp_path)[0].open("ab") as file:
        file.write(line)

    assert len(query_record(str(tmp_path), LogQuery())["records"]) == 4


def test_where_there_is_no_record_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoRecordError, match="holds no record"):
        query_record(str(tmp_path), LogQuery())
    with pytest.raises(NoRecordError, match="there is no record in"):
        RecordCursor.at_end(str(tmp_path / "nothing"))


def new(tailer: RecordCursor) -> Iterator[str]:
    return (str(one.get("decision_id", one["kind"])) for one in filter_entries(tailer.read_new(), Filters()))


def test_what_is_recorded_from_now_on_is_followed_over_segments(tmp_path: Path) -> None:
    record = RecordWriter(str(tmp_path), SETTINGS)
    tailer = RecordCursor.at_end(str(tmp_path))
    assert list(new(tailer)) == []

    record.append_decision(decision(1), fact())
    first = list(new(tailer))
    record.append_decision(decision(2), fact())
    record._journal.begin_segment()
    record.append_decision(decision(3), fact())
    record._journal.begin_segment()
    second = list(new(tailer))
    record.close()
    third = list(new(tailer))

    assert (first, second, third) == (["d-1"], ["d-2", "segment", "d-3", "segment"], ["stopped"])


def test_half_a_line_is_followed_once_it_is_whole(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.append_decision(decision(), fact())
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    tailer = RecordCursor.at_end(str(tmp_path))
    with path.open("ab") as file:
        file.write(data[:100])

    before = list(tailer.read_new())
    with path.open("ab") as file:
        file.write(data[100:])

    assert (before, list(tailer.read_new())) == ([], data.splitlines(keepends=True))


@table(
    ("text", "found"),
    [
        ("15m", "2026-01-31T11:45:00.000Z"),
        ("2d", "2026-01-29T12:00:00.000Z"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000Z"),
        ("2026-01-31T12:00:00.5+01:00", "2026-01-31T11:00:00.500Z"),
    ],
)
def test_a_moment_is_given_as_one_or_as_how_long_ago(text: str, found: str) -> None:
    assert read_moment(text, datetime(2026, 1, 31, 12, tzinfo=UTC)) == found


@table("text", ["yesterday", "-5m", "", "5", "9" * 400 + "d", "2026-13-01", "0001-01-01T00:00:00+23:59"])
def test_what_is_no_moment_finds_nothing_and_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write"):
        read_moment(text, datetime(2026, 1, 31, 12, tzinfo=UTC))

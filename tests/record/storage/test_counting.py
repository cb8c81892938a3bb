"""Counts of decisions: by guard, tool, agent, folder, reason and hour, over restarts and what retention removes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooklatch.core.messages import CallOutcome
from hooklatch.record.storage import counting
from hooklatch.record.storage.counting import DecisionCounter, count_lines, summarize_counts
from hooklatch.record.storage.reading import (
    Filters,
    filter_entries,
    list_letters,
    list_needles,
    read_forwards,
    read_newest,
)
from hooklatch.record.writer import RecordWriter
from support.records import SETTINGS, decision, fact, segments
from support.tables import table


def outcome(hook: str, verdict: str | None, **more: Any) -> CallOutcome:
    fields: dict[str, Any] = {"layer": "global", "outcome": "answered", "cause": "policy", **more}
    return CallOutcome(hook=hook, verdict=verdict, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return the folder of a record of two daemons, one after the other."""
    first = RecordWriter(str(tmp_path / "record"), SETTINGS)
    first.append_decision(decision(1), fact(host="codex", cwd="/srv/a"))
    watched = [outcome("guards:no_rm", None, warned=True), outcome("guards:new", "deny", observed=True)]
    passed = decision(2, verdict="pass", cause=None, hook=None, layer=None, reason=None, outcomes=watched)
    first.append_decision(passed, fact({"tool_name": "Write", "tool_input": {"file_path": "/x"}}, cwd="/srv/a/b"))
    first.close()
    second = RecordWriter(str(tmp_path / "record"), SETTINGS)
    crashed = [outcome("guards:no_rm", None, outcome="failed", cause="crash", message="it broke")]
    second.append_decision(decision(3, cause="crash", reason="hook crashed", outcomes=crashed), fact(host="codex"))
    second.append("ask", action="opened", hook="global/guards:no_rm", event="pre_tool_use", decision_id="d-4")
    second.append("ask", action="closed", hook="global/guards:no_rm", decision_id="d-4")
    second.append_decision(decision(4, verdict="allow", reason="allowed by tom"), fact(host="codex"))
    second.close()
    return str(tmp_path / "record")


def counted(folder: str, **options: Any) -> Any:
    hours: counting.Hours = {}
    count_lines(read_forwards(folder), hours, since=options.get("since", ""))
    return summarize_counts(hours, **options)


def test_each_guard_has_what_it_decided_and_would_have_over_a_restart(folder: str) -> None:
    counts = counted(folder, known=["global/guards:no_rm", "global/idle"])
    guard, new = counts["guards"]
    last = guard.pop("last_refusal")

    assert guard == {
        "name": "global/guards:no_rm", "calls": 4, "failures": 1, "warnings": 1, "would": {},
        "verdicts": {"deny": 1, "ask": 1, "allow": 1}, "instead": None,
    }  # fmt: skip
    assert (last["subject"], last["decision_id"], last["reason"]) == ("rm -rf build", "d-1", "no rm")
    assert (new["name"], new["would"], new["verdicts"], new["last_refusal"]) == (
        "global/guards:new", {"deny": 1}, {}, None,
    )  # fmt: skip
    assert counts["never"] == ["global/idle"]
    assert (counts["decisions"], counts["verdicts"]) == (4, {"deny": 2, "pass": 1, "allow": 1})


def test_tools_agents_folders_and_reasons_are_counted_too(folder: str) -> None:
    counts = counted(folder)

    assert [(row["name"], row["verdicts"]) for row in counts["tools"]] == [
        ("Bash", {"deny": 2, "allow": 1}), ("Write", {"pass": 1}),
    ]  # fmt: skip
    assert [(row["name"], row["decisions"]) for row in counts["agents"]] == [("codex", 3)]
    assert [row["name"] for row in counts["projects"]] == ["/srv/a", "/srv/a/b"]
    assert [row["name"] for row in counts["reasons"]] == ["hook crashed", "no rm"]
    assert sum(sum(hour["verdicts"].values()) for hour in counts["hours"]) == 4
    assert counts["never"] is None


@table(
    ("filters", "expected"),
    [
        (Filters(by="guards:no_rm"), ["d-1", "d-3", "d-4", "d-4", "d-4"]),  # the full name that an ask has, shortened
        (Filters(by="global/guards:no_rm"), ["d-1", "d-3", "d-4", "d-4", "d-4"]),
        (Filters(by="global/guards:no_rm", verdict="deny"), ["d-1", "d-3"]),
        (Filters(by="guards:new"), []),  # it was called, and decided nothing
        (Filters(hook="guards:new"), ["d-2"]),
        (Filters(tool="Write"), ["d-2"]),
        (Filters(tool="Bash", agent="codex"), ["d-1", "d-3", "d-4"]),
        (Filters(project="/srv/a"), ["d-1", "d-2"]),
        (Filters(project="/srv/a/"), ["d-1", "d-2"]),
        (Filters(project="/srv/a/b"), ["d-2"]),
        (Filters(project="/srv", tool="Write"), ["d-2"]),
        (Filters(project="/sr"), []),
        (Filters(text="RM -RF"), ["d-1", "d-3", "d-4"]),
        (Filters(text="by Tom"), ["d-4"]),
        (Filters(text='"x'), []),
    ],
)
def test_the_record_is_searched_by_decider_tool_agent_folder_and_text(
    folder: str, filters: Filters, expected: list[str]
) -> None:
    found = filter_entries(read_forwards(folder), filters)

    assert [record["decision_id"] for record in found if "decision_id" in record] == expected


@pytest.mark.parametrize("name", ["Write", "mcp__a-b__c.d", "T\u00f6\u00f6l", 'a "tool"', "back\\slash"])
@pytest.mark.parametrize("size", [1, 5000])
def test_a_tool_and_a_folder_are_found_however_they_are_written(tmp_path: Path, name: str, size: int) -> None:
    record = RecordWriter(str(tmp_path / "record"), SETTINGS)
    for number, tool in enumerate((name, "other")):
        tool_input = {f"key {part}": "x" * 50 for part in range(size // 50 + 1)}
        payload = {"tool_name": tool, "tool_input": tool_input}
        record.append_decision(decision(number), fact(payload, cwd=f"/srv/{tool}/x"))
    record.close()

    by_tool = list(read_newest(str(tmp_path / "record"), Filters(tool=name)))
    by_folder = list(read_newest(str(tmp_path / "record"), Filters(project=f"/srv/{name}")))

    assert [found["decision_id"] for found in by_tool] == ["d-0"]
    assert [found["decision_id"] for found in by_folder] == ["d-0"]


def test_what_is_searched_for_is_looked_for_before_a_line_is_parsed() -> None:
    given = {"before": 5, "after": 1, "since": "2026", "until": "2027"}  # of which the head of a line tells
    names = vars(Filters()).keys() - given.keys()

    assert all(list_needles(Filters(**{name: "x"})) or list_letters(Filters(**{name: "x"})) for name in names)


def test_only_what_came_since_a_moment_is_counted(folder: str) -> None:
    at = json.loads(list(read_forwards(folder))[-2])["at"]

    assert counted(folder, since=at)["decisions"] <= 4
    assert counted(folder, since="2100-01-01T00:00:00.000Z")["first"] is None


def test_a_counter_reads_what_is_new_and_forgets_what_retention_removed(tmp_path: Path) -> None:
    folder = str(tmp_path / "record")
    small = RecordWriter(folder, SETTINGS)
    counter = DecisionCounter(folder)

    small.append_decision(decision(1), fact())
    assert counter.count("", [])["decisions"] == 1
    small.append_decision(decision(2), fact())
    assert counter.count("", ["global/x"])["never"] == ["global/x"]
    small.close()
    first = segments(Path(folder))[0]
    lines = first.read_bytes().splitlines(keepends=True)
    later = first.with_name("0000000000000004.jsonl")
    later.write_bytes(b"".join(lines[3:]))
    first.unlink()  # as retention removes a whole file

    assert counter.count("", [])["decisions"] == 1


@table("line", [b'{"kind":"decision"}\n', b'{"kind":"decision","at":5}\n', b'{"seq":1,"kind":"decision","at":"2026\n'])
def test_a_line_that_cannot_be_read_is_counted_as_that(line: bytes) -> None:
    hours: counting.Hours = {}
    count_lines([line, b"\xff\n", b'{"kind":"started"}\n'], hours)
    counts = summarize_counts(hours)

    assert (counts["unread"], counts["decisions"]) == (1, 0)


def test_names_without_end_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_TALLIES", 50)
    hours: counting.Hours = {}
    lines = [
        json.dumps({"kind": "decision", "at": "2026-01-31T12:00:00.000Z", "verdict": "pass",
                    "excerpt": {"tool_name": f"t-{number}"}}, separators=(",", ":")).encode()
        for number in range(200)
    ]  # fmt: skip
    count_lines(lines, hours)
    (others, *_) = summarize_counts(hours)["tools"]

    assert (others["name"], others["decisions"]) == ("(others)", 151)

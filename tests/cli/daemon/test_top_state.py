"""What `ui` and `top` make of reports, decisions and asks; and that all of it fits, whatever the size."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from hooklatch.cli.daemon.drawing import (
    DECISION_TITLES,
    HOOK_TITLES,
    RowCursor,
    draw_ask,
    draw_decision,
    draw_header,
    draw_hook,
    draw_table,
    fit_decision_columns,
    fit_hook_columns,
    fit_line,
    list_decision_cells,
    list_hook_cells,
)
from hooklatch.cli.daemon.feed import (
    DecisionRow,
    DecisionRows,
    TopBoard,
    TopReport,
    build_board,
    build_rows,
    order_rows,
)
from support.asked import ask
from support.tables import table

STATUS = {
    "pid": 7, "health": "green", "draining": False, "fired": 100, "sessions": 2, "uptime_s": 7200.0, "wrong": [],
    "failing": [],
}  # fmt: skip


def hook(name: str, count: int, **more: Any) -> dict[str, Any]:
    timings = {"count": count, "p50_ms": 1.5, "p99_ms": more.pop("p99", 9.0), "failures": more.pop("failures", {})}
    load = {"workers": 2, "busy": 1, "memory_bytes": 3 * 2**20, "waiting": 0, "in_flight": 1}
    return {"name": name, "event": "stop", "state": "active", "timings": timings, "load": load, **more}


def report(*hooks: dict[str, Any], moment: float = 10.0, **status: Any) -> TopReport:
    return TopReport(moment, 1e9, STATUS | status, hooks)


def test_rates_are_those_since_the_report_before() -> None:
    before = report(hook("a", 10), moment=8.0)

    found = {row["name"]: row for row in build_rows(report(hook("a", 15), hook("new", 3), fired=110), before)}

    assert (found["a"]["calls_per_s"], found["new"]["calls_per_s"]) == (2.5, None)
    assert found["a"]["load"] == hook("a", 15)["load"]
    assert build_board(report(fired=110), before).fires_per_s == 5.0


@pytest.mark.parametrize(
    "before",
    [
        None,
        report(hook("a", 10), moment=10.0),  # no time has passed
        report(hook("a", 10), moment=8.0, pid=6),  # another daemon
        report(hook("a", 99), moment=8.0),  # it counts anew: the session's hook was registered again
    ],
)
def test_what_cannot_be_compared_has_no_rate(before: TopReport | None) -> None:
    (row,) = build_rows(report(hook("a", 15)), before)

    assert row["calls_per_s"] is None


def draw(*rows: dict[str, Any], width: int = 80, selected: int | None = None) -> list[str]:
    cells = [list_hook_cells(row) for row in build_rows(report(*rows), None)]
    lines = draw_table(HOOK_TITLES, cells, fit_hook_columns(HOOK_TITLES, cells, width), selected)
    return ["".join(line) for line in lines]


@pytest.mark.parametrize(
    ("name", "failures", "shown"),
    [
        ("guards:no_push", {}, "guards:no_push"),
        ("git", {"crash": 12, "timeout": 3}, "crash 12, timeout 3"),
    ],
)
def test_80_columns_have_all_but_the_event_and_the_room_is_theirs_who_need_it(
    name: str, failures: dict[str, int], shown: str
) -> None:
    titles, row = draw(hook(f"global/{name}", 15, failures=failures), selected=0)

    assert titles.split() == ["HOOK", "CALLS/S", "P50", "P99", "FAILURES", "BUSY", "MEM", "QUEUE", "STATE"]
    assert shown in row
    assert row.startswith(">")
    assert row.endswith("active")


def test_a_hook_that_a_client_serves_has_no_workers() -> None:
    row = draw(hook("a", 1) | {"load": None})[1]

    assert row.split()[-4:] == ["-", "-", "-", "active"]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("state", ["dead", "busy", "idle"]),
        ("calls/s", ["busy", "idle", "dead"]),
        ("p99", ["idle", "busy", "dead"]),
        ("failures", ["dead", "idle", "busy"]),
        ("hook", ["busy", "dead", "idle"]),
    ],
)
def test_rows_are_sorted_with_the_largest_first_and_the_other_way_round(sort: str, names: list[str]) -> None:
    before = report(hook("idle", 1), hook("busy", 1), hook("dead", 1), moment=8.0)
    now = report(
        hook("idle", 1, p99=90.0), hook("busy", 9), hook("dead", 1, state="quarantined", failures={"crash": 6}, p99=1.0)
    )

    rows = build_rows(now, before)

    if sort == "calls/s":  # of equal ones the order is that of firing
        assert [row["name"] for row in order_rows(rows, sort)] == names
        return
    assert [row["name"] for row in order_rows(rows, sort)] == names
    assert [row["name"] for row in order_rows(rows, sort, is_reversed=True)] == names[::-1]


def test_a_row_stays_selected_while_others_come_and_go() -> None:
    cursor = RowCursor(follows=True)
    cursor.keys = list("abcdefgh")
    assert (cursor.chosen, [*cursor.fit(3)]) == ("h", [5, 6, 7])

    cursor.move(-1)
    cursor.move(-1)
    cursor.keys = [*"defghijk"]
    assert (cursor.chosen, [*cursor.fit(3)]) == ("g", [3, 4, 5])

    cursor.move(-999)
    assert (cursor.chosen, [*cursor.fit(3)]) == ("d", [0, 1, 2])

    cursor.keys = [*"xyz"]
    assert (cursor.chosen, [*cursor.fit(9)]) == ("z", [0, 1, 2])


def test_a_list_that_follows_nothing_begins_with_its_first_row() -> None:
    cursor = RowCursor(follows=False)
    assert cursor.chosen is None
    cursor.move(1)

    cursor.keys = [*"abcdef"]
    cursor.move(1)
    assert (cursor.chosen, [*cursor.fit(2)]) == ("a", [0, 1])
    cursor.move(4)
    assert (cursor.chosen, [*cursor.fit(2)]) == ("e", [3, 4])


def announced(name: str, verdict: str = "deny", **more: Any) -> dict[str, Any]:
    decision = {"decision_id": name, "event": "pre_tool_use", "verdict": verdict}
    return {"topic": "decisions", "at": "2026-01-31T23:59:59.123Z", "tool": "Bash", "decision": decision, **more}


def test_asks_are_behind_decisions_until_they_are_answered_or_gone() -> None:
    rows = DecisionRows()
    rows.take_known([], [ask("a-1"), ask("a-2"), ask("a-3")])
    rows.take(announced("d-1"))
    assert [(key, row.ask is not None) for key, row in rows.rows.items()] == [
        ("d-1", False), ("a-1", True), ("a-2", True), ("a-3", True),
    ]  # fmt: skip

    rows.take({"topic": "asks", "closed": {"id": "a-2", "verdict": "deny", "reason": "no", "by": "tom"}})
    rows.take(announced("a-1", "allow"))
    rows.take_known([], [])

    assert [(key, row.record["verdict"]) for key, row in rows.rows.items()] == [
        ("d-1", "deny"), ("a-2", "deny"), ("a-1", "allow"), ("a-3", "closed"),
    ]  # fmt: skip


def test_what_is_not_kept_or_was_not_sent_is_counted() -> None:
    rows = DecisionRows(kept=2)
    for name in ("d-1", "d-2", "d-3", "d-2"):
        rows.take(announced(name))
    rows.take({"topic": "decisions", "missed": 5})
    rows.take({"topic": "asks", "missed": 7})

    assert ([*rows.rows], rows.left_out) == (["d-3", "d-2"], 6)


FAILURE = {
    "at": 1e9, "decision_id": "d-1", "event": "stop", "subject": "all is done", "session": "s-1",
    "cause": "crash", "message": "\x1b]0;x\x07 no",
    "traceback": "Traceback:\n" + "\n".join(f"    line {number} 雪" for number in range(60)), "stderr": "",
    "duration_ms": 1.0,
}  # fmt: skip
FIRST = "hook-01雪"
DETAIL = {**hook(FIRST, 3), "problem": None, "origin": "/x/y.py:3", "target": "/x/y.py:f", "last_failures": [FAILURE]}
WRONG = [
    {"reason": "files", "what": f"/x/{'long/' * 30}hooks.toml:{number}: 雪 is no key", "do": "fix it " * 20}
    for number in range(9)
]
MANY = [
    hook(f"hook-{number:02}" + "雪" * number, number * 1000, failures={"crash": number, "timeout": 2}, p99=10.0**number)
    for number in range(1, 9)
]
MANY += [hook("global/x", 0, state="suspended", load=None), hook("new\x1b[2J", 0)]


WHEN = {"at": "2026-01-31T23:59:59Z", "expires_at": "2026-01-31T23:59:59Z"}


def boards() -> list[TopBoard]:
    before = report(*MANY, moment=8.0)
    return [
        build_board(report(*MANY), before),
        build_board(report(), None),
        build_board(report(*MANY, health="red", wrong=WRONG), before),
        build_board(report(*MANY), before)._replace(fault="nobody listens at /run/x " * 20),
    ]


@table("width", [1, 5, 20, 44, 79, 80, 81, 132, 300])
def test_what_is_drawn_fits_whatever_the_width(width: int) -> None:
    call = {"hook": "x\x1b[2J", "began_ms": 1.0, "duration_ms": 2.0, "cause": "crash", "message": "雪\n\x07" * 90}
    record = {"decision_id": "d", "subject": "雪" * 90, "outcomes": [call, {}], "reason": "no " * 90, "warnings": ["w"]}
    asked = ask(subject="雪" * 90, **WHEN, excerpt={"tool_input": {"雪" * 40: "x" * 500, "\x1b[2J": "\u202e"}})
    for board in boards():
        cells = [list_hook_cells(row) for row in board.rows]
        row = next((row for row in board.rows if row["name"] == FIRST), None)
        pages = [
            draw_header(board, width, 24, is_held=True),
            draw_table(HOOK_TITLES, cells, fit_hook_columns(HOOK_TITLES, cells, width), 1),
            draw_hook(row, DETAIL, width),
            draw_decision(record, {"x\x1b[2J": FAILURE}, width),
            draw_ask(asked, width),
        ]
        if width > 59:
            shown = [list_decision_cells(DecisionRow(record)), list_decision_cells(DecisionRow(record, asked))]
            pages.append(draw_table(DECISION_TITLES, shown, fit_decision_columns(width), 0))
        for page in pages:
            lines = ["".join(fit_line(line, width)) for line in page]

            assert max(map(cell_len, lines)) <= width
            assert all(line.isprintable() for line in lines)


def test_all_of_an_ask_is_drawn_and_no_value_stands_in_the_place_of_a_label() -> None:
    asked = ask(**WHEN, excerpt={"tool_name": "Bash", "tool_input": {"command": "x" * 500, "a" * 40: "y"}})

    lines = ["".join(line) for line in draw_ask(asked, 80)]
    first, *others = [line for line in lines if "xx" in line]

    assert all(cell_len(line) <= 80 for line in lines)
    assert first.startswith("  command     xx")
    assert all(line.startswith(" " * 14 + "x") for line in others)
    assert sum(line.count("x") for line in (first, *others)) == 500
    assert lines[lines.index("  " + "a" * 40) + 1] == " " * 14 + "y"


def test_80_columns_have_the_faults_and_what_to_do() -> None:
    lines = ["".join(line) for line in draw_header(boards()[2], 80, 24, is_held=False)]

    assert lines[1].startswith("wrong    /x/long/")
    assert any(line.startswith("do       fix it") for line in lines)
    assert "and 8 more: hooklatch status" in lines

"""What `top` makes of two reports and of a key; and that its screen fits, whatever the size."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from hooklatch.cli.live.feed import TopBoard, TopDisplay, TopReport, apply_key, build_board, build_rows, order_rows
from hooklatch.cli.live.raw_terminal import parse_keys
from hooklatch.cli.live.top_screen import clamp_scroll, draw_screen, measure_page
from support.tables import table

STATUS = {
    "pid": 7, "health": "green", "draining": False, "fired": 100, "sessions": 2, "uptime_s": 7200.0, "wrong": [],
    "failing": [],
}  # fmt: skip
NAMES = ["b", "a", "c"]


def hook(name: str, count: int, **more: Any) -> dict[str, Any]:
    timings = {"count": count, "p50_ms": 1.5, "p99_ms": more.pop("p99", 9.0), "failures": more.pop("failures", {})}
    load = {"workers": 2, "busy": 1, "memory_bytes": 3 * 2**20, "waiting": 0, "in_flight": 1}
    return {"name": name, "event": "stop", "state": "active", "timings": timings, "load": load, **more}


def report(*hooks: dict[str, Any], moment: float = 10.0, detail: Any = None, **status: Any) -> TopReport:
    return TopReport(moment, 1e9, STATUS | status, hooks, detail)


def test_rates_are_those_since_the_report_before() -> None:
    before = report(hook("a", 10), moment=8.0)

    found = {row["name"]: row for row in build_rows(report(hook("a", 15), hook("new", 3), fired=110), before)}

    assert (found["a"]["calls_per_s"], found["new"]["calls_per_s"]) == (2.5, None)
    assert found["a"]["load"] == hook("a", 15)["load"]
    assert build_board(report(fired=110), before, TopDisplay()).fires_per_s == 5.0


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


@pytest.mark.parametrize(
    ("name", "failures", "shown"),
    [
        ("guards:no_force_push", {}, "guards:no_force_push"),
        ("git", {"crash": 12, "timeout": 3}, "crash 12, timeout 3"),
        ("guards:" + "x" * 40, {"crash": 12, "timeout": 3}, "guards:xxxx"),
    ],
)
def test_80_columns_have_all_but_the_event_and_the_room_is_theirs_who_need_it(
    name: str, failures: dict[str, int], shown: str
) -> None:
    board = build_board(report(hook(f"global/{name}", 15, failures=failures)), None, TopDisplay())

    titles, row = ("".join(line) for line in draw_screen(board, TopDisplay(), 80, 24)[1:3])

    assert titles.split() == ["HOOK", "CALLS/S", "P50", "P99", "FAILURES", "BUSY", "MEM", "QUEUE", "STATEv"]
    assert shown in row
    assert row.rstrip().endswith("active")


def test_a_hook_that_a_client_serves_has_no_workers() -> None:
    board = build_board(report(hook("a", 1) | {"load": None}), None, TopDisplay())

    row = "".join(draw_screen(board, TopDisplay(), 80, 24)[2])

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
        assert [row["name"] for row in order_rows(rows, TopDisplay(sort=sort))] == names
        return
    assert [row["name"] for row in order_rows(rows, TopDisplay(sort=sort))] == names
    assert [row["name"] for row in order_rows(rows, TopDisplay(sort=sort, is_reversed=True))] == names[::-1]


@pytest.mark.parametrize(
    ("view", "key", "expected"),
    [
        (TopDisplay(), "s", TopDisplay(sort="calls/s")),
        (TopDisplay(sort="hook"), "s", TopDisplay(sort="state")),
        (TopDisplay(), "S", TopDisplay(sort="hook")),
        (TopDisplay(is_reversed=True), "s", TopDisplay(sort="calls/s")),
        (TopDisplay(), "r", TopDisplay(is_reversed=True)),
        (TopDisplay(), "p", TopDisplay(is_paused=True)),
        (TopDisplay(is_paused=True), " ", TopDisplay()),
        (TopDisplay(), "down", TopDisplay(selected="b")),
        (TopDisplay(selected="b"), "j", TopDisplay(selected="a")),
        (TopDisplay(selected="c"), "down", TopDisplay(selected="c")),
        (TopDisplay(selected="b"), "up", TopDisplay(selected="b")),
        (TopDisplay(selected="gone"), "down", TopDisplay(selected="b")),
        (TopDisplay(selected="b"), "end", TopDisplay(selected="c")),
        (TopDisplay(selected="c"), "home", TopDisplay(selected="b")),
        (TopDisplay(), "enter", TopDisplay(selected="b", page="hook")),
        (TopDisplay(selected="a"), "enter", TopDisplay(selected="a", page="hook")),
        (TopDisplay(selected="a", page="hook"), "down", TopDisplay(selected="a", page="hook", top=1)),
        (TopDisplay(selected="a", page="hook", top=3), "page up", TopDisplay(selected="a", page="hook")),
        (TopDisplay(selected="a", page="hook", top=3), "escape", TopDisplay(selected="a")),
        (TopDisplay(selected="a", page="hook"), "s", TopDisplay(selected="a", page="hook")),
        (TopDisplay(), "?", TopDisplay(page="help")),
        (TopDisplay(page="help"), "?", TopDisplay()),
        (TopDisplay(page="help"), "p", TopDisplay(page="help", is_paused=True)),
        (TopDisplay(), "x", TopDisplay()),
        (TopDisplay(page="hook"), "q", None),
        (TopDisplay(), "ctrl-c", None),
    ],
)
def test_a_key_makes_the_next_view(view: TopDisplay, key: str, expected: TopDisplay | None) -> None:
    assert apply_key(view, key, NAMES, 10) == expected


@pytest.mark.parametrize("key", ["down", "up", "enter", "end", "page down"])
def test_keys_do_nothing_where_there_are_no_hooks(key: str) -> None:
    assert apply_key(TopDisplay(), key, [], 10) == TopDisplay()


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOBj", ["up", "down", "j"]),
        (b"\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["page up", "page down", "home", "end"]),
        (b"\x1b", ["escape"]),
        (b"\r\x7f\x03", ["enter", "backspace", "ctrl-c"]),
        (b"\x1b[200~\x1b[1;5Cq", ["q"]),  # sequences without a name here
        (b"\x04\xff\xc3q", ["q"]),
    ],
)
def test_what_a_terminal_sends_is_keys(data: bytes, keys: list[str]) -> None:
    assert parse_keys(data) == keys


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
VIEWS = [
    TopDisplay(), TopDisplay(selected="global/x", is_paused=True), TopDisplay(page="help"),
    TopDisplay(page="hook", selected=FIRST, top=9),
    TopDisplay(page="hook", selected="gone"), TopDisplay(page="hook", selected=FIRST, top=10_000),
]  # fmt: skip


def boards() -> list[TopBoard]:
    before = report(*MANY, moment=8.0)
    return [
        build_board(report(*MANY), before, TopDisplay()),
        build_board(report(), None, TopDisplay()),
        build_board(report(*MANY, health="red", wrong=WRONG, detail=DETAIL), before, TopDisplay()),
        build_board(report(*MANY), before, TopDisplay())._replace(fault="nobody listens at /run/x " * 20),
    ]


@table("width", [1, 5, 20, 44, 79, 80, 81, 132, 300])
def test_the_screen_fits_whatever_its_size(width: int) -> None:
    for height in (1, 2, 3, 8, 24, 60):
        for board in boards():
            for view in VIEWS:
                lines = ["".join(line) for line in draw_screen(board, view, width, height)]

                assert len(lines) == height
                assert max(map(cell_len, lines)) <= width
                assert all(line.isprintable() for line in lines)


def test_80_columns_have_all_that_is_asked_for_but_the_event() -> None:
    lines = ["".join(line) for line in draw_screen(boards()[2], TopDisplay(selected="global/x"), 80, 24)]
    title = next(line for line in lines if "HOOK" in line)

    assert title.split() == ["HOOK", "CALLS/S", "P50", "P99", "FAILURES", "BUSY", "MEM", "QUEUE", "STATEv"]
    assert lines[1].startswith("wrong    /x/long/")
    assert any(line.startswith("do       fix it") for line in lines)
    assert "and 8 more: hooklatch status" in lines
    assert any(line.startswith(">x ") for line in lines)


def test_a_page_ends_with_its_last_line_on_the_screen() -> None:
    board, view = boards()[2], TopDisplay(page="hook", selected=FIRST, top=10_000)

    lines = ["".join(line) for line in draw_screen(board, view, 80, 24)]

    assert lines[-2] == "  what was decided: hooklatch log --decision d-1"
    assert 0 < clamp_scroll(view, board, 80, 24).top < 100
    assert measure_page(board, view, 80, 24) == len([line for line in lines if "line" in line]) + 1

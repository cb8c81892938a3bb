"""The checker finds each kind of violation: fed bad histories, one for each thing that can go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.system.checker import check
from fleet.system.history import (
    Answered,
    Applied,
    Committed,
    Fault,
    Healed,
    Kept,
    Line,
    Pen,
    Seen,
    Sent,
    Shipped,
    read,
)  # fmt: skip
from support.tables import table

POLICY: list[Line] = [
    Committed(1, "one", 11, 0, 5),
    Committed(2, "two", 12, 100, 105),
    Committed(3, "one", 11, 200, 205),
]


def sent(op: str, at: int, *, is_forbidden: bool = False) -> Sent:
    return Sent(op, "a", at, is_forbidden)


def answered(op: str, at: int, verdict: str = "pass", numbers: tuple[int, ...] = (11, 11), **rest: Any) -> Answered:
    return Answered(op, "a", at, verdict, decision_id=f"d-{op}", numbers=list(numbers), **rest)


def fire(
    op: str, start: int, end: int, verdict: str = "pass", *, is_forbidden: bool = False, **rest: Any
) -> list[Line]:
    """Return a gate and its answer, with the record of it where it belongs."""
    seq = start
    kept = Kept("a", seq, f"h{seq}", f"d-{op}", verdict)
    answer = answered(op, end, verdict, **rest)
    own: list[Line] = [sent(op, start, is_forbidden=is_forbidden), answer]
    return own if answer.is_local else [*own, kept, Shipped("a", 1, seq, f"h{seq}")]


def seen(at: int, version: int, bundle: str, head: int | None = None, since: int | None = None) -> Seen:
    return Seen("a", version, bundle, version if head is None else head, at if since is None else since, at)


def rules(*lines: Line) -> list[str]:
    return [violation.rule for violation in check([*POLICY, *lines])]


GOOD: list[Line] = [
    seen(10, 1, "one"),
    *fire("x", 20, 30),
    *fire("y", 40, 50, "deny", is_forbidden=True, numbers=(11,), cause="policy"),
    *fire("z", 60, 70, "deny", numbers=(), cause="no_daemon", is_local=True),
    Applied("a", 21, 1, "one"),
    Kept("a", 21, "h21"),
    Shipped("a", 1, 21, "h21"),
    seen(110, 2, "two"),
    *fire("v", 120, 130, numbers=(12, 12)),
    seen(210, 3, "one"),
    *fire("w", 220, 230),
    Fault("down", 140, "a"),
    Healed(300, 310, {"a": "d", "b": "d"}, "d"),
]


def test_a_good_history_shows_nothing() -> None:
    assert rules() == []
    assert rules(*GOOD) == []


@pytest.mark.parametrize(
    "line",
    [seen(10, 4, "four"), seen(10, 1, "two"), Applied("a", 5, 4, "four"), Applied("a", 5, 2, "one")],
    ids=["unknown version", "another bundle", "applied, unknown", "applied, another bundle"],
)
def test_a_version_that_nobody_signed_is_found(line: Line) -> None:
    assert rules(line) == ["signed"]


def test_a_guard_that_nobody_signed_is_found() -> None:
    assert rules(*fire("x", 20, 30, numbers=(66, 66))) == ["signed"]


def test_what_went_back_is_found() -> None:
    assert rules(Applied("a", 5, 2, "two"), Applied("a", 6, 1, "one")) == ["order"]
    assert rules(Applied("a", 5, 1, "one"), Applied("a", 6, 3, "one")) == []  # version 2 was passed over
    assert rules(Applied("a", 5, 1, "one"), Applied("a", 6, 1, "one")) == []  # again, after a restart
    assert rules(seen(110, 2, "two"), seen(120, 1, "one", head=2)) == ["order"]
    assert rules(seen(110, 2, "two"), seen(120, 2, "two", head=1)) == ["order"]
    assert rules(seen(110, 2, "two"), seen(120, 0, "")) == ["order"]
    assert rules(seen(110, 2, "two"), seen(120, 1, "one", since=100)) == []  # the questions overlap


def test_half_of_a_bundle_is_found() -> None:
    assert rules(*fire("x", 220, 230, numbers=(11, 12))) == ["torn"]


def test_an_older_version_than_was_in_force_is_found() -> None:
    assert rules(seen(110, 2, "two"), *fire("x", 120, 130, numbers=(11, 11))) == ["older"]
    assert rules(seen(125, 2, "two"), *fire("x", 120, 130, numbers=(11, 11))) == []  # they overlap
    assert rules(seen(110, 2, "two"), *fire("x", 120, 230, numbers=(11, 11))) == []  # that may be version 3


def test_a_guard_that_answers_before_it_was_pushed_is_found() -> None:
    assert rules(*fire("x", 20, 30, numbers=(12, 12))) == ["early"]


@pytest.mark.parametrize("verdict", ["pass", "allow", "ask", "claim"])
def test_what_is_denied_by_every_version_and_was_passed_is_found(verdict: str) -> None:
    assert rules(*fire("x", 20, 30, verdict, is_forbidden=True)) == ["gate"]


@table("rest", [{"numbers": ()}, {"numbers": (11,)}, {"is_local": True}], ids=str)
def test_what_was_passed_without_all_guards_is_found(rest: dict[str, Any]) -> None:
    assert rules(*fire("x", 20, 30, **rest)) == ["gate"]
    assert rules(*fire("x", 20, 30, "deny", **rest)) == []


def test_a_gate_without_an_answer_is_found() -> None:
    assert rules(sent("x", 20)) == ["gate"]
    assert rules(sent("x", 20), Answered("x", "b", 30, "deny", is_local=True)) == ["gate"]  # another host's


def test_an_answer_that_its_host_did_not_record_or_recorded_otherwise_is_found() -> None:
    told = [sent("x", 20), answered("x", 30, "deny")]

    assert rules(*told) == ["record"]
    assert rules(*told, Kept("a", 20, "h", "d-x", "pass"), Shipped("a", 1, 20, "h")) == ["record"]
    assert rules(*told, Kept("b", 20, "h", "d-x", "deny"), Shipped("b", 1, 20, "h")) == ["record"]
    assert rules(*told, Kept("a", 20, "h", "d-x", "deny"), Shipped("a", 1, 20, "h")) == []


@table(
    "shipped",
    [
        [],
        [Shipped("b", 1, 20, "h")],
        [Shipped("a", 1, 20, "h"), Shipped("a", 2, 20, "h")],
        [Shipped("a", 1, 20, "other")],
        [Shipped("a", 1, 20, "h"), Shipped("a", 1, 21, "h")],
    ],
    ids=["missing", "another host's", "twice", "altered", "invented"],
)
def test_a_record_that_is_not_in_the_sink_exactly_once_and_unchanged_is_found(shipped: list[Line]) -> None:
    assert set(rules(Kept("a", 20, "h"), *shipped)) == {"sink"}
    assert rules(Kept("a", 20, "h"), Shipped("a", 1, 20, "h")) == []


def test_hosts_that_differ_after_the_faults_are_found() -> None:
    assert rules(Healed(300, 310, {"a": "d", "b": "e"}, "d")) == ["healed"]
    assert rules(Healed(300, 310, {"a": "e", "b": "e"}, "d")) == ["healed"]  # equal, and not what was pushed


def test_a_history_is_read_as_it_was_written_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "agent.jsonl"
    pen = Pen(path)
    for line in [*POLICY, *GOOD]:
        pen.write(line)
    pen.close()
    with path.open("ab") as file:
        file.write(b'{"type":"sent","op":"to')

    assert list(read([path])) == [*POLICY, *GOOD]

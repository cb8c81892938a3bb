"""The checker finds each kind of violation: fed bad histories, one for each thing that can go wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.checker import GENESIS, Recorded, Violation, check
from chaos.history import Acked, Answered, Barred, Change, Heard, Line, Lost, Outcome, Pen, Sent, read
from support.tables import table

GUARD = Outcome("guard", "answered", None, "policy")
CRASHED = Outcome("guard", "failed", None, "crash")
EXTRA = Outcome("extra", "answered", None, "policy")


def sent(op: str, at: int, **rest: Any) -> Sent:
    return Sent(**({"op": op, "viewer": "s", "event": "pre_tool_use", "is_gate": True, "at": at} | rest))


def answered(op: str, at: int, verdict: str = "pass", **rest: Any) -> Answered:
    fields = {"decision_id": f"d-{op}", "revision": 10, "digest": f"digest of {op}", "outcomes": [GUARD]}
    return Answered(op, at, verdict, **(fields | rest))


def fire(op: str = "a", start: int = 10, end: int = 20, verdict: str = "pass", **rest: Any) -> list[Line]:
    """Return a fire and its answer; what names a field of `Sent` goes there."""
    of_sent = {key: rest.pop(key) for key in list(rest) if key in Sent.__struct_fields__ and key != "digest"}
    return [sent(op, start, digest=f"digest of {op}", **of_sent), answered(op, end, verdict, **rest)]


def change(name: str, start: int, value: int, **rest: Any) -> Change:
    return Change(name, rest.pop("subject", "extra"), value, start, **rest)


def rules(lines: list[Line], records: list[Recorded] | None = None) -> list[str]:
    return [violation.rule for violation in check(lines, records)]


# -- policy ------------------------------------------------------------------------------------------------------


def test_an_empty_history_is_a_good_one() -> None:
    assert check([], []) == []


@pytest.mark.parametrize("verdict", ["pass", "allow", "ask", "claim"])
def test_what_had_to_be_refused_and_was_allowed_is_found(verdict: str) -> None:
    assert rules(fire(verdict=verdict, is_forbidden=True)) == ["policy"]
    assert rules(fire(verdict="deny", cause="policy", is_forbidden=True)) == []


@pytest.mark.parametrize(
    "outcomes",
    [[], [EXTRA], [CRASHED], [CRASHED, GUARD], [Outcome("guard", "dropped", None, "overload")]],
    ids=["nobody", "another", "it failed", "it failed once", "it was dropped"],
)
def test_an_allowance_without_a_required_answer_is_found(outcomes: list[Outcome]) -> None:
    assert rules(fire(outcomes=outcomes, required=["guard"])) == ["policy"]
    assert rules(fire(verdict="deny", cause="crash", outcomes=outcomes, required=["guard"])) == []
    assert rules(fire(outcomes=[GUARD], required=["guard"])) == []


def test_an_allowance_that_the_client_made_itself_is_found() -> None:
    assert rules(fire(is_local=True)) == ["policy"]
    assert rules(fire(is_local=True, is_gate=False)) == []


def test_an_allowance_with_the_cause_of_a_failure_is_found() -> None:
    assert rules(fire(cause="timeout")) == ["policy"]
    assert rules(fire(verdict="allow", cause="policy")) == []


# -- revision ----------------------------------------------------------------------------------------------------


def test_an_answer_from_an_older_revision_than_an_earlier_one_is_found() -> None:
    before, after = fire("a", 10, 20, revision=11), fire("b", 21, 30, revision=10)

    assert rules(before + after) == ["revision"]
    assert rules(before + fire("b", 19, 30, revision=10)) == []  # they overlap
    assert rules(before + fire("b", 21, 30, revision=10, viewer="another")) == []


def test_an_answer_from_an_older_revision_than_one_that_was_announced_is_found() -> None:
    assert rules([Heard("s", 11, 5), *fire(revision=10)]) == ["revision"]
    assert rules([Heard("s", 11, 15), *fire(revision=10)]) == []


def test_announcements_that_go_back_are_found() -> None:
    assert rules([Heard("s", 11, 5), Heard("s", 10, 6)]) == ["revision"]
    assert rules([Heard("s", 11, 5), Heard("t", 10, 6)]) == []


# -- older -------------------------------------------------------------------------------------------------------


def test_an_answer_of_an_older_version_than_the_acknowledged_one_is_found() -> None:
    versions = [change("1", 1, 100, subject="guard"), Acked("1", 2), change("2", 3, 101, subject="guard")]

    assert rules([*versions, Acked("2", 9), *fire(versions={"guard": 100})]) == ["older"]
    assert rules([*versions, Acked("2", 11), *fire(versions={"guard": 100})]) == []  # it began before that
    assert rules([*versions, *fire(versions={"guard": 100})]) == []
    assert rules([*versions, Acked("2", 9), *fire(versions={"guard": 101})]) == []


def test_an_answer_of_a_version_that_nobody_has_made_yet_is_found() -> None:
    versions = [change("1", 1, 100, subject="guard"), Acked("1", 2), change("2", 21, 101, subject="guard")]

    assert rules([*versions, *fire(versions={"guard": 101})]) == ["older"]


def test_an_answer_from_an_older_revision_than_an_acknowledged_change_is_found() -> None:
    assert rules([change("1", 1, 100, subject="x"), Acked("1", 5, 11), *fire(revision=10)]) == ["older"]
    assert rules([change("1", 1, 100, subject="x"), Acked("1", 15, 11), *fire(revision=10)]) == []
    own = change("1", 1, 100, subject="x", viewer="another")
    assert rules([own, Acked("1", 5, 11), *fire(revision=10)]) == []


PUT_IN = [change("1", 1, 1), Acked("1", 2)]
TAKEN_OUT = [*PUT_IN, change("2", 3, 0), Acked("2", 4)]


@table(
    ("changes", "asked", "found"),
    [
        ([change("1", 30, 1)], True, ["older"]),
        (PUT_IN, True, []),
        (PUT_IN, False, ["older"]),
        (TAKEN_OUT, True, ["older"]),
        (TAKEN_OUT, False, []),
        ([change("1", 1, 1), Lost("1", 2)], True, []),
        ([change("1", 1, 1), Lost("1", 2)], False, []),
        ([change("1", 1, 1), Lost("1", 2), change("2", 3, 0), Acked("2", 4)], True, ["older"]),
        ([change("1", 1, 1), change("2", 3, 0), Acked("2", 4)], True, []),
        ([*PUT_IN, change("2", 15, 0), Acked("2", 16)], True, []),
        ([*PUT_IN, change("2", 15, 0), Acked("2", 16)], False, []),
        ([*PUT_IN, change("2", 5, 0), Acked("2", 25)], True, []),
        ([*TAKEN_OUT, change("3", 12, 1), Acked("3", 13)], True, []),
        ([change("1", 1, 1, viewer="another"), Acked("1", 2)], False, []),
    ],
    ids=[
        "before it is put in", "put in", "put in and not asked", "taken out and asked", "taken out",
        "unknown and asked", "unknown and not asked", "unknown, then taken out", "may still be made",
        "taken out meanwhile, asked", "taken out meanwhile, not asked", "being taken out", "put in again meanwhile",
        "of another session",
    ],
)  # fmt: skip
def test_a_hook_that_is_asked_or_not_against_an_acknowledged_change_is_found(
    changes: list[Line], asked: bool, found: list[str]
) -> None:
    assert rules([*changes, *fire(outcomes=[GUARD, EXTRA] if asked else [GUARD])]) == found


def test_a_chain_that_a_refusal_ended_needs_not_reach_a_hook() -> None:
    assert rules([*PUT_IN, *fire(verdict="deny", cause="policy")]) == []


def test_an_allowance_by_files_that_nobody_trusts_is_found() -> None:
    allowed = fire(required=["guard"])

    assert rules([*allowed, Barred("guard", 9, 21)]) == ["older"]
    assert rules([*allowed, Barred("guard", 11, 21)]) == []
    assert rules([*allowed, Barred("guard", 9, 19)]) == []
    assert rules([*fire(required=[]), Barred("guard", 9, 21)]) == []


# -- record ------------------------------------------------------------------------------------------------------


def recorded(op: str = "a", seq: int = 1, **rest: Any) -> Recorded:
    prev = hash_of(seq - 1) if seq > 1 else GENESIS
    fields = {"op": op, "decision_id": f"d-{op}", "verdict": "pass", "digest": f"digest of {op}", "outcomes": [GUARD]}
    return Recorded(seq, prev, hash_of(seq), **(fields | rest))


def hash_of(seq: int) -> str:
    return f"{seq:064d}"


def head_of(seq: int) -> tuple[int, str]:
    return seq, hash_of(seq)[:32]


GOOD = fire(required=["guard"], head=head_of(1))


def test_an_answer_with_its_record_is_good() -> None:
    assert check(GOOD, [recorded()]) == []


@table(
    "records",
    [
        [],
        [recorded("another")],
        [recorded(kind="started")],
        [recorded(verdict="deny")],
        [recorded(cause="policy")],
        [recorded(digest="of something else")],
        [recorded(decision_id="d-b")],
        [recorded("x", 1), recorded("a", 2)],
        [recorded(), recorded(seq=2)],
    ],
    ids=["no", "another's", "no decision", "verdict", "cause", "digest", "decision_id", "head", "two"],
)
def test_an_answer_whose_record_is_missing_or_says_otherwise_is_found(records: list[Recorded]) -> None:
    assert rules(GOOD, records) == ["record"]


@pytest.mark.parametrize("head", [None, (1, "f" * 32), (2, hash_of(1)[:32])], ids=["none", "hash", "seq"])
def test_a_reply_with_another_head_than_its_record_is_found(head: tuple[int, str] | None) -> None:
    assert rules(fire(head=head), [recorded()]) == ["record"]


def test_what_was_decided_wrongly_is_found_also_where_nobody_lived_to_be_told() -> None:
    alone: list[Line] = [sent("a", 10, required=["guard"])]

    assert rules(alone, [recorded()]) == []
    assert rules(alone, []) == []
    assert rules(alone, [recorded(outcomes=[CRASHED])]) == ["policy"]
    assert rules(alone, [recorded(cause="crash")]) == ["policy"]
    assert rules([sent("a", 10, is_forbidden=True)], [recorded()]) == ["policy"]
    assert rules(alone, [recorded(kind="abandoned", verdict=None), recorded(seq=2)]) == ["record"]


def test_an_allowance_of_another_payload_than_was_sent_is_found() -> None:
    other, head = "of something else", head_of(1)

    assert rules(fire(digest=other, head=head), [recorded(digest=other)]) == ["record"]
    assert rules(fire(digest=other, head=head, is_patched=True), [recorded(digest=other)]) == []


def test_a_refusal_that_the_client_made_itself_needs_no_record() -> None:
    assert rules(fire(verdict="deny", is_local=True), []) == []


@pytest.mark.parametrize(
    "seqs", [(2,), (1, 3), (1, 2, 2), (1, 3, 2)], ids=["beginning is gone", "gap", "twice", "order"]
)
def test_a_chain_with_a_record_out_of_its_place_is_found(seqs: tuple[int, ...]) -> None:
    assert "chain" in rules([], [recorded(str(seq), seq) for seq in seqs])


def test_numbers_that_a_crash_skipped_are_no_gap_where_the_record_says_so() -> None:
    after = msgspec.structs.replace(recorded("b", 9), prev=hash_of(1))

    assert "chain" in rules([], [recorded("a", 1), after])
    assert "chain" in rules([], [recorded("a", 1), msgspec.structs.replace(after, skipped=(3, 8))])
    assert "chain" not in rules([], [recorded("a", 1), msgspec.structs.replace(after, skipped=(2, 8))])


def test_a_record_that_was_altered_is_found_by_its_successor() -> None:
    chain = [recorded("a", 1), recorded("b", 2)]
    forged = msgspec.structs.replace(chain[0], hash="f" * 64)

    assert check([], chain) == []
    assert check([], [forged, chain[1]]) == [Violation("chain", "record 2 does not follow on 1")]


# -- the history itself ------------------------------------------------------------------------------------------


def test_a_history_is_read_as_it_was_written_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "client.jsonl"
    lines: list[Line] = [*GOOD, Heard("s", 1, 2), change("1", 1, 1), Acked("1", 2, 3), Lost("2", 3), Barred("x", 1, 2)]
    pen = Pen(path)
    for line in lines:
        pen.write(line)
    pen.close()
    with path.open("ab") as file:
        file.write(b'{"type":"sent","op":"to')

    assert list(read([path])) == lines

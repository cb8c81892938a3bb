"""The check of one host's log: what is wrong is found, what is explained is not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import LogFacts, RecordBatch
from hooklatch.fleet.logs.chains import SETTLED, HostCheck, HostVerified
from hooklatch.fleet.logs.trimming import TrimNote
from hooklatch.fleet.reports import HostReport, RecordHead
from hooklatch.record.findings import ChainWitness
from hooklatch.record.storage.chain import GENESIS, read_link, seal_entry
from support.shipped import chain
from support.tables import table

LINES = chain(12)
OTHER = chain(12, body=b'{"verdict":"deny"}')
LINKS = [link for line in LINES if (link := read_link(line)) is not None]
CASES: dict[str, tuple[list[list[bytes]], list[str]]] = {
    "all is well": ([LINES[:5], LINES[5:]], []),
    "a batch came twice": ([LINES[:5], LINES[:5], LINES[5:]], []),
    "in another order": ([LINES[5:], LINES[:5]], []),
    "one is missing": ([LINES[:5], LINES[6:]], ["missing 6"]),
    "a batch is missing": ([LINES[:3], LINES[6:9], LINES[10:]], ["missing 4", "missing 10"]),
    "the first is missing": ([LINES[1:]], ["missing 1"]),
    "another record follows": ([LINES[:5], OTHER[5:]], ["altered 5"]),
    "two records of one number": ([LINES[:5], OTHER[4:5], LINES[5:]], ["conflict 5"]),
}  # fmt: skip


def taken(check: HostCheck, *batches: list[bytes], epoch: int = 1, at: int = 0) -> HostCheck:
    for one in batches:
        packed = pack_batch("a", epoch, one, ("skipped",))
        assert packed is not None
        check.take(epoch, RecordBatch(packed.first, packed.last, packed.data, at))
    return check


def found_in(verified: HostVerified) -> list[str]:
    return [f"{finding.what} {finding.seq}" for finding in verified.findings]


@table(("batches", "expected"), CASES.values(), ids=CASES)
def test_a_chain_is_held_against_itself(batches: list[list[bytes]], expected: list[str]) -> None:
    verified = taken(HostCheck("a"), *batches).end(None)

    assert found_in(verified) == expected
    assert verified.ok is not bool(expected)


def test_an_unbroken_log_is_one_range_with_its_head() -> None:
    verified = taken(HostCheck("a"), LINES[:5], LINES[5:]).end(None)

    assert verified.ranges == [(1, 1, 12)]
    assert verified.head == ChainWitness(12, LINKS[-1].hash[:32])


def test_of_records_of_which_something_was_left_out_none_counts_as_whole() -> None:
    assert taken(HostCheck("a"), LINES).end(None).whole == 0


def segment(seq: int, prev: str, first: int) -> bytes:
    body = json.dumps({"skipped": {"first": first, "last": seq - 1}}).encode()
    return seal_entry(seq, prev, "2026-01-31T12:00:00.000Z", "segment", body)[0]


def test_numbers_that_were_never_used_are_no_gap() -> None:
    line = segment(50, LINKS[-1].hash, 13)

    verified = taken(HostCheck("a"), LINES, [line]).end(None)

    assert verified.ok
    assert verified.notes == ["numbers 13 to 49 were never used: the daemon had crashed"]


def test_numbers_that_were_not_declared_are_a_gap_all_the_same() -> None:
    line = segment(50, LINKS[-1].hash, 14)

    assert found_in(taken(HostCheck("a"), LINES, [line]).end(None)) == ["missing 13"]


def retired(seq: int, prev: str, kept: int, *, first: int = 1) -> bytes:
    body = {"first_seq": first, "kept_seq": kept, "kept_prev": LINKS[kept - 2].hash, "lost": 0}
    return seal_entry(seq, prev, "2026-01-31T12:00:00.000Z", "retired", json.dumps(body).encode())[0]


def test_a_log_that_begins_where_retention_left_the_record_is_explained() -> None:
    verified = taken(HostCheck("a"), LINES[4:], [retired(13, LINKS[-1].hash, 5)]).end(None)

    assert verified.ok
    assert "removed by the host's retention" in verified.notes[0]


def test_records_that_retention_removed_before_they_were_shipped_are_lost_and_said_to_be() -> None:
    verified = taken(HostCheck("a"), LINES[:2], LINES[4:], [retired(13, LINKS[-1].hash, 5)]).end(None)

    assert found_in(verified) == ["lost 3"]


def trimmed(seq: int, **changes: Any) -> dict[int, TrimNote]:
    note = TrimNote(epoch=1, seq=seq, hash=LINKS[seq - 1].hash, batches=2, at=1, by="ada", reason="archived")
    return {1: msgspec.structs.replace(note, **changes)}


def test_what_an_operator_trimmed_is_no_gap() -> None:
    check = taken(HostCheck("a"), LINES[5:])
    check.take_trim_notes(trimmed(5))
    verified = check.end(None)

    assert verified.ok
    assert verified.notes == ["epoch 1 was trimmed through record 5 by ada: archived"]


@table(
    ("later", "expected"),
    [(LINES[8:], []), (LINES[5:6], []), (LINES[9:], ["missing 9"]), (OTHER[8:], ["altered 8"])],
)
def test_what_is_trimmed_while_it_is_read_is_no_gap(later: list[bytes], expected: list[str]) -> None:
    check = taken(HostCheck("a"), LINES[:3], later)
    check.take_trim_notes(trimmed(8))

    assert found_in(check.end(None)) == expected


@table(("notes", "expected"), [(trimmed(4), "missing 5"), (trimmed(5, hash="a" * 64), "altered 5")])
def test_a_note_covers_no_more_than_it_says(notes: dict[int, TrimNote], expected: str) -> None:
    check = taken(HostCheck("a"), LINES[5:])
    check.take_trim_notes(notes)

    assert found_in(check.end(None)) == [expected]


def test_a_note_without_the_removal_is_no_fault() -> None:
    check = taken(HostCheck("a"), LINES)
    check.take_trim_notes(trimmed(5))

    assert check.end(None).ok


@table(
    ("facts", "notes", "expected"),
    [
        (LogFacts(12, 2, 2), {}, []),
        (LogFacts(12, 2, 5), {}, ["engine None"]),
        (LogFacts(12, 2, 4), trimmed(5), []),
        (LogFacts(12, 2, 5), trimmed(5), ["engine None"]),
        (LogFacts(12, 3, 3), {}, ["engine None"]),
    ],
)
def test_what_the_engine_was_given_and_does_not_have_is_found(
    facts: LogFacts, notes: dict[int, TrimNote], expected: list[str]
) -> None:
    check = taken(HostCheck("a"), LINES[:5], LINES[5:])
    check.take_trim_notes(notes)
    check.check_engine(1, facts)

    assert found_in(check.end(None)) == expected


@table(
    ("arrivals", "expected"),
    [
        ([1000, 2000], []),
        ([2000, 1000], []),
        ([9 * SETTLED, 8 * SETTLED - 1], ["time 12"]),
        ([SETTLED, 0], []),
        ([SETTLED + 1, 0], ["time 12"]),
        ([1000, 11 * SETTLED + 1], ["time 12"]),
    ],
)
def test_a_time_of_arrival_that_cannot_be_is_found(arrivals: list[int], expected: list[str]) -> None:
    check = taken(taken(HostCheck("a"), LINES[:5], at=arrivals[0]), LINES[5:], at=arrivals[1])
    check.check_times(10 * SETTLED)

    assert found_in(check.end(None)) == expected


# -- a record that began anew ------------------------------------------------------------------------------------------


def anew(first: list[bytes], second: list[bytes]) -> HostVerified:
    return taken(taken(HostCheck("a"), first), second, epoch=2).end(None)


def test_a_truncated_record_is_found_with_what_it_lacks() -> None:
    verified = anew(LINES, LINES[:7])

    assert found_in(verified) == ["anew 8"]
    assert "the same through 7; 5 records from 8 on were shipped once" in verified.findings[0].text
    assert (verified.records, verified.repeated, verified.epoch) == (12, 7, 2)


def test_a_rewritten_record_is_found() -> None:
    verified = anew(LINES, OTHER)

    assert found_in(verified) == ["anew 1"]
    assert "nothing in common" in verified.findings[0].text


def test_an_epoch_that_was_trimmed_altogether_is_told_by_its_note_alone() -> None:
    check = taken(HostCheck("a"), OTHER, epoch=2)
    check.take_trim_notes(trimmed(12))

    verified = check.end(None)

    assert verified.ok
    assert verified.notes == ["epoch 1 was trimmed through record 12 by ada: archived"]


# -- what the host says of itself --------------------------------------------------------------------------------------

HEAD = RecordHead(12, LINKS[-1].hash)
GOOD = HostReport(host="a", epoch=1, record=HEAD, shipped=12)
REPORTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all is well": ({}, []),
    "more than was shipped": ({"record": RecordHead(99, "f" * 64)}, []),
    "not all was shipped": ({"shipped": 3}, []),
    "the engine lost some": ({"shipped": 15, "record": RecordHead(15, "f" * 64)}, ["engine 13"]),
    "the engine lost an epoch": ({"epoch": 2}, ["engine None"]),
    "it went back": ({"record": RecordHead(9, LINKS[8].hash)}, ["report 9"]),
    "its head is another one": ({"record": RecordHead(12, "f" * 64)}, ["report 12"]),
    "its head has no hash": ({"record": RecordHead(12, "")}, ["report 12"]),
    "some were lost": ({"lost": 3}, ["lost None"]),
    "it says what is wrong": ({"findings": ("the record was truncated to 7",)}, ["told None"]),
}


@table(("changes", "expected"), REPORTS.values(), ids=REPORTS)
def test_a_log_is_held_against_the_report(changes: dict[str, Any], expected: list[str]) -> None:
    verified = taken(HostCheck("a"), LINES).end(msgspec.structs.replace(GOOD, **changes))

    assert found_in(verified) == expected


@pytest.mark.parametrize(("later", "expected"), [(SETTLED, []), (SETTLED + 1, ["report 9"])])
def test_a_head_that_went_back_is_found_once_the_report_must_know(later: int, expected: list[str]) -> None:
    check = taken(HostCheck("a"), LINES, at=1000)
    report = msgspec.structs.replace(GOOD, record=RecordHead(9, LINKS[8].hash), shipped=9)

    check.check_arrivals(report, 1000 + later)

    assert found_in(check.end(report)) == expected


# -- witnesses ---------------------------------------------------------------------------------------------------------


@table(
    ("witness", "expected"),
    [
        (ChainWitness(5, LINKS[4].hash[:32]), []),
        (ChainWitness(5, "f" * 32), ["altered 5"]),
        (ChainWitness(99, "f" * 32), []),
        (ChainWitness(2, LINKS[1].hash), []),
        (ChainWitness(8, LINKS[7].hash), ["missing 8", "missing 8"]),
    ],
)
def test_a_head_that_a_client_kept_is_a_witness(witness: ChainWitness, expected: list[str]) -> None:
    check = taken(HostCheck("a"), LINES[2:7], *([LINES[8:]] if witness.seq == 8 else [LINES[7:]]))
    check.take_trim_notes(trimmed(2))

    assert found_in(check.end(None, [witness])) == expected


def test_the_very_first_record_may_be_declared_late() -> None:
    line = segment(100, GENESIS, 1)

    assert taken(HostCheck("a"), [line]).end(None).ok

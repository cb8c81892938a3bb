"""Where shipping goes on: the record beside what the engine has of it."""

from __future__ import annotations

import pytest

from hooklatch.fleet.link.shipping import LocalRecords, Resume, ShippedHead, compare_records
from hooklatch.record.storage.chain import ChainLink

AT = "2026-01-01T00:00:00.000Z"


def link(seq: int, prev: str = "", own: str = "") -> ChainLink:
    """Return a record whose hash is its number, unless another one is given."""
    return ChainLink(seq, prev or str(seq - 1), AT, "decision", own or str(seq))


def local(first: int, last: int, around: int, *, damaged: bool = False) -> LocalRecords:
    """Return what an unbroken record has around a number."""
    same = link(around) if first <= around <= last and not damaged else None
    following = link(max(first, around + 1)) if around < last else None
    return LocalRecords(same, following, link(first), link(last))


SHIPPED = ShippedHead(2, 10, "10")


def test_without_a_log_all_of_the_record_is_shipped() -> None:
    assert compare_records(None, local(5, 20, 0)) == Resume(1)


@pytest.mark.parametrize("last", [10, 11, 99])
def test_it_goes_on_behind_what_was_shipped(last: int) -> None:
    assert compare_records(SHIPPED, local(1, last, 10)) == Resume(2, 10, "10")


def test_a_record_whose_beginning_was_retired_goes_on_as_well() -> None:
    assert compare_records(SHIPPED, local(11, 20, 10)) == Resume(2, 10, "10")


def test_numbers_that_a_crash_skipped_are_not_missing() -> None:
    around = LocalRecords(None, link(10_001, prev="10"), link(1), link(10_003))

    assert compare_records(SHIPPED, around) == Resume(2, 10, "10")


def test_what_was_removed_unshipped_is_counted_and_passed_over() -> None:
    resume = compare_records(SHIPPED, local(15, 20, 10))

    assert (resume.epoch, resume.after, resume.hash, resume.lost) == (2, 10, None, 4)
    assert resume.finding == "records 11 to 14 were removed before they were shipped"


REWRITTEN = {
    "truncated": local(1, 9, 10),
    "another hash": LocalRecords(link(10, own="x"), link(11, prev="x"), link(1), link(20)),
    "is gone from the middle": LocalRecords(None, link(10_001, prev="8"), link(1), link(10_003)),
    "is empty": LocalRecords(None, None, None, None),
    "is damaged": LocalRecords(None, None, link(1), link(12)),
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_a_record_that_contradicts_what_was_shipped_goes_into_a_new_epoch(what: str) -> None:
    resume = compare_records(SHIPPED, REWRITTEN[what])

    assert (resume.epoch, resume.after, resume.hash, resume.is_rewritten, resume.lost) == (3, 0, None, True, 0)
    assert resume.finding is not None
    assert what in resume.finding
    assert "epoch 2" in resume.finding


def test_a_damaged_record_between_two_good_ones_does_not_begin_an_epoch() -> None:
    assert compare_records(SHIPPED, local(1, 20, 10, damaged=True)) == Resume(2, 10, "10")


def test_a_log_that_was_emptied_is_believed_by_its_number() -> None:
    resume = compare_records(ShippedHead(2, 10, ""), local(1, 20, 10))

    assert (resume.epoch, resume.after, resume.hash, resume.is_rewritten) == (2, 10, None, False)
    assert "emptied" in (resume.finding or "")
    assert compare_records(ShippedHead(2, 10, ""), local(1, 9, 10)).is_rewritten

"""Tampering is always found by verify and makes the status red: also after a restart, and after retention has run.

The attacker can write to the record's directory.  An attacker who can also write to the mark beside it can forge
everything; a witness reveals that (test_verify.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hooklatch.record.storage.chain import GENESIS
from hooklatch.record.storage.mark import BLOCK
from hooklatch.record.storage.slots import encode_slot_line
from hooklatch.record.verify import verify_record
from support.pools import until
from support.records import (
    SETTINGS,
    Beside,
    decided,
    decision,
    fact,
    found_beyond_faults,
    mark_of,
    opened,
    records,
    running,
    segments,
)  # fmt: skip

TIGHT = msgspec.structs.replace(SETTINGS, keep_bytes=1)
Theft = Callable[[Path], None]


def make(folder: Path, parts: int = 4) -> None:
    """Leave a record of some segments, of 5 numbers each; an older anchor lies beside it."""
    with opened(folder) as record:
        for part in range(parts):
            for number in range(4):
                record.append_decision(decision(10 * part + number), fact())
            if part < parts - 1:
                record._journal.begin_segment()
            if part == 0:
                assert record._syncs.once_blocking() is None
                shutil.copy(folder / "anchor", folder.parent / "older")


def crash(folder: Path) -> None:
    """Make it look as if the daemon had been killed and had not ended, right after a sync."""
    text = mark_of(folder).read_bytes().removeprefix(b"shut").rpartition(b" ")[0]
    mark_of(folder).write_bytes(encode_slot_line(b"open" + text))


def take_first(count: int) -> Theft:
    return lambda folder: [path.unlink() for path in segments(folder)[:count]] and None


def take_middle(folder: Path) -> None:
    segments(folder)[1].unlink()


def cut(folder: Path) -> None:
    path = segments(folder)[-1]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def cut_segment(folder: Path) -> None:
    segments(folder)[-1].unlink()


def all_segments(folder: Path) -> None:
    for path in segments(folder):
        path.unlink()


def all_of_it(folder: Path) -> None:
    shutil.rmtree(folder)


def with_anchor(theft: Theft, what: str) -> Theft:
    def steal(folder: Path) -> None:
        theft(folder)
        anchor = folder / "anchor"
        match what:
            case "removed":
                anchor.unlink(missing_ok=True)
            case "truncated":
                anchor.write_bytes(anchor.read_bytes()[:40])
            case "an older one":
                shutil.copy(folder.parent / "older", anchor)
            case "forged":
                newest = records(folder)[-1]
                anchor.write_bytes(encode_slot_line(b"%018d %b" % (newest["seq"], newest["hash"].encode())))
            case _:
                raise AssertionError(what)

    return steal


ANCHORS = ("removed", "truncated", "an older one", "forged")
CUTS = {
    f"{name}, anchor {what}": with_anchor(theft, what)
    for what in ANCHORS
    for name, theft in (("cut", cut), ("last segment", cut_segment))
}
THEFTS: dict[str, Theft] = {
    "first segment": take_first(1), "first two": take_first(2), "middle": take_middle, "cut": cut, "last": cut_segment,
    **CUTS, "all segments": all_segments, "all segments and the anchor": with_anchor(all_segments, "removed"),
    "the folder": all_of_it,
}  # fmt: skip
SEEN_AT_START = [name for name in THEFTS if name != "middle"]  # that one verify finds, and retention


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make(tmp_path / "record")
    return tmp_path / "record"


@pytest.mark.parametrize("how", ["ended", "crashed"])
@pytest.mark.parametrize("name", [name for name in THEFTS if not name.startswith(("all", "the"))])
def test_a_theft_is_found_before_any_restart(folder: Path, name: str, how: str) -> None:
    if how == "crashed":
        crash(folder)
    assert found_beyond_faults(folder) == []

    THEFTS[name](folder)

    assert found_beyond_faults(folder)


@pytest.mark.parametrize("how", ["ended", "crashed"])
@pytest.mark.parametrize("name", THEFTS)
async def test_a_theft_is_found_after_restarts_and_retention_and_no_number_comes_again(
    folder: Path, name: str, how: str
) -> None:
    used = records(folder)[-1]["seq"]
    if how == "crashed":
        crash(folder)
    THEFTS[name](folder)
    left = {one["seq"] for one in records(folder)}

    for settings in (SETTINGS, TIGHT, SETTINGS):
        async with running(folder, settings) as record:
            head = decided(record)
            assert head.seq > used or name in ("first segment", "first two", "middle")
            await until(lambda: record.status()["synced_seq"] >= head.seq)  # noqa: B023
            if name != "middle" or settings is not SETTINGS:
                await until(lambda: record.status()["faults"])
        found = found_beyond_faults(folder)
        assert found, name

    new = [one["seq"] for one in records(folder) if one["seq"] not in left]
    assert min(new) > used or name in ("first segment", "first two", "middle")
    assert len({one["seq"] for one in records(folder)}) == len(records(folder))


@pytest.mark.parametrize("name", SEEN_AT_START)
async def test_a_fault_stays_over_restarts_until_it_is_acknowledged_and_the_gap_stays_after_that(
    folder: Path, name: str
) -> None:
    THEFTS[name](folder)
    with opened(folder) as record:
        first = record.status()["faults"]
    async with running(folder) as record:
        again = record.status()["faults"]
        known = await record.acknowledge("it was me")
        assert record.status()["faults"] == []
    with opened(folder) as record:
        after = record.status()["faults"]

    assert first
    assert again == first
    assert known == first[:-1]
    assert after == []
    (told,) = (one for one in records(folder) if one["kind"] == "acknowledged")
    assert (told["reason"], told["faults"]) == ("it was me", known)
    assert {finding.what for finding in verify_record(str(folder)).findings} == {"missing"}


async def test_a_theft_while_the_daemon_runs_is_told_by_the_next_look_of_retention(folder: Path) -> None:
    async with running(folder) as record:
        await until(lambda: record._retention_at > 0)
        take_first(2)(folder)
        record.apply(TIGHT)  # which makes it look at once
        await until(lambda: record.status()["faults"])
        faults = record.status()["faults"]
        left = segments(folder)

    assert "are missing from the beginning" in faults[0]
    assert len(left) >= 2  # it removes nothing that would cover it up
    assert [finding.what for finding in found_beyond_faults(folder)] == ["missing"]


async def test_what_was_stolen_is_still_told_when_retention_has_removed_what_was_around_it(folder: Path) -> None:
    take_middle(folder)
    async with running(folder, TIGHT) as record:
        await until(lambda: record.status()["faults"])
        assert "does not continue where the segment before it ends" in record.status()["faults"][0]
        assert len(segments(folder)) == 3
        await record.acknowledge("it is known")
        record.apply(msgspec.structs.replace(TIGHT, keep_bytes=2))
        record._retention_at = 0.0
        await until(lambda: len(segments(folder)) == 1)

    report = verify_record(str(folder))
    assert [finding.text for finding in report.findings] == [
        "5 records were already missing when retention reached them"
    ]


async def test_retention_goes_on_from_where_it_was_over_restarts_and_crashes(folder: Path) -> None:
    for round_ in range(3):
        async with running(folder, TIGHT) as record:
            await until(lambda: len(segments(folder)) == 1)
            record._journal.begin_segment()
            head = decided(record)
            await until(lambda: record.status()["synced_seq"] >= head.seq)  # noqa: B023
        if round_ == 1:
            crash(folder)
        assert verify_record(str(folder)).ok

    retired = [one for one in records(folder) if one["kind"] == "retired"]
    assert retired[-1]["lost"] == 0


@pytest.mark.parametrize("text", [None, b"", b"x", encode_slot_line(b"open 1")])
def test_a_mark_that_is_gone_or_broken_is_a_fault_and_never_as_if_it_were_not_there(
    folder: Path, text: bytes | None
) -> None:
    used = records(folder)[-1]["seq"]
    if text is None:
        mark_of(folder).unlink()
    else:
        mark_of(folder).write_bytes(text)
    assert [finding.what for finding in verify_record(str(folder)).findings] == ["mark"]

    with opened(folder) as record:
        faults = record.status()["faults"]
        head = decided(record)

    assert ".mark" in faults[0]
    assert head.seq > used + BLOCK
    assert not verify_record(str(folder)).ok


def test_an_old_copy_of_the_mark_is_a_fault(folder: Path) -> None:
    beside = Beside(folder)
    with opened(folder) as record:
        decided(record)
    beside.restore()
    assert [finding.what for finding in verify_record(str(folder)).findings] == ["altered"]

    with opened(folder) as record:
        assert "were written after its last daemon had ended" in record.status()["faults"][0]


def test_the_forged_number_of_a_skip_hides_nothing(folder: Path) -> None:
    crash(folder)
    with opened(folder):
        pass
    path = segments(folder)[-2]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))

    assert [finding.text for finding in verify_record(str(folder)).findings] == ["records 21 to 22 are missing"]


def test_what_a_first_start_was_killed_in_is_no_theft(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    folder.mkdir()
    with opened(folder):
        shutil.copy(mark_of(folder), tmp_path / "mark")
    shutil.rmtree(folder)
    shutil.copy(tmp_path / "mark", mark_of(folder))

    with opened(folder) as record:
        assert record.status()["faults"] == []
        assert record.head is not None

    assert verify_record(str(folder)).ok
    assert records(folder)[0]["seq"] == BLOCK + 1
    assert records(folder)[0]["prev"] == GENESIS

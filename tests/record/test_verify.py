"""verify finds every change in the files, says which record it is, and states what it cannot know."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hooklatch.record.findings import ChainWitness, VerifyReport
from hooklatch.record.storage.chain import GENESIS, seal_entry
from hooklatch.record.storage.mark import HighWaterMark, mark_path
from hooklatch.record.storage.reading import NoRecordError
from hooklatch.record.storage.slots import encode_slot_line
from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordWriter
from support.profiles import examples
from support.records import SETTINGS, decision, fact, opened, segments

Lines = list[bytes]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of four segments, with a clean end."""
    folder = tmp_path_factory.mktemp("sample")
    with opened(folder) as record:
        for part in range(4):
            for number in range(4):
                record.append_decision(decision(10 * part + number), fact())
            if part < 3:
                record._journal.begin_segment()
    return folder


@pytest.fixture
def copy(sample: Path, tmp_path: Path) -> Path:
    return copied(sample, tmp_path / "copy")


def copied(sample: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(sample, to)
    shutil.copy(mark_path(str(sample)), mark_path(str(to)))
    return to


def found(folder: Path, *witnesses: ChainWitness) -> list[tuple[str, int | None]]:
    return [(finding.what, finding.seq) for finding in verify_record(str(folder), witnesses).findings]


def rewrite(path: Path, change: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_a_sound_record_is_one_range_up_to_its_anchor(sample: Path) -> None:
    report = verify_record(str(sample))

    assert report.ok
    assert (report.records, report.segments, report.ranges) == (22, 4, [(1, 22)])
    assert (report.anchored_through, report.head and report.head.seq) == (22, 22)
    assert (report.findings, report.notes, report.told) == ([], [], [])


def test_it_says_what_it_proves_and_what_it_cannot(sample: Path) -> None:
    report = verify_record(str(sample))

    assert "unless all records after it were rewritten too" in report.proves
    assert "tamper-evident, not tamper-proof" in report.does_not_prove[0]


@pytest.mark.parametrize("what", ["no folder", "an empty folder"])
def test_where_there_is_no_record_it_says_so(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "nothing" if what == "no folder" else tmp_path

    with pytest.raises(NoRecordError, match=r"there is no record|holds no record"):
        verify_record(str(folder))


# -- one change each: the second segment holds records 7 to 11 --------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: [*lines[:2], lines[2].replace(b"no rm", b"go on"), *lines[3:]], [("altered", 9)]),
        (lambda lines: [*lines[:2], *lines[3:]], [("missing", 9)]),
        (lambda lines: [*lines[:2], *lines[4:]], [("missing", 9)]),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], [("missing", 8), ("reordered", 8)]),
        (lambda lines: [*lines[:3], *lines[2:]], [("duplicated", 9)]),
        (lambda lines: [*lines[:3], lines[0], *lines[3:]], [("duplicated", 7)]),
        (lambda lines: [*lines[:3], b"\n", *lines[3:]], [("altered", 10)]),
        (lambda lines: [*lines[:3], lines[3][:-1] + lines[4]], [("altered", 10), ("missing", 11)]),
        (lambda lines: [*lines[:3], lines[3][:50]], [("torn", None), ("missing", 10)]),
        (lambda lines: lines[1:], [("altered", 8), ("missing", 7)]),
        (lambda lines: lines[:-1], [("missing", 11)]),
        (lambda _: [], [("missing", 7)]),
    ],
    ids=[
        "changed", "left out", "two left out", "swapped", "doubled", "an earlier one put in", "an empty line",
        "two fused", "cut in a line", "beginning cut", "end cut", "emptied",
    ],
)  # fmt: skip
def test_a_change_in_the_middle_is_found_and_named(
    copy: Path, change: Callable[[Lines], Lines], expected: list[tuple[str, int | None]]
) -> None:
    rewrite(segments(copy)[1], change)

    assert sorted(found(copy), key=str) == sorted(expected, key=str)


def test_a_record_that_was_changed_and_sealed_anew_contradicts_the_next(copy: Path) -> None:
    def forge(lines: Lines) -> Lines:
        record = msgspec.json.decode(lines[2])
        body = msgspec.json.encode({"verdict": "pass"})
        return [*lines[:2], seal_entry(9, record["prev"], record["at"], "decision", body)[0], *lines[3:]]

    rewrite(segments(copy)[1], forge)

    report = verify_record(str(copy))
    assert [(one.what, one.seq) for one in report.findings] == [("altered", 9)]
    assert report.ranges == [(1, 9), (10, 22)]


@pytest.mark.parametrize(("chosen", "expected"), [(0, [("missing", 1)]), (1, [("missing", 7)]), (3, [("missing", 17)])])
def test_a_segment_that_is_gone_is_missing(copy: Path, chosen: int, expected: list[tuple[str, int | None]]) -> None:
    segments(copy)[chosen].unlink()

    assert found(copy) == expected


def test_a_segment_under_another_name_is_found(copy: Path) -> None:
    segments(copy)[1].rename(copy / "0000000000000008.jsonl")

    assert found(copy) == [("altered", 7)]


def test_a_segment_that_is_there_twice_is_found(copy: Path) -> None:
    shutil.copy(segments(copy)[1], copy / "0000000000000099.jsonl")

    assert [what for what, _ in found(copy)] == ["altered", *["duplicated"] * 5]


def test_an_end_that_was_on_the_disk_and_is_cut_off_is_missing(copy: Path) -> None:
    rewrite(segments(copy)[3], lambda lines: lines[:-2])

    assert found(copy) == [("missing", 21)]


def test_an_end_behind_the_anchor_can_be_cut_off_and_only_a_witness_shows_it(sample: Path, tmp_path: Path) -> None:
    folder = copied(sample, tmp_path / "copy")
    record = RecordWriter(str(folder), SETTINGS)
    head = record.append_decision(decision(99), fact())
    whole = copied(folder, tmp_path / "before")
    record.close()
    assert head is not None
    witness = ChainWitness(head.seq, head.hash)
    before = verify_record(str(whole), [witness])
    rewrite(segments(whole)[3], lambda lines: lines[:-1])

    assert (before.ok, before.anchored_through) == (True, 22)
    assert before.witnesses == [{"seq": head.seq, "hash": head.hash, "result": "confirmed"}]
    assert found(whole) == []
    assert found(whole, witness) == [("witness", head.seq)]


def test_a_whole_chain_made_anew_is_shown_by_a_witness_alone(copy: Path) -> None:
    lines = [line for path in segments(copy) for line in path.read_bytes().splitlines(keepends=True)]
    own = msgspec.json.decode(lines[8])["hash"]
    for path in segments(copy):
        path.unlink()
    prev, forged = GENESIS, []
    for seq, line in enumerate(lines, start=1):
        record = msgspec.json.decode(line)
        body = msgspec.json.encode({key: value for key, value in record.items() if key not in PLACE} | {"verdict": "x"})
        made, prev = seal_entry(seq, prev, record["at"], record["kind"], body)
        forged.append(made)
    (copy / "0000000000000001.jsonl").write_bytes(forged[0] + b"".join(forged[1:]))
    (copy / "anchor").write_bytes(encode_slot_line(b"%018d %b" % (len(forged), prev.encode())))
    mark = HighWaterMark(is_closed=True, reserved_through=len(forged), seq=len(forged), hash=prev)
    Path(mark_path(str(copy))).write_bytes(encode_slot_line(mark.encode()))

    assert found(copy) == []
    assert found(copy, ChainWitness(9, own[:32])) == [("witness", 9)]


PLACE = ("seq", "prev", "at", "kind", "hash")


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"garbage\n",
        encode_slot_line(b"x"),
        *(encode_slot_line(b"%018d %b" % (seq, b"0" * 64)) for seq in (22, 30)),
    ],
)
def test_an_anchor_that_is_gone_or_says_something_else_is_found(copy: Path, text: bytes | None) -> None:
    if text is None:
        (copy / "anchor").unlink()
    else:
        (copy / "anchor").write_bytes(text)

    assert len(found(copy)) == 1


@pytest.mark.parametrize(
    ("witness", "result"),
    [
        (lambda own: ChainWitness(9, own), "confirmed"),
        (lambda own: ChainWitness(9, own[:16]), "confirmed"),
        (lambda _: ChainWitness(9, "0" * 32), "contradicted"),
        (lambda own: ChainWitness(400, own), "missing"),
    ],
)
def test_a_witness_is_compared(copy: Path, witness: Callable[[str], ChainWitness], result: str) -> None:
    own = msgspec.json.decode(segments(copy)[1].read_bytes().splitlines()[2])["hash"]

    report = verify_record(str(copy), [witness(own)])

    assert [one["result"] for one in report.witnesses] == [result]
    assert report.ok is (result == "confirmed")


def test_a_witness_of_what_retention_removed_is_not_held_against_the_record(copy: Path) -> None:
    segments(copy)[0].unlink()

    report = verify_record(str(copy), [ChainWitness(3, "0" * 32)])

    assert [one["result"] for one in report.witnesses] == ["retired"]


def test_a_line_that_is_being_written_is_waited_for(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segments(copy)[3]
    data = path.read_bytes()
    path.write_bytes(data[:-10])

    def sleep(seconds: float) -> None:  # the daemon writes the rest of it in the meantime
        path.write_bytes(data)

    monkeypatch.setattr("time.sleep", sleep)
    done: list[int] = []

    report = verify_record(str(copy), on_progress=lambda read, total: done.append(read))

    assert report.ok
    assert done[-1] == sum(segment.stat().st_size for segment in segments(copy))


def test_an_end_that_stays_torn_is_found(copy: Path) -> None:
    with segments(copy)[3].open("ab") as file:
        file.write(b'{"seq":23')

    assert found(copy) == [("torn", None)]


@pytest.fixture
def explained(tmp_path: Path) -> Path:
    """A record of two segments: the first ends in a partial line, as the second one says."""
    folder = tmp_path / "record"
    with opened(folder) as record:
        for number in range(3):
            record.append_decision(decision(number), fact())
        segment = record._journal.segment
        os.write(segment.fd, b'{"seq":6')
        segment.is_whole = False  # as after a write that the disk cut short and that could not be taken back
        record.append_decision(decision(3), fact())
    return folder


def test_a_partial_line_within_the_record_is_a_note_and_not_waited_for(
    explained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError("nobody completes the end of a segment that another one follows")

    monkeypatch.setattr("time.sleep", sleep)

    report = verify_record(str(explained))

    assert report.ok
    assert report.ranges == [(1, 8)]
    assert report.notes == [f"{segments(explained)[0].name} ends in a partial line, as a segment after it records"]


def test_a_line_that_was_changed_before_an_explained_partial_line_is_missing_too(explained: Path) -> None:
    def change(lines: Lines) -> Lines:
        return [*lines[:-2], lines[-2].replace(b'"deny"', b'"pass"', 1), lines[-1]]

    rewrite(segments(explained)[0], change)

    assert found(explained) == [("altered", 5), ("missing", 5)]
    assert verify_record(str(explained)).ranges == [(1, 4), (6, 8)]


# -- any change at all ------------------------------------------------------------------------------------------------


def flip(dice: random.Random, folder: Path) -> None:
    path = dice.choice(segments(folder))
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def put_bytes(dice: random.Random, folder: Path) -> None:
    path = dice.choice(segments(folder))
    data = path.read_bytes()
    place = dice.randrange(len(data) + 1)
    path.write_bytes(data[:place] + dice.randbytes(dice.randint(1, 40)) + data[place:])


def take_bytes(dice: random.Random, folder: Path) -> None:
    path = dice.choice(segments(folder))
    data = path.read_bytes()
    place = dice.randrange(len(data))
    path.write_bytes(data[:place] + data[place + dice.randint(1, 40) :])


def cut(dice: random.Random, folder: Path) -> None:
    path = dice.choice(segments(folder))
    data = path.read_bytes()
    path.write_bytes(data[: dice.randrange(len(data))])


def change_lines(change: Callable[[random.Random, Lines], Lines]) -> Callable[[random.Random, Path], None]:
    def mutate(dice: random.Random, folder: Path) -> None:
        rewrite(dice.choice(segments(folder)), lambda lines: change(dice, lines))

    return mutate


def drop(dice: random.Random, lines: Lines) -> Lines:
    place = dice.randrange(len(lines))
    return lines[:place] + lines[place + 1 :]


def double(dice: random.Random, lines: Lines) -> Lines:
    return [*lines[: (place := dice.randint(1, len(lines)))], dice.choice(lines), *lines[place:]]


def swap(dice: random.Random, lines: Lines) -> Lines:
    one, other = dice.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def remove_segment(dice: random.Random, folder: Path) -> None:
    dice.choice(segments(folder)).unlink()


def exchange_segments(dice: random.Random, folder: Path) -> None:
    one, other = dice.sample(segments(folder), 2)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


MUTATIONS = [
    flip, put_bytes, take_bytes, cut, change_lines(drop), change_lines(double), change_lines(swap), remove_segment,
    exchange_segments,
]  # fmt: skip


@pytest.mark.slow
@examples(100)
@given(kind=some.integers(0, len(MUTATIONS) - 1), seed=some.integers(0, 2**32))
def test_any_single_change_of_the_files_is_found(sample: Path, tmp_path: Path, kind: int, seed: int) -> None:
    """Slow: several hundred records are changed and verified."""
    folder = copied(sample, tmp_path / "copy")
    before = {path.name: path.read_bytes() for path in segments(folder)}
    MUTATIONS[kind](random.Random(seed), folder)
    if {path.name: path.read_bytes() for path in segments(folder)} == before:
        return

    report: VerifyReport = verify_record(str(folder))

    assert not report.ok

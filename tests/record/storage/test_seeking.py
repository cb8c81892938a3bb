"""Reading a record from any number on: what is found, and what happens to whoever reads when files change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.record.storage.chain import GENESIS, seal_entry
from hooklatch.record.storage.seeking import RecordChangedError, RecordCursor, find_newest_link, read_seq


def chained(folder: Path, sizes: list[int], *, text: int = 10) -> list[bytes]:
    """Write a chain in segments of so many records; return its lines."""
    found: list[bytes] = []
    seq, prev = 0, GENESIS
    for size in sizes:
        path = folder / f"{seq + 1:016d}.jsonl"
        for _ in range(size):
            seq += 1
            line, prev = seal_entry(seq, prev, "2026-01-01T00:00:00.000Z", "decision", b'{"text":"%s"}' % (b"x" * text))
            found.append(line)
        path.write_bytes(b"".join(found[-size:]))
    return found


def read_all(cursor: RecordCursor, most: int = 2**18) -> list[bytes]:
    found: list[bytes] = []
    while lines := cursor.read(most):
        found += lines
    return found


@pytest.mark.parametrize("after", [0, 1, 4, 5, 6, 9, 12])
def test_it_goes_behind_any_number(tmp_path: Path, after: int) -> None:
    lines = chained(tmp_path, [5, 4, 3])
    cursor = RecordCursor(str(tmp_path))

    link = cursor.seek(after)

    assert (link.seq if link is not None else 0) == after
    assert read_all(cursor, most=200) == lines[after:]


def test_it_finds_a_number_in_a_large_segment(tmp_path: Path) -> None:
    lines = chained(tmp_path, [3000], text=300)
    cursor = RecordCursor(str(tmp_path))

    for after in (1, 17, 1500, 2998, 3000):
        link = cursor.seek(after)
        assert link is not None
        assert link.seq == after
        assert read_all(cursor) == lines[after:]


@given(st.integers(0, 60), st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(1, 400))
def test_seeking_and_reading_are_reading_all(
    tmp_path_factory: pytest.TempPathFactory, after: int, sizes: list[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("record")
    lines = chained(folder, sizes)
    cursor = RecordCursor(str(folder))

    cursor.seek(after)

    assert read_all(cursor, most) == lines[after:]


def test_a_number_that_was_never_used_is_passed_over(tmp_path: Path) -> None:
    lines = chained(tmp_path, [3])
    line, _ = seal_entry(10_001, "0" * 64, "2026-01-01T00:00:00.000Z", "segment", b"{}")
    (tmp_path / f"{10_001:016d}.jsonl").write_bytes(line)
    cursor = RecordCursor(str(tmp_path))

    assert cursor.seek(500) is None
    assert read_all(cursor) == [line]
    assert cursor.seek(3) is not None
    assert read_all(cursor) == [line]
    assert len(lines) == 3


def test_what_is_appended_later_is_read_when_it_is_whole(tmp_path: Path) -> None:
    lines = chained(tmp_path, [2])
    cursor = RecordCursor(str(tmp_path))
    cursor.seek(2)
    path = tmp_path / f"{1:016d}.jsonl"

    assert not cursor.has_more()
    with path.open("ab") as file:
        file.write(b'{"seq":3,"prev":"')
        file.flush()
        assert cursor.has_more()
        assert cursor.read() == []
        file.write(b"rest\n")
    assert cursor.read() == [b'{"seq":3,"prev":"rest\n']
    assert not cursor.has_more()
    assert len(lines) == 2


def test_a_new_segment_is_entered_after_the_old_one_is_read_out(tmp_path: Path) -> None:
    lines = chained(tmp_path, [3, 3])
    cursor = RecordCursor(str(tmp_path))
    cursor.seek(2)

    assert cursor.has_more()
    assert read_all(cursor) == lines[2:]


def test_a_segment_that_retention_removed_is_missed_and_the_next_one_read(tmp_path: Path) -> None:
    lines = chained(tmp_path, [3, 3, 3])
    cursor = RecordCursor(str(tmp_path))
    cursor.seek(1)
    for first in (1, 4):
        os.unlink(tmp_path / f"{first:016d}.jsonl")

    assert cursor.has_more()
    assert read_all(cursor) == lines[6:]
    assert cursor.missed == 1


@pytest.mark.parametrize("change", ["removed", "replaced", "shortened"])
def test_a_change_behind_the_reader_is_told(tmp_path: Path, change: str) -> None:
    chained(tmp_path, [3])
    cursor = RecordCursor(str(tmp_path))
    cursor.seek(3)
    path = tmp_path / f"{1:016d}.jsonl"
    match change:
        case "removed":
            path.unlink()
        case "replaced":
            (tmp_path / "new").write_bytes(path.read_bytes())
            os.replace(tmp_path / "new", path)
        case _:
            os.truncate(path, 10)

    with pytest.raises(RecordChangedError):
        cursor.read()


def test_a_line_that_was_rewritten_in_place_is_told(tmp_path: Path) -> None:
    chained(tmp_path, [3])
    cursor = RecordCursor(str(tmp_path))
    cursor.seek(3)
    cursor.check()
    path = tmp_path / f"{1:016d}.jsonl"
    path.write_bytes(path.read_bytes().replace(b"x", b"y"))

    with pytest.raises(RecordChangedError):
        cursor.check()


def test_a_line_without_an_end_takes_no_memory_and_is_one_line(tmp_path: Path) -> None:
    lines = chained(tmp_path, [1])
    path = tmp_path / f"{1:016d}.jsonl"
    with path.open("ab") as file:
        for _ in range(17):
            file.write(b"x" * 2**20)
        file.write(b"\n" + lines[0])
    cursor = RecordCursor(str(tmp_path))
    cursor.seek(0)

    found = read_all(cursor)

    assert [read_seq(line) for line in found] == [1, None, 1]
    assert max(map(len, found)) < 1000


def test_damaged_lines_do_not_hide_what_is_behind_them(tmp_path: Path) -> None:
    lines = chained(tmp_path, [2000], text=300)
    path = tmp_path / f"{1:016d}.jsonl"
    path.write_bytes(b"".join([*lines[:1000], b"damage\n" * 20_000, *lines[1000:]]))
    cursor = RecordCursor(str(tmp_path))

    link = cursor.seek(1500)

    assert link is not None
    assert read_all(cursor) == lines[1500:]


def test_the_newest_record_is_found_behind_an_empty_segment(tmp_path: Path) -> None:
    chained(tmp_path, [3])
    (tmp_path / f"{4:016d}.jsonl").touch()

    newest = find_newest_link(str(tmp_path))

    assert newest is not None
    assert newest.seq == 3


def test_a_name_that_leads_nowhere_is_passed_over(tmp_path: Path) -> None:
    lines = chained(tmp_path, [2, 2])
    (tmp_path / f"{2:016d}.jsonl").symlink_to("absent")
    cursor = RecordCursor(str(tmp_path))

    for after in (1, 2):
        cursor.seek(after)
        assert read_all(cursor) == lines[after:]

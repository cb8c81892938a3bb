"""A slot: a line that a disk takes in parts is written to its end, or the write fails; one writes at a time."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hooklatch.directories import replace_file
from hooklatch.record.storage.mark import HighWaterMark, MarkFile, read_mark
from hooklatch.record.storage.slots import SlotFile, read_slot


def test_a_disk_that_takes_a_part_gets_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, data[:3], at))
    slot = SlotFile(str(tmp_path / "slot"), b"first")

    slot.write(b"other")
    slot.close()

    assert read_slot(slot.path) == b"other"
    SlotFile(slot.path, b"third").close()
    assert read_slot(slot.path) == b"third"


def test_a_write_that_ends_in_the_middle_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    slot = SlotFile(str(tmp_path / "slot"), b"first")

    def full(fd: int, data: bytes, at: int) -> int:
        if at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(fd, data[:3], at)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            slot.write(b"other")
    slot.write(b"other")
    slot.close()

    assert read_slot(slot.path) == b"other"


def test_nobody_writes_to_the_mark_while_it_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = MarkFile(str(tmp_path / "record"), HighWaterMark())
    Path(mark.path).unlink()
    is_held = list[bool]()

    def replace(path: str, line: bytes) -> None:
        is_held.append(mark._lock.locked())
        replace_file(path, line)

    monkeypatch.setattr("hooklatch.record.storage.slots.replace_file", replace)
    mark.reopen()
    mark.save(lost=1)
    mark.close()

    assert is_held == [True]
    assert read_mark(str(tmp_path / "record")) == HighWaterMark(lost=1)

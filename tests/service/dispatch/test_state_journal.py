"""The file that keeps what hooks remember: what is read back, and that what cannot be read is never nothing."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from hooklatch.service.dispatch.state_journal import HEADER, JournalError, StateChange, StateJournal, seal_change


def change(key: str, value: str = "1") -> StateChange:
    return StateChange(1.0, "global", "", "/guards.py", "", key, value, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def kept(folder: Path) -> list[str]:
    journal = StateJournal(str(folder))
    try:
        return [one.key for one in journal.open()]
    finally:
        journal.close()


def filled(folder: Path, *keys: str) -> Path:
    journal = StateJournal(str(folder))
    list(journal.open())
    for key in keys:
        journal.append(seal_change(change(key)))
    journal.close()
    return folder / "kept-state"


def test_what_was_appended_is_read_in_its_order(folder: Path) -> None:
    filled(folder, "a", "b")
    filled(folder, "c")

    assert kept(folder) == ["a", "b", "c"]
    assert (folder / "kept-state").stat().st_mode & 0o777 == 0o600


def test_a_last_line_without_its_end_was_never_told_of(folder: Path) -> None:
    path = filled(folder, "a", "b")
    whole = path.read_bytes()
    for cut in range(1, len(seal_change(change("b")))):
        path.write_bytes(whole[:-cut])
        assert kept(folder) == ["a"]
    filled(folder, "c")

    assert kept(folder) == ["a", "c"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: HEADER[:-1],
        lambda data: b"another file\n",
        lambda data: data.replace(b'"a"', b'"x"'),
        lambda data: data.replace(b'"1"', b'"9"', 1),
        lambda data: data[: len(HEADER)] + data[len(HEADER) + 1 :],
        lambda data: data + b"\n",
        lambda data: data + b"00000000 []\n",
        lambda data: data + b"garbage garbage\n",
        lambda data: data + b"\0" * 64 + b"\n",
    ],
)
def test_what_is_not_as_it_was_written_is_a_fault_and_stays_as_it_is(folder: Path, spoil: object) -> None:
    path = filled(folder, "a", "b")
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]
    before = path.read_bytes()

    with pytest.raises(JournalError, match=r"kept-state:\d+: the line is damaged; .*delete it"):
        kept(folder)
    assert path.read_bytes() == before


def test_a_file_that_others_could_write_is_a_fault(folder: Path) -> None:
    filled(folder, "a").chmod(0o666)

    with pytest.raises(JournalError, match="chmod"):
        kept(folder)


def test_what_could_not_be_written_whole_is_taken_back(folder: Path) -> None:
    """The limit on the size of files stands in for a disk that is full."""
    filled(folder, "a")
    journal = StateJournal(str(folder))
    list(journal.open())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.size + 10, before[1]))
    try:
        with pytest.raises(JournalError, match="cannot be written"):
            journal.append(seal_change(change("b")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.append(seal_change(change("c")))
    journal.close()

    assert kept(folder) == ["a", "c"]


def test_a_part_that_could_not_be_taken_back_is_cut_off_once_the_disk_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(folder, "a")
    journal = StateJournal(str(folder))
    list(journal.open())
    line = seal_change(change("b"))

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as failing:
        write = os.write
        failing.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        failing.setattr(os, "ftruncate", refuse)
        for _ in range(2):
            with pytest.raises(JournalError, match="cannot be written"):
                journal.append(line)
    assert Path(journal.path).read_bytes().endswith(line[:5])
    journal.append(seal_change(change("c")))
    journal.close()

    assert kept(folder) == ["a", "c"]


def test_what_is_changed_while_the_file_is_rewritten_is_in_the_new_one(folder: Path) -> None:
    filled(folder, "a", "b")
    journal = StateJournal(str(folder))
    list(journal.open())
    journal.begin_rewriting()
    journal.append(seal_change(change("c")))
    fd = journal.write_beside(seal_change(change("b")))
    journal.append(seal_change(change("d")))
    journal.replace_by(fd)
    journal.append(seal_change(change("e")))
    assert journal.is_in_place()
    assert journal.size == os.stat(journal.path).st_size
    journal.close()

    assert kept(folder) == ["b", "c", "d", "e"]
    assert os.listdir(folder) == ["kept-state"]


def test_a_file_that_was_taken_away_is_noticed(folder: Path) -> None:
    filled(folder)
    journal = StateJournal(str(folder))
    list(journal.open())
    os.unlink(journal.path)

    assert not journal.is_in_place()
    journal.close()

"""The only writer of a directory: start, records, end, settings."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from hooklatch.core.messages import ChainHead
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.chain import seal_entry
from hooklatch.record.writer import RecordError, RecordWriter
from support.daemons import nothing_left
from support.records import SETTINGS, decision, fact, kinds, lines, opened, records, segments


def test_a_record_tells_of_its_start_and_its_end(tmp_path: Path) -> None:
    with nothing_left(), opened(tmp_path / "record") as record:
        head = record.append_decision(decision(), fact())

    assert kinds(tmp_path / "record") == ["segment", "started", "decision", "stopped"]
    started = records(tmp_path / "record")[1]
    assert (started["pid"], started["after"], started["durability"]) == (os.getpid(), "nothing", "written")
    assert head == ChainHead(3, records(tmp_path / "record")[2]["hash"][:32])


def test_each_record_holds_the_hash_of_the_one_before(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        for number in range(5):
            record.append_decision(decision(number), fact())

    found = records(tmp_path)
    assert [one["seq"] for one in found] == list(range(1, 9))
    assert [one["prev"] for one in found] == ["0" * 64, *(one["hash"] for one in found[:-1])]


def test_folder_and_files_are_private_whatever_the_umask_was(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        (tmp_path / "record").mkdir(mode=0o777)
        with opened(tmp_path / "record") as record:
            record.append_decision(decision(), fact())
    finally:
        os.umask(before)

    assert (tmp_path / "record").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "record").iterdir()} == {0o600}


def test_the_next_start_goes_on_with_the_chain_in_the_same_segment(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        last = record.append_decision(decision(), fact())
    with opened(tmp_path) as record:
        head = record.append_decision(decision(2), fact())

    assert (last, head) != (None, None)
    assert len(segments(tmp_path)) == 1
    assert kinds(tmp_path) == ["segment", "started", "decision", "stopped", "started", "decision", "stopped"]
    assert [one["after"] for one in records(tmp_path) if one["kind"] == "started"] == ["nothing", "stop"]


def test_a_start_without_an_end_before_it_says_crash(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    data = segments(tmp_path)[0].read_bytes()
    segments(tmp_path)[0].write_bytes(b"".join(data.splitlines(keepends=True)[:-1]))
    (tmp_path / "anchor").unlink()

    with opened(tmp_path):
        pass

    assert [one["after"] for one in records(tmp_path) if one["kind"] == "started"] == ["nothing", "crash"]


def test_a_second_writer_is_refused_and_named(tmp_path: Path) -> None:
    with opened(tmp_path):
        with nothing_left(), pytest.raises(RecordError, match=rf"another process \(pid {os.getpid()}\) writes"):
            RecordWriter(str(tmp_path), SETTINGS)

        assert kinds(tmp_path) == ["segment", "started"]
    with opened(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)

    with pytest.raises(RecordError, match="belongs to another user"):
        RecordWriter(str(tmp_path), SETTINGS)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with nothing_left(), pytest.raises(RecordError, match="cannot be opened in"):
        RecordWriter(str(tmp_path / "file" / "record"), SETTINGS)


@pytest.mark.parametrize("name", ["lock", "0000000000000001.jsonl"])
def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path, name: str) -> None:
    line, _ = seal_entry(1, "0" * 64, "2026-01-31T12:00:00.000Z", "segment", b"{}")
    (tmp_path / "elsewhere").write_bytes(line)
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / name).symlink_to(tmp_path / "elsewhere")

    with nothing_left(), pytest.raises(RecordError):
        RecordWriter(str(tmp_path / "record"), SETTINGS)

    assert (tmp_path / "elsewhere").read_bytes() == line


@pytest.mark.parametrize("name", ["record/anchor", "record.mark"])
def test_a_link_in_the_place_of_what_lies_beside_is_replaced_and_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").write_bytes(b"x")
    (tmp_path / "record").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")

    with opened(tmp_path / "record") as record:
        faults = record.status()["faults"]

    assert "cannot be read: Too many levels of symbolic links" in faults[0]
    assert (tmp_path / "elsewhere").read_bytes() == b"x"
    assert not (tmp_path / name).is_symlink()


def test_what_is_no_gate_is_recorded_too(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.append_decision(decision(event="stop", verdict="pass"), fact(is_gate=False))

    assert records(tmp_path)[2]["gate"] is False


def test_a_gate_whose_client_left_is_recorded_as_abandoned(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        facts = fact()
        record.append_abandoned("pre_tool_use", "d-9", 7, facts)

    found = records(tmp_path)[2]
    assert (found["kind"], found["cause"], found["decision_id"]) == ("abandoned", "abandoned", "d-9")
    assert found["payload_digest"] == facts.payload.digest()
    assert "verdict" not in found


def test_anything_else_is_recorded_with_its_fields_and_without_secrets(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        head = record.append("suspended", hook=None, reason="password=hunter2 is in the way", until=12.5)

    found = records(tmp_path)[head.seq - 1]
    assert (found["kind"], found["hook"], found["until"]) == ("suspended", None, 12.5)
    assert found["reason"] == "[redacted] is in the way"


def test_json_as_somebody_else_spelled_it_is_not_recorded_unseen(tmp_path: Path) -> None:
    with opened(tmp_path) as record, pytest.raises(TypeError, match="Raw"):
        record.append("settings", given=msgspec.Raw(rb'"sk\u002dabcdefghijklmnop1234"'))

    assert kinds(tmp_path) == ["segment", "started", "stopped"]


def test_the_moment_is_that_of_the_clock(tmp_path: Path) -> None:
    with opened(tmp_path, clock=lambda: 1769860800.25) as record:
        record.append("reloaded")

    assert {one["at"] for one in records(tmp_path)} == {"2026-01-31T12:00:00.250Z"}


def test_after_its_end_a_gate_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        pass

    with pytest.raises(RecordError, match="the daemon is about to end"):
        record.append_decision(decision(), fact())
    assert record.append_refusal(decision(), fact()) is None
    record.close()


def test_other_settings_hold_from_the_next_record_on_and_are_recorded(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.apply(SETTINGS)
        record.apply(msgspec.structs.replace(SETTINGS, excerpt_bytes=0, redact=("x",)))
        record.append_decision(decision(), fact())

    assert kinds(tmp_path) == ["segment", "started", "settings", "decision", "stopped"]
    assert records(tmp_path)[2]["changed"] == {"excerpt_bytes": 0, "redact": ["x"]}
    assert "excerpt" not in records(tmp_path)[3]


def test_the_status_says_how_the_record_is(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        head = record.append_decision(decision(), fact())
        status = record.status()
        size = sum(path.stat().st_size for path in segments(tmp_path))

    assert json.loads(msgspec.json.encode(status))["head"] == {"seq": 3, "hash": head.hash if head else ""}
    assert (status["folder"], status["durability"], status["stage"]) == (str(tmp_path), "written", "normal")
    assert (status["segment"], status["segments"], status["bytes"]) == ("0000000000000001.jsonl", 1, size)
    assert (status["faults"], status["warnings"], status["unrecorded"]) == ([], [], {})
    assert (status["synced_seq"], status["reserve_bytes"] >= 2**20) == (0, True)


@pytest.mark.linux_only("blocks that are kept beyond the end of a file (fallocate)")
def test_what_is_kept_free_behind_the_end_is_given_back(tmp_path: Path) -> None:
    with opened(tmp_path):
        (path,) = segments(tmp_path)
        allocated = path.stat().st_blocks * 512

    assert allocated >= 2**20
    assert path.stat().st_blocks * 512 < 2**16


def test_the_format_is_what_the_page_says_so_that_other_tools_can_read_it(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        record.append_decision(decision(), fact())

    form = re.compile(
        rb'\{"seq":\d+,"prev":"[0-9a-f]{64}","at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","kind":"[a-z]+".*'
        rb',"hash":"[0-9a-f]{64}"\}\n'
    )
    written = lines(tmp_path)
    assert len(written) > 1
    assert all(form.fullmatch(line) for line in written)


def test_a_default_record_keeps_thirty_days_and_a_gib() -> None:
    settings = RecordSettings()

    assert (settings.durability, settings.keep_age, settings.keep_bytes) == ("written", 30 * 86400, 2**30)


def test_a_pipe_in_the_place_of_a_segment_is_said_and_holds_nobody_up(tmp_path: Path) -> None:
    with nothing_left():
        with opened(tmp_path) as record:
            record.append_decision(decision(), fact())
        os.mkfifo(tmp_path / "0000000000009999.jsonl")
        with pytest.raises(RecordError, match=r"/0000000000009999\.jsonl cannot be accessed: it is not a regular file"):
            RecordWriter(str(tmp_path), SETTINGS)

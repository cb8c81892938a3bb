"""Payloads that are kept whole: what is in their lines, what their record says, what becomes of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.core.call import EventEnvelope
from hooklatch.record.entries import FireFacts
from hooklatch.record.payload_files import (
    MAX_KEPT,
    KeptPayload,
    find_payload_places,
    list_files,
    list_redacted_places,
    payload_folder,
    read_payload_line,
)
from hooklatch.record.payload_keeping import BACK_OFF, Payloads
from hooklatch.record.storage.disk_space import DiskStage
from hooklatch.record.verify import verify_record
from hooklatch.record.writer import RecordWriter
from support.daemons import nothing_left
from support.records import SETTINGS, decision, fact, needs_root, opened, records, running, tiny_disk

FULL = msgspec.structs.replace(SETTINGS, payloads="full")


def told(payload: object, **envelope: Any) -> FireFacts:
    fields: dict[str, Any] = dict.fromkeys(EventEnvelope.__struct_fields__)
    fields |= {"event": "pre_tool_use", "context": {}}
    given = EventEnvelope(**(fields | {"session_id": "s1", "cwd": "/w", "host": "codex"} | envelope))
    return msgspec.structs.replace(fact(payload), decision_id="d-1", envelope=given)


def kept(record: RecordWriter, payload: object, **envelope: Any) -> dict[str, Any]:
    """Record a decision on a payload; return its record."""
    record.append_decision(decision(), told(payload, **envelope))
    return records(Path(record.folder))[-1]


def line(folder: Path, entry: dict[str, Any]) -> bytes:
    return read_payload_line(
        find_payload_places(payload_folder(str(folder)), [entry["payload_kept"]])[entry["payload_kept"]]
    )


def findings(folder: Path) -> list[tuple[str, int | None]]:
    return [(one.what, one.seq) for one in verify_record(str(folder)).findings]


def test_a_payload_is_kept_whole_with_what_hooks_were_told(tmp_path: Path) -> None:
    payload = {"tool_name": "Write", "tool_input": {"content": "x" * 50_000}}
    with nothing_left(), opened(tmp_path, FULL) as record:
        entry = kept(record, payload, metadata={"a": 1}, context={"by": "host"})

    found = msgspec.json.decode(line(tmp_path, entry), type=KeptPayload)
    assert msgspec.json.decode(found.payload) == payload
    assert (found.envelope.host, found.envelope.cwd, found.envelope.metadata) == ("codex", "/w", {"a": 1})
    assert (found.event, found.decision_id, found.context) == ("pre_tool_use", "d-1", {"by": "host"})
    assert verify_record(str(tmp_path)).payloads == 1


def test_a_clean_payload_is_kept_to_the_byte(tmp_path: Path) -> None:
    with opened(tmp_path, FULL) as record:
        entry = kept(record, b'{ "n" : 1.00 }')

    assert b'"payload":{ "n" : 1.00 }' in line(tmp_path, entry)


def test_secrets_are_replaced_as_in_the_record_also_far_inside_a_long_text(tmp_path: Path) -> None:
    key = "sk-" + "a" * 30
    payload = {"tool_input": {"api_key": "abc", "content": "x " * 40_000 + key + " y" * 40_000}, "n": "1\n2"}
    with opened(tmp_path, FULL) as record:
        entry = kept(record, payload)

    plain = json.loads(line(tmp_path, entry))["payload"]
    assert plain["tool_input"]["api_key"] == "[redacted]"
    assert key not in plain["tool_input"]["content"]
    assert len(plain["tool_input"]["content"]) > 150_000
    assert list(list_redacted_places(plain)) == ["tool_input.api_key", "tool_input.content"]


def test_nothing_is_kept_unless_the_settings_say_so(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        entry = kept(record, {"a": 1})

    assert "payload_kept" not in entry
    assert not Path(payload_folder(str(tmp_path))).exists()


def test_what_is_not_kept_is_said(tmp_path: Path) -> None:
    with opened(tmp_path, FULL) as record:
        entry = kept(record, {"a": "x" * MAX_KEPT})
        status = record.status()["payloads"]

    assert (entry["payload_unkept"], entry["verdict"]) == ("it has over 1 MiB", "deny")
    assert (status["kept"], status["unkept"]) == (0, 1)
    assert findings(tmp_path) == []


def test_folder_and_files_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path / "record", FULL) as record:
            kept(record, {"a": 1})
    finally:
        os.umask(before)

    folder = Path(payload_folder(str(tmp_path / "record")))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_crash_at_any_byte_loses_what_was_cut_and_no_more(tmp_path: Path) -> None:
    with opened(tmp_path, FULL) as record:
        entries = [kept(record, {"number": number}) for number in range(3)]
    (file,) = list_files(payload_folder(str(tmp_path)))
    data = Path(file.path).read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]

    for cut in range(len(data) + 1):
        Path(file.path).write_bytes(data[:cut])
        lost = [("payload", entry["seq"]) for entry, end in zip(entries, ends, strict=True) if end > cut]
        assert findings(tmp_path) == lost

    Path(file.path).write_bytes(data[: ends[1] + 5])
    with opened(tmp_path, FULL) as record:
        later = kept(record, {"number": 3})
    assert json.loads(line(tmp_path, later))["payload"] == {"number": 3}
    assert findings(tmp_path) == [("payload", entries[2]["seq"])]


def test_a_payload_that_somebody_changed_is_found(tmp_path: Path) -> None:
    with opened(tmp_path, FULL) as record:
        first, second = kept(record, {"command": "rm"}), kept(record, {"command": "ls"})
    (file,) = list_files(payload_folder(str(tmp_path)))
    Path(file.path).write_bytes(Path(file.path).read_bytes().replace(b'"rm"', b'"no"'))

    assert findings(tmp_path) == [("payload", first["seq"])]
    Path(file.path).unlink()
    assert findings(tmp_path) == [("payload", first["seq"]), ("payload", second["seq"])]


def test_a_payload_cannot_name_one_itself(tmp_path: Path) -> None:
    with opened(tmp_path) as record:
        kept(record, {"payload_kept": "ab" * 32})

    assert findings(tmp_path) == []


async def test_retention_is_on_record_before_it_removes_anything(tmp_path: Path) -> None:
    small = msgspec.structs.replace(FULL, payloads_bytes=8 * 1000)
    async with running(tmp_path, small) as record:
        entries = [kept(record, {"text": f"{number} " * 200}) for number in range(20)]
        before = len(list_files(payload_folder(str(tmp_path))))
        await record._retire()  # pyright: ignore[reportPrivateUsage]  # what it does once a minute
        left = list_files(payload_folder(str(tmp_path)))

    removed = [one for one in records(tmp_path) if one["kind"] == "payloads"]
    assert 1 < len(left) < before
    assert {one["kept_seq"] for one in removed} == {left[0].first}
    assert sum(os.stat(one.path).st_size for one in left) <= 8 * 1000
    assert findings(tmp_path) == []
    os.unlink(left[0].path)  # what somebody else removes is still found
    assert findings(tmp_path)[0] == ("payload", next(one["seq"] for one in entries if one["seq"] >= left[0].first))


async def test_old_payloads_go_also_when_none_are_kept_any_more(tmp_path: Path) -> None:
    with opened(tmp_path, FULL) as record:
        kept(record, {"a": 1})
    async with running(tmp_path, msgspec.structs.replace(SETTINGS, payloads_age=0.0)) as record:
        await record._retire()  # pyright: ignore[reportPrivateUsage]

    assert list_files(payload_folder(str(tmp_path))) == []
    assert findings(tmp_path) == []


def test_a_folder_that_cannot_be_written_costs_no_decision_and_is_said(tmp_path: Path) -> None:
    Path(payload_folder(str(tmp_path))).write_text("in the way")
    with nothing_left(), opened(tmp_path, FULL) as record:
        entry = kept(record, {"a": 1})
        (warning,) = record.status()["warnings"]

    assert entry["verdict"] == "deny"
    assert entry["payload_unkept"] == "it could not be written"
    assert warning.startswith("payloads cannot be kept in ")
    assert findings(tmp_path) == []


def test_it_is_tried_again_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    payloads = Payloads(str(tmp_path), FULL, clock=lambda: now[0], now=lambda: now[0])
    blocker = Path(payloads.folder)
    blocker.write_text("in the way")

    outcomes: list[bool] = []
    for moment in (0.0, BACK_OFF / 2, BACK_OFF * 2):
        now[0] = moment
        one = told({"a": 1})
        one.line = b"{}\n"
        payloads.keep(one, seq=1, stage=DiskStage.NORMAL)
        outcomes.append(one.payload_kept is not None)
        blocker.unlink(missing_ok=True) if blocker.is_file() else None
    payloads.close()

    assert outcomes == [False, False, True]
    assert payloads.fault is None


@needs_root
def test_on_a_disk_that_fills_up_payloads_stop_first(tmp_path: Path) -> None:
    """Slow: it mounts a disk."""
    with tiny_disk(tmp_path / "disk", 8 * 1024) as disk:
        limits = {"low_bytes": 4 * 2**20, "critical_bytes": 2**20, "full_bytes": 2**19}
        with opened(disk / "record", msgspec.structs.replace(FULL, **limits), reserve=2**16) as record:
            entries = []
            for _ in range(40):
                entries.append(kept(record, {"text": "x" * 200_000}))
                record._space.look()  # pyright: ignore[reportPrivateUsage]  # as once a second
        free = os.statvfs(disk)

    unkept = [one for one in entries if "payload_unkept" in one]
    assert 0 < len(unkept) < len(entries)
    assert {one["payload_unkept"] for one in unkept} == {"the disk is getting full"}
    assert all("excerpt" in one or "excerpt_cut" in one for one in entries), "the record itself goes on as before"
    assert free.f_bavail * free.f_frsize > 3 * 2**20


def test_a_pipe_in_the_place_of_payloads_is_a_finding_and_holds_nobody_up(tmp_path: Path) -> None:
    with nothing_left():
        with opened(tmp_path, FULL) as record:
            kept(record, {"tool_name": "Bash"})
        (file,) = list_files(payload_folder(str(tmp_path)))
        os.unlink(file.path)
        os.mkfifo(file.path)
        found = verify_record(str(tmp_path))

    assert [(one.what, one.seq) for one in found.findings] == [("payload", None)]
    assert f"{file.path} cannot be accessed: it is not a regular file" in found.findings[0].text
    assert found.head is not None


@pytest.mark.parametrize("levels", [3, 150, 5000])
def test_no_secret_lies_too_deep_in_the_json_of_a_text(tmp_path: Path, levels: int) -> None:
    text = '{"a":' * levels + '{"Cookie": "hunter2"}' + "}" * levels
    with nothing_left(), opened(tmp_path, FULL) as record:
        entry = kept(record, {"tool_input": {"text": text}})

    assert b"hunter2" not in line(tmp_path, entry)
    assert [*list_redacted_places(msgspec.json.decode(line(tmp_path, entry)))] == ["payload.tool_input.text"]


def test_the_entry_of_the_folder_of_payloads_is_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr("hooklatch.record.payload_keeping.sync_folder", synced.append)

    with opened(tmp_path, FULL) as record:
        kept(record, {"a": 1})

    assert synced == [str(tmp_path / "payloads"), str(tmp_path)]

"""What tests of the record share: decisions to record, a record of one's own, its lines, a tiny disk."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hooklatch.core.messages import CallOutcome, ChainHead, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.record.findings import RecordFinding
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.mark import mark_path
from hooklatch.record.verify import verify_record
from hooklatch.record.writer import FireFacts, RecordWriter
from support.daemons import nothing_left

SETTINGS = RecordSettings(low_bytes=0, critical_bytes=0, full_bytes=0)
SYNC = msgspec.structs.replace(SETTINGS, durability="sync")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")


def decision(number: int = 1, **changes: Any) -> FireDecision:
    """Make a deny by one hook."""
    outcome = CallOutcome(
        layer="global", hook="guards:no_rm", outcome="answered", verdict="deny", cause="policy", message="no rm",
        duration_ms=1.5,
    )  # fmt: skip
    made = FireDecision(
        decision_id=f"d-{number}", event="pre_tool_use", verdict="deny", cause="policy", reason="no rm", layer="global",
        hook="guards:no_rm", retryable=False, patch=None, payload_digest="ab" * 32, append=None, resume=None,
        value=None, revision=7, duration_ms=2.5, outcomes=[outcome],
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def fact(payload: object = None, *, is_gate: bool = True, session: str | None = "s1", **place: Any) -> FireFacts:
    """Make the facts of a fire; the payload is an object, or JSON as bytes."""
    given = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}} if payload is None else payload
    data = given if isinstance(given, bytes) else json.dumps(given, ensure_ascii=False).encode()
    return FireFacts(Payload(data), is_gate, session, **place)


def decided(record: RecordWriter, number: int = 1) -> ChainHead:
    """Record the decision of a gate."""
    head = record.append_decision(decision(number), fact())
    assert head is not None
    return head


def found_beyond_faults(folder: Path) -> list[RecordFinding]:
    """Return what verify finds beside the faults that the record tells itself."""
    return [finding for finding in verify_record(str(folder)).findings if finding.what != "fault"]


@contextmanager
def opened(folder: Path, settings: RecordSettings = SETTINGS, **options: Any) -> Generator[RecordWriter]:
    """Open a record in `folder`, and close it afterwards."""
    record = RecordWriter(str(folder), settings, **options)
    try:
        yield record
    finally:
        record.close()


@asynccontextmanager
async def running(folder: Path, settings: RecordSettings = SETTINGS, **options: Any) -> AsyncGenerator[RecordWriter]:
    """Open a record and run its background for as long as the block lasts; nothing of it is left."""
    with nothing_left(), opened(folder, settings, **options) as record:
        async with trio.open_nursery() as nursery:
            await nursery.start(record.run)
            yield record
            nursery.cancel_scope.cancel()


class Beside:
    """The anchor and the mark, as they are now: so a crash would leave them."""

    def __init__(self, folder: Path) -> None:
        self._files = {path: path.read_bytes() for path in (folder / "anchor", mark_of(folder))}

    def restore(self) -> None:
        for path, data in self._files.items():
            path.write_bytes(data)


def mark_of(folder: Path) -> Path:
    return Path(mark_path(str(folder)))


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def lines(folder: Path) -> list[bytes]:
    return [line for path in segments(folder) for line in path.read_bytes().splitlines(keepends=True)]


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(folder)]


def kinds(folder: Path) -> list[str]:
    return [record["kind"] for record in records(folder)]


def recorded(given: FireDecision, facts: FireFacts, folder: Path, **settings: Any) -> dict[str, Any]:
    """Record one decision in a folder of its own; give what stands there."""
    with opened(folder, msgspec.structs.replace(SETTINGS, **settings)) as record:
        record.append_decision(given, facts)
    (found,) = (one for one in records(folder) if one["kind"] == "decision")
    return found


@contextmanager
def tiny_disk(folder: Path, kib: int) -> Iterator[Path]:
    """Mount a disk of so many KiB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=700", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> Path:
    """Take every free byte of a disk."""
    path = folder / "ballast"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except OSError:
        return path
    finally:
        os.close(fd)

"""Storage for the decision record: segment files or SQLite, side by side in one run, on the same disk.

append      one decision record at a time, from one caller (p50, p99): the latency added to each gate
durable     32 writers at once, each waiting until its record is on disk: group commit against single commits
query       the records of one session among all that were written
bytes       disk space in total

files       our own: a line is sealed into the chain and written; `sync` waits for the group sync
sqlite      WAL, with an index on the session; NORMAL (safe against a killed process) and FULL (against power failure).
            It stores the same lines with the same chain, so that only the storage is compared

Bad would be: files slower than SQLite at appends or durable appends.  A query may be slower, since people make it, but
every gate appends.

Run: python bench/record_storage.py [--records N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import trio

from hooklatch.core.messages import CallOutcome, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.record.entries import FireFacts, encode_decision_entry
from hooklatch.record.redaction import Redactor, excerpt_payload
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.chain import GENESIS, format_timestamp, seal_entry
from hooklatch.record.storage.querying import LogQuery, query_record
from hooklatch.record.writer import RecordWriter
from machine import Summary, describe, save, summary

__all__ = ["measure", "show"]

SESSIONS = 2000  # that the records are spread over
WRITERS = 32
SETTINGS = RecordSettings(segment_bytes=2**40)
TABLE = """
create table record (seq integer primary key, session text, event text, verdict text, line blob not null);
create index by_session on record (session);
"""
REASON = "force pushes are not allowed here"
OUTCOME = CallOutcome(
    layer="global", hook="guards:no_force_push", outcome="answered", verdict="deny", cause="policy", message=REASON,
    duration_ms=1.2,
)  # fmt: skip
DECISION = FireDecision(
    decision_id="3f2a9c1e-1", event="pre_tool_use", verdict="deny", cause="policy", reason=REASON, layer="global",
    hook="guards:no_force_push", retryable=False, patch=None, payload_digest="5b" * 32, append=None, resume=None,
    value=None, revision=1795300667911, duration_ms=1.5, outcomes=[OUTCOME],
)  # fmt: skip
PAYLOAD = json.dumps({
    "tool_name": "Bash", "tool_use_id": "toolu_01AbCdEf",
    "tool_input": {"command": "git push --force origin main", "description": "Push the branch"},
}).encode()  # fmt: skip


def fact(number: int) -> FireFacts:
    return FireFacts(Payload(PAYLOAD), True, f"session-{number % SESSIONS}", number, "claude-code", "/home/me/project")


class Sqlite:
    """The same chain in a table, one row per record."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("pragma journal_mode = wal")
        self.db.execute(f"pragma synchronous = {synchronous}")
        self.db.executescript(TABLE)
        self.lock = threading.Lock()
        self._redactor = Redactor(SETTINGS)
        self._seq, self._hash = 0, GENESIS

    def decided(self, decision: FireDecision, fact: FireFacts) -> None:
        limit, redactor = SETTINGS.excerpt_bytes, self._redactor
        fact.redactor, fact.limit = redactor, limit
        fact.excerpt, fact.excerpt_cut = excerpt_payload(fact.payload, limit, redactor)
        body = encode_decision_entry(decision, fact, redactor)
        self._seq += 1
        line, self._hash = seal_entry(self._seq, self._hash, format_timestamp(time.time()), "decision", body)
        row = (self._seq, fact.session, decision.event, decision.verdict, line)
        self.db.execute("insert into record values (?, ?, ?, ?, ?)", row)

    def of_session(self, session: str) -> list[bytes]:
        rows = self.db.execute("select line from record where session = ? order by seq", (session,))
        return [line for (line,) in rows]


def timed(rounds: int, act: Callable[[int], object]) -> Summary:
    series: list[float] = []
    for number in range(rounds):
        began = time.perf_counter()
        act(number)
        series.append((time.perf_counter() - began) * 1000)
    return summary(series)


async def write_files(folder: Path, records: int, rounds: int) -> dict[str, object]:
    """Measure segment files, with their background task running as in the daemon."""
    record = RecordWriter(str(folder), SETTINGS)
    found: dict[str, object] = {}
    async with trio.open_nursery() as nursery:
        await nursery.start(record.run)
        series: list[float] = []
        for number in range(records):
            given = fact(number)
            began = time.perf_counter()
            record.append_decision(DECISION, given)
            series.append((time.perf_counter() - began) * 1000)
            if number % 100 == 0:
                await trio.lowlevel.checkpoint()  # lets the group sync run every 25 ms
        found["append"] = summary(series)
        record.apply(msgspec.structs.replace(SETTINGS, durability="sync"))
        found["durable"], found["durable_a_second"] = await write_together(record, rounds)
        nursery.cancel_scope.cancel()
    record.close()
    found["bytes"] = size_of(folder)
    return found


async def write_together(record: RecordWriter, rounds: int) -> tuple[Summary, float]:
    series: list[float] = []

    async def write() -> None:
        for number in range(rounds):
            began = time.perf_counter()
            await record.durable(record.append_decision(DECISION, fact(number)))
            series.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(WRITERS):
            nursery.start_soon(write)
    return summary(series), len(series) / (time.perf_counter() - began)


def write_sqlite(path: Path, synchronous: str, records: int, rounds: int) -> dict[str, object]:
    """Measure SQLite: one writer, then one thread per waiting writer, one commit per record."""
    store = Sqlite(path, synchronous)
    with closing(store.db):
        found: dict[str, object] = {"append": timed(records, lambda number: store.decided(DECISION, fact(number)))}
        store.db.execute("pragma synchronous = full")
        series: list[float] = []

        def write() -> None:
            for number in range(rounds):
                began = time.perf_counter()
                with store.lock:
                    store.decided(DECISION, fact(number))
                series.append((time.perf_counter() - began) * 1000)

        began = time.perf_counter()
        threads = [threading.Thread(target=write) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found["durable"], found["durable_a_second"] = summary(series), len(series) / (time.perf_counter() - began)
        found["query"] = timed(20, lambda number: store.of_session(f"session-{number}"))
    found["bytes"] = size_of(path.parent)
    return found


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def measure(records: int, rounds: int) -> dict[str, object]:
    """Run all measurements in one temporary folder."""
    with tempfile.TemporaryDirectory(prefix="record-", dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        files = trio.run(write_files, folder / "files", records, rounds)
        queries = timed(20, lambda number: query_record(str(folder / "files"), LogQuery(session=f"session-{number}")))
        results: dict[str, object] = {"files": files | {"query": queries}}
        for synchronous in ("normal", "full"):
            place = folder / synchronous
            place.mkdir()
            # A commit that waits for the disk takes a thousand times as long: fewer of them suffice.
            count = records if synchronous == "normal" else max(records // 20, 1000)
            results[f"sqlite, {synchronous}"] = write_sqlite(place / "record.db", synchronous, count, rounds)
    return {"machine": describe(), "records": records, "writers": WRITERS, "results": results}


def show(found: dict[str, object]) -> None:
    """Print a table of the results."""
    print(json.dumps(found["machine"]))
    for name, one in msgspec.to_builtins(found["results"]).items():
        for what in ("append", "durable", "query"):
            print(f"{name:<16}{what:<10}p50 {one[what]['p50_ms']:9.4f} ms   p99 {one[what]['p99_ms']:9.4f} ms")
        print(f"{name:<16}{one['durable_a_second']:.0f} durable a second, {one['bytes'] / 2**20:.1f} MiB in all")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="what the decision record is best kept in")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="few records: to see that it runs")
    arguments = parser.parse_args()
    found = measure(2_000 if arguments.quick else arguments.records, 5 if arguments.quick else 100)
    save("record_storage_quick" if arguments.quick else "record_storage", found)
    show(found)

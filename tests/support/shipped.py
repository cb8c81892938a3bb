"""What tests of the sink share: records of a real record, shipped to a real engine as a link does."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeVar

import trio

from hooklatch.cli.commands import run
from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import Engine, RecordBatch
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.logs.reading import FleetLogEntry, HostLog
from hooklatch.fleet.manifests import PolicyHead
from hooklatch.fleet.reports import HostReport, RecordHead, encode_report
from hooklatch.fleet.settings import DEFAULT_FIELDS, RECORD_FIELDS
from hooklatch.record.storage.chain import GENESIS, read_link, seal_entry
from hooklatch.record.writer import RecordWriter
from support.commands import Place
from support.described import check
from support.records import SETTINGS, decision, fact, lines
from support.redis_server import RedisServer

__all__ = [
    "ALL",
    "FLEET",
    "FleetCommands",
    "ask",
    "chain",
    "entry_of",
    "ship",
    "ship_lines",
    "stop_decisions",
    "tell",
    "write_record",
]

T = TypeVar("T")
FLEET = "acme"
ALL = RECORD_FIELDS
AT_ONCE = 3  # records in a batch


def write_record(folder: Path, count: int = 4, *, session: str = "s1", verdict: str = "deny") -> Path:
    """Write a record of some decisions, or go on with it, as a daemon does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    record = RecordWriter(str(folder), SETTINGS)
    for number in range(count):
        record.append_decision(decision(number, verdict=verdict), fact(session=session, cwd="/home/me/project"))
    record.close()
    return folder


def stop_decisions(folder: Path) -> int:
    return sum(b'"kind":"decision"' in line for line in lines(folder))


def chain(
    count: int,
    *,
    start: int = 1,
    prev: str = GENESIS,
    body: bytes = b'{"verdict":"allow"}',
    at: str = "2026-01-31T12:00:00.000Z",
) -> list[bytes]:
    """Return the lines of a chain of decisions."""
    made: list[bytes] = []
    for seq in range(start, start + count):
        line, prev = seal_entry(seq, prev, at, "decision", body)
        made.append(line)
    return made


def ask(server: RedisServer, work: Callable[[Engine], Awaitable[T]], *, fleet: str = FLEET) -> T:
    """Do something with the engine, and return what comes of it."""

    async def asked() -> T:
        async with open_engine(server.url, fleet) as engine:
            return await work(engine)

    return trio.run(asked)


async def ship_lines(
    engine: Engine, host: str, given: Sequence[bytes], *, epoch: int = 1, fields: Sequence[str] = DEFAULT_FIELDS,
    at_once: int = AT_ONCE,
) -> int:  # fmt: skip
    """Append lines of a record to a host's log, in small batches; return the last number."""
    last = 0
    for start in range(0, len(given), at_once):
        packed = pack_batch(host, epoch, given[start : start + at_once], fields)
        assert packed is not None
        await engine.append(host, epoch, RecordBatch(packed.first, packed.last, packed.data))
        last = packed.last
    return last


async def ship(engine: Engine, host: str, folder: Path, *, epoch: int = 1, after: int = 0, **how: object) -> int:
    """Ship what a record holds after a number."""
    given = [line for line in lines(folder) if (link := read_link(line)) is not None and link.seq > after]
    fields = how.get("fields", DEFAULT_FIELDS)
    assert isinstance(fields, tuple)
    return await ship_lines(engine, host, given, epoch=epoch, fields=fields)


async def tell(engine: Engine, host: str, folder: Path | None = None, **changes: object) -> None:
    """Report a host as its link does when all is well, but for the changes."""
    record = None
    if folder is not None:
        link = read_link(lines(folder)[-1])
        assert link is not None
        record = RecordHead(link.seq, link.hash)
    facts: dict[str, object] = {
        "host": host, "labels": ("ci",), "head": PolicyHead(), "health": "ready", "stale_s": 0.5, "epoch": 1,
        "record": record, "shipped": record.seq if record is not None else 0, "clock": int(time.time() * 1000),
    }  # fmt: skip
    await engine.report(host, encode_report(HostReport(**{**facts, **changes})))  # type: ignore[arg-type]


def entry_of(host: str, line: bytes, fields: Sequence[str]) -> FleetLogEntry:
    """Return a line of a record as it arrives."""
    packed = pack_batch(host, 1, [line], fields)
    assert packed is not None
    (entry,) = HostLog(host).take(1, RecordBatch(packed.first, packed.last, packed.data, 1)).entries
    return entry


class FleetCommands:
    """A fleet on the shared engine: commands about it, and what hosts do to it."""

    def __init__(self, server: RedisServer, place: Place, name: str) -> None:
        self.server = server
        self.place = place
        self.name = name

    def words(self, *words: str) -> list[str]:
        return ["fleet", *words, "--to", self.server.url, "--fleet", self.name]

    def run(self, *words: str) -> CompletedProcess[str]:
        """Run a command about this fleet to its end."""
        return self.run_as_given(*self.words(*words))

    def run_as_given(self, *words: str) -> CompletedProcess[str]:
        """Run a command to its end, in this process: one of its own costs more than all that it does."""
        given = [*words, "--config", str(self.place.config)]
        with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out, redirect_stderr(io.StringIO()) as err:
            try:
                code = run(given)
            except SystemExit as error:  # of the parser
                code = int(error.code or 0)
            out.flush()
        return CompletedProcess(given, code, out.buffer.getvalue().decode(), err.getvalue())

    def json(self, *words: str, code: int = 0) -> Any:
        done = self.run(*words, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        said = json.loads(done.stdout)
        check(f"fleet {'export otlp' if words[0] == 'export' else words[0]}", said)
        return said

    def lines(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        done = self.run(*words, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def do(self, work: Callable[[Engine], Any]) -> Any:
        return ask(self.server, work, fleet=self.name)

    def record(self, host: str) -> Path:
        return self.place.folder / host / "record"

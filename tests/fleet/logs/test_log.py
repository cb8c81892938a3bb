"""fleet log, against a real engine with what real records hold.

Slow: the engine and the daemons are processes of their own.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import Engine, LogFacts, RecordBatch
from hooklatch.fleet.logs.reading import FleetReader
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.record.storage.reading import read_moment
from support.commands import Place, new_place, serving
from support.records import lines, records
from support.redis_server import RedisServer, needs_redis
from support.shipped import ALL, FleetCommands, chain, ship, ship_lines, tell, write_record

pytestmark = [pytest.mark.slow, needs_redis]
WHO = ("build-1", "build-2", "laptop")


def test_every_hosts_records_come_once_and_in_order(fleet: FleetCommands) -> None:
    found = fleet.lines("log", "-n", "0")

    for host in WHO:
        own = [one for one in found if one["fleet_host"] == host]
        assert [{key: value for key, value in one.items() if not key.startswith("fleet_")} for one in own] == records(
            fleet.record(host)
        )
    arrivals = [one["fleet_at"] for one in found]
    assert arrivals == sorted(arrivals)


def test_the_newest_are_the_last_of_all_in_the_same_order(fleet: FleetCommands) -> None:
    everything = fleet.lines("log", "-n", "0")

    assert fleet.lines("log", "-n", "10") == everything[-10:]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--host", "build-1", "--kind", "decision"], 4),
        (["--host", "build-1", "--host", "laptop", "--kind", "decision"], 8),
        (["--verdict", "deny"], 8),
        (["--session", "s1", "--hook", "global/guards:no_rm", "--cause", "policy", "--event", "pre_tool_use"], 4),
        (["--verdict", "deny", "--since", "1h", "-n", "3"], 3),
    ],
)
def test_the_filters_are_those_of_log(fleet: FleetCommands, words: list[str], expected: int) -> None:
    assert len(fleet.lines("log", *words)) == expected


def test_a_list_that_stops_says_so(fleet: FleetCommands) -> None:
    stopped = fleet.run("log", "-n", "3", "--json")
    whole = fleet.run("log", "-n", "0", "--json")

    assert len(stopped.stdout.splitlines()) == 3
    assert "these are the newest 3, and there may be more; -n 0 shows all" in stopped.stderr
    assert (len(whole.stdout.splitlines()) > 3, whole.stderr) == (True, "")


LATER = 1_769_904_000_000  # ms since the epoch: a day after all records of `chain`


class Shelf(Engine):
    """A log of one host with a batch each second, that counts the batches which are read."""

    def __init__(self, count: int, *, is_made_when_it_arrives: bool = False) -> None:
        self.read = 0
        given = chain(count)
        if is_made_when_it_arrives:
            moments = (format_timestamp(LATER / 1000 + number) for number in range(1, count + 1))
            given = [chain(1, start=number, at=at)[0] for number, at in enumerate(moments, 1)]
        self._batches: list[RecordBatch] = []
        for number in range(1, count + 1):
            packed = pack_batch("a", 1, given[number - 1 : number], ())
            assert packed is not None
            self._batches.append(RecordBatch(number, number, packed.data, LATER + number * 1000))

    async def logs(self) -> AsyncIterator[tuple[str, int]]:
        yield "a", 1

    async def log_facts(self, host: str, epoch: int) -> LogFacts:
        return LogFacts(len(self._batches), len(self._batches), len(self._batches))

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> list[RecordBatch]:
        return self._take(self._batches[after : after + limit])

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> list[RecordBatch]:
        end = min(before - 1, len(self._batches))
        return self._take(self._batches[max(0, end - limit) : end][::-1])

    def _take(self, batches: list[RecordBatch]) -> list[RecordBatch]:
        self.read += len(batches)
        return batches


@pytest.mark.parametrize("way", ["forwards", "backwards"])
@pytest.mark.parametrize("wanted", [0, 10])
async def test_what_is_older_is_not_read(way: str, wanted: int) -> None:
    shelf = Shelf(10_000)

    found = [batch.batch.last async for batch in getattr(FleetReader(shelf), way)(LATER + (10_001 - wanted) * 1000)]

    assert sorted(found)[-wanted or 10_000 :] == list(range(10_001 - wanted, 10_001))
    assert shelf.read <= 150


@pytest.mark.parametrize("way", ["forwards", "backwards"])
@pytest.mark.parametrize("wanted", [0, 10])
async def test_what_is_newer_is_not_read(way: str, wanted: int) -> None:
    shelf = Shelf(10_000, is_made_when_it_arrives=True)

    found = [batch.batch.last async for batch in getattr(FleetReader(shelf), way)(0, LATER + wanted * 1000)]

    assert sorted(found)[:wanted] == list(range(1, wanted + 1))
    assert shelf.read <= 150


@pytest.mark.parametrize("word", ["needle-7", "needle\\u002d7", "\\u006eeedle-7"])
async def test_of_what_cannot_be_the_one_that_is_looked_for_nothing_is_decoded(word: str) -> None:
    """A host may write JSON as it likes, and hides no record of its own by that."""
    shelf = Shelf(50)
    packed = pack_batch("a", 1, chain(1, start=7, body=f'{{"decision_id":"{word}"}}'.encode()), ("decision_id",))
    assert packed is not None
    shelf._batches[6] = RecordBatch(7, 7, packed.data, LATER + 7000)

    batches = [batch async for batch in FleetReader(shelf, needles=[b"needle-7"]).forwards()]

    (found,) = (entry for batch in batches for entry in batch.entries)
    assert (len(batches), found.record.document["decision_id"]) == (50, "needle-7")


def test_a_host_whose_clock_is_ahead_is_found_though_it_ships_late(empty: FleetCommands) -> None:
    made = datetime.now(UTC)
    ahead, day = write_record(empty.record("a")), 24 * 3600

    async def work(engine: Engine) -> None:
        given = chain(3, at=format_timestamp(made.timestamp() + day))
        for number, line in enumerate(given, 1):
            packed = pack_batch("a", 1, [line], ())
            assert packed is not None
            await engine.append("a", 1, RecordBatch(number, number, packed.data))
        await tell(engine, "a", ahead, clock=int((made.timestamp() + day) * 1000))

    empty.do(work)
    since, until = (format_timestamp(made.timestamp() - seconds) for seconds in (3600, 1))

    assert len(empty.lines("log", "--since", since, "--until", until, "-n", "0")) == 3
    assert len(empty.lines("log", "--until", until, "--host", "a")) == 3
    early = format_timestamp(made.timestamp() - 300)
    assert empty.lines("log", "--until", early, "-n", "0") == []


def calls(server: RedisServer, command: str) -> int:
    found = re.search(rf"cmdstat_{command}:calls=(\d+)", server.command("INFO", "commandstats").decode())
    return int(found[1]) if found is not None else 0


def test_neither_names_nor_times_cost_the_reports_of_all_hosts(empty: FleetCommands) -> None:
    async def work(engine: Engine) -> None:
        await ship(engine, "a", write_record(empty.record("a")))
        for number in range(50):
            await tell(engine, f"h{number}")

    empty.do(work)
    before = calls(empty.server, "xrevrange")

    assert empty.lines("log", "-n", "0", "--host", "a")

    assert calls(empty.server, "xrevrange") - before <= 2


def test_a_time_finds_what_arrived_since_and_no_less(fleet: FleetCommands) -> None:
    everything = fleet.lines("log", "-n", "0")
    middle = everything[len(everything) // 2]["fleet_at"]
    since = datetime.fromtimestamp(middle / 1000, UTC).isoformat(timespec="milliseconds")

    found = fleet.lines("log", "-n", "0", "--since", since)

    bound = read_moment(since, datetime.now(UTC))
    assert found == [one for one in everything if max(one["at"], format_timestamp(one["fleet_at"] / 1000)) >= bound]
    assert 0 < len(found) < len(everything)
    assert fleet.lines("log", "-n", "1000", "--since", since) == found


def test_a_line_says_whose_it_is(fleet: FleetCommands) -> None:
    done = fleet.run("log", "--kind", "decision", "-n", "1")

    assert done.stdout[25:].split()[:4] == ["laptop", "deny", "rm", "-rf"]


def test_one_decision_is_shown_with_what_each_hook_said(fleet: FleetCommands) -> None:
    done = fleet.run("log", "--decision", "d-1", "--host", "laptop")

    assert "asked     global/guards:no_rm deny" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--session", "s9"], 66, "no record in the fleet 'acme' has the session 's9'; a field that hosts do not ship"),
        (["--event", "pre_tool_us"], 64, "did you mean 'pre_tool_use'"),
        (["--host", "laptpo"], 66, "no host 'laptpo' has reported or shipped anything; did you mean 'laptop'"),
        (["--verdict", "dney"], 64, "did you mean 'deny'"),
    ],
)
def test_a_name_that_no_record_has_is_an_error(fleet: FleetCommands, words: list[str], code: int, text: str) -> None:
    done = fleet.run("log", *words)

    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr


def test_a_name_that_nothing_has_in_a_time_costs_no_more_than_that_time(empty: FleetCommands) -> None:
    empty.do(lambda engine: ship_lines(engine, "a", chain(900), at_once=1))
    before = calls(empty.server, "xrange") + calls(empty.server, "xrevrange")

    done = empty.run("log", "--session", "s9", "--since", "2100-01-01")

    assert done.returncode == 0
    assert "matches in that time" in done.stderr
    assert calls(empty.server, "xrange") + calls(empty.server, "xrevrange") - before <= 5


def test_nothing_that_matches_is_no_error_if_the_names_are_right(fleet: FleetCommands) -> None:
    done = fleet.run("log", "--event", "stop")

    assert (done.returncode, done.stdout) == (0, "")
    assert "no record of the fleet 'acme' matches" in done.stderr


def test_following_shows_what_arrives_also_from_a_host_that_is_new(empty: FleetCommands) -> None:
    old, new = write_record(empty.record("old")), write_record(empty.record("new"), 1)
    empty.do(lambda engine: ship(engine, "old", old))

    started = empty.place.begin(*empty.words("log", "--follow", "--json", "-n", "1"))
    first = json.loads(started.line())
    write_record(old, 2)
    empty.do(lambda engine: ship(engine, "old", old, after=first["seq"]))
    later = [json.loads(started.line()) for _ in range(len(lines(old)) - first["seq"])]
    empty.do(lambda engine: ship(engine, "new", new))
    newest = [json.loads(started.line()) for _ in lines(new)]
    started.signal(signal.SIGINT)

    assert [one["seq"] for one in later] == list(range(first["seq"] + 1, len(lines(old)) + 1))
    assert {one["fleet_host"] for one in newest} == {"new"}
    assert started.end()[0] == 0


def test_a_batch_that_cannot_be_read_is_loud_and_hides_no_other(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"))

    async def work(engine: Engine) -> None:
        await ship(engine, "a", folder)
        await engine.append("a", 1, RecordBatch(90, 91, b"torn"))
        await engine.append("b", 1, RecordBatch(1, 2, b"\x78\x9c"))

    empty.do(work)
    done = empty.run("log", "-n", "0", "--json")

    assert done.returncode == 1
    assert "the batch of records 90 to 91 of a (epoch 1) cannot be read" in done.stderr
    assert "of b (epoch 1) cannot be read" in done.stderr
    assert len(done.stdout.splitlines()) == len(lines(folder))


def test_what_a_daemon_recorded_arrives(empty: FleetCommands) -> None:
    with new_place() as place:
        with serving(place):
            place.fire_tool("Bash", command="rm -rf /")
        folder = place.folder / ".local/state/hooklatch/record"
        empty.do(lambda engine: ship(engine, "a", folder, fields=ALL))

        (denied,) = empty.lines("log", "--verdict", "deny", "-n", "0")
        (own,) = [one for one in records(folder) if one.get("verdict") == "deny"]
        assert {key: value for key, value in denied.items() if not key.startswith("fleet_")} == own
        assert len(empty.lines("log", "-n", "0")) == len(lines(folder))


def test_following_outlives_an_engine_that_is_away(redis: RedisServer, place: Place, tmp_path: Path) -> None:
    fleet = FleetCommands(redis, place, "acme")
    folder = write_record(tmp_path / "record")
    fleet.do(lambda engine: ship(engine, "a", folder))

    started = place.begin(*fleet.words("log", "--follow", "--json", "-n", "1"))
    last = json.loads(started.line())["seq"]
    redis.kill()
    started.wait_for("it is tried again until it is there")
    redis.start()
    write_record(folder, 2)
    fleet.do(lambda engine: ship(engine, "a", folder, after=last))
    found = [json.loads(started.line())["seq"] for _ in range(len(lines(folder)) - last)]
    started.signal(signal.SIGINT)

    assert found == list(range(last + 1, len(lines(folder)) + 1))
    assert started.end()[0] == 0

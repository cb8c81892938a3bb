"""fleet trim, against a real engine.

Slow: the engine and the daemons are processes of their own.
"""

from __future__ import annotations

import json

import pytest

from hooklatch.fleet.engine.engine import RecordBatch
from hooklatch.fleet.logs.trimming import TrimNote, count_in_note
from support.records import lines
from support.redis_server import needs_redis
from support.shipped import ALL, FleetCommands, entry_of, ship, write_record
from support.tables import table

pytestmark = [pytest.mark.slow, needs_redis]


def test_a_trimmed_log_is_whole_and_goes_on(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"), 9)
    last = empty.do(lambda engine: ship(engine, "a", folder))

    planned = empty.json("trim", "--older", "0.001", "--reason", "archived", "--dry-run")
    removed = empty.json("trim", "--older", "0.001", "--reason", "archived")
    write_record(folder, 2)
    empty.do(lambda engine: ship(engine, "a", folder, after=last))
    again = empty.json("trim", "--older", "0.001", "--reason", "once more")

    assert {one["seq"] for one in planned} == {one["seq"] for one in removed}
    assert again[0]["seq"] > removed[0]["seq"]
    assert [one["seq"] for one in empty.lines("log", "-n", "0")] == list(
        range(again[0]["seq"] + 1, len(lines(folder)) + 1)
    )
    (host,) = empty.json("verify", "--host", "a", "--record", str(folder))["hosts"]
    assert host["notes"][0].startswith(f"epoch 1 was trimmed through record {again[0]['seq']} by ")


def test_the_newest_batch_of_a_host_is_never_trimmed(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"), 9)
    empty.do(lambda engine: ship(engine, "a", folder))

    empty.json("trim", "--older", "0.001", "--reason", "x")

    assert empty.json("trim", "--older", "0.001", "--reason", "x") == []
    assert empty.lines("log", "-n", "1")[0]["seq"] == len(lines(folder))


def test_a_trim_that_was_killed_after_its_note_covers_nothing_that_a_host_removes(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"), 15)
    empty.do(lambda engine: ship(engine, "a", folder))
    stream = f"hooklatch:{empty.name}:log:a:1"

    (planned,) = empty.json("trim", "--older", "0.001", "--reason", "x", "--dry-run")
    note = {name: value for name, value in planned.items() if name != "host"}
    empty.server.command("HSET", f"hooklatch:{empty.name}:trimmed:a", 1, json.dumps(note))
    (removed,) = empty.json("trim", "--older", "0.001", "--reason", "x")
    empty.do(lambda engine: ship(engine, "a", write_record(folder, 6), after=planned["seq"] + 3))
    empty.server.command("XTRIM", stream, "MAXLEN", 1)

    assert removed == planned
    findings = empty.json("verify", "--host", "a", code=1)["hosts"][0]["findings"]
    assert "engine" in [finding["what"] for finding in findings]


def test_of_two_operators_who_trim_at_once_the_note_of_the_one_who_removes_more_stays(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"), 15)
    empty.do(lambda engine: ship(engine, "a", folder))

    (more,) = empty.json("trim", "--older", "0.001", "--reason", "x", "--dry-run")
    more = TrimNote(**{name: value for name, value in more.items() if name != "host"})
    last = entry_of("a", lines(folder)[2], ALL).record
    less = TrimNote(epoch=1, seq=last.seq, hash=last.hash, batches=0, at=1, by="ada", reason="less")

    assert count_in_note(less, [RecordBatch(1, 3, b"")], more) == more


def test_what_stays_is_not_read(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"), 60)

    def count_asked() -> int:
        text = empty.server.command("INFO", "commandstats").decode()
        return int(text.partition("cmdstat_xrange:calls=")[2].partition(",")[0] or 0)

    empty.do(lambda engine: ship(engine, "a", folder))
    before = count_asked()
    assert empty.json("trim", "--older", "1h", "--reason", "x") == []

    assert count_asked() - before <= 2  # of three batches each there are twenty, and a page has eight


def test_what_is_not_old_enough_stays(fleet: FleetCommands) -> None:
    done = fleet.run("trim", "--older", "30d", "--reason", "x")

    assert done.stdout == "nothing arrived longer than 30 d ago, but the newest batches, which stay\n"


@table(
    ("words", "code", "text"),
    [
        (["log", "--to", "redis+unix:///nowhere.sock", "--fleet", "acme"], 69, "cannot be reached"),
        (["status"], 64, "say which fleet"),
        (["verify", "--to", "redis://x:y@z", "--fleet", "acme"], 64, "password"),
    ],
)
def test_an_engine_that_is_not_there_is_one_clear_error(
    empty: FleetCommands, words: list[str], code: int, text: str
) -> None:
    done = empty.run_as_given("fleet", *words)

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr

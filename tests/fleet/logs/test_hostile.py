"""What a host's credentials allow in the engine hides nothing and stops no reader.

Slow: the engine and the daemons are processes of their own.
"""

from __future__ import annotations

import re

import pytest

from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.settings import DEFAULT_FIELDS
from support.records import lines
from support.redis_server import needs_redis
from support.shipped import FleetCommands, chain, ship, ship_lines, tell, write_record

pytestmark = [pytest.mark.slow, needs_redis]


def test_what_was_removed_with_a_hosts_credentials_is_found(empty: FleetCommands) -> None:
    given = lines(write_record(empty.record("a"), 9))

    empty.do(lambda engine: ship_lines(engine, "a", given[:9]))
    empty.server.command("XTRIM", f"hooklatch:{empty.name}:log:a:1", "MAXLEN", "1")
    done = empty.run("verify")

    assert done.returncode == 1
    assert (
        "WRONG     engine: 2 of the batches of epoch 1 were removed from the engine, and no operator's" in done.stdout
    )
    assert "WRONG     missing: epoch 1 begins with record 7" in done.stdout


def test_an_epoch_that_a_host_does_not_name_is_read_all_the_same(empty: FleetCommands) -> None:
    given = lines(write_record(empty.record("a")))

    empty.do(lambda engine: ship_lines(engine, "a", given))
    empty.server.command("DEL", f"hooklatch:{empty.name}:log:a:epochs")

    assert len(empty.lines("log", "-n", "0")) == len(given)


def test_a_key_of_another_type_stops_nobody(empty: FleetCommands) -> None:
    given = lines(write_record(empty.record("a")))
    empty.do(lambda engine: ship_lines(engine, "a", given))
    for key in ("log:b:1", "host:b"):
        empty.server.command("SADD", f"hooklatch:{empty.name}:{key}", "x")

    assert len(empty.lines("log", "-n", "0")) == len(given)
    assert [one["host"] for one in empty.json("status", code=1)["hosts"]] == ["a"]


def test_a_host_that_removes_its_report_and_its_log_is_seen_all_the_same(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"))

    async def work(engine: Engine) -> None:
        await ship(engine, "a", folder)
        await tell(engine, "a", folder)

    empty.do(work)
    for key, number in (("host:a", "*"), ("log:a:1", "99-0")):
        empty.server.command("XADD", f"hooklatch:{empty.name}:{key}", "MAXLEN", 0, number, "d", "")

    (host,) = empty.json("status", code=1)["hosts"]
    assert (host["host"], host["is_silent"]) == ("a", True)
    assert "engine" in [finding["what"] for finding in empty.json("verify", code=1)["hosts"][0]["findings"]]


def test_a_report_from_the_future_does_not_hide_that_a_host_is_dead(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"))

    async def work(engine: Engine) -> bytes:
        await ship(engine, "a", folder)
        await tell(engine, "a", folder, clock=4102444800000)
        (report,) = [report async for report in engine.reports()]
        return report.data

    report = empty.do(work)
    empty.server.command("XADD", f"hooklatch:{empty.name}:host:a", "4102444800000-0", "d", report)

    (host,) = empty.json("status", code=1)["hosts"]
    assert (host["is_silent"], host["seen_s"], host["stale_s"]) == (True, None, None)
    assert "so it is unknown when the host was last seen" in host["wrong"][0]
    (verified,) = empty.json("verify", code=1)["hosts"]
    assert [finding["what"] for finding in verified["findings"]] == ["time"]


@pytest.mark.parametrize("at", ["0", "9" * 5000, "9" * 18, "x"], ids=["old", "absurd", "later", "none"])
def test_no_time_of_arrival_hides_a_record_or_stops_a_reader(empty: FleetCommands, at: str) -> None:
    given = lines(write_record(empty.record("a")))
    packed = pack_batch("b", 1, given[:1], DEFAULT_FIELDS)
    assert packed is not None

    empty.do(lambda engine: ship_lines(engine, "a", given))
    key = f"hooklatch:{empty.name}:log:b:1"
    empty.server.command("XADD", key, f"{packed.last}-0", "f", packed.first, "a", at, "d", packed.data)

    assert "b" in {one["fleet_host"] for one in empty.lines("log", "-n", "0")}
    assert empty.lines("log", "-n", "1", "--host", "b", "--since", "1h")
    assert len(empty.json("status", code=1)["hosts"]) == 2


@pytest.mark.parametrize("number", [f"{2**64 - 1}-7", f"{2**64 - 2}-0", f"{2**63}-1", "0-5"])
def test_no_number_that_a_host_appends_stops_those_who_read_all(empty: FleetCommands, number: str) -> None:
    given = lines(write_record(empty.record("a")))

    empty.do(lambda engine: ship_lines(engine, "a", given))
    empty.server.command("XADD", f"hooklatch:{empty.name}:log:b:1", number, "f", 1, "a", 1, "d", "x")
    empty.server.command("XADD", f"hooklatch:{empty.name}:host:b", number, "d", '{"host":"b","stale_s":1e308}')
    done = empty.run("log", "-n", "0", "--json")

    assert len(done.stdout.splitlines()) == len(given)
    hosts = {one["host"]: one["findings"] for one in empty.json("verify", code=1)["hosts"]}
    assert not hosts["a"]
    assert hosts["b"]
    assert {one["host"] for one in empty.json("status", code=1)["hosts"]} == {"a", "b"}
    assert max(map(len, empty.run("status").stdout.splitlines())) < 300


@pytest.mark.parametrize("number", [f"{2**64 - 1}-0", f"{2**64 - 1}-7", "0-5"])
def test_no_number_that_a_host_appends_stops_those_who_begin_at_the_end(empty: FleetCommands, number: str) -> None:
    given = lines(write_record(empty.record("a")))

    empty.do(lambda engine: ship_lines(engine, "a", given))
    for epoch in (1, 2):
        key = f"hooklatch:{empty.name}:log:b:{epoch}"
        empty.server.command("XADD", key, number, "f", 1, "a", 1, "d", "x")
    shown = empty.run("log", "--json")
    trimmed = empty.run("trim", "--older", "0.001", "--reason", "x")

    assert len(shown.stdout.splitlines()) == len(given)
    assert shown.stderr.count("cannot be read") == 2
    assert trimmed.stdout.startswith("a: records through")


def count_calls(fleet: FleetCommands) -> int:
    """Return how many commands the engine has served."""
    answer = fleet.server.command("INFO", "commandstats").decode()
    return sum(map(int, re.findall(r":calls=(\d+)", answer)))


@pytest.mark.parametrize("words", [("verify",), ("log", "-n", "0"), ("trim", "--older", "0.001", "--reason", "x")])
def test_a_host_with_very_many_epochs_costs_little_and_the_others_are_judged(
    empty: FleetCommands, words: tuple[str, ...]
) -> None:
    given = lines(write_record(empty.record("a")))
    empty.do(lambda engine: ship_lines(engine, "a", given))
    key = f"hooklatch:{empty.name}:log:b:"
    script = "for i = 1, 3000 do redis.call('XADD', KEYS[1] .. i, '1-0', 'f', 1, 'a', 1, 'd', 'x') end"
    assert not empty.server.command("EVAL", script, 1, key).startswith(b"-")

    before = count_calls(empty)
    done = empty.run(*words)

    assert count_calls(empty) - before < 1000
    said = done.stdout + done.stderr
    assert "the log of b has 3000 epochs, of which 64 are read; to read all, name it: --host b" in said
    if words == ("verify",):
        hosts = {one["host"]: one for one in empty.json("verify", code=1)["hosts"]}
        assert hosts["a"]["ok"]
        assert hosts["b"]["findings"][0]["what"] == "much"


def test_a_host_with_very_much_is_read_for_a_while_and_the_others_are_judged(
    empty: FleetCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("reading", "verifying"):
        monkeypatch.setattr(f"hooklatch.fleet.logs.{module}.MAX_BYTES", 5000)
    empty.do(lambda engine: ship_lines(engine, "b", chain(99)))
    empty.do(lambda engine: ship_lines(engine, "c", chain(9, start=1)))

    hosts = {one["host"]: one for one in empty.json("verify", code=1)["hosts"]}

    assert [finding["what"] for finding in hosts["b"]["findings"]] == ["much"]
    assert hosts["b"]["records"] < 99
    assert hosts["c"]["records"] == 9
    assert empty.json("verify", "--host", "b")["hosts"][0]["records"] == 99
    shown = empty.run("log", "-n", "0", "--json")
    assert "the log of b has more than" in shown.stderr
    assert 9 < len(shown.stdout.splitlines()) < 99
    assert len(empty.lines("log", "-n", "0", "--host", "b")) == 99


def test_a_host_whose_clock_is_wrong_does_not_drop_out_of_since(empty: FleetCommands) -> None:
    empty.do(lambda engine: ship_lines(engine, "a", chain(3)))  # of the 31st of January

    assert len(empty.lines("log", "--since", "1h")) == 3
    assert len(empty.lines("log", "--since", "2026-01-31", "--until", "2026-02-01")) == 3
    assert empty.lines("log", "--until", "2026-01-30") == []

"""fleet log, status, verify and trim, against a real engine with what real records hold.

Slow: the engine and the daemons are processes of their own.
"""

from __future__ import annotations

import json
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.engine.engine import Batch, Engine
from hooklatch.fleet.policy.batches import pack
from hooklatch.fleet.policy.manifests import Head
from hooklatch.fleet.policy.settings import DEFAULT_FIELDS
from support.commands import Place, new_place, serving
from support.records import lines, records
from support.redis_server import RedisServer, needs_redis
from support.shipped import ALL, FleetCommands, chain, ship, ship_lines, stop_decisions, tell, write_record
from support.tables import table

pytestmark = [pytest.mark.slow, needs_redis]
WHO = ("build-1", "build-2", "laptop")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place({}) as made:
        yield made


@pytest.fixture
def empty(shared_redis: RedisServer, place: Place, request: pytest.FixtureRequest, tmp_path: Path) -> FleetCommands:
    """Return a fleet that nobody else uses."""
    name = f"f{abs(hash(request.node.nodeid)) % 10**8}"
    fleet = FleetCommands(shared_redis, place, name)
    fleet.record = lambda host: tmp_path / host / "record"  # type: ignore[method-assign]
    return fleet


@pytest.fixture(scope="module")
def fleet(shared_redis: RedisServer, place: Place) -> FleetCommands:
    """Return a fleet of three hosts that have shipped and reported; tests change nothing of it."""
    made = FleetCommands(shared_redis, place, "acme")
    for number, host in enumerate(WHO):
        write_record(made.record(host), session=f"s{number}", verdict="deny" if number else "allow")

    async def work(engine: Engine) -> None:
        for host in WHO:
            await ship(engine, host, made.record(host), fields=ALL)
            await tell(engine, host, made.record(host))

    made.do(work)
    return made


# -- log ---------------------------------------------------------------------------------------------------------------


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


def test_a_line_says_whose_it_is(fleet: FleetCommands) -> None:
    done = fleet.run("log", "--kind", "decision", "-n", "1")

    assert done.stdout[25:].split()[:4] == ["laptop", done.stdout[25:].split()[1], "deny", "pre_tool_use"]


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
        await engine.append("a", 1, Batch(90, 91, b"torn"))
        await engine.append("b", 1, Batch(1, 2, b"\x78\x9c"))

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


# -- status ------------------------------------------------------------------------------------------------------------


def test_a_fleet_in_order_is_green(fleet: FleetCommands) -> None:
    found = fleet.json("status")

    assert found["ok"]
    assert [one["host"] for one in found["hosts"]] == list(WHO)
    first = found["hosts"][0]
    assert (first["labels"], first["health"], first["unshipped"], first["wrong"]) == (["ci"], "ready", 0, [])
    assert first["record"]["seq"] == len(lines(fleet.record("build-1")))
    assert 0 <= first["seen_s"] < 60
    assert found["engine"]["appendfsync"] == "always"


def test_status_for_people_has_a_line_a_host(fleet: FleetCommands) -> None:
    done = fleet.run("status")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[-3:]] == list(WHO)
    assert "3 hosts, 0 silent, 0 with something wrong" in done.stdout


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"problem": "version 3 is torn"}, "version 3 is torn"),
    ({"health": "red"}, "its daemon is red"),
    ({"lost": 7}, "7 records were removed there before they were shipped"),
    ({"findings": ("the record was truncated to 3",)}, "the record was truncated to 3"),
    ({"wanted": 2, "applied": 1}, "version 2 should be in force there, and 1 is"),
    ({"head": Head(4, "f" * 64)}, "it has read version 4, and the engine's newest is 0: the engine lost some"),
    ({"epoch": 2}, "its record began anew (2 epochs)"),
]


def test_what_is_wrong_with_a_host_is_said_and_is_the_exit_code(empty: FleetCommands) -> None:
    async def work(engine: Engine) -> None:
        for number, (changes, _) in enumerate(WRONG):
            await tell(engine, f"host-{number}", **changes)
        await engine.report("unreadable", b"{}")

    empty.do(work)
    found = {one["host"]: one["wrong"] for one in empty.json("status", code=1)["hosts"]}

    for number, (_, text) in enumerate(WRONG):
        assert any(one.startswith(text) for one in found[f"host-{number}"]), text
    assert "cannot be read" in found["unreadable"][0]


def test_hosts_that_are_silent_come_first(empty: FleetCommands) -> None:
    folder = write_record(empty.record("z"))

    async def work(engine: Engine) -> None:
        await tell(engine, "a")
        await ship(engine, "z", folder)

    empty.do(work)
    done = empty.run("status")

    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()[5:7]] == ["z", "a"]
    assert "z: it has a log and no report" in done.stdout
    assert empty.json("status", "--silent", "0.001", code=1)["hosts"][1]["is_silent"]


# -- verify ------------------------------------------------------------------------------------------------------------


def test_what_was_shipped_whole_verifies_with_the_local_record(fleet: FleetCommands) -> None:
    found = fleet.json("verify", "--host", "laptop", "--record", str(fleet.record("laptop")))

    (host,) = found["hosts"]
    count = len(lines(fleet.record("laptop")))
    assert (host["records"], host["whole"], host["ranges"]) == (count, count, [[1, 1, count]])
    assert (host["local"]["compared"], host["local"]["absent"], host["local"]["record"]["ok"]) == (count, 0, True)
    assert {one["result"] for one in host["local"]["record"]["witnesses"]} == {"confirmed"}


def test_verify_says_what_it_proves_and_what_it_does_not(fleet: FleetCommands) -> None:
    done = fleet.run("verify")

    assert done.returncode == 0, done.stdout
    assert "proves    that the records which the engine has of these hosts are whole chains" in done.stdout
    assert done.stdout.count("cannot    ") == 4


def truncated(folder: Path) -> None:
    """Cut the record's end off, and all that is beside it."""
    (path,) = folder.glob("*.jsonl")
    path.write_bytes(b"".join(lines(folder)[:-3]))
    (folder / "anchor").unlink()
    (folder.parent / "record.mark").unlink()


def rewritten(folder: Path) -> None:
    """Replace the record by another one, with its anchor and its mark."""
    (path,) = folder.glob("*.jsonl")
    path.unlink()
    (folder / "anchor").unlink()
    (folder.parent / "record.mark").unlink()
    write_record(folder, 4, verdict="allow")


@pytest.mark.parametrize("change", [truncated, rewritten], ids=["truncated", "rewritten"])
def test_a_local_record_that_was_changed_is_found(empty: FleetCommands, change: Callable[[Path], None]) -> None:
    folder = write_record(empty.record("a"))
    empty.do(lambda engine: ship(engine, "a", folder))

    change(folder)
    (host,) = empty.json("verify", "--host", "a", "--record", str(folder), code=1)["hosts"]

    assert not host["findings"], "the engine's own log is whole"
    assert "witness" in {one["what"] for one in host["local"]["record"]["findings"]}


def test_a_decision_that_was_shipped_as_another_is_found_on_its_host(empty: FleetCommands) -> None:
    folder = write_record(empty.record("a"))
    packed = pack("a", 1, lines(folder), DEFAULT_FIELDS)
    assert packed is not None
    forged = zlib.compress(
        zlib.decompress(packed.data).replace(b'"verdict":"deny","cause"', b'"verdict":"pass","cause"')
    )

    empty.do(lambda engine: engine.append("a", 1, Batch(packed.first, packed.last, forged)))

    assert empty.json("verify")["ok"], "centrally nothing shows: of what was left out, the rest is a claim"
    (host,) = empty.json("verify", "--host", "a", "--record", str(folder), code=1)["hosts"]
    found = [text for text in host["local"]["differences"] if "verdict was shipped" in text]
    assert found[0] == 'record 3: verdict was shipped as "pass", and is "deny"'
    assert len(found) == stop_decisions(folder)


def test_the_machine_that_is_a_host_compares_by_default(empty: FleetCommands) -> None:
    with new_place() as place:
        with serving(place):
            place.fire_tool("Bash", command="rm -rf /")
        folder = place.folder / ".local/state/hooklatch/record"
        empty.do(lambda engine: ship(engine, "me", folder))
        place.write({"hooks.toml": f"""
            [fleet]
            name = "{empty.name}"
            url = "{empty.server.url}"
            host = "me"
            keys = ["ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
        """})  # fmt: skip

        (host,) = place.json("fleet", "verify")["hosts"]

        assert host["local"]["compared"] == len(lines(folder))


def test_gaps_are_found_in_the_middle_of_what_a_host_shipped(empty: FleetCommands) -> None:
    given = lines(write_record(empty.record("a"), 9))

    async def work(engine: Engine) -> None:
        await ship_lines(engine, "a", given[:4])
        await ship_lines(engine, "a", given[6:])
        await tell(engine, "a", empty.record("a"))

    empty.do(work)
    done = empty.run("verify")

    assert done.returncode == 1
    assert "WRONG     missing: records 5 to 6 are missing (epoch 1)" in done.stdout


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


@pytest.mark.parametrize("at", ["0", "9" * 5000, "9" * 18, "x"], ids=["old", "absurd", "later", "none"])
def test_no_time_of_arrival_hides_a_record_or_stops_a_reader(empty: FleetCommands, at: str) -> None:
    given = lines(write_record(empty.record("a")))
    packed = pack("b", 1, given[:1], DEFAULT_FIELDS)
    assert packed is not None

    empty.do(lambda engine: ship_lines(engine, "a", given))
    key = f"hooklatch:{empty.name}:log:b:1"
    empty.server.command("XADD", key, f"{packed.last}-0", "f", packed.first, "a", at, "d", packed.data)

    assert "b" in {one["fleet_host"] for one in empty.lines("log", "-n", "0")}
    assert empty.lines("log", "-n", "1", "--host", "b", "--since", "1h")
    assert len(empty.json("status", code=1)["hosts"]) == 2


def test_a_host_whose_clock_is_wrong_does_not_drop_out_of_since(empty: FleetCommands) -> None:
    empty.do(lambda engine: ship_lines(engine, "a", chain(3)))  # of the 31st of January

    assert len(empty.lines("log", "--since", "1h")) == 3
    assert len(empty.lines("log", "--since", "2026-01-31", "--until", "2026-02-01")) == 3
    assert empty.lines("log", "--until", "2026-01-30") == []


def test_a_host_that_ships_to_an_earlier_epoch_keeps_its_newest_batch_there(empty: FleetCommands) -> None:
    folder, other = write_record(empty.record("a")), write_record(empty.record("other"), 2)

    async def work(engine: Engine) -> None:
        await ship(engine, "a", folder)
        await ship(engine, "a", other, epoch=2)
        await tell(engine, "a", folder)

    empty.do(work)
    empty.json("trim", "--older", "0.001", "--reason", "x")

    assert {one["fleet_epoch"] for one in empty.lines("log", "-n", "0")} == {1, 2}
    (host,) = empty.json("verify", "--host", "a", "--record", str(folder), code=1)["hosts"]
    assert (host["local"]["record"]["findings"], host["local"]["differences"]) == ([], [])


def test_a_record_that_is_not_there_is_one_clear_error(fleet: FleetCommands) -> None:
    done = fleet.run("verify", "--host", "laptop", "--record", "/nowhere")

    assert (done.returncode, done.stdout) == (66, "")
    assert "there is no record in /nowhere" in done.stderr
    assert "name one --host" in fleet.run("verify", "--record", "/nowhere").stderr


def test_a_witness_is_of_one_host(fleet: FleetCommands) -> None:
    done = fleet.run("verify", "--witness", "4:0123456789abcdef")

    assert done.returncode == 64
    assert "name that one with --host" in done.stderr
    assert (
        "is not the one that the witness saw"
        in fleet.run("verify", "--host", "laptop", "--witness", "4:" + "0" * 16).stdout
    )


# -- trim --------------------------------------------------------------------------------------------------------------


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


def test_what_is_not_old_enough_stays(fleet: FleetCommands) -> None:
    done = fleet.run("trim", "--older", "30d", "--reason", "x")

    assert done.stdout == "nothing arrived longer than 30 d ago, but the newest batches, which stay\n"


@table(
    ("words", "code", "text"),
    [
        (["log", "--to", "redis+unix:///nowhere.sock", "--fleet", "acme"], 69, "cannot be reached"),
        (["status"], 64, "say which fleet"),
        (["verify", "--to", "redis://x:y@z", "--fleet", "acme"], 77, "password"),
    ],
)
def test_an_engine_that_is_not_there_is_one_clear_error(place: Place, words: list[str], code: int, text: str) -> None:
    done = place.run("fleet", *words)

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr

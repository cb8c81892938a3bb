"""fleet verify, against a real engine and real records.

Slow: the engine and the daemons are processes of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.fleet.batches import pack_batch
from hooklatch.fleet.engine.engine import Engine, RecordBatch
from hooklatch.fleet.settings import DEFAULT_FIELDS
from support.commands import new_place, serving
from support.records import lines
from support.redis_server import needs_redis
from support.shipped import FleetCommands, chain, ship, ship_lines, stop_decisions, tell, write_record

pytestmark = [pytest.mark.slow, needs_redis]


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
    packed = pack_batch("a", 1, lines(folder), DEFAULT_FIELDS)
    assert packed is not None
    forged = zlib.compress(
        zlib.decompress(packed.data).replace(b'"verdict":"deny","cause"', b'"verdict":"pass","cause"')
    )

    empty.do(lambda engine: engine.append("a", 1, RecordBatch(packed.first, packed.last, forged)))

    assert empty.json("verify")["ok"], "centrally nothing shows: of what was left out, the rest is a claim"
    (host,) = empty.json("verify", "--host", "a", "--record", str(folder), code=1)["hosts"]
    found = [text for text in host["local"]["differences"] if "verdict was shipped" in text]
    assert found[0] == 'record 3: verdict was shipped as "pass", and is "deny"'
    assert len(found) == stop_decisions(folder)


def test_a_local_record_that_no_reader_understands_is_found_and_the_rest_compared(empty: FleetCommands) -> None:
    given = chain(3, body=b'{"verdict":"deny","excerpt":1e999}')
    folder = empty.record("a")
    folder.mkdir(parents=True)
    (folder / f"{1:016d}.jsonl").write_bytes(b"".join(given))
    empty.do(lambda engine: ship_lines(engine, "a", given))

    (host,) = empty.json("verify", "--host", "a", "--record", str(folder), code=1)["hosts"]

    assert len(host["local"]["differences"]) == 3
    assert host["local"]["differences"][0].startswith("record 1 cannot be read here: ")


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


@pytest.mark.parametrize("names", [("old", "new"), ("a", "b")])
def test_a_host_that_was_renamed_is_found(empty: FleetCommands, names: tuple[str, str]) -> None:
    folder = write_record(empty.record("a"), 9)
    before, after = names

    empty.do(lambda engine: ship(engine, before, folder))
    write_record(folder, 9)
    empty.do(lambda engine: ship(engine, after, folder))

    first, second = empty.json("verify", code=1)["hosts"]
    assert first["ok"]
    (finding,) = second["findings"]
    assert finding["what"] == "name"
    assert finding["text"].startswith(f"its record is that of {first['host']}, as far as record ")


def test_a_witness_is_of_one_host(fleet: FleetCommands) -> None:
    done = fleet.run("verify", "--witness", "4:0123456789abcdef")

    assert done.returncode == 64
    assert "name that one with --host" in done.stderr
    assert (
        "is not the one that the witness saw"
        in fleet.run("verify", "--host", "laptop", "--witness", "4:" + "0" * 16).stdout
    )

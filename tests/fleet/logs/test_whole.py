"""A real daemon and a real link: what was decided is in one place, and a record that was cut afterwards is found.

Slow: an engine, a daemon and a link, each twice.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.signing import make_key
from support.commands import CONFIG, GUARDS, PATIENCE, Place, new_place, serving
from support.records import lines
from support.redis_server import RedisServer, needs_redis
from support.shipped import FleetCommands

pytestmark = [pytest.mark.slow, needs_redis]
TABLE = """[fleet]
name = "{fleet}"
url = "{url}"
host = "build-7"
keys = ["{key}"]
reconnect = "50ms"
"""


@contextmanager
def linked(place: Place) -> Iterator[Path]:
    """Run a daemon and its link; yield the folder of its record."""
    with serving(place):
        link = place.begin("link")
        try:
            yield place.folder / ".local/state/hooklatch/record"
        finally:
            link.signal(signal.SIGTERM)
            assert link.end()[0] == 0


def comes(look: Callable[[], Any]) -> Any:
    """Return what a look finds, once it does."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found


def numbers(fleet: FleetCommands, epoch: int) -> list[int]:
    return [one["seq"] for one in fleet.lines("log", "-n", "0") if one["fleet_epoch"] == epoch]


def test_a_record_that_was_cut_with_all_that_is_beside_it_is_found_and_what_it_lacks_is_kept(
    shared_redis: RedisServer,
) -> None:
    with new_place() as place:
        fleet = FleetCommands(shared_redis, place, "whole")
        table = TABLE.format(fleet=fleet.name, url=shared_redis.url, key=make_key().public.text)
        place.write({"hooks.toml": table + CONFIG, "guards.py": GUARDS})

        with linked(place) as folder:
            place.fire_tool("Bash", command="rm -rf /")
            comes(lambda: [one for one in fleet.lines("log", "-n", "0") if one.get("verdict") == "deny"])
        shipped = numbers(fleet, 1)
        assert shipped == list(range(1, len(shipped) + 1))
        assert len(shipped) <= len(lines(folder)), "what the daemon wrote at its end waits for the next link"
        assert fleet.json("verify", "--host", "build-7", "--record", str(folder))["ok"]

        (path,) = folder.glob("*.jsonl")
        (denied,) = [json.loads(line)["seq"] for line in lines(folder) if b'"verdict":"deny"' in line]
        path.write_bytes(b"".join(lines(folder)[: denied - 1]))
        (folder / "anchor").unlink()
        (folder.parent / "record.mark").unlink()
        assert "witness" in found_locally(fleet, folder)

        with linked(place):
            comes(lambda: numbers(fleet, 2))
        (host,) = fleet.json("verify", "--host", "build-7", code=1)["hosts"]

    (anew,) = [one for one in host["findings"] if one["what"] == "anew"]
    assert f"from {denied} on were shipped once and are not in the new one" in anew["text"]
    (kept,) = fleet.lines("log", "--verdict", "deny", "-n", "0")
    assert (kept["fleet_host"], kept["fleet_epoch"], kept["seq"]) == ("build-7", 1, denied)


def found_locally(fleet: FleetCommands, folder: Path) -> set[str]:
    (host,) = fleet.json("verify", "--host", "build-7", "--record", str(folder), code=1)["hosts"]
    return {finding["what"] for finding in host["local"]["record"]["findings"]}

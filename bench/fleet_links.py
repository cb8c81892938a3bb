"""The links of bench/fleet.py: the real link of each host, all of them in one process."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import trio

from fleet_daemons import FLEET
from hooklatch.fleet.engine import redis
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.link import policy
from hooklatch.fleet.link.daemon_socket import DaemonSocket
from hooklatch.fleet.link.link import Link
from hooklatch.fleet.policy.settings import FleetSettings
from machine import raise_open_files


async def main(folder: Path, first: int, count: int, url: str, key: str, held: float) -> None:
    if held:
        redis.BLOCK = policy.WAIT = held  # type: ignore[misc]  # a constant otherwise
    async with trio.open_nursery() as nursery:
        for number in range(first, first + count):
            host = f"host-{number}"
            settings = FleetSettings(name=FLEET, url=url, host=host, keys=(key,), reconnect=2 * held or 0.5)
            runtime = os.fspath(folder / host)
            daemon = DaemonSocket(lambda runtime=runtime: [runtime])  # type: ignore[misc]  # a default's type is inferred
            link = Link(settings, partial(open_engine, url, FLEET), daemon, f"{runtime}/record")
            nursery.start_soon(link.run)
        print("ready", flush=True)


if __name__ == "__main__":
    raise_open_files()
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], float(sys.argv[6]))

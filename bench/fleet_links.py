"""The links of bench/fleet.py: the real link of each host, all of them in one process.

Where they are a crowd, each waits for the others: then they have patience with answers, and connect again later.
"""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from pathlib import Path

import trio

from fleet_daemons import FLEET
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.link import link
from hooklatch.fleet.link.daemon import DaemonSocket
from hooklatch.fleet.settings import FleetSettings
from machine import raise_open_files

PATIENCE = 60.0  # seconds
CALM = 0.5  # seconds, at most, before a link that is no part of a crowd connects again


class Ending(logging.Handler):
    """Ends this process at a fault of a link's own, which a link survives: what waits for it would wait for ever."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            print(self.format(record), file=sys.stderr, flush=True)
            os._exit(1)


async def main(folder: Path, first: int, count: int, url: str, key: str, reconnect: float) -> None:
    timeout, patience = 5.0, 10.0
    if reconnect > CALM:
        link.OPENING = timeout = patience = PATIENCE  # type: ignore[misc]  # a constant otherwise
    logging.getLogger("hooklatch").addHandler(Ending(logging.ERROR))
    async with trio.open_nursery() as nursery:
        for number in range(first, first + count):
            host = f"host-{number}"
            settings = FleetSettings(name=FLEET, url=url, host=host, keys=(key,), reconnect=reconnect)
            runtime = os.fspath(folder / host)
            daemon = DaemonSocket(partial(list, (runtime,)), timeout=patience)
            opened = partial(open_engine, url, FLEET, timeout=timeout)
            nursery.start_soon(link.Link(settings, opened, daemon, f"{runtime}/record").run)
        print("ready", flush=True)


if __name__ == "__main__":
    raise_open_files()
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], float(sys.argv[6]))

"""The follower of the fleet log, which waits for an engine that is away for a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from hooklatch.cli.terminal import output

if TYPE_CHECKING:
    from hooklatch.fleet.logs.logs import ReceivedBatch
    from hooklatch.fleet.logs.reading import FleetReader

__all__ = ["PAUSES", "follow_fleet_log"]

POLL = 0.5  # seconds between two requests for new records
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before an engine or a receiver that is away is tried again


async def follow_fleet_log(reader: FleetReader) -> AsyncGenerator[ReceivedBatch]:
    """Yield batches from the reader's position on, as they arrive.

    Raises:
        EngineError: the engine refuses; one that is away is reported and waited for.
    """
    import trio

    from hooklatch.fleet.engine.engine import UnreachableError

    attempts = 0
    while output.has_reader():
        began = trio.current_time()
        try:
            async with aclosing(reader.new()) as arrivals:
                async for arrival in arrivals:
                    yield arrival
        except UnreachableError as error:
            if not attempts:
                output.print_error(f"{error}; it is tried again until it is there")
            await trio.sleep(PAUSES[min(attempts, len(PAUSES) - 1)])
            attempts += 1
            continue
        attempts = 0
        # As long as the reading took: with many hosts the engine has half of the time for others.
        await trio.sleep(max(POLL, trio.current_time() - began))

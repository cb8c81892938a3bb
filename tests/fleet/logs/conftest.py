"""A fleet on a real engine that has shipped and reported, and one that is empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.fleet.engine.engine import Engine
from support.commands import Place, new_place
from support.redis_server import RedisServer
from support.shipped import ALL, FleetCommands, ship, tell, write_record

WHO = ("build-1", "build-2", "laptop")


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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

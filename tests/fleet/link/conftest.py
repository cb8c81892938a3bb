"""An engine of the test's own, and a record on this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from support.daemons import nothing_left
from support.link_parts import FLEET, MemoryDaemon, Publisher, RunLink, WrittenRecord, linked, settings_of
from support.redis_server import RedisServer


@pytest.fixture
async def engine(redis: RedisServer) -> AsyncGenerator[Engine]:
    with nothing_left():
        async with open_engine(redis.url, FLEET) as engine:
            yield engine


@pytest.fixture
def record(tmp_path: Path) -> WrittenRecord:
    return WrittenRecord(tmp_path / "record")


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture
def daemon(publisher: Publisher) -> MemoryDaemon:
    """Return a daemon that trusts the publisher."""
    return MemoryDaemon(publisher.key)


@pytest.fixture
def run_link(redis: RedisServer, publisher: Publisher, daemon: MemoryDaemon, record: WrittenRecord) -> RunLink:
    return lambda **settings: linked(settings_of(redis.url, publisher.key, **settings), daemon, record.folder)

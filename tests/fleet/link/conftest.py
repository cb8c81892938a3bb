"""An engine of the test's own, and a record on this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from support.daemons import nothing_left
from support.link_parts import FLEET, WrittenRecord
from support.redis_server import RedisServer


@pytest.fixture
async def engine(redis: RedisServer) -> AsyncGenerator[Engine]:
    with nothing_left():
        async with open_engine(redis.url, FLEET) as engine:
            yield engine


@pytest.fixture
def record(tmp_path: Path) -> WrittenRecord:
    return WrittenRecord(tmp_path / "record")

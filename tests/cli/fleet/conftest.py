"""A publisher's machine: a key, a folder of hooks, and an engine that the tests of a process share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from hooklatch.fleet.signing import make_key
from support.commands import new_place
from support.publishers import Bench
from support.redis_server import RedisServer, redis_server


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """Yield a server that all tests of this process use; none may kill it or change its settings."""
    with redis_server() as server:
        yield server


@pytest.fixture
def bench(
    shared_redis: RedisServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """Yield a publisher's machine with a fleet of its own."""
    with new_place({}) as place:
        place.enter(monkeypatch)
        yield Bench(place, shared_redis.url, uuid.uuid4().hex, make_key(), capfd)

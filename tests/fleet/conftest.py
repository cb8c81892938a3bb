"""A server for each process of tests, and a fleet's name of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.redis_server import RedisServer, redis_server


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """Yield a server that all tests of this process use; none may kill it or change its settings."""
    with redis_server() as server:
        yield server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """Yield a server of the test's own."""
    with redis_server() as server:
        yield server

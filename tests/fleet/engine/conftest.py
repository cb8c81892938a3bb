"""Each engine's server in turn, shared by the tests that only use it, or a test's own for those that kill it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from support.engines import STORES, Store

Opens = Callable[[], AbstractAsyncContextManager[Engine]]


@pytest.fixture(scope="session", params=STORES)
def shared_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Yield a running server; none may kill it or touch another test's fleet."""
    with STORES[request.param]() as store:
        yield store


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Yield a running server of the test's own."""
    with STORES[request.param]() as store:
        yield store


@pytest.fixture
def opens(shared_store: Store) -> Opens:
    """Return what opens an engine, each time anew, for a fleet of the test's own."""
    fleet = f"fleet-{uuid.uuid4().hex}"
    return lambda: open_engine(shared_store.url, fleet)

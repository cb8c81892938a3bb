"""The plugin for pytest: fixtures for tests of hooks.  Loads nothing of hooklatch before one of them is used.

hooks               runs hooks in this process; their shared state lasts until the test ends
hooklatch_worker    starts a file of hooks in a real worker; once for all tests of the run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hooklatch.testing.assertions import HookTester
    from hooklatch.testing.workers import Worker

__all__ = ["hooklatch_worker", "hooks"]


@pytest.fixture
def hooks() -> HookTester:
    """The tester of hooks in this process: `hooks.event`, `hooks.run`, `hooks.assert_denies` …, `hooks.memory`."""
    from hooklatch.testing.assertions import HookTester

    return HookTester()


@pytest.fixture(scope="session")
def hooklatch_workers_of_the_run() -> Iterator[dict[tuple[str, str], Worker]]:
    """The workers that the tests of this run share, by file and settings."""
    workers: dict[tuple[str, str], Worker] = {}
    try:
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


@pytest.fixture
def hooklatch_worker(hooklatch_workers_of_the_run: dict[tuple[str, str], Worker]) -> Callable[..., Worker]:
    """A function that starts hooks in a real worker: `guards = hooklatch_worker("guards.py")`, without shared state."""
    import os

    from hooklatch.testing.workers import Worker

    workers = hooklatch_workers_of_the_run
    for worker in workers.values():
        worker.clear()

    def start(path: Any, *, settings: str = "") -> Worker:
        key = os.path.abspath(getattr(path, "__file__", path)), settings
        if key not in workers:
            workers[key] = Worker(path, settings=settings)
        return workers[key]

    return start

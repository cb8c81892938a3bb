"""A daemon for a whole file of tests, which only look at it, and places for those that do more."""

from collections.abc import Iterator

import pytest

from support.commands import Daemon, Place, new_place, serving


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with new_place() as place, serving(place) as daemon:
        yield daemon

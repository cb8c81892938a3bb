"""A daemon shared by all read-only tests of a file, and places for the others."""

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

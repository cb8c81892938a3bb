"""Each row, driven through the system's own functions in its own language, by a real daemon."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import ExitStack

import pytest

from conformance.driven import SYSTEMS, Driver, cases_of, driven_rows, driving, rows_of
from conformance.table import with_checks
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # a process of each language, and a daemon


@pytest.fixture(scope="module")
def driver_of(tmp_path_factory: pytest.TempPathFactory) -> Generator[Callable[[str], Driver]]:
    """Start a system's driver when the first of its rows asks for it, and end all of them with the last row."""
    with nobody_survives(), ExitStack() as running:

        @functools.cache
        def started(system: str) -> Driver:
            return running.enter_context(driving(system, tmp_path_factory.mktemp(system)))

        yield started


ROWS = [pytest.param(system, row.id, id=row.id) for system in SYSTEMS for row in driven_rows(system)]


@pytest.mark.parametrize(("system", "row_id"), ROWS)
def test_a_row_holds_through_its_own_language(driver_of: Callable[[str], Driver], system: str, row_id: str) -> None:
    assert driver_of(system).fault_of(row_id) is None


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_row_is_driven_or_says_why_only_the_wire_proves_it(system: str) -> None:
    cases = cases_of(system)
    wanted = {row.id for row in with_checks(rows_of(system))}

    assert cases.CASES.keys() | cases.WIRE.keys() == wanted
    assert not cases.CASES.keys() & cases.WIRE.keys()
    assert all(reason for reason in cases.WIRE.values())

"""The tests themselves: each has one name in every process, and a table names the rows that fail."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.repository import ROOT
from support.tables import table


@pytest.mark.slow
def test_names_are_the_same_whatever_the_order_of_sets(request: pytest.FixtureRequest) -> None:
    """Slow: the files of this run are collected once more.  Several processes share the tests by their names."""
    names = {item.nodeid for item in request.session.items}
    files = sorted({str(item.path) for item in request.session.items})
    another = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", *files],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": another},
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-2000:]
    assert names <= set(done.stdout.splitlines())
    assert not [name for name in names if " object at 0x" in name]


def test_every_row_of_a_table_runs_and_each_that_fails_is_named() -> None:
    seen: list[int] = []

    @table(("number", "double"), [(1, 2), (2, 5), (3, 6), (4, 7)])
    def doubles(number: int, double: int) -> None:
        seen.append(number)
        assert 2 * number == double

    with pytest.RaisesGroup(AssertionError, AssertionError) as caught:
        doubles()

    assert seen == [1, 2, 3, 4]
    assert [note for error in caught.value.exceptions for note in error.__notes__] == [
        "row 1: {'number': 2, 'double': 5}",
        "row 3: {'number': 4, 'double': 7}",
    ]


def test_a_table_without_a_row_fails() -> None:
    @table("number", [])
    def holds(number: int) -> None: ...

    with pytest.raises(AssertionError, match="the table has no row"):
        holds()

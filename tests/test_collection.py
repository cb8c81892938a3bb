"""The tests themselves: each has one name in every process, and a table names the rows that fail."""

from __future__ import annotations

import pytest

from support.tables import table


def test_no_name_is_an_address_in_memory(request: pytest.FixtureRequest) -> None:
    """Several processes share the tests by their names, and refuse to where these differ."""
    assert not [item.nodeid for item in request.session.items if " object at 0x" in item.nodeid]


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

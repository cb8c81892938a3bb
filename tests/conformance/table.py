"""One row for each case that another hook system states about itself.  Knows no system and no daemon.

A module per system (`rows/reasonix.py`, ...) holds `ROWS`, a tuple of rows; the test module beside it has one check for
each row that is not "not applicable", named by the row's id.  A row that says "differs" or "not applicable" says why,
and the check of one that differs tests what happens here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec
import pytest

Status = Literal["same", "differs", "not applicable"]
Check = TypeVar("Check", bound=Callable[..., Any])


class Row(msgspec.Struct, frozen=True):
    """One case of another system: what it states in `title`, how it stands here, and the reason if it differs."""

    id: str
    title: str
    status: Status = "same"
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.status == "same") != (self.reason == ""):
            raise ValueError(f"row {self.id!r}: a reason is given exactly where the case is not the same")


def span(prefix: str, first: int, last: int) -> list[str]:
    """Return the ids of a range, both ends included: `span("RX", 1, 3)` is RX-01, RX-02, RX-03."""
    return [f"{prefix}-{number:02}" for number in range(first, last + 1)]


def with_checks(rows: tuple[Row, ...]) -> list[Row]:
    """Return the rows that have a check: those that are the same here, and those that differ."""
    return [row for row in rows if row.status != "not applicable"]


class Checks(Generic[Check]):
    """The checks of a suite's rows, by id; `@checks("RX-01")` adds one, `checks |= {...}` several."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows
        self._by_id: dict[str, Check] = {}

    def __call__(self, *ids: str) -> Callable[[Check], Check]:
        def keep(check: Check) -> Check:
            self.__ior__(dict.fromkeys(ids, check))
            return check

        return keep

    def __ior__(self, checks: Mapping[str, Check]) -> Self:
        assert self._by_id.keys().isdisjoint(checks), f"{[*checks]}: a row has one check"
        self._by_id.update(checks)
        return self

    def __getitem__(self, row_id: str) -> Check:
        return self._by_id[row_id]

    def cases(self) -> list[Any]:
        """Return what to parametrize with: each row that has something to check here, named by its id."""
        return [pytest.param(self._by_id[row.id], id=row.id) for row in with_checks(self.rows) if row.id in self._by_id]

    @property
    def ids(self) -> set[str]:
        return set(self._by_id)

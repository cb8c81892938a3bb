"""One row for each case that another hook system states about itself.  Knows no system and no daemon.

A module per system (`rows/reasonix.py`, ...) holds `ROWS`, a tuple of rows; the test module beside it has one check for
each row that is not "not applicable", named by the row's id.  A row that says "differs" or "not applicable" says why,
and the check of one that differs tests what happens here.
"""

from typing import Literal

import msgspec

Status = Literal["same", "differs", "not applicable"]


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

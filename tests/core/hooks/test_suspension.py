"""How long a suspension may last, and how much of its reason is kept."""

from __future__ import annotations

import pytest

from hooklatch.core.hooks.suspension import SuspensionError, validate_suspension


@pytest.mark.parametrize("seconds", [0.0, -1.0, 86_400.1, float("nan"), float("inf")])
def test_a_suspension_lasts_more_than_nothing_and_a_day_at_most(seconds: float) -> None:
    assert validate_suspension(86_400.0, "mending it") == "mending it"
    with pytest.raises(SuspensionError, match="a suspension lasts at most"):
        validate_suspension(seconds, "mending it")


def test_a_reason_is_one_line_of_so_many_characters() -> None:
    assert validate_suspension(1.0, " it has  a\nbug ") == "it has a bug"
    assert [len(validate_suspension(1.0, "x" * length)) for length in (499, 500, 501)] == [499, 500, 500]
    with pytest.raises(SuspensionError, match="needs a reason"):
        validate_suspension(1.0, " \n")

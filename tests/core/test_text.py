"""Phrases shared by messages."""

from __future__ import annotations

import pytest

from hooklatch.core.text import counted, did_you_mean


@pytest.mark.parametrize(("number", "text"), [(0, "0 hooks"), (1, "1 hook"), (2, "2 hooks")])
def test_a_number_agrees_with_its_noun(number: int, text: str) -> None:
    assert counted(number, "hook") == text


def test_the_nearest_known_name_is_offered_where_one_is_near() -> None:
    assert did_you_mean("denny", ["deny", "ask"]) == "; did you mean 'deny'?"
    assert did_you_mean("xyz", ["deny", "ask"]) == ""

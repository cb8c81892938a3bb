"""What a step's answer is compared with."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.driving import ABSENT, ANY, Case, has, mismatch, part, play, step


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({"a": 1}, {"a": 1}),
        ([1, {"b": None}], [1, {"b": None}]),
        ("a text", has("text")),
        ({"a": [1, 2]}, {"a": ANY}),
        ({"a": 1, "b": 2}, part(a=1)),
        ({"a": 1}, part(a=1, b=ABSENT)),
    ],
)
def test_what_is_as_it_has_to_be(found: object, wanted: object) -> None:
    assert mismatch(found, wanted, "") == ""


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"a": True}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": ANY}),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ("a", has("b")),
        (None, has("b")),
        ({"b": None}, part(b=ABSENT)),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ("a", {"a": 1}),
        ({"a": 1}, [1]),
    ],
)
def test_what_is_not(found: object, wanted: object) -> None:
    assert mismatch(found, wanted, "") != ""


def test_a_step_without_a_comparison_takes_anything_but_an_error() -> None:
    answers: dict[str, Any] = {"open": {}, "well": {"result": 1}, "badly": {"error": "no"}}

    def do(command: dict[str, Any]) -> Any:
        return answers[command["do"]]

    opening = [{"do": "open"}]

    assert play(Case((step({"do": "well"}),)), do, opening) is None
    assert "an error: no" in str(play(Case((step({"do": "badly"}),)), do, opening))
    assert play(Case((step({"do": "badly"}, gives=part(error="no")),)), do, opening) is None
    assert "was not opened" in str(play(Case(()), do, [{"do": "badly"}]))

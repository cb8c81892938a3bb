"""A decision in an SDK's terms: never laxer than the decision, stricter where the SDK cannot express it."""

from __future__ import annotations

from typing import Any

import pytest

from hooklatch.bridges.rulings import (
    AskRuling,
    ProceedRuling,
    RefuseRuling,
    SdkAbilities,
    UnreadableInputError,
    make_ruling,
    read_object,
)
from hooklatch.client.protocol.decisions import Decision
from support.tables import table

INPUT = {"command": "ls", "limit": 3}
OTHER = {"command": "ls -l", "limit": 3}
NOTHING = SdkAbilities(name="some SDK")
ALL = SdkAbilities(name="some SDK", rewrites=True, asks=True, asks_about_rewrites=True)
NO_SHOW = SdkAbilities(name="some SDK", rewrites=True, asks=True)


def decided(verdict: str, **fields: Any) -> Decision:
    return Decision(decision_id="1", event="pre_tool_use", verdict=verdict, **fields)  # type: ignore[arg-type]


def patched(verdict: str, value: object, **fields: Any) -> Decision:
    return decided(verdict, patch={"tool_input": value}, **fields)


@table(
    ("decision", "abilities", "expected"),
    [
        (decided("pass"), NOTHING, (ProceedRuling, False, False)),
        (decided("allow"), NOTHING, (ProceedRuling, False, True)),
        (patched("pass", OTHER), ALL, (ProceedRuling, True, False)),
        (patched("allow", OTHER), ALL, (ProceedRuling, True, True)),
        (patched("pass", dict(INPUT)), NOTHING, (ProceedRuling, False, False)),
        (patched("pass", {"limit": 3, "command": "ls"}), NOTHING, (ProceedRuling, False, False)),
    ],
)
def test_what_may_go_on_goes_on_with_the_input_that_guards_agreed_on(
    decision: Decision, abilities: SdkAbilities, expected: tuple[type, bool, bool]
) -> None:
    ruling = make_ruling(decision, "tool_input", INPUT, abilities)

    assert isinstance(ruling, ProceedRuling)
    assert (type(ruling), ruling.is_rewritten, ruling.is_approved) == expected
    assert ruling.value == (OTHER if ruling.is_rewritten else INPUT)


@table(
    ("decision", "abilities", "text"),
    [
        (decided("deny", reason="no"), ALL, "no"),
        (decided("deny", cause="crash"), ALL, "Not run: hooklatch could not judge it. "),
        (decided("halt", reason="enough"), ALL, "enough"),
        (decided("claim"), ALL, ""),
        (patched("pass", OTHER), NOTHING, "some SDK cannot replace it"),
        (patched("pass", {"command": "ls", "limit": 3.0}), NOTHING, "cannot replace it"),
        (patched("pass", {"command": "ls", "limit": True}), NOTHING, "cannot replace it"),
        (patched("allow", "ls"), ALL, "another type"),
        (patched("allow", None), ALL, "another type"),
        (decided("allow", patch={"tool_name": "Other"}), ALL, "no place for it"),
        (decided("ask", reason="look"), NOTHING, "some SDK cannot ask a person here: look"),
        (decided("ask"), NOTHING, "a hook asks for it"),
        (patched("ask", OTHER, reason="look"), NO_SHOW, "cannot show the tool_input"),
    ],
)
def test_what_may_not_or_cannot_be_said_is_refused_with_the_reason(
    decision: Decision, abilities: SdkAbilities, text: str
) -> None:
    ruling = make_ruling(decision, "tool_input", INPUT, abilities)

    assert isinstance(ruling, RefuseRuling)
    assert text in ruling.text
    assert ruling.text
    assert ruling.halts is (decision.verdict == "halt")


def test_an_unknown_verdict_is_refused() -> None:
    ruling = make_ruling(decided("surely"), "tool_input", INPUT, ALL)

    assert isinstance(ruling, RefuseRuling)


@table(("decision", "abilities"), [(decided("ask"), NO_SHOW), (decided("ask"), ALL), (patched("ask", OTHER), ALL)])
def test_a_question_shows_what_would_run(decision: Decision, abilities: SdkAbilities) -> None:
    ruling = make_ruling(decision, "tool_input", INPUT, abilities)

    assert isinstance(ruling, AskRuling)
    assert ruling.value == (OTHER if decision.patch else INPUT)


def test_a_prompt_is_ruled_like_an_input() -> None:
    cannot = make_ruling(decided("pass", patch={"prompt": "b"}), "prompt", "a", NOTHING)
    can = make_ruling(decided("pass", patch={"prompt": "b"}), "prompt", "a", ALL)

    assert isinstance(cannot, RefuseRuling)
    assert isinstance(can, ProceedRuling)
    assert can.value == "b"


@table(
    ("text", "expected"),
    [(None, {}), ("", {}), ("{}", {}), ('{"a": 1}', {"a": 1}), (b'{"a": [2]}', {"a": [2]}), ({"a": 1}, {"a": 1})],
)
def test_the_input_of_a_tool_is_an_object(text: Any, expected: dict[str, Any]) -> None:
    assert read_object(text) == expected


@table("text", ['{"a": 1, "a": 2}', "[]", "null", '"ls"', "{", "{} {}", '{"a": NaN}', '"\ud800"', "[" * 100_000])
def test_an_input_that_parsers_may_read_differently_is_none(text: str) -> None:
    with pytest.raises(UnreadableInputError):
        read_object(text)

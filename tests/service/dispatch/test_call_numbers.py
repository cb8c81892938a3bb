"""Ids for tool calls that the host gives none, and one decision for a call that is told twice."""

from __future__ import annotations

from hooklatch.service.dispatch.host_calls import LIFETIME, MAX_NUMBERED, CallNumbers, DuplicateEvents
from support.native import decided
from support.tables import table


def test_the_two_ends_of_a_call_get_one_id() -> None:
    calls = CallNumbers()

    assert calls.begin_call("k") == calls.find_open_call("k") == calls.end_call("k") == "k-1"
    assert calls.begin_call("k") == calls.end_call("k") == "k-2"


def test_equal_calls_at_once_end_in_the_order_in_which_they_began() -> None:
    calls = CallNumbers()

    assert [calls.begin_call("k"), calls.begin_call("k")] == ["k-1", "k-2"]
    assert [calls.end_call("k"), calls.end_call("k"), calls.end_call("k")] == ["k-1", "k-2", "k-2"]


def test_an_end_without_a_beginning_has_an_id_too() -> None:
    assert CallNumbers().end_call("k") == "k-1"


def test_only_so_many_calls_are_remembered() -> None:
    calls = CallNumbers()
    for number in range(MAX_NUMBERED + 1):
        calls.begin_call(str(number))

    assert calls.begin_call("0") == "0-1"
    assert calls.begin_call(str(MAX_NUMBERED)) == f"{MAX_NUMBERED}-2"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def duplicates() -> DuplicateEvents:
    return DuplicateEvents(Clock(), lambda: 1)


def test_a_decision_of_other_hooks_stands_for_nothing() -> None:
    epochs = iter([1, 2])
    told = DuplicateEvents(Clock(), lambda: next(epochs))
    told.keep("call", "first", decided("pass"))

    assert told.take("call", "second") is None


def test_the_other_event_of_a_call_gets_the_decision_once() -> None:
    told, decision = duplicates(), decided("pass")
    told.keep("call", "first", decision)

    assert told.take("call", "first") is None
    assert told.take("another", "second") is None
    assert told.take("call", "second") is decision
    assert told.take("call", "second") is None


@table("decision", [decided("deny"), decided("ask"), decided("halt"), decided("pass", patch={"tool_input": {}})])
def test_what_does_not_let_the_call_pass_as_it_is_stands_for_itself_alone(decision: object) -> None:
    told = duplicates()
    told.keep("call", "first", decision)  # type: ignore[arg-type]  # a table's column

    assert told.take("call", "second") is None


def test_an_old_decision_stands_for_nothing() -> None:
    clock = Clock()
    told = DuplicateEvents(clock, lambda: 1)
    told.keep("call", "first", decided("pass"))
    clock.now = LIFETIME + 1

    assert told.take("call", "second") is None


def test_two_equal_calls_need_two_decisions() -> None:
    told = duplicates()
    for _ in range(2):
        told.keep("call", "first", decided("pass"))

    assert [told.take("call", "second") is None for _ in range(3)] == [False, False, True]


def test_an_event_that_is_told_once_keeps_nothing() -> None:
    told = duplicates()
    told.keep("", "first", decided("pass"))

    assert told.take("", "second") is None

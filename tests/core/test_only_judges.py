"""Guards marked `only_judges` run at the same time, with the decision that their order would have given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, PythonTarget, ServedTarget
from hooklatch.core.hooks.snapshots import group_hooks
from hooklatch.core.messages import FireDecision
from hooklatch_worker.author.verdicts import allow, amend, ask, context, deny, halt, inject, warn
from hooklatch_worker.wire import Source
from support.plays import CATALOGUE, Play, Reply, begin, end, failed, hook, outcome_of, play
from support.profiles import examples
from support.tables import table

MESSAGE = {"role": "user", "content": "look"}
PROMPT = {"prompt": "hello"}
MARKED = {"only_judges": True}


def spec(**axes: Any) -> EventSpec:
    return msgspec.structs.replace(CATALOGUE["pre_tool_use"], match="prompt", patch=frozenset({"prompt"}), **axes)


GATE = spec()
ASKING = spec(ends_at=frozenset({"deny", "halt", "ask"}))
PATIENT = spec(view="original", combine="first_wins", ends_at=frozenset())
FIRST, LAST = spec(view="original", combine="first_wins"), spec(view="original", combine="last_wins")


def together(*, arrival: Sequence[str] = (), axes: EventSpec = GATE, **replies: Reply) -> Play:
    """Play a gate whose hooks are all marked."""
    return play(axes, payload=PROMPT, arrival=arrival, marks=dict.fromkeys(replies, MARKED), **replies)


def told(decision: FireDecision) -> list[tuple[str, str | None, bool]]:
    return [(one.hook, one.verdict or one.outcome, one.unneeded) for one in decision.outcomes]


# -- who is called when ------------------------------------------------------------------------------------------


def written(text: str) -> list[Hook]:
    """Return hooks: "j" only judges, "J" is one of a source (with "K" of another), "g" may change, "a" amends."""
    targets = {word: PythonTarget(Source("file", f"/{word}.py", "1"), 1, "f") for word in "JK"}
    return [
        hook(
            f"{word}{number}", GATE.name, only_judges=word in "jJK", amends=word == "a",
            target=targets.get(word, ServedTarget(number)),
        )
        for number, word in enumerate(text)
    ]  # fmt: skip


@table(
    ("hooks", "groups"),
    [
        ("", ""),
        ("g", "g"),
        ("j", "j"),
        ("jj", "jj"),
        ("jjj", "jjj"),
        ("gg", "g g"),
        ("jgj", "j g j"),  # what g changes, the one behind it must judge
        ("gjjg", "g jj g"),
        ("jajj", "j a jj"),
        ("JJJJ", "JJJJ"),
        ("JJJJJ", "JJJJ J"),  # not more of a source than it has workers
        ("JJJJKKKK", "JJJJKKKK"),
        ("JJJJKJ", "JJJJK J"),
    ],
)
def test_neighbours_that_only_judge_are_called_at_the_same_time(hooks: str, groups: str) -> None:
    found = group_hooks(GATE, written(hooks))

    assert " ".join("".join(one.id[0] for one in group) for group in found) == groups


def test_an_amender_between_two_guards_has_been_called_before_and_does_not_part_them() -> None:
    hooks = [hook("a", **MARKED), hook("amender", amends=True), hook("b", **MARKED)]
    fire = begin(CATALOGUE["pre_tool_use"], hooks, {"tool_name": "Bash", "tool_input": {}})
    (first,) = fire.next_calls()
    fire.receive(first, outcome_of(None))

    assert [first.hook.id, *(call.hook.id for call in fire.next_calls())] == ["amender", "a", "b"]


def test_all_of_them_are_shown_what_those_before_them_made() -> None:
    marks = {"b": MARKED, "c": MARKED}

    played = play(GATE, payload=PROMPT, marks=marks, a=amend(prompt="bye"), b=None, c=None)

    assert [shown["prompt"] for shown in played.shown] == ["hello", "bye", "bye"]


def test_guards_that_are_asked_again_are_asked_at_the_same_time_too() -> None:
    hooks = [hook("a", **MARKED), hook("b", **MARKED), hook("c")]
    fire = begin(GATE, hooks, PROMPT)
    for call in fire.next_calls():
        fire.receive(call, outcome_of(None))
    (changing,) = fire.next_calls()
    fire.receive(changing, outcome_of(amend(prompt="bye")))

    assert [(call.hook.id, call.reinvoked) for call in fire.next_calls()] == [("a", True), ("b", True)]


def test_no_further_call_is_made_before_all_have_answered() -> None:
    fire = begin(GATE, [hook("a", **MARKED), hook("b", **MARKED), hook("c")], PROMPT)
    first, second = fire.next_calls()

    fire.receive(second, outcome_of(None))
    assert fire.next_calls() == ()
    fire.receive(first, outcome_of(None))
    assert [call.hook.id for call in fire.next_calls()] == ["c"]


# -- what counts -------------------------------------------------------------------------------------------------

LATE_REFUSAL = [("a", "deny", False), ("b", "deny", True)]


@table(
    ("replies", "verdict", "decider", "outcomes"),
    [
        ([None, None], "pass", None, [("a", "answered", False), ("b", "answered", False)]),
        ([allow(), None], "allow", "a", [("a", "allow", False), ("b", "answered", False)]),
        ([None, deny("no")], "deny", "b", [("a", "answered", False), ("b", "deny", False)]),
        ([deny("no"), None], "deny", "a", [("a", "deny", False), ("b", "answered", True)]),
        ([deny("no"), deny("never")], "deny", "a", LATE_REFUSAL),
        ([deny("no"), halt("stop")], "deny", "a", [("a", "deny", False), ("b", "halt", True)]),
        ([halt("stop"), deny("no")], "halt", "a", [("a", "halt", False), ("b", "deny", True)]),
        ([ask("sure?"), deny("no")], "deny", "b", [("a", "ask", False), ("b", "deny", False)]),
        ([failed("crash"), deny("no")], "deny", "a", [("a", "failed", False), ("b", "deny", True)]),
        ([deny("no"), failed("crash")], "deny", "a", [("a", "deny", False), ("b", "failed", True)]),
        ([deny("no"), failed("overload")], "deny", "a", [("a", "deny", False), ("b", "dropped", True)]),
        ([deny("no"), b"garbage"], "deny", "a", [("a", "deny", False), ("b", "failed", True)]),
    ],
)
@pytest.mark.parametrize("arrival", ["ab", "ba"])
def test_the_first_refusal_in_order_decides_whoever_answered_first(
    arrival: str, replies: list[Reply], verdict: str, decider: str | None, outcomes: list[tuple[str, str, bool]]
) -> None:
    decision = together(arrival=arrival, a=replies[0], b=replies[1]).decision

    assert (decision.verdict, decision.hook, told(decision)) == (verdict, decider, outcomes)


@pytest.mark.parametrize("arrival", ["ab", "ba"])
def test_of_what_was_not_needed_nothing_is_in_the_decision_but_its_outcome(arrival: str) -> None:
    said = warn("hm").inject(MESSAGE)

    decision = together(arrival=arrival, a=deny("no"), b=said).decision

    assert (decision.inject, decision.warnings, len(decision.outcomes)) == ([], [], 2)


@pytest.mark.parametrize("arrival", ["abc", "bac"])
def test_a_second_answer_that_was_not_needed_does_not_replace_the_first(arrival: str) -> None:
    marks = {"a": MARKED, "b": MARKED}

    decision = play(
        GATE, payload=PROMPT, arrival=arrival, marks=marks,
        a=[None, deny("no")], b=[inject(MESSAGE), None], c=amend(prompt="bye"),
    ).decision  # fmt: skip

    assert (decision.hook, decision.inject, decision.outcomes[-1].unneeded) == ("a", [MESSAGE], True)


def test_where_an_ask_ends_the_chain_a_refusal_behind_it_is_not_needed() -> None:
    decision = together(axes=ASKING, arrival="ba", a=ask("sure?"), b=deny("no")).decision

    assert (decision.verdict, told(decision)) == ("ask", [("a", "ask", False), ("b", "deny", True)])


def test_where_no_refusal_ends_the_chain_all_are_needed_and_the_first_one_decides() -> None:
    decision = together(axes=PATIENT, arrival="ba", a=deny("no"), b=deny("never")).decision

    assert (decision.hook, told(decision)) == ("a", [("a", "deny", False), ("b", "deny", False)])


@table(
    ("reply", "said"),
    [
        (amend(prompt="bye"), "changed the payload; remove the mark"),
        (allow().amend(prompt="bye"), "changed the payload; remove the mark"),
        (amend(prompt="hello"), "changed the payload; remove the mark"),  # whatever it comes to
        (context(n=1), "changed the context; remove the mark"),
    ],
)
@pytest.mark.parametrize("others", [{}, {"b": None}])
def test_who_changes_something_in_spite_of_its_mark_denies(
    others: Mapping[str, Reply], reply: Reply, said: str
) -> None:
    decision = together(a=reply, **others).decision

    assert (decision.verdict, decision.cause, decision.hook, decision.patch) == ("deny", "protocol", "a", None)
    assert said in str(decision.reason)
    assert decision.context == {}


def test_a_refusal_is_decided_before_those_behind_it_have_answered_and_lists_them() -> None:
    fire = begin(GATE, [hook(name, **MARKED) for name in "abcd"], PROMPT)
    first, _, third, _ = fire.next_calls()

    fire.receive(third, outcome_of(deny("never")))
    assert not fire.is_settled
    fire.receive(first, outcome_of(deny("no")))

    assert fire.is_settled
    outcomes = [("a", "deny", False), ("b", "unawaited", True), ("c", "deny", True), ("d", "unawaited", True)]
    assert told(end(fire)) == outcomes


def test_who_is_asked_for_a_decision_before_all_have_answered_is_refused() -> None:
    fire = begin(GATE, [hook("a", **MARKED), hook("b", **MARKED)], PROMPT)
    _, second = fire.next_calls()

    fire.receive(second, outcome_of(allow()))

    assert (end(fire).verdict, end(fire).reason) == ("deny", "undecided")


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_outcomes_of_one_call_the_first_one_counts(number: int) -> None:
    fire = begin(GATE, [hook("a", **MARKED), hook("b", **MARKED)], PROMPT)
    calls = fire.next_calls()

    fire.receive(calls[number], failed("timeout"))
    fire.receive(calls[number], outcome_of(allow()))
    fire.receive(calls[1 - number], outcome_of(None))

    assert fire.next_calls() == ()
    assert (end(fire).cause, len(end(fire).outcomes)) == ("timeout", 2)


# -- the same decision as in order -------------------------------------------------------------------------------

JUDGEMENTS: list[Reply] = [
    None, allow(), allow("fine").warn("hm"), warn("careful"), inject(MESSAGE), ask("sure?"), ask("?").inject(MESSAGE),
    deny("no"), deny("never").warn("really"), halt("stop"), failed("crash", "it broke"), failed("timeout"),
    failed("overload"), b"garbage", b"null",
]  # fmt: skip
CHANGES: list[Reply] = [amend(prompt="bye"), amend(prompt="hello there"), allow().amend(prompt="bye"), context(n=1)]
MARKS: list[dict[str, Any]] = [{}, {}, {}, {"observe": True}, {"optional": True}]
MATCHES = [{}, {}, {"match": {"regex": "hello.*"}}, {"match": "bye"}]
GUARD = st.tuples(st.sampled_from(JUDGEMENTS), st.sampled_from(MARKS), st.sampled_from(MATCHES), st.just(MARKED))
OTHER = st.tuples(
    st.sampled_from([*JUDGEMENTS, *CHANGES]), st.sampled_from(MARKS), st.sampled_from(MATCHES),
    st.sampled_from([{}, {"amends": True}]),
)  # fmt: skip
Written = tuple[Reply, dict[str, Any], dict[str, Any], dict[str, Any]]


def needed(decision: FireDecision) -> FireDecision:
    """Return a decision without what only running at the same time adds to it."""
    return msgspec.structs.replace(decision, outcomes=[one for one in decision.outcomes if not one.unneeded])


@examples(240)
@given(
    st.lists(st.one_of(GUARD, GUARD, OTHER), min_size=1, max_size=6),
    st.sampled_from([GATE, GATE, ASKING, PATIENT, FIRST, LAST]),
    st.randoms(use_true_random=False),
)
def test_the_decision_is_that_of_the_order_whenever_answers_come(
    hooks: list[Written], axes: EventSpec, random: Any
) -> None:
    names = [f"h{number}" for number in range(len(hooks))]
    replies = {name: written[0] for name, written in zip(names, hooks, strict=True)}
    in_order = {name: {**marks, **match, **mark} for name, (_, marks, match, mark) in zip(names, hooks, strict=True)}
    for marks in in_order.values():
        marks.pop("only_judges", None)
    at_once = {name: {**in_order[name], **written[3]} for name, written in zip(names, hooks, strict=True)}
    arrival = random.sample(names, len(names))

    one_by_one = play(axes, payload=PROMPT, marks=in_order, **replies)
    played = play(axes, payload=PROMPT, marks=at_once, arrival=arrival, **replies)

    assert needed(played.decision) == one_by_one.decision
    assert {*one_by_one.asked} <= {*played.asked}


def test_the_decision_of_four_guards_is_the_same_in_each_order_of_arrival() -> None:
    replies: dict[str, Reply] = {"a": ask("sure?"), "b": warn("hm"), "c": deny("no"), "d": failed("crash")}

    decisions = [together(arrival=arrival, **replies).decision for arrival in permutations("abcd")]

    assert all(decision == decisions[0] for decision in decisions)
    assert (decisions[0].hook, told(decisions[0])[3]) == ("c", ("d", "failed", True))

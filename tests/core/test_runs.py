"""Hooks of one source that are run one after the other by one worker: the decision is that of calling each alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.call import Call
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook, PythonTarget, ServedTarget
from hooklatch.core.hooks.snapshots import MAX_RUN, RUN_TIMEOUT, plan_call_groups
from hooklatch.core.messages import CallOutcome
from hooklatch_worker.author.verdicts import allow, amend, append, ask, claim, context, deny, halt, inject, last, warn
from hooklatch_worker.wire import Source
from support.plays import CATALOGUE, Reply, begin, end, failed, hook, outcome_of
from support.profiles import examples
from support.tables import table

GATE = CATALOGUE["pre_tool_use"]


def function(source: str = "a", build: int = 1, **rest: Any) -> PythonTarget:
    return PythonTarget(Source("file", f"/{source}.py", "1"), build, "f", **rest)


# -- which hooks can share a worker ------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "a": {"target": function()},
    "b": {"target": function("b")},
    "2": {"target": function(build=2)},
    "s": {"target": ServedTarget(1)},
    "c": {"target": function(command="true")},
    "n": {"target": function(dialect="radium", native="Stop")},
    "p": {"target": function(), "problem": "it is gone"},
    "q": {"target": function(), "timeout": RUN_TIMEOUT / 2},
    "j": {"target": function(), "only_judges": True},
    "l": {"target": function(), "config": b" " * 2**17},
}


def written(text: str, event: str = GATE.name) -> list[Hook]:
    return [hook(f"{kind}{number}", event, **KINDS[kind]) for number, kind in enumerate(text)]


@table(
    ("hooks", "runs"),
    [
        ("", ""),
        ("a", "a"),
        ("aaa", "aaa aa a"),
        ("aab", "aa a b"),
        ("aba", "a b a"),
        ("bba", "bb b a"),
        ("a2", "a 2"),
        ("ss", "s s"),
        ("cc", "c c"),
        ("anna", "a n n a"),
        ("apa", "a p a"),
        ("aqa", "a q a"),
        ("ala", "a l a"),
        ("aja", "aja ja a"),
        ("ajja", "a jj a"),  # neighbours that only judge run at the same time
    ],
)
def test_who_can_share_a_worker(hooks: str, runs: str) -> None:
    found = plan_call_groups(GATE, written(hooks))

    assert " ".join("".join(one.id[0] for one in (*turn.hooks, *turn.following)) for turn in found) == runs


def test_no_worker_is_given_more_than_a_few() -> None:
    first, *_, last_one = plan_call_groups(GATE, written("a" * 100))

    assert (1 + len(first.following), last_one.following) == (MAX_RUN, ())


def test_hooks_that_run_at_the_same_time_share_none() -> None:
    event = msgspec.structs.replace(CATALOGUE["notification"], flow="concurrent")

    assert [(len(turn.hooks), turn.following) for turn in plan_call_groups(event, written("aaa", event.name))] == [
        (3, ())
    ]


def test_a_hook_that_sees_what_others_merged_goes_alone() -> None:
    axes = msgspec.structs.replace(GATE, view="original", combine="first_wins")
    fire = begin(axes, written("aaaa"), {"tool_name": "Bash", "tool_input": {}})
    (first,) = fire.next_calls()
    fire.receive(first, outcome_of(amend(tool_input={"command": "ls"})))

    (second,) = fire.next_calls()

    assert (len(first.following), second.merged is not None, second.following) == (3, True, ())


# -- what they decide --------------------------------------------------------------------------------------------

Runner = Callable[[Call, Callable[[Call], CallOutcome]], CallOutcome]


def alone(call: Call, answer: Callable[[Call], CallOutcome]) -> CallOutcome:
    return answer(call)


def in_runs(cuts: Sequence[bool]) -> Runner:
    """Run calls as a worker does, which may stop after any of them, also after one that had nothing to say."""
    script = iter(cuts)

    def run(call: Call, answer: Callable[[Call], CallOutcome]) -> CallOutcome:
        outcome, before = answer(call), list[float]()
        for following in call.following:
            if outcome.cause != "policy" or outcome.answer or next(script, False):
                break
            before.append(outcome.duration_ms)
            index = call.index + len(before)  # not used: the machine makes calls of its own
            outcome = answer(msgspec.structs.replace(call, hook=following, index=index, following=()))
        return msgspec.structs.replace(outcome, earlier_ms=tuple(before))

    return run


def played(
    spec: EventSpec, hooks: Sequence[Hook], replies: dict[str, list[Reply]], run: Runner
) -> tuple[bytes, list[object]]:
    """Play a fire; return the decision, and each call as its hook saw it."""
    fire = begin(spec, hooks, {spec.match or "x": "v", "tool_name": "v"}, {"by": "the host"})
    script = {name: iter(said) for name, said in replies.items()}
    seen: list[object] = []

    def answer(call: Call) -> CallOutcome:
        seen.append((call.hook.id, call.payload.data, call.context, call.merged, call.reinvoked))
        return msgspec.structs.replace(outcome_of(next(script[call.hook.id], None)), duration_ms=float(len(seen)))

    while asked := fire.next_calls():
        for call, outcome in [(call, run(call, answer)) for call in asked]:
            fire.receive(call, outcome)
    decision = end(fire)
    untimed = [
        msgspec.structs.replace(one, began_ms=0) for one in decision.outcomes
    ]  # one by one, the test has no clock
    return msgspec.json.encode(msgspec.structs.replace(decision, outcomes=untimed)), seen


KEYS = {name: sorted(spec.patch) for name, spec in CATALOGUE.items()}
EVENTS = ["pre_tool_use", "post_tool_use", "post_model", "error_recover", "prompt_build", "user_prompt_submit"]


def said(event: str) -> st.SearchStrategy[Reply]:
    patches = [amend(**{key: value}) for key in KEYS[event] for value in ({"n": 1}, {"n": 2}, "v")]
    words: list[Reply] = [
        deny("no"), halt("stop"), ask("sure?"), allow(), claim(1), warn("look"), context(a=1), context(a=2), last(),
        append("text"), inject({"role": "user", "content": "look"}), b"{}", b"null", b"garbage",
        failed("crash", "it broke"), failed("timeout"), failed("protocol", "what?"), *patches,
    ]  # fmt: skip
    return st.none() | st.none() | st.sampled_from(words)


@st.composite
def chains(draw: st.DrawFn) -> tuple[EventSpec, list[Hook], dict[str, list[Reply]]]:
    event = draw(st.sampled_from(EVENTS))
    axes = {"view": draw(st.sampled_from(["original", "threaded"])), "flow": "sequential"}
    spec = msgspec.structs.replace(CATALOGUE[event], **axes)
    hooks = [
        hook(
            f"h{number}", event, target=function(draw(st.sampled_from("aab"))),
            amends=spec.is_gate and draw(st.integers(0, 4)) == 0,
            only_judges=spec.is_gate and draw(st.integers(0, 6)) == 0,
            observe=draw(st.integers(0, 6)) == 0, optional=draw(st.integers(0, 6)) == 0,
        )
        for number in range(draw(st.integers(1, 8)))
    ]  # fmt: skip
    return spec, hooks, {one.id: draw(st.lists(said(event), max_size=3)) for one in hooks}


@given(chain=chains(), cuts=st.lists(st.booleans(), max_size=12))
@examples(160)
def test_a_chain_decides_alike_in_runs_and_one_by_one(
    chain: tuple[EventSpec, list[Hook], dict[str, list[Reply]]], cuts: list[bool]
) -> None:
    assert played(*chain, in_runs(cuts)) == played(*chain, alone)


def test_a_run_is_of_outcomes_that_each_have_their_hook_and_time() -> None:
    fire = begin(GATE, written("aaaa"), {"tool_name": "Bash", "tool_input": {}})
    (first,) = fire.next_calls()

    fire.receive(first, msgspec.structs.replace(failed("crash", "it broke"), earlier_ms=(1.5, 2.5), duration_ms=3.5))
    decision = end(fire)

    told = [(one.hook, one.outcome, one.began_ms, one.duration_ms, one.earlier_ms) for one in decision.outcomes]
    assert told == [("a0", "answered", 0, 1.5, ()), ("a1", "answered", 1.5, 2.5, ()), ("a2", "failed", 4, 3.5, ())]
    assert (decision.verdict, decision.hook, fire.next_calls()) == ("deny", "a2", ())

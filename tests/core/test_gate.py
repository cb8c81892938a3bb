"""The gate's state machine: which hooks are called, in which order, with what, and the effect of their answers."""

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition, EventSpec
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.hooks.snapshots import EventHooks
from hooklatch.core.payload import Payload
from hooklatch.core.phases import start_machine
from hooklatch_worker.author.verdicts import allow, amend, append, ask, context, deny, halt, inject, warn
from support.plays import (
    BASH,
    CATALOGUE,
    MESSAGE,
    PROMPT,
    SAFE,
    SAFER,
    Reply,
    begin,
    end,
    failed,
    hook,
    outcome_of,
    play,
)
from support.tables import table


@table(
    ("replies", "verdict", "decider"),
    [
        ([], "pass", None),
        ([None], "pass", None),
        ([warn("hm")], "pass", None),
        ([None, allow()], "allow", "h1"),
        ([allow("fine"), allow()], "allow", "h0"),
        ([ask("sure?")], "ask", "h0"),
        ([allow(), ask("sure?")], "ask", "h1"),
        ([ask("sure?"), allow()], "ask", "h0"),
        ([ask("first"), ask("second")], "ask", "h0"),
        ([ask("sure?"), deny("no")], "deny", "h1"),
        ([ask("sure?"), halt("stop")], "halt", "h1"),
        ([allow(), deny("no")], "deny", "h1"),
        ([deny("no"), halt("stop")], "deny", "h0"),
        ([halt("stop"), deny("no")], "halt", "h0"),
        ([ask("sure?"), failed("crash")], "deny", "h1"),
        ([failed("timeout"), allow()], "deny", "h0"),
    ],
)
def test_a_gate_combines_by_deny_overrides(replies: list[Reply], verdict: str, decider: str | None) -> None:
    decision = play("pre_tool_use", **{f"h{index}": reply for index, reply in enumerate(replies)}).decision

    assert (decision.verdict, decision.hook) == (verdict, decider)
    assert decision.cause in ("policy", "crash", "timeout") if decider else decision.cause is None


@table(
    ("replies", "instead"),
    [
        ([deny("no", instead="ls")], "ls"),
        ([None, ask("sure?", instead="pwd"), deny("no", instead="ls")], "ls"),  # that of the reason
        ([ask("sure?", instead="pwd"), deny("no")], None),
        ([ask("sure?", instead="pwd"), ask("really?", instead="ls")], "pwd"),
        ([ask("sure?", instead="pwd"), halt("stop")], None),
        ([ask("sure?", instead="pwd"), failed("crash")], None),
        ([allow()], None),
    ],
)
def test_what_to_run_instead_goes_with_the_reason_that_decides(replies: list[Reply], instead: str | None) -> None:
    decision = play("pre_tool_use", **{f"h{index}": reply for index, reply in enumerate(replies)}).decision

    assert decision.instead == instead


@pytest.mark.parametrize("answer", [b'{"instead": "ls"}', b'{"verdict": "allow", "instead": "ls"}'])
def test_a_command_to_run_instead_of_nothing_denies(answer: bytes) -> None:
    decision = play("pre_tool_use", a=answer).decision

    assert (decision.verdict, decision.cause, decision.instead) == ("deny", "protocol", None)
    assert "`instead` needs the verdict 'deny' or 'ask'" in str(decision.reason)


@pytest.mark.parametrize("refusal", [deny("no"), halt("stop"), failed("crash")])
def test_the_first_refusal_ends_the_chain(refusal: Reply) -> None:
    assert play("pre_tool_use", a=None, b=refusal, c=None).asked == ["a", "b"]


def test_an_ask_lets_the_chain_go_on() -> None:
    assert play("pre_tool_use", a=ask("sure?"), b=None).asked == ["a", "b"]


def test_a_decision_names_who_decided_and_why() -> None:
    decision = play("pre_tool_use", a=deny("no force pushes")).decision

    assert (decision.layer, decision.hook, decision.cause) == ("session", "a", "policy")
    assert decision.reason == "no force pushes"
    assert (decision.decision_id, decision.revision, decision.duration_ms) == ("d1", 7, 1.5)


@pytest.mark.parametrize("verdict", ["deny", "halt", "ask"])
def test_an_empty_reason_never_flips_a_verdict(verdict: str) -> None:
    for reply in (b'{"verdict": "%s"}', b'{"verdict": "%s", "reason": ""}', b'{"verdict": "%s", "reason": null}'):
        assert play("pre_tool_use", a=reply % verdict.encode()).decision.verdict == verdict


def test_each_hook_is_shown_the_payload_as_patched_so_far() -> None:
    played = play("pre_tool_use", a=amend(tool_input=SAFE), b=None)

    assert [shown["tool_input"] for shown in played.shown[:2]] == [BASH["tool_input"], SAFE]
    assert played.patch == {"tool_input": SAFE}
    assert played.decision.payload_digest == played.calls[1].payload.digest()


def test_patches_of_several_hooks_add_up() -> None:
    played = play("user_prompt_submit", payload=PROMPT, a=amend(prompt="bye"), b=amend(params={"n": 1}))

    assert played.patch == {"prompt": "bye", "params": {"n": 1}}


@pytest.mark.parametrize("refusal", [deny("no"), halt("stop"), failed("crash")])
def test_a_refusal_drops_patches_and_keeps_injected_messages(refusal: Reply) -> None:
    played = play("pre_tool_use", a=amend(tool_input=SAFE).inject(MESSAGE), b=refusal)

    assert played.decision.patch is None
    assert played.decision.inject == [MESSAGE]
    assert played.decision.payload_digest == played.calls[0].payload.digest()


def test_what_the_refusing_hook_itself_patches_is_dropped_and_what_it_injects_is_kept() -> None:
    decision = play("pre_tool_use", a=deny("no").amend(tool_input=SAFE).inject(MESSAGE)).decision

    assert (decision.verdict, decision.patch, decision.inject) == ("deny", None, [MESSAGE])


def test_a_refusal_drops_what_was_appended() -> None:
    (spec,) = custom({"name": "deploy", "model": "gate", "verdicts": ["deny"], "outputs": ["append"]})

    assert play(spec, payload={}, a=append("x"), b=None).decision.append == "x"
    assert play(spec, payload={}, a=append("x"), b=deny("no")).decision.append is None


def test_an_ask_keeps_patches() -> None:
    played = play("pre_tool_use", a=ask("sure?").amend(tool_input=SAFE))

    assert played.decision.verdict == "ask"
    assert played.patch == {"tool_input": SAFE}


def custom(*definitions: dict[str, Any]) -> list[Any]:
    return list(Catalogue([]).with_custom(msgspec.convert(definitions, list[EventDefinition])).values())


def test_who_saw_another_payload_than_the_final_one_is_asked_again_once() -> None:
    played = play("pre_tool_use", a=None, b=amend(tool_input=SAFE), c=None)

    assert played.asked == ["a", "b", "c", "a again"]
    assert all(shown["tool_input"] == SAFE for shown in played.shown[2:])


def test_a_patch_that_changes_nothing_asks_nobody_again() -> None:
    played = play("pre_tool_use", a=None, b=b'{"patch": {"tool_input": {"command" : "l\\u0073"}}}')

    assert played.asked == ["a", "b"]
    assert played.decision.patch is None


def test_changes_of_the_context_ask_nobody_again() -> None:
    played = play("pre_tool_use", context={"n": 1}, a=context(n=2), b=context(m=3))

    assert played.asked == ["a", "b"]
    assert [call.context for call in played.calls] == [{"n": 1}, {"n": 2}]
    assert played.decision.context == {"n": 2, "m": 3}


def test_a_guard_that_denies_the_final_payload_refuses_it() -> None:
    played = play("pre_tool_use", a=[allow(), deny("not that")], b=amend(tool_input=SAFE))

    assert (played.decision.verdict, played.decision.hook, played.decision.patch) == ("deny", "a", None)
    assert played.asked == ["a", "b", "a again"]


@pytest.mark.parametrize("again", [amend(tool_input=SAFER), allow().amend(tool_input=SAFER)])
def test_a_further_change_is_unsettled(again: Reply) -> None:
    played = play("pre_tool_use", a=[None, again], b=amend(tool_input=SAFE))

    assert (played.decision.verdict, played.decision.cause, played.decision.hook) == ("deny", "unsettled", "a")
    assert played.decision.patch is None
    assert "mark it amends = true" in str(played.decision.reason)


def test_a_lone_hook_is_not_asked_about_its_own_patch() -> None:
    played = play("pre_tool_use", a=amend(tool_input=SAFE))

    assert played.asked == ["a"]
    assert (played.decision.verdict, played.patch) == ("pass", {"tool_input": SAFE})


def test_a_hook_that_patches_to_the_same_again_is_settled() -> None:
    played = play("pre_tool_use", a=amend(tool_input=SAFE), b=[amend(tool_input=SAFER), None], c=amend(tool_input=SAFE))

    assert played.asked == ["a", "b", "c", "a again", "b again"]


def test_a_failure_when_asked_again_denies() -> None:
    decision = play("pre_tool_use", a=[allow(), failed("crash")], b=[amend(tool_input=SAFE), None]).decision

    assert (decision.verdict, decision.cause, decision.hook) == ("deny", "crash", "a")


def test_a_hook_that_only_matches_the_changed_payload_is_asked_about_it() -> None:
    played = play(
        "user_prompt_submit", payload=PROMPT, marks={"b": {"match": "bye"}}, a=amend(prompt="bye"), b=deny("rude")
    )

    assert played.asked == ["a", "b"]
    assert (played.decision.verdict, played.decision.hook) == ("deny", "b")


def test_an_earlier_hook_that_only_matches_the_changed_payload_is_asked_about_it() -> None:
    played = play(
        "user_prompt_submit", payload=PROMPT, marks={"a": {"match": "bye"}}, a=deny("rude"), b=amend(prompt="bye")
    )

    assert played.asked == ["b", "a again"]
    assert (played.decision.verdict, played.decision.hook) == ("deny", "a")


def test_a_hook_that_no_longer_matches_is_not_asked_again() -> None:
    played = play("user_prompt_submit", payload=PROMPT, marks={"a": {"match": "hello"}}, a=None, b=amend(prompt="bye"))

    assert played.asked == ["a", "b"]


def test_a_hook_that_does_not_match_what_was_made_before_its_turn_is_not_asked() -> None:
    played = play(
        "user_prompt_submit", payload=PROMPT, marks={"b": {"match": "hello"}}, a=amend(prompt="bye"), b=deny("no")
    )

    assert (played.asked, played.decision.verdict) == (["a"], "pass")


@pytest.mark.parametrize("value", [None, 5, ["Bash"]])
def test_a_change_that_leaves_a_matcher_without_a_string_denies(value: object) -> None:
    marks = {"b": {"match": "Bash"}}

    played = play("tool_selection", payload={"tool_name": "Read"}, marks=marks, a=amend(tool_name=value), b=deny("no"))

    assert (played.decision.verdict, played.decision.cause, played.decision.hook) == ("deny", "payload", "a")
    assert "after its change, its field 'tool_name' is missing, not a string" in str(played.decision.reason)


def test_a_second_answer_replaces_the_first_with_all_its_outputs() -> None:
    first = ask("sure?").inject({"role": "user", "content": "first"}).warn("first")
    second = inject({"role": "user", "content": "second"}).warn("second")

    decision = play("pre_tool_use", a=[first, second], b=[amend(tool_input=SAFE), None]).decision

    assert decision.verdict == "pass"
    assert [message["content"] for message in decision.inject] == ["second"]
    assert decision.warnings == ["second"]


def test_a_first_ask_of_a_hook_that_then_has_no_opinion_is_gone() -> None:
    assert play("pre_tool_use", a=[ask("?"), None], b=[amend(tool_input=SAFE), None]).decision.verdict == "pass"


@pytest.mark.parametrize("observe", [False, True])
def test_a_first_warning_of_a_hook_that_then_has_no_opinion_is_gone(*, observe: bool) -> None:
    first = deny("first") if observe else warn("first")

    played = play("pre_tool_use", marks={"a": {"observe": observe}}, a=[first, None], b=[amend(tool_input=SAFE), None])

    assert played.asked == ["a", "b", "a again"]
    assert played.decision.warnings == []


@pytest.mark.parametrize("message", [{"role": "user"}, {"content": "look"}, {"role": 1, "content": "look"}, {}])
def test_an_injected_message_needs_a_role_and_a_content(message: dict[str, Any]) -> None:
    reply = msgspec.json.encode({"inject": [message]})

    decision = play("pre_tool_use", a=reply).decision

    assert (decision.verdict, decision.cause) == ("deny", "protocol")
    assert "an injected message needs a role (a string) and a content" in str(decision.reason)


def test_an_allow_of_a_superseded_payload_is_worth_nothing() -> None:
    marks = {"a": {"match": "hello"}}
    (spec,) = custom(
        {"name": "deploy", "model": "gate", "verdicts": ["deny", "allow"], "patch": ["prompt"], "match": "prompt"}
    )

    decision = play(spec, payload=PROMPT, marks=marks, a=allow(), b=amend(prompt="bye")).decision

    assert decision.verdict == "pass"


def test_an_allow_of_the_final_payload_counts() -> None:
    assert play("pre_tool_use", a=amend(tool_input=SAFE), b=allow()).decision.verdict == "allow"


def test_each_run_of_a_hook_is_an_outcome() -> None:
    outcomes = play("pre_tool_use", a=[None, allow("ok")], b=amend(tool_input=SAFE)).decision.outcomes

    assert [(o.hook, o.verdict, o.message, o.reinvoked) for o in outcomes] == [
        ("a", None, "", False),
        ("b", None, "", False),
        ("a", "allow", "ok", True),
    ]


def test_hooks_of_one_name_in_two_ancestors_are_told_apart() -> None:
    hooks = [hook("a", timeout=1.0), hook("b", timeout=2.0), hook("a", timeout=3.0)]
    fire = begin(CATALOGUE["pre_tool_use"], hooks, BASH)
    asked = []

    while calls := fire.next_calls():
        asked.append(calls[0].hook.timeout)
        fire.receive(calls[0], outcome_of(amend(tool_input=SAFE) if calls[0].hook.id == "b" else None))

    assert asked == [1.0, 2.0, 3.0, 1.0]


def test_a_gate_that_is_asked_early_denies() -> None:
    fire = begin(CATALOGUE["pre_tool_use"], [hook("a")], BASH)

    before = end(fire)
    fire.next_calls()
    during = end(fire)

    for decision in (before, during):
        assert (decision.verdict, decision.cause, decision.reason) == ("deny", "protocol", "undecided")


def test_a_gate_that_is_asked_between_two_answers_denies_without_a_patch() -> None:
    fire = begin(CATALOGUE["pre_tool_use"], [hook("a"), hook("b")], BASH)
    (call,) = fire.next_calls()
    fire.receive(call, outcome_of(allow().amend(tool_input=SAFE)))

    assert (end(fire).verdict, end(fire).patch) == ("deny", None)


def test_a_gate_waits_for_the_call_that_is_out() -> None:
    fire = begin(CATALOGUE["pre_tool_use"], [hook("a")], BASH)
    fire.next_calls()

    assert fire.next_calls() == ()
    assert end(fire).verdict == "deny"


def test_an_answer_that_comes_after_the_deadline_changes_nothing() -> None:
    fire = begin(CATALOGUE["pre_tool_use"], [hook("a")], BASH)
    (call,) = fire.next_calls()

    fire.receive(call, failed("timeout"))
    fire.receive(call, outcome_of(allow().amend(tool_input=SAFE)))

    assert (end(fire).verdict, end(fire).cause) == ("deny", "timeout")
    assert len(end(fire).outcomes) == 1


def spec_with(**axes: object) -> EventSpec:
    return msgspec.structs.replace(CATALOGUE["pre_tool_use"], **axes)


def test_where_hooks_are_shown_the_original_the_first_patch_of_a_key_wins() -> None:
    spec = spec_with(view="original", combine="first_wins")

    played = play(spec, a=amend(tool_input=SAFE), b=amend(tool_input=SAFER))

    assert [shown["tool_input"] for shown in played.shown[:2]] == [BASH["tool_input"], BASH["tool_input"]]
    assert played.asked == ["a", "b", "b again"]  # the merge is what a alone made
    assert (played.decision.verdict, played.patch) == ("pass", {"tool_input": SAFE})


def test_where_hooks_are_shown_the_original_the_last_patch_of_a_key_may_win() -> None:
    spec = spec_with(view="original", combine="last_wins")

    played = play(spec, a=amend(tool_input=SAFE), b=amend(tool_input=SAFER))

    assert (played.decision.verdict, played.patch) == ("pass", {"tool_input": SAFER})


def test_a_merge_that_comes_to_something_else_the_second_time_is_unsettled() -> None:
    spec = spec_with(view="original", combine="last_wins")

    played = play(spec, a=amend(tool_input=SAFE), b=[None, amend(tool_input=SAFER)])

    assert (played.decision.verdict, played.decision.cause) == ("deny", "unsettled")
    assert "mark it amends = true" in str(played.decision.reason)


def test_a_guard_that_was_shown_the_original_judges_what_was_merged() -> None:
    spec = spec_with(view="original", combine="first_wins")

    played = play(spec, amender=amend(tool_input=SAFE), guard=[None, deny("not this")])

    assert (played.decision.verdict, played.decision.hook) == ("deny", "guard")


def test_where_an_ask_ends_the_chain_nobody_after_it_is_asked() -> None:
    spec = spec_with(ends_at=frozenset({"deny", "halt", "ask"}))

    played = play(spec, a=amend(tool_input=SAFE), b=ask("sure?"), c=deny("no"))

    assert played.asked == ["a", "b"]
    assert (played.decision.verdict, played.decision.patch) == ("ask", None)


@pytest.mark.parametrize("refusal", [deny("no"), failed("crash")])
def test_where_no_refusal_ends_the_chain_all_are_asked_and_the_first_refusal_decides(refusal: Reply) -> None:
    played = play(spec_with(ends_at=frozenset()), a=None, b=refusal, c=deny("later"), d=amend(tool_input=SAFE))

    assert played.asked == ["a", "b", "c", "d"]
    assert (played.decision.verdict, played.decision.hook, played.decision.patch) == ("deny", "b", None)


def lines_run(hooks: Sequence[Hook]) -> int:
    """Return how many lines one fire of silent hooks runs, from matching to its decision."""
    chain, lines = EventHooks(CATALOGUE["pre_tool_use"], hooks), 0
    silent, data = outcome_of(None), msgspec.json.encode(BASH)

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    for tracer in (None, count):  # the first fire makes what all of them share
        payload = Payload(data)
        sys.settrace(tracer)
        try:
            fire = start_machine(chain, chain.select(payload), payload, {})
            while calls := fire.next_calls():
                fire.receive(calls[0], silent)
            end(fire)
        finally:
            sys.settrace(before)
    return lines


def test_hooks_that_do_not_match_cost_a_fire_nothing() -> None:
    matching = hook("a", match="Bash")
    others = [hook(f"other-{number}", match=f"Tool{number}") for number in range(200)]

    assert lines_run([*others, matching]) == lines_run([matching])

"""The four models, played: which hooks are called, in which order, and what comes of their answers."""

import json
from typing import Any, get_args

import msgspec
import pytest

from core.plays import BASH, CATALOGUE, Reply, begin, end, failed, hook, outcome_of, play
from hooklatch.core.catalogue import Catalogue
from hooklatch.core.decision import refuse
from hooklatch.core.messages import RETRYABLE, CallOutcome, Cause
from hooklatch.core.payload import Payload
from hooklatch_worker.verdicts import allow, amend, append, ask, claim, context, deny, halt, inject, last, resume, warn

GATES = [name for name, spec in CATALOGUE.items() if spec.model == "gate"]
OTHERS = [name for name, spec in CATALOGUE.items() if spec.model != "gate"]
FAILURES = [cause for cause in get_args(Cause) if cause != "policy"]
PROMPT = {"prompt": "hello", "params": {}}
PATHS = {"tool_name": "Edit", "tool_input": {"path": "/etc"}}
MESSAGE = {"role": "user", "content": "look"}
SAFE, SAFER = {"command": "ls -l"}, {"command": "true"}


def payload_for(event: str) -> dict[str, Any]:
    return {CATALOGUE[event].match or "x": "y"}


@pytest.mark.parametrize(
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
    played = play("pre_tool_use", a=[ask("sure?").amend(tool_input=SAFE), ask("sure?")])

    assert played.decision.verdict == "ask"
    assert played.patch == {"tool_input": SAFE}


def custom(*definitions: dict[str, Any]) -> list[Any]:
    return [Catalogue([]).with_custom([definition])[definition["name"]] for definition in definitions]


def test_who_saw_another_payload_than_the_final_one_is_asked_again_once() -> None:
    played = play("pre_tool_use", a=None, b=[amend(tool_input=SAFE), None], c=None)

    assert played.asked == ["a", "b", "c", "a again", "b again"]
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
    played = play("pre_tool_use", a=[allow(), deny("not that")], b=[amend(tool_input=SAFE), None])

    assert (played.decision.verdict, played.decision.hook, played.decision.patch) == ("deny", "a", None)
    assert played.asked == ["a", "b", "a again"]


@pytest.mark.parametrize("again", [amend(tool_input=SAFER), allow().amend(tool_input=SAFER)])
def test_a_further_change_is_unsettled(again: Reply) -> None:
    played = play("pre_tool_use", a=None, b=[amend(tool_input=SAFE), again])

    assert (played.decision.verdict, played.decision.cause, played.decision.hook) == ("deny", "unsettled", "b")
    assert played.decision.patch is None


def test_a_hook_that_patches_to_the_same_again_is_settled() -> None:
    played = play("pre_tool_use", a=amend(tool_input=SAFE))

    assert played.asked == ["a", "a again"]
    assert (played.decision.verdict, played.patch) == ("pass", {"tool_input": SAFE})


def test_a_failure_when_asked_again_denies() -> None:
    decision = play("pre_tool_use", a=[allow(), failed("crash")], b=[amend(tool_input=SAFE), None]).decision

    assert (decision.verdict, decision.cause, decision.hook) == ("deny", "crash", "a")


def test_a_hook_that_only_matches_the_changed_payload_is_asked_about_it() -> None:
    played = play(
        "user_prompt_submit", payload=PROMPT, marks={"b": {"match": "bye"}}, a=amend(prompt="bye"), b=deny("rude")
    )

    assert played.asked == ["a", "a again", "b again"]
    assert (played.decision.verdict, played.decision.hook) == ("deny", "b")


def test_a_hook_that_no_longer_matches_is_not_asked_again() -> None:
    played = play(
        "user_prompt_submit", payload=PROMPT, marks={"a": {"match": "hello"}}, a=None, b=[amend(prompt="bye"), None]
    )

    assert played.asked == ["a", "b", "b again"]


@pytest.mark.parametrize("value", [None, 5, ["Bash"]])
def test_a_change_that_leaves_a_matcher_without_a_string_denies(value: object) -> None:
    marks = {"b": {"match": "Bash"}}

    played = play("tool_selection", payload={"tool_name": "Read"}, marks=marks, a=amend(tool_name=value), b=deny("no"))

    assert (played.decision.verdict, played.decision.cause, played.decision.hook) == ("deny", "payload", "a")
    assert "tool_name is no string" in str(played.decision.reason)


def test_a_second_answer_replaces_the_first_with_all_its_outputs() -> None:
    first = ask("sure?").inject({"role": "user", "content": "first"}).warn("first")
    second = inject({"role": "user", "content": "second"}).warn("second")

    decision = play("pre_tool_use", a=[first, second], b=[amend(tool_input=SAFE), None]).decision

    assert decision.verdict == "pass"
    assert [message["content"] for message in decision.inject] == ["second"]
    assert decision.warnings == ["second"]


def test_a_first_ask_of_a_hook_that_then_has_no_opinion_is_gone() -> None:
    assert play("pre_tool_use", a=[ask("?"), None], b=[amend(tool_input=SAFE), None]).decision.verdict == "pass"


def test_an_allow_of_a_superseded_payload_is_worth_nothing() -> None:
    marks = {"a": {"match": "hello"}}
    (spec,) = custom(
        {"name": "deploy", "model": "gate", "verdicts": ["deny", "allow"], "patch": ["prompt"], "match": "prompt"}
    )

    decision = play(spec, payload=PROMPT, marks=marks, a=allow(), b=[amend(prompt="bye"), None]).decision

    assert decision.verdict == "pass"


def test_an_allow_of_the_final_payload_counts() -> None:
    assert play("pre_tool_use", a=[amend(tool_input=SAFE), None], b=allow()).decision.verdict == "allow"


def test_each_run_of_a_hook_is_an_outcome() -> None:
    outcomes = play("pre_tool_use", a=[amend(tool_input=SAFE), allow("ok")]).decision.outcomes

    assert [(o.hook, o.verdict, o.message, o.reinvoked) for o in outcomes] == [
        ("a", None, "", False),
        ("a", "allow", "ok", True),
    ]


def test_hooks_of_one_name_in_two_ancestors_are_told_apart() -> None:
    hooks = [hook("a", timeout=1.0), hook("b", timeout=2.0), hook("a", timeout=3.0)]
    fire = begin(CATALOGUE["pre_tool_use"], hooks, BASH)
    asked = []

    while calls := fire.next_calls():
        asked.append(calls[0].hook.timeout)
        fire.receive(calls[0], outcome_of(amend(tool_input=SAFE) if calls[0].hook.id == "b" else None))

    assert asked == [1.0, 2.0, 3.0, 1.0, 2.0]


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


@pytest.mark.parametrize("cause", FAILURES)
@pytest.mark.parametrize("event", GATES)
def test_any_failure_of_a_single_hook_denies_at_a_gate(event: str, cause: Cause) -> None:
    decision = play(event, payload=payload_for(event), a=failed(cause, "boom")).decision

    assert (decision.verdict, decision.cause, decision.hook) == ("deny", cause, "a")
    assert decision.retryable == (cause in RETRYABLE)
    assert "session/a" in str(decision.reason)
    assert "boom" in str(decision.reason)


@pytest.mark.parametrize("cause", FAILURES)
@pytest.mark.parametrize("event", OTHERS)
def test_no_failure_of_a_hook_decides_anything_elsewhere(event: str, cause: Cause) -> None:
    played = play(event, payload=payload_for(event), a=failed(cause, "boom"), b=warn("b ran"))

    assert (played.decision.verdict, played.decision.cause, played.decision.reason) == ("pass", None, None)
    assert played.asked == ["a", "b"]
    assert played.decision.outcomes[0].cause == cause
    assert played.decision.warnings == ["b ran"]


@pytest.mark.parametrize("event", list(CATALOGUE))
def test_garbage_denies_at_gates_only(event: str) -> None:
    decision = play(event, payload=payload_for(event), a=b"garbage").decision

    assert decision.verdict == ("deny" if event in GATES else "pass")
    assert (decision.outcomes[0].outcome, decision.outcomes[0].cause) == ("failed", "protocol")


@pytest.mark.parametrize(
    ("cause", "start"),
    [
        ("crash", "hook crashed (fail-safe deny)"),
        ("timeout", "hook timed out (fail-safe deny)"),
        ("quarantined", "hook is quarantined"),
        ("load", "hook could not be loaded"),
        ("overload", "no worker was free"),
    ],
)
def test_a_refusal_for_a_failure_starts_with_what_happened(cause: Cause, start: str) -> None:
    assert str(play("pre_tool_use", a=failed(cause)).decision.reason).startswith(start)


@pytest.mark.parametrize("cause", ["overload", "quarantined", "draining"])
def test_a_hook_that_was_not_called_is_recorded_as_dropped(cause: Cause) -> None:
    assert play("stop", a=failed(cause)).decision.outcomes[0].outcome == "dropped"


@pytest.mark.parametrize(
    ("event", "reply"),
    [
        ("pre_model", allow()),
        ("pre_model", ask("sure?")),
        ("config_change", halt("stop")),
        ("pre_tool_use", claim(1)),
        ("pre_tool_use", amend(tool_name="Read")),
        ("pre_tool_use", append("x")),
        ("pre_tool_use", resume("go on")),
        ("pre_tool_use", last()),
        ("pre_tool_use", allow().last()),
        ("permission_request", inject(MESSAGE)),
        ("pre_tool_use", b'{"verdict": "allow", "value": 1}'),
        ("pre_tool_use", b'{"verdict": "yes"}'),
        ("pre_tool_use", b'{"decision": "allow"}'),
        ("pre_tool_use", b'{"verdict": "allow", "patch": {"tool_input": 1e999}}'),
        ("pre_tool_use", b'{"inject": {"content": "no role"}}'),
        ("pre_tool_use", b'{"inject": {"role": 5, "content": "x"}}'),
        ("pre_tool_use", b"[]"),
        ("pre_tool_use", b"true"),
        ("pre_tool_use", b'{"verdict": "allow"'),
        ("stop", deny("no")),
        ("stop", inject(MESSAGE)),
        ("stop", last()),
        ("session_end", halt("stop")),
        ("post_tool_use", resume("go on")),
        ("post_tool_use", amend(tool_response=1)),
        ("tool_result", halt("stop")),
        ("tool_result", amend(tool_name="x")),
        ("prompt_build", deny("no")),
        ("message_claim", allow()),
        ("message_claim", b'{"value": 1}'),
    ],
    ids=str,
)
def test_an_answer_that_the_event_does_not_allow_is_a_protocol_failure(event: str, reply: Reply) -> None:
    decision = play(event, payload=payload_for(event), a=reply).decision

    assert decision.verdict == ("deny" if event in GATES else "pass")
    assert decision.cause == ("protocol" if event in GATES else None)
    assert (decision.outcomes[0].outcome, decision.outcomes[0].cause) == ("failed", "protocol")
    assert decision.outcomes[0].message
    assert (decision.patch, decision.value, decision.resume, decision.append) == (None, None, None, None)


def test_an_illegal_answer_is_refused_with_what_the_event_allows() -> None:
    reason = play("pre_model", payload={"model_id": "m"}, a=allow()).decision.reason

    assert reason == (
        "hook gave an illegal answer (fail-safe deny): session/a:"
        " pre_model does not allow the verdict 'allow' (it allows deny, halt)"
    )


@pytest.mark.parametrize(
    ("reply", "warning"),
    [
        (deny("no"), ["session/a (observe) would have said deny: no"]),
        (halt("stop"), ["session/a (observe) would have said halt: stop"]),
        (ask("sure?"), ["session/a (observe) would have said ask: sure?"]),
        (failed("crash", "boom"), ["session/a (observe) would have denied: hook crashed (fail-safe deny): boom"]),
        (allow().amend(tool_input=SAFE).inject(MESSAGE).context(n=1), []),
    ],
)
def test_an_observed_hook_is_shown_and_never_enforced(reply: Reply, warning: list[str]) -> None:
    played = play("pre_tool_use", marks={"a": {"observe": True}}, a=reply, b=None)
    decision = played.decision

    assert (decision.verdict, decision.warnings) == ("pass", warning)
    assert (decision.patch, decision.inject, decision.context) == (None, [], {})
    assert played.asked == ["a", "b"]
    assert decision.outcomes[0].observed


@pytest.mark.parametrize(
    ("event", "reply"),
    [("tool_result", amend(tool_response="x").last()), ("message_claim", claim(1)), ("stop", halt("stop"))],
)
def test_an_observed_hook_decides_nothing_on_other_events(event: str, reply: Reply) -> None:
    marks = {"a": {"observe": True}}

    played = play(event, payload=payload_for(event), marks=marks, a=reply, b=None)

    assert (played.decision.verdict, played.decision.patch, played.decision.value) == ("pass", None, None)
    assert played.asked == ["a", "b"]


def test_an_observed_hook_warns_once_when_it_is_asked_again() -> None:
    played = play("pre_tool_use", marks={"a": {"observe": True}}, a=deny("no"), b=amend(tool_input=SAFE))

    assert played.asked == ["a", "b", "a again", "b again"]
    assert len(played.decision.warnings) == 1


@pytest.mark.parametrize("cause", FAILURES)
def test_a_failure_of_an_optional_guard_is_skipped_with_a_warning(cause: Cause) -> None:
    played = play("pre_tool_use", marks={"a": {"optional": True}}, a=failed(cause, "boom"), b=allow())

    assert played.decision.verdict == "allow"
    (warning,) = played.decision.warnings
    assert warning.startswith("session/a is optional and was skipped: ")
    assert "boom" in warning


def test_a_deny_of_an_optional_guard_counts() -> None:
    assert play("pre_tool_use", marks={"a": {"optional": True}}, a=deny("no")).decision.verdict == "deny"


def test_an_ask_of_an_optional_guard_outlives_its_failure_when_asked_again() -> None:
    marks = {"a": {"optional": True}}

    played = play("pre_tool_use", marks=marks, a=[ask("sure?"), failed("crash")], b=amend(tool_input=SAFE))

    assert played.decision.verdict == "ask"


def test_notified_hooks_start_at_once() -> None:
    fire = begin(CATALOGUE["stop"], [hook("a", "stop"), hook("b", "stop")], {})

    assert [call.hook.id for call in fire.next_calls()] == ["a", "b"]
    assert list(fire.next_calls()) == []


@pytest.mark.parametrize("arrival", ["abc", "cba", "bca"])
def test_outputs_of_notified_hooks_keep_the_order_of_registration(arrival: str) -> None:
    decision = play(
        "post_tool_use",
        arrival=arrival,
        a=append("1").inject(MESSAGE).warn("a").context(x=1, y=1),
        b=append("").halt("b says stop").warn("b"),
        c=append("3").halt("c says stop").inject({**MESSAGE, "name": "c"}).warn("c").context(y=3),
    ).decision

    assert (decision.verdict, decision.hook, decision.reason) == ("halt", "b", "b says stop")
    assert decision.append == "1\n3"
    assert decision.inject == [MESSAGE, {**MESSAGE, "name": "c"}]
    assert decision.warnings == ["a", "b", "c"]
    assert decision.context == {"x": 1, "y": 3}


def test_a_halt_of_a_notified_hook_keeps_outputs() -> None:
    decision = play("post_tool_use", a=append("seen"), b=halt("stop")).decision

    assert (decision.verdict, decision.append, decision.cause) == ("halt", "seen", "policy")


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([resume("tests fail"), resume("lint fails")], "tests fail\nlint fails"),
        ([resume(""), resume("lint fails")], "lint fails"),
        ([resume("")], ""),
        ([None], None),
    ],
)
def test_reasons_to_resume_are_joined_and_an_empty_one_still_resumes(replies: list[Reply], reason: str | None) -> None:
    decision = play("stop", **{f"h{index}": reply for index, reply in enumerate(replies)}).decision

    assert (decision.verdict, decision.resume) == ("pass", reason)


def test_notified_hooks_that_never_answered_pass() -> None:
    fire = begin(CATALOGUE["stop"], [hook("a", "stop")], {})
    fire.next_calls()

    assert end(fire).verdict == "pass"


def test_of_patches_that_the_first_wins_each_hook_sees_the_original_and_what_was_merged() -> None:
    played = play(
        "prompt_build",
        payload={"history": []},
        a=amend(prepend_system="a", append_system=None),
        b=amend(prepend_system="b", append_system="b"),
        c=None,
    )

    assert played.patch == {"prepend_system": "a", "append_system": "b"}
    assert played.shown == [{"history": []}] * 3
    merged = [json.loads(msgspec.json.encode(call.merged)) for call in played.calls]
    assert merged == [None, {"prepend_system": "a"}, {"prepend_system": "a", "append_system": "b"}]


def test_of_patches_that_the_last_wins_each_hook_sees_those_before() -> None:
    played = play("tool_result", payload=BASH, a=amend(tool_response="a"), b=amend(tool_response="b"), c=None)

    assert played.patch == {"tool_response": "b"}
    assert [shown.get("tool_response") for shown in played.shown] == [None, "a", "b"]
    assert played.asked == ["a", "b", "c"]


def test_last_ends_the_chain_of_an_amend_event() -> None:
    played = play("tool_result", payload=BASH, a=amend(tool_response="a").last(), b=amend(tool_response="b"))

    assert (played.asked, played.patch) == (["a"], {"tool_response": "a"})


def test_a_failing_amender_contributes_nothing_and_the_next_one_runs() -> None:
    played = play("tool_result", payload=BASH, a=failed("crash"), b=amend(tool_response="b"))

    assert (played.decision.verdict, played.patch) == ("pass", {"tool_response": "b"})


def test_nothing_amended_is_no_patch() -> None:
    assert play("tool_result", payload=BASH, a=None).decision.patch is None


def test_a_halt_of_an_amender_is_a_wish_that_keeps_outputs() -> None:
    decision = play("pre_iteration", payload={}, a=halt("enough").inject(MESSAGE)).decision

    assert (decision.verdict, decision.hook, decision.inject) == ("halt", "a", [MESSAGE])


def test_the_context_is_threaded_through_amenders() -> None:
    played = play("tool_result", payload=BASH, a=context(n=1), b=context(m=2))

    assert [call.context for call in played.calls] == [{}, {"n": 1}]
    assert played.decision.context == {"n": 1, "m": 2}


def test_the_first_claim_wins_and_ends_the_chain() -> None:
    played = play("message_claim", payload={"platform": "irc"}, a=None, b=claim({"n": 1}), c=claim(2))

    assert (played.decision.verdict, played.decision.hook) == ("claim", "b")
    assert json.loads(msgspec.json.encode(played.decision.value)) == {"n": 1}
    assert played.asked == ["a", "b"]


@pytest.mark.parametrize("reply", [failed("crash"), failed("timeout"), b"garbage", deny("no")])
def test_a_hook_that_fails_gives_the_next_one_its_chance(reply: Reply) -> None:
    decision = play("message_claim", payload={"platform": "irc"}, a=reply, b=claim(2)).decision

    assert (decision.verdict, decision.hook) == ("claim", "b")


def test_a_claim_of_nothing_is_a_claim() -> None:
    decision = play("error_recover", payload={"error_type": "x"}, a=claim(None)).decision

    assert decision.verdict == "claim"
    assert json.loads(msgspec.json.encode(decision))["value"] is None


def test_no_claim_is_a_pass() -> None:
    assert play("message_claim", payload={"platform": "irc"}, a=None, b=last(), c=claim(1)).decision.verdict == "pass"


@pytest.mark.parametrize("cause", FAILURES)
@pytest.mark.parametrize("event", list(CATALOGUE))
def test_a_fire_that_calls_nobody_is_refused_at_gates_only(event: str, cause: Cause) -> None:
    decision = refuse(CATALOGUE[event], cause, "why", decision_id="d1")

    if event in GATES:
        assert (decision.verdict, decision.cause, decision.warnings) == ("deny", cause, [])
        assert decision.retryable == (cause in RETRYABLE)
        assert "why" in str(decision.reason)
    else:
        assert (decision.verdict, decision.cause, decision.reason, decision.retryable) == ("pass", None, None, False)
        assert "why" in decision.warnings[0]


def test_a_refused_fire_tells_the_digest_of_a_payload_that_there_is() -> None:
    payload = Payload(b"{}")

    with_it = refuse(CATALOGUE["stop"], "payload", "", decision_id="d1", payload=payload, context={"n": 1})
    without = refuse(CATALOGUE["stop"], "payload", "", decision_id="d1")

    assert (with_it.payload_digest, with_it.context) == (payload.digest(), {"n": 1})
    assert without.payload_digest is None


SCALARS = {
    "decision_id", "event", "verdict", "cause", "reason", "layer", "hook", "retryable", "patch", "payload_digest",
    "append", "resume", "value", "revision", "duration_ms",
}  # fmt: skip


@pytest.mark.parametrize("event", ["pre_tool_use", "stop", "tool_result", "message_claim"])
def test_an_empty_decision_has_all_scalars_and_no_empty_list(event: str) -> None:
    decision = play(event, payload=payload_for(event)).decision

    written = json.loads(msgspec.json.encode(decision))

    assert set(written) == SCALARS
    assert written["reason"] is None
    assert json.loads(msgspec.json.encode(refuse(CATALOGUE[event], "load", "", decision_id="d"))).keys() >= SCALARS


def test_a_full_decision_is_written_with_its_lists() -> None:
    decision = play("pre_tool_use", context={"n": 1}, a=inject(MESSAGE).warn("hm"), b=amend(tool_input=SAFE)).decision

    written = json.loads(msgspec.json.encode(decision))

    assert written.keys() - SCALARS == {"inject", "context", "outcomes", "warnings"}
    assert written["patch"] == {"tool_input": SAFE}
    assert written["outcomes"][0] == {"layer": "session", "hook": "a", "outcome": "answered", "cause": "policy"}


def test_an_outcome_shows_what_the_call_printed() -> None:
    printed = CallOutcome(
        cause="crash", message="exit 1", stdout=b"\xff", stderr=b"no", truncated=True, duration_ms=2.0
    )

    (outcome,) = play("stop", a=printed).decision.outcomes

    assert (outcome.stdout, outcome.stderr, outcome.truncated, outcome.duration_ms) == ("\ufffd", "no", True, 2.0)
    assert (outcome.message, outcome.cause) == ("exit 1", "crash")

"""The state machines of notify, amend and claim, and the wire form of a decision."""

import json

import msgspec
import pytest

from hooklatch.core.decision import refuse_fire
from hooklatch.core.messages import RETRYABLE, CallOutcome, Cause
from hooklatch.core.payload import Payload
from hooklatch_worker.author.verdicts import amend, append, claim, context, deny, halt, inject, last, resume
from support.plays import (
    CATALOGUE,
    FAILURES,
    GATES,
    MESSAGE,
    SAFE,
    Reply,
    begin,
    end,
    failed,
    hook,
    payload_for,
    play,
)
from support.tables import table


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
    played = play("post_model", payload=payload_for("post_model"), a=amend(response="a"), b=amend(response="b"), c=None)

    assert played.patch == {"response": "b"}
    assert [shown.get("response") for shown in played.shown] == [None, "a", "b"]
    assert played.asked == ["a", "b", "c"]


def test_last_ends_the_chain_of_an_amend_event() -> None:
    played = play("post_model", payload=payload_for("post_model"), a=amend(response="a").last(), b=amend(response="b"))

    assert (played.asked, played.patch) == (["a"], {"response": "a"})


def test_a_failing_amender_contributes_nothing_and_the_next_one_runs() -> None:
    played = play("post_model", payload=payload_for("post_model"), a=failed("crash"), b=amend(response="b"))

    assert (played.decision.verdict, played.patch) == ("pass", {"response": "b"})


def test_nothing_amended_is_no_patch() -> None:
    assert play("post_model", payload=payload_for("post_model"), a=None).decision.patch is None


def test_a_halt_of_an_amender_is_a_wish_that_keeps_outputs() -> None:
    decision = play("pre_iteration", payload={}, a=halt("enough").inject(MESSAGE)).decision

    assert (decision.verdict, decision.hook, decision.inject) == ("halt", "a", [MESSAGE])


def test_the_context_is_threaded_through_amenders() -> None:
    played = play("post_model", payload=payload_for("post_model"), a=context(n=1), b=context(m=2))

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


@table("cause", FAILURES)
@table("event", list(CATALOGUE))
def test_a_fire_that_calls_nobody_is_refused_at_gates_only(event: str, cause: Cause) -> None:
    decision = refuse_fire(CATALOGUE[event], cause, "why", decision_id="d1")

    if event in GATES:
        assert (decision.verdict, decision.cause, decision.warnings) == ("deny", cause, [])
        assert decision.retryable == (cause in RETRYABLE)
        assert "why" in str(decision.reason)
    else:
        assert (decision.verdict, decision.cause, decision.reason, decision.retryable) == ("pass", None, None, False)
        assert "why" in decision.warnings[0]


def test_a_refused_fire_tells_the_digest_of_a_payload_that_there_is() -> None:
    payload = Payload(b"{}")

    with_it = refuse_fire(CATALOGUE["stop"], "payload", "", decision_id="d1", payload=payload, context={"n": 1})
    without = refuse_fire(CATALOGUE["stop"], "payload", "", decision_id="d1")

    assert (with_it.payload_digest, with_it.context) == (payload.digest(), {"n": 1})
    assert without.payload_digest is None


SCALARS = {
    "decision_id", "event", "verdict", "cause", "reason", "layer", "hook", "retryable", "patch", "payload_digest",
    "append", "resume", "value", "revision", "duration_ms",
}  # fmt: skip


@pytest.mark.parametrize("event", ["pre_tool_use", "stop", "post_model", "message_claim"])
def test_an_empty_decision_has_all_scalars_and_no_empty_list(event: str) -> None:
    decision = play(event, payload=payload_for(event)).decision

    written = json.loads(msgspec.json.encode(decision))

    assert set(written) == SCALARS
    assert written["reason"] is None
    assert json.loads(msgspec.json.encode(refuse_fire(CATALOGUE[event], "load", "", decision_id="d"))).keys() >= SCALARS


def test_a_full_decision_is_written_with_its_lists() -> None:
    decision = play("pre_tool_use", context={"n": 1}, a=inject(MESSAGE).warn("hm"), b=amend(tool_input=SAFE)).decision

    written = json.loads(msgspec.json.encode(decision))

    assert written.keys() - SCALARS == {"inject", "context", "outcomes", "warnings"}
    assert written["patch"] == {"tool_input": SAFE}
    assert written["outcomes"][0] == {
        "layer": "session", "hook": "a", "outcome": "answered", "cause": "policy", "warned": True,
    }  # fmt: skip


def test_an_outcome_shows_what_the_call_printed() -> None:
    printed = CallOutcome(cause="crash", message="exit 1", stdout="out", stderr="no", truncated=True, duration_ms=2.0)

    (outcome,) = play("stop", a=printed).decision.outcomes

    assert (outcome.stdout, outcome.stderr, outcome.truncated, outcome.duration_ms) == ("out", "no", True, 2.0)
    assert (outcome.message, outcome.cause) == ("exit 1", "crash")


def test_nothing_of_an_outcome_that_is_for_the_daemon_alone_is_shown() -> None:
    answer = b'{"verdict":"deny","reason":"no"}'
    said = CallOutcome(cause="policy", message="m", answer=answer, traceback="t", is_lost=True, is_orphaned=True)

    (outcome,) = play("pre_tool_use", a=said).decision.outcomes

    assert msgspec.json.decode(msgspec.json.encode(outcome)) == {
        "layer": "session", "hook": "a", "outcome": "answered", "verdict": "deny", "cause": "policy", "message": "no",
    }  # fmt: skip


def test_a_sequential_notification_is_one_call_after_the_other_and_a_halt_ends_it() -> None:
    spec = msgspec.structs.replace(CATALOGUE["post_tool_use"], flow="sequential")

    played = play(spec, a=context(seen=1), b=halt("stop"), c=append("never"))

    assert played.asked == ["a", "b"]
    assert [call.context for call in played.calls] == [{}, {"seen": 1}]
    assert (played.decision.verdict, played.decision.hook) == ("halt", "b")

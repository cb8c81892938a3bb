"""The effect of failing, observed and optional hooks, on every event of the catalogue."""

import pytest

from hooklatch.core.messages import RETRYABLE, Cause
from hooklatch_worker.author.verdicts import allow, amend, append, ask, claim, deny, halt, inject, last, resume, warn
from support.plays import CATALOGUE, FAILURES, GATES, MESSAGE, OTHERS, SAFE, Reply, failed, payload_for, play
from support.tables import table


@table("cause", FAILURES)
@table("event", GATES)
def test_any_failure_of_a_single_hook_denies_at_a_gate(event: str, cause: Cause) -> None:
    decision = play(event, payload=payload_for(event), a=failed(cause, "boom")).decision

    assert (decision.verdict, decision.cause, decision.hook) == ("deny", cause, "a")
    assert decision.retryable == (cause in RETRYABLE)
    assert "session/a" in str(decision.reason)
    assert "boom" in str(decision.reason)


@table("cause", FAILURES)
@table("event", OTHERS)
def test_no_failure_of_a_hook_decides_anything_elsewhere(event: str, cause: Cause) -> None:
    played = play(event, payload=payload_for(event), a=failed(cause, "boom"), b=warn("b ran"))

    assert (played.decision.verdict, played.decision.cause, played.decision.reason) == ("pass", None, None)
    assert played.asked == ["a", "b"]
    assert played.decision.outcomes[0].cause == cause
    assert played.decision.warnings == ["b ran"]


@table("event", list(CATALOGUE))
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


@table(
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
        ("post_model", halt("stop")),
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
    [("post_model", amend(response="x").last()), ("message_claim", claim(1)), ("stop", halt("stop"))],
)
def test_an_observed_hook_decides_nothing_on_other_events(event: str, reply: Reply) -> None:
    marks = {"a": {"observe": True}}

    played = play(event, payload=payload_for(event), marks=marks, a=reply, b=None)

    assert (played.decision.verdict, played.decision.patch, played.decision.value) == ("pass", None, None)
    assert played.asked == ["a", "b"]


def test_an_observed_hook_warns_once_when_it_is_asked_again() -> None:
    played = play("pre_tool_use", marks={"a": {"observe": True}}, a=deny("no"), b=amend(tool_input=SAFE))

    assert played.asked == ["a", "b", "a again"]
    assert len(played.decision.warnings) == 1


@table("cause", FAILURES)
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

"""What a host may do with an answer, and what it gets when there is none."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hooklatch.client.protocol.decisions import (
    Accepted,
    Decision,
    RefusedError,
    decide_locally,
    make_local_decision,
    read_decision,
    read_fired,
    refuse_locally,
)
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError
from support.scripted_daemon import decision
from support.tables import table


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def decided(verdict: str, **others: Any) -> Decision:
    return read_decision(raw(decision(verdict=verdict, **others)), "pre_tool_use")


@pytest.mark.parametrize(("reason", "before"), [("no", "no"), ("", "pre_tool_use refused by mine: cause policy")])
def test_the_command_to_run_instead_is_the_models_next_step(reason: str, before: str) -> None:
    refused = decided("deny", reason=reason, hook="mine", instead="ls")
    unasked = refuse_locally("permission_request", "policy", "no person", refused)
    unsettled = refuse_locally("permission_request", "unsettled", "twice", refused)

    assert refused.as_tool_result("t1")["content"] == f"{before}\nInstead, run: ls"
    assert unasked.for_model == "no person\nInstead, run: ls"
    assert "ls" not in unsettled.for_model.split()


@pytest.mark.parametrize(
    ("verdict", "allowed", "needs_asking"),
    [
        ("pass", True, False),
        ("allow", True, False),
        ("claim", True, False),
        ("deny", False, False),
        ("halt", False, False),
        ("ask", False, True),
    ],
)
def test_only_pass_allow_and_claim_are_allowed(verdict: str, allowed: bool, needs_asking: bool) -> None:
    event = "message_claim" if verdict == "claim" else "pre_tool_use"
    answer = read_decision(raw(decision(event, verdict)), event)

    assert (answer.allowed, answer.needs_asking) == (allowed, needs_asking)


@pytest.mark.parametrize("verdict", ["deny", "halt", "ask"])
def test_a_refusal_raises_with_its_facts(verdict: str) -> None:
    answer = decided(verdict, reason="not here", cause="policy", hook="guard")

    with pytest.raises(RefusedError, match=r"pre_tool_use .* by guard: not here") as caught:
        answer.raise_for_refusal()

    error = caught.value
    assert (error.decision, error.reason, error.cause, error.hook) == (answer, "not here", "policy", "guard")


def test_what_is_allowed_raises_nothing() -> None:
    decided("allow").raise_for_refusal()


def test_a_refused_tool_call_gets_an_error_block() -> None:
    assert decided("deny", reason="not here").as_tool_result("toolu_1") == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "is_error": True,
        "content": "not here",
    }


def test_a_refusal_without_a_reason_still_says_something() -> None:
    assert decided("deny").as_tool_result("t")["content"] == "pre_tool_use refused: cause policy"


def test_an_allowed_call_has_no_error_block() -> None:
    with pytest.raises(ValueError, match="run the tool"):
        decided("pass").as_tool_result("t")


def test_values_come_as_plain_data_and_unknown_keys_are_ignored() -> None:
    answer = decided("allow", patch={"tool_input": {"a": [1]}}, outcomes=[{"hook": "g", "cause": "policy"}], later=1)

    assert answer.patch == {"tool_input": {"a": [1]}}
    assert answer.outcomes[0].hook == "g"


@table(
    "answer",
    [
        {},
        None,
        [],
        "allow",
        {"verdict": "allow"},
        decision(verdict="maybe"),
        decision(event="stop", verdict="allow"),
        decision(verdict="allow", patch=[]),
        {**decision(), "verdict": None},
    ],
)
def test_an_answer_that_is_no_decision_on_the_event_is_unreadable(answer: Any) -> None:
    with pytest.raises(UnreadableAnswerError):
        read_decision(raw(answer), "pre_tool_use")


def test_an_answer_with_broken_text_is_unreadable() -> None:
    data = json.dumps(decision(verdict="allow", append="?")).encode().replace(b"?", b"\xff")

    with pytest.raises(UnreadableAnswerError):
        read_decision(msgspec.Raw(data), "pre_tool_use")


@table("event", list(Catalogue.standard()))
def test_without_an_answer_gates_deny_and_others_pass_with_a_warning(event: str) -> None:
    answer = make_local_decision(event, "no_daemon", "gone")

    if Catalogue.standard()[event].model == "gate":
        assert (answer.verdict, answer.cause, answer.allowed, answer.retryable) == ("deny", "no_daemon", False, True)
    else:
        assert (answer.verdict, answer.cause, answer.warnings) == ("pass", None, ["no_daemon: gone"])


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (DaemonUnreachableError("gone"), "no_daemon"),
        (RequestFailedError(-32002, "unknown_event", "no such event"), "protocol"),
        (UnreadableAnswerError("nonsense"), "protocol"),
        (RequestFailedError(-32009, "overload", "256 requests are unanswered"), "overload"),
    ],
)
def test_an_event_that_nobody_knows_is_denied(error: HooklatchError, cause: str) -> None:
    answer = decide_locally("deploy_requested", error, wait=True)

    assert isinstance(answer, Decision)
    assert (answer.verdict, answer.cause) == ("deny", cause)
    assert str(error) in (answer.reason or "")


def test_a_fire_that_does_not_wait_is_accepted_or_not() -> None:
    accepted = read_fired(raw({"accepted": True, "decision_id": "d"}), "stop", wait=False)
    lost = decide_locally("stop", DaemonUnreachableError("gone"), wait=False)

    assert accepted == Accepted(accepted=True, decision_id="d")
    assert lost == Accepted(accepted=False, warnings=["no_daemon: gone"])

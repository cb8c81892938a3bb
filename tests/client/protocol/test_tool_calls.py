"""The dance of one tool call, step by step, with no session around it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hooklatch.client.protocol.decisions import RefusedError
from hooklatch.client.protocol.fires import CallFunction, FunctionReturned, RequestStep, fire_event
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.protocol.tool_calls import ToolCall, ToolRun
from hooklatch.errors import DaemonUnreachableError, InvalidPayloadError
from support.scripted_daemon import decision
from support.tables import table


class Tool:
    """Plays a call: answers its steps from a script, and keeps what they were."""

    def __init__(
        self, state: SessionState | None = None, dialog: Any = None, returns: Any = "done", **options: Any
    ) -> None:
        self.state = state or SessionState(None, {})
        self.fired: list[str] = []
        self.payloads: list[dict[str, Any]] = []
        self.inputs: list[Any] = []
        self.questions: list[Any] = []
        self.dialog = dialog
        self.returns = returns
        self.options = {"tool_use_id": "t1", **options}

    def run(self, *answers: dict[str, Any], tool_input: Any = None) -> ToolRun:
        waiting = list(answers)
        dialog = self.ask if self.dialog is not None else None
        options: Any = self.options
        call = ToolCall(self.state, "Bash", tool_input or {"command": "ls"}, self.call, dialog, options)
        steps = call.run()
        try:
            step = next(steps)
            while True:
                try:
                    match step:
                        case RequestStep("fire", params):
                            answer: object = self.fire(params, waiting)
                        case CallFunction(function, argument):
                            answer = FunctionReturned(function(argument), 3.0)
                        case _:
                            raise AssertionError(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            assert waiting == []
            run: ToolRun = end.value
            return run

    def fire(self, params: Any, waiting: list[dict[str, Any]]) -> msgspec.Raw:
        event, is_waiting = params["event"], params.get("wait", True)
        self.fired.append(event if is_waiting else f"({event})")
        self.payloads.append(msgspec.json.decode(params["payload"]))
        if not is_waiting:
            return msgspec.Raw(b'{"accepted": true}')
        answer = waiting.pop(0)
        if answer.get("cause") == "no_daemon":
            raise DaemonUnreachableError("gone")
        return msgspec.Raw(msgspec.json.encode(decision(event, **{"revision": 7, **answer})))

    def ask(self, question: object) -> object:
        self.questions.append(question)
        return self.dialog

    def call(self, given: object) -> object:
        self.inputs.append(given)
        if isinstance(self.returns, Exception):
            raise self.returns
        return self.returns


PASS: dict[str, Any] = {}
ALLOW = {"verdict": "allow"}
ASK = {"verdict": "ask", "reason": "sure?", "hook": "guard", "cause": "policy"}
DENY = {"verdict": "deny", "reason": "no", "hook": "guard", "cause": "policy"}
BOTH = ["pre_tool_use", "post_tool_use"]


def test_a_passed_tool_runs_and_its_hooks_are_told() -> None:
    tool = Tool(returns={"exit": 0})

    run = tool.run(PASS, PASS)

    assert tool.fired == BOTH
    assert tool.payloads[0] == {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    assert tool.payloads[1] == {**tool.payloads[0], "tool_response": {"exit": 0}, "duration_ms": 3.0}
    assert (run.allowed, run.is_error, run.result, run.unwrap()) == (True, False, {"exit": 0}, {"exit": 0})
    assert run.as_tool_result() == {"type": "tool_result", "tool_use_id": "t1", "content": '{"exit":0}'}


@pytest.mark.parametrize("answer", [DENY, {**DENY, "verdict": "halt"}, {"verdict": "deny", "cause": "no_daemon"}])
def test_a_refused_tool_never_runs(answer: dict[str, Any]) -> None:
    tool = Tool(dialog=True)

    run = tool.run(answer)

    assert (tool.fired, tool.inputs, tool.questions) == (["pre_tool_use"], [], [])
    assert (run.allowed, run.is_error, run.halt) == (False, True, answer["verdict"] == "halt")
    assert run.as_tool_result()["is_error"] is True
    with pytest.raises(RefusedError):
        run.unwrap()


def test_a_refusal_is_told_to_the_model_in_the_hooks_own_words() -> None:
    assert Tool().run(DENY).as_tool_result("t9") == {
        "type": "tool_result",
        "tool_use_id": "t9",
        "is_error": True,
        "content": "no",
    }


def test_an_ask_without_a_dialog_is_a_refusal_and_is_told() -> None:
    tool = Tool()

    run = tool.run(ASK, PASS)

    assert tool.fired == ["pre_tool_use", "permission_request", "(permission_denied)"]
    assert tool.inputs == []
    assert (run.decision.cause, run.decision.hook, run.decision.is_local) == ("policy", "guard", True)
    assert "sure?" in str(run.content)
    assert tool.payloads[-1]["denial"] == {"code": "policy"}


def test_a_permission_hook_may_answer_an_ask() -> None:
    tool = Tool()

    run = tool.run(ASK, ALLOW, PASS)

    assert tool.fired == ["pre_tool_use", "permission_request", "post_tool_use"]
    assert run.allowed


def test_a_permission_hook_may_refuse_and_the_daemon_tells_that() -> None:
    tool = Tool(dialog=True)

    run = tool.run(ASK, DENY)

    assert tool.fired == ["pre_tool_use", "permission_request"]
    assert (run.allowed, run.decision.event) == (False, "permission_request")


def test_the_dialog_is_asked_where_hooks_leave_it_open() -> None:
    tool = Tool(dialog=True)

    run = tool.run(ASK, PASS, PASS)

    (question,) = tool.questions
    assert (question.tool_name, question.tool_input, question.reason) == ("Bash", {"command": "ls"}, "sure?")
    assert run.allowed


@pytest.mark.parametrize(
    ("says", "told"), [(False, "not given"), ("not today", "not today"), ("", "not given"), (1, "not given")]
)
def test_all_but_true_is_a_no(says: Any, told: str) -> None:
    tool = Tool(dialog=says)

    run = tool.run(ASK, PASS)

    assert tool.inputs == []
    assert told in str(run.content)


def test_a_pass_is_no_approval_where_the_host_has_a_dialog() -> None:
    tool = Tool(dialog=True)

    tool.run(PASS, PASS, PASS)

    assert tool.fired == ["pre_tool_use", "permission_request", "post_tool_use"]
    assert len(tool.questions) == 1


def test_an_explicit_allow_spares_the_dialog() -> None:
    tool = Tool(dialog=True)

    tool.run(ALLOW, PASS)

    assert (tool.fired, tool.questions) == (BOTH, [])


def test_a_dialog_may_be_for_asks_alone() -> None:
    tool = Tool(dialog=True, only_on_ask=True)

    tool.run(PASS, PASS)

    assert (tool.fired, tool.questions) == (BOTH, [])


def test_the_tool_runs_with_what_the_guards_approved() -> None:
    tool = Tool()
    given = {"command": "ls", "more": [1]}

    tool.run({"verdict": "allow", "patch": {"tool_input": {"command": "ls -l"}}}, PASS, tool_input=given)

    assert tool.inputs == [{"command": "ls -l"}]
    assert tool.payloads[1]["tool_input"] == {"command": "ls -l"}


def test_what_a_host_changes_meanwhile_does_not_count() -> None:
    given = {"command": "ls", "more": [1]}
    state = SessionState(None, {})
    steps = ToolCall(state, "Bash", given, print, None, {}).run()
    next(steps)

    given["more"].append(2)  # type: ignore[attr-defined]
    step = steps.send(msgspec.Raw(msgspec.json.encode(decision("pre_tool_use"))))

    assert step == CallFunction(print, {"command": "ls", "more": [1]})
    state.is_closed = True  # so nobody is told that the call is left here


PATCH = {"patch": {"tool_input": {"command": "rm"}}}


def test_an_input_that_permission_hooks_made_is_shown_to_the_guards() -> None:
    tool = Tool(dialog=True)

    run = tool.run(ASK, {**ALLOW, **PATCH}, DENY)

    assert tool.fired == ["pre_tool_use", "permission_request", "pre_tool_use"]
    assert tool.payloads[2]["tool_input"] == {"command": "rm"}
    assert (run.allowed, run.decision.reason) == (False, "no")


def test_a_guard_that_changes_it_again_is_not_settled() -> None:
    tool = Tool(dialog=True)

    run = tool.run(ASK, {**ALLOW, **PATCH}, {**ALLOW, "patch": {"tool_input": {"command": "mv"}}})

    assert tool.fired[-1] == "(permission_denied)"
    assert (run.allowed, run.decision.cause) == (False, "unsettled")


def test_a_guard_that_says_the_same_again_is_settled() -> None:
    tool = Tool()

    run = tool.run(ASK, {**ALLOW, **PATCH}, {**ALLOW, **PATCH}, PASS)

    assert run.allowed
    assert tool.inputs == [{"command": "rm"}]


def test_an_input_that_is_no_object_is_never_run() -> None:
    tool = Tool()

    run = tool.run({"verdict": "allow", "patch": {"tool_input": None}})

    assert (run.allowed, run.decision.cause, tool.inputs) == (False, "protocol", [])


def test_a_host_that_tells_of_refusals_itself_tells_of_all() -> None:
    tool = Tool(SessionState(None, {"emits": ["pre_tool_use", "permission_denied"]}))

    tool.run(DENY)

    assert tool.fired == ["pre_tool_use", "(permission_denied)"]


def test_a_failing_tool_is_an_error_for_the_model_and_kept_for_the_host() -> None:
    tool = Tool(returns=OSError("disk full"))

    run = tool.run(PASS, {"append": "free some space"})

    assert tool.fired == ["pre_tool_use", "post_tool_use_failure"]
    assert (tool.payloads[1]["error"], tool.payloads[1]["is_interrupt"]) == ("OSError: disk full", False)
    assert (run.allowed, run.is_error) == (True, True)
    assert run.as_tool_result()["content"] == "OSError: disk full\n\nfree some space"
    with pytest.raises(OSError, match="disk full"):
        run.unwrap()


def test_an_error_whose_text_cannot_be_sent_is_reported_all_the_same() -> None:
    tool = Tool(returns=OSError("bad \udcff name"))

    run = tool.run(PASS, PASS)

    assert tool.payloads[1]["error"] == run.content == "OSError: bad ? name"


@table(
    ("result", "content"),
    [
        ("text", "text\n\nlint: ok"),
        ("", "lint: ok"),
        (None, "lint: ok"),
        ([1], "[1]\n\nlint: ok"),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}, {"type": "text", "text": "lint: ok"}]),
        ({1}, "{1}\n\nlint: ok"),
        (b"\xff", "b'\\xff'\n\nlint: ok"),
        (float("nan"), "nan\n\nlint: ok"),
    ],
)
def test_what_hooks_append_follows_the_result(result: Any, content: Any) -> None:
    run = Tool(returns=result).run(PASS, {"append": "lint: ok"})

    assert run.as_tool_result()["content"] == content


def test_a_text_result_holds_what_was_appended() -> None:
    assert Tool(returns="text").run(PASS, {"append": "more"}).unwrap() == "text\n\nmore"


def test_a_result_that_is_no_json_is_shown_to_hooks_as_text() -> None:
    tool = Tool(returns={1: "\ud800"})

    tool.run(PASS, PASS)

    assert tool.payloads[1]["tool_response"] == "{1: '\\ud800'}"


def test_messages_and_context_are_collected_on_the_way() -> None:
    first = {"inject": [{"role": "user", "content": "a"}], "context": {"k": 1}}
    last = {"inject": [{"role": "user", "content": "b"}], "verdict": "halt", "reason": "enough"}

    run = Tool(context={"k": 0}).run(first, last)

    assert [message["content"] for message in run.inject] == ["a", "b"]
    assert (run.context, run.halt, run.halt_reason, run.allowed) == ({"k": 1}, True, "enough", True)
    assert [one.event for one in run.decisions] == BOTH


def test_the_block_needs_the_id_of_the_call() -> None:
    with pytest.raises(ValueError, match="tool_use_id"):
        Tool(tool_use_id=None).run(PASS, PASS).as_tool_result()


def test_a_call_that_cannot_be_made_says_so_first() -> None:
    with pytest.raises(InvalidPayloadError, match="nan"):
        Tool().run(tool_input={"n": float("nan")})
    with pytest.raises(ValueError, match="ethos"):
        Tool(SessionState(None, {"dialect": "ethos"})).run()


CRASH = {"verdict": "deny", "cause": "crash"}
GONE = {"verdict": "deny", "cause": "no_daemon"}


@pytest.mark.parametrize(
    ("calls", "halts"),
    [
        ([[DENY], [CRASH], [DENY]], True),
        ([[DENY], [DENY], [PASS, PASS]], False),
        ([[DENY], [DENY], [PASS, PASS], [DENY]], False),
        ([[DENY], [DENY], [GONE]], False),
        ([[DENY], [DENY], [ASK, PASS]], False),
        ([[DENY], [DENY], [ASK, PASS], [DENY]], True),
        ([[DENY], [DENY], [ASK, ALLOW, PASS], [DENY]], False),
    ],
)
def test_three_refusals_in_a_row_ask_for_a_halt(calls: list[list[dict[str, Any]]], halts: bool) -> None:
    tool = Tool(SessionState(None, {"denial_breaker": 3}))

    runs = [tool.run(*answers) for answers in calls]

    assert [run.halt for run in runs] == [*[False] * (len(calls) - 1), halts]
    assert runs[-1].halt_reason == ("3 refusals in a row" if halts else None)


def test_without_a_breaker_refusals_never_halt() -> None:
    tool = Tool()

    assert not any(tool.run(DENY).halt for _ in range(10))


@pytest.mark.parametrize("limit", [0, -1, True])
def test_a_breaker_needs_a_number(limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SessionState(None, {"denial_breaker": limit})


def test_decisions_on_other_events_do_not_count() -> None:
    state = SessionState(None, {"denial_breaker": 1})
    firing = fire_event(state, "user_prompt_submit", {"prompt": "x"}, wait=True)
    answer = decision("user_prompt_submit", **{**DENY, "revision": 7})

    next(firing)
    with pytest.raises(StopIteration):
        firing.send(msgspec.Raw(msgspec.json.encode(answer)))

    assert not state.breaker.is_open

"""The exact words of each system."""

from typing import Any

import pytest

from dialects.samples import fire, label
from hooklatch.dialects.beam import BEAM
from hooklatch.dialects.dialect import Dialect
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.exathena import EXATHENA
from hooklatch.dialects.exits import format_outcome_line
from hooklatch.dialects.radium import RADIUM
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.dialects.rendering import render_decision
from hooklatch_worker.author.verdicts import amend, append, ask, claim, context, deny, halt, inject, warn
from support.plays import Reply, failed
from support.tables import table

MESSAGE = {"role": "system", "content": "ticket 7"}
CRASH = "hook crashed (fail-safe deny): session/a: boom"
TOOL: dict[str, dict[str, Any]] = {
    "ethos": {"toolName": "terminal", "args": {"command": "ls"}},
    "exathena": {"tool_name": "bash", "command": "ls"},
    "reasonix": {"toolName": "shell", "toolArgs": {"command": "ls"}},
    "radium": {"tool_name": "shell", "arguments": {"command": "ls"}},
    "beam": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
}
NONE: dict[str, Any] = {"halt": None, "injects": [], "transform": None, "augments": []}
STOPPED = {"success": False, "modified_data": None, "should_continue": False}
WENT_ON = {"success": True, "message": None, "modified_data": None, "should_continue": True}

Case = tuple[Dialect, str, dict[str, Reply], Any]
VALUES: list[Case] = [
    (ETHOS, "before_tool_call", {"a": None}, {}),
    (ETHOS, "before_tool_call", {"a": deny("no rm")}, {"error": "no rm"}),
    (ETHOS, "before_tool_call", {"a": deny("")}, {"error": "hook session/a gave no reason"}),
    (ETHOS, "before_tool_call", {"a": failed("crash", "boom")}, {"error": CRASH}),
    (ETHOS, "before_tool_call", {"a": amend(tool_input={"n": 1})}, {"args": {"n": 1}}),
    (ETHOS, "subagent_spawning", {"a": deny("not now")}, {"error": "not now"}),
    (ETHOS, "subagent_spawning", {"a": amend(prompt="less")}, {"prompt": "less"}),
    (
        ETHOS,
        "before_prompt_build",
        {"a": amend(prepend_system="first"), "b": amend(prepend_system="second", append_system="last")},
        {"prependSystem": "first", "appendSystem": "last"},
    ),
    (ETHOS, "personality_switched", {"a": amend(personality_id="calm")}, {"personality": "calm"}),
    (ETHOS, "inbound_claim", {"a": None}, {"handled": False}),
    (ETHOS, "inbound_claim", {"a": claim({"reply": "hi"})}, {"reply": "hi", "handled": True}),
    (ETHOS, "agent_done", {"a": None}, None),
    (EXATHENA, "PreToolUse", {"a": None}, {"result": "ok", "outputs": NONE}),
    (
        EXATHENA,
        "PreToolUse",
        {"a": deny("protected_path")},
        {"result": {"deny": "protected_path"}, "outputs": {**NONE, "halt": "protected_path"}},
    ),
    (
        EXATHENA,
        "PreToolUse",
        {"a": halt("stalled")},
        {"result": {"halt": "stalled"}, "outputs": {**NONE, "halt": "stalled"}, "finish_reason": "error_halted"},
    ),
    (
        EXATHENA,
        "UserPromptSubmit",
        {"a": deny("no")},
        {"result": {"halt": "no"}, "outputs": {**NONE, "halt": "no"}, "finish_reason": "error_halted"},
    ),
    (
        EXATHENA,
        "UserPromptSubmit",
        {"a": amend(prompt="deploy"), "b": inject(MESSAGE)},
        {"result": {"transform": "deploy"}, "outputs": {**NONE, "transform": "deploy", "injects": [MESSAGE]}},
    ),
    (
        EXATHENA,
        "ChatParams",
        {"a": inject(MESSAGE)},
        {"result": {"inject": [MESSAGE]}, "outputs": {**NONE, "injects": [MESSAGE]}},
    ),
    (
        EXATHENA,
        "PostToolUse",
        {"a": append("first"), "b": append(""), "c": append("second")},
        {"result": {"augment": "first\nsecond"}, "outputs": {**NONE, "augments": ["first\nsecond"]}},
    ),
    (
        EXATHENA,
        "PostToolUse",
        {"a": append("first"), "b": halt("enough")},
        {
            "result": {"halt": "enough"},
            "outputs": {**NONE, "halt": "enough", "augments": ["first"]},
            "finish_reason": "error_halted",
        },
    ),
    (RADIUM, "BeforeTool", {"a": None, "b": None}, [WENT_ON, WENT_ON]),
    (RADIUM, "BeforeTool", {"a": None, "b": deny("no")}, [WENT_ON, {**STOPPED, "message": "no"}]),
    (RADIUM, "BeforeTool", {"a": failed("crash", "boom")}, [{**STOPPED, "message": CRASH}]),
    (
        RADIUM,
        "BeforeModel",
        {"a": amend(request={"input": "less"})},
        [
            # The sample has modifications, which this request has not any more.
            {**WENT_ON, "modified_data": {"modified_input": "less", "request_modifications": None}},
            WENT_ON,  # of the hook on the event that follows
        ],
    ),
    (
        RADIUM,
        "BeforeModel",
        {"a": amend(request={"input": "less", "request_modifications": {"top_p": 1}})},
        [{**WENT_ON, "modified_data": {"modified_input": "less"}}, WENT_ON],
    ),
    (RADIUM, "ErrorInterception", {"a": claim(None)}, [{**STOPPED, "message": None}]),
    (
        RADIUM,
        "AfterTool",
        {"a": amend(tool_response="one"), "b": amend(tool_response="two")},
        [
            {**WENT_ON, "modified_data": {"modified_result": "one"}},
            {**WENT_ON, "modified_data": {"modified_result": "two"}},
            WENT_ON,
        ],
    ),
    (
        RADIUM,
        "ErrorTransformation",
        {"a": amend(message="one"), "b": amend(message="two")},
        [WENT_ON, WENT_ON, {**WENT_ON, "modified_data": {"transformed_error": "one"}}],
    ),
    (RADIUM, "ErrorInterception", {"a": claim("handled it")}, [{**STOPPED, "message": "handled it"}]),
    (
        RADIUM,
        "ErrorRecovery",
        {"a": None, "b": claim(7)},
        [WENT_ON, {**WENT_ON, "modified_data": {"recovered_error": 7}}],
    ),
    (
        RADIUM,
        "ErrorLogging",
        {"a": failed("crash", "boom"), "b": None},
        [{**WENT_ON, "success": False, "message": "boom"}, WENT_ON],
    ),
    (BEAM, "pre_tool_use", {"a": None}, {"ok": {**TOOL["beam"], "event": "pre_tool_use"}}),
    (
        BEAM,
        "pre_tool_use",
        {"a": amend(tool_input={"n": 1}), "b": context(checked=True)},
        {"ok": {"tool_name": "Bash", "tool_input": {"n": 1}, "event": "pre_tool_use", "checked": True}},
    ),
    (BEAM, "pre_tool_use", {"a": deny("No shell")}, {"deny": "No shell"}),
    (BEAM, "pre_tool_use", {"a": failed("crash", "boom")}, {"deny": CRASH}),
    (BEAM, "pre_tool_use", {"a": halt("stop it all")}, {"deny": "stop it all"}),
    (BEAM, "config_change", {"a": deny("frozen")}, {"deny": "frozen"}),
    (BEAM, "stop", {"a": context(done=1)}, {"ok": {"event": "stop", "done": 1}}),
]


def payload_for(dialect: Dialect, event: str) -> dict[str, Any] | None:
    first = dialect.events[event].feeds[0].event
    return TOOL[dialect.name] if first == "pre_tool_use" else {} if dialect is BEAM else None


@table(("dialect", "event", "replies", "expected"), VALUES, ids=label)
def test_answers_have_the_words_of_their_system(
    dialect: Dialect, event: str, replies: dict[str, Reply], expected: object
) -> None:
    _, rendered = fire(dialect, event, payload=payload_for(dialect, event), **replies)  # type: ignore[arg-type]  # a key may be any

    assert rendered.value == expected


WARNINGS: list[tuple[Dialect, str, dict[str, Reply], list[str]]] = [
    (ETHOS, "before_tool_call", {"a": halt("x")}, ["halt became deny: ethos has no word for halt on before_tool_call"]),
    (ETHOS, "agent_done", {"a": halt("x")}, ["halt was lost: ethos has no word for it on agent_done"]),
    (
        REASONIX,
        "PreToolUse",
        {"a": amend(tool_input={})},
        ["pass became deny: reasonix cannot express a change of tool_input on PreToolUse"],
    ),
    (
        RADIUM,
        "AfterModel",
        {"a": amend(reasoning="short")},
        ["a change of reasoning was lost: radium cannot express it on AfterModel"],
    ),
    (
        REASONIX,
        "PostLLMCall",
        {"a": amend(reasoning="")},
        ["a change to empty was lost: reasonix reads empty output on PostLLMCall as no change"],
    ),
    (
        BEAM,
        "pre_tool_use",
        {"a": context(tool_input={"command": "rm"})},
        ["the context's tool_input was left out: it is a field of pre_tool_use, and no guard has seen it"],
    ),
]


@pytest.mark.parametrize(("dialect", "event", "replies", "expected"), WARNINGS, ids=label)
def test_what_became_stricter_or_was_lost_is_named(
    dialect: Dialect, event: str, replies: dict[str, Reply], expected: list[str]
) -> None:
    _, rendered = fire(dialect, event, payload=payload_for(dialect, event), **replies)  # type: ignore[arg-type]  # a key may be any

    assert rendered.warnings == expected


def test_a_patch_that_cannot_be_said_names_the_hook_that_made_it() -> None:
    _, rendered = fire(REASONIX, "PreToolUse", payload=TOOL["reasonix"], a=amend(tool_input={}))

    assert rendered.value["exitCode"] == 2
    assert rendered.value["stderr"] == (
        "hook session/a changed tool_input, which reasonix cannot express (fail-safe deny)"
    )


def test_an_exit_has_code_streams_and_an_outcome_for_each_hook() -> None:
    _, rendered = fire(REASONIX, "PreToolUse", payload=TOOL["reasonix"], a=None, b=deny("denied: dangerous"))

    value = rendered.value
    assert {key: value[key] for key in ("event", "blocked", "decision", "exitCode", "stdout", "stderr")} == {
        "event": "PreToolUse",
        "blocked": True,
        "decision": "block",
        "exitCode": 2,
        "stdout": "",
        "stderr": "denied: dangerous",
    }
    assert [(o["hook"]["command"], o["decision"], o["exitCode"]) for o in value["outcomes"]] == [
        ("a", "pass", 0),
        ("b", "block", 2),
    ]
    assert value["message"] == "hook [session/PreToolUse] b: block: denied: dangerous"


@pytest.mark.parametrize("dialect", [REASONIX, RADIUM])
def test_of_guards_that_ran_at_the_same_time_only_those_that_were_needed_are_said(dialect: Dialect) -> None:
    event = "PreToolUse" if dialect is REASONIX else "BeforeTool"
    replies: dict[str, Reply] = {"a": deny("no"), "b": failed("crash", "boom"), "c": ask("sure?")}
    marks = {hook: {"only_judges": True} for hook in replies}

    decisions, at_once = fire(dialect, event, payload=TOOL[dialect.name], marks=marks, **replies)
    _, in_order = fire(dialect, event, payload=TOOL[dialect.name], **replies)

    assert len(decisions[0]["outcomes"]) == 3
    assert at_once == in_order


EXITS: list[tuple[str, Reply, str, int]] = [
    ("PreToolUse", None, "pass", 0),
    ("PreToolUse", warn("careful"), "warn", 1),
    ("PostToolUse", failed("timeout"), "warn", 1),
    ("PostToolUse", failed("load"), "error", 1),
    ("PostToolUse", failed("crash"), "warn", 1),
    ("PreToolUse", failed("timeout"), "block", 2),
    ("PreToolUse", failed("load"), "block", 2),
    ("PreCompact", deny("not now"), "block", 2),
]


@table(("event", "reply", "verdict", "code"), EXITS, ids=str)
def test_exit_codes_follow_the_outcome(event: str, reply: Reply, verdict: str, code: int) -> None:
    _, rendered = fire(REASONIX, event, a=reply)

    outcomes = rendered.value["outcomes"]
    assert rendered.value["exitCode"] == code
    assert rendered.value["decision"] == ("warn" if verdict == "error" else verdict)
    assert verdict in (outcomes[0]["decision"], rendered.value["decision"])


def test_reasoning_is_replaced_over_standard_output() -> None:
    _, rendered = fire(REASONIX, "PostLLMCall", a=amend(reasoning="short"), b=warn("kept it short"))

    assert (rendered.value["stdout"], rendered.value["exitCode"]) == ("short", 0)


def test_the_context_of_a_session_start_is_standard_output() -> None:
    _, rendered = fire(REASONIX, "SessionStart", a=inject([MESSAGE, {"role": "user", "content": "and 8"}]))

    assert rendered.value["stdout"] == "ticket 7\nand 8"


def shown(**changes: Any) -> dict[str, Any]:
    hook = {"scope": "global", "event": "PostToolUse", "command": changes.pop("command", "echo hi")}
    return {"hook": hook, "decision": "warn", "stdout": "", "stderr": "careful", **changes}


TEXTS = [
    (shown(decision="pass"), ""),
    (shown(), "hook [global/PostToolUse] echo hi: warn: careful"),
    (shown(command="c" * 60), f"hook [global/PostToolUse] {'c' * 60}: warn: careful"),
    (shown(command="c" * 200), f"hook [global/PostToolUse] {'c' * 60}…: warn: careful"),
    (shown(truncated=True), "hook [global/PostToolUse] echo hi: warn: careful (output truncated at 256KB)"),
    (shown(stderr="", stdout="out"), "hook [global/PostToolUse] echo hi: warn: out"),
]


@pytest.mark.parametrize(("outcome", "expected"), TEXTS)
def test_people_see_scope_event_command_and_outcome(outcome: dict[str, Any], expected: str) -> None:
    assert format_outcome_line(outcome) == expected


REASONS = [
    ({"cause": "policy", "reason": "no"}, "no"),
    ({"cause": "policy", "reason": "no", "instead": "ls"}, "no\nInstead, run: ls"),
    ({"cause": "policy", "reason": None, "layer": "global", "hook": "g"}, "hook global/g gave no reason"),
    ({"cause": "crash", "reason": "", "layer": "global", "hook": "g"}, "hook crashed (fail-safe deny) (global/g)"),
    ({"cause": "timeout", "reason": "slow"}, "hook timed out (fail-safe deny): slow [timeout]"),
    ({"cause": "no_daemon", "reason": "gone"}, "no_daemon: gone"),
    ({}, "no reason was given"),
]


@pytest.mark.parametrize(("decision", "expected"), REASONS)
def test_a_reason_is_never_empty_and_shows_the_failure(decision: dict[str, Any], expected: str) -> None:
    rendered = render_decision(BEAM, "pre_tool_use", {"event": "pre_tool_use", "verdict": "deny", **decision})

    assert rendered.value == {"deny": expected}


def test_context_without_a_place_in_the_payload_is_handed_back_and_null_takes_a_key_away() -> None:
    payload = {"event": "stop", "dangerous": 1, "session_id": "s"}
    decision = {"event": "stop", "verdict": "pass", "context": {"dangerous": None, "seen": True}}

    rendered = render_decision(BEAM, "stop", decision, [], payload)

    assert rendered.value == {"ok": {"event": "stop", "session_id": "s", "seen": True}}

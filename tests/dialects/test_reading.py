"""Answers in each system's own words are understood; anything else is garbage."""

import json
from typing import Any

import pytest

from dialects.samples import cases, label, sample, wire
from hooklatch.dialects.beam import BEAM
from hooklatch.dialects.dialect import Dialect, adapt_spec
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.exathena import EXATHENA
from hooklatch.dialects.radium import RADIUM
from hooklatch.dialects.reading import translate_answer
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.dialects.rendering import render_decision
from hooklatch.dialects.translation import translate_to_canonical
from hooklatch_worker.author.verdicts import GarbageError, decode_answer
from support.plays import CATALOGUE, play
from support.tables import table

MESSAGE = {"role": "user", "content": "hi"}
GO = {"success": True, "message": None, "modified_data": None, "should_continue": True}
STOP = {"success": False, "message": "no", "modified_data": None, "should_continue": False}
DENY = {"verdict": "deny", "reason": "no"}


def ignored(word: str, event: str) -> dict[str, list[str]]:
    return {"warnings": [f"{word} means nothing on {event} and was ignored: no"]}


READ: list[tuple[Dialect, str, object, dict[str, Any]]] = [
    (ETHOS, "before_tool_call", {"error": "no"}, DENY),
    (ETHOS, "before_tool_call", {"error": ""}, {"verdict": "deny", "reason": ""}),
    (ETHOS, "before_tool_call", {"error": "no", "args": {"n": 1}}, DENY),
    (ETHOS, "before_tool_call", {"error": None, "args": {"n": 1}}, {"patch": {"tool_input": {"n": 1}}}),
    (ETHOS, "before_tool_call", {"args": None}, {}),
    (ETHOS, "subagent_spawning", {"personalityId": "calm"}, {"patch": {"personality_id": "calm"}}),
    (ETHOS, "inbound_claim", {"handled": False}, {}),
    (ETHOS, "inbound_claim", {"handled": True}, {"verdict": "claim", "value": None}),
    (ETHOS, "inbound_claim", {"handled": True, "reply": "hi"}, {"verdict": "claim", "value": {"reply": "hi"}}),
    (ETHOS, "agent_done", False, {"warnings": ["an answer on agent_done has no effect; it was ignored"]}),
    (EXATHENA, "PreToolUse", "ok", {}),
    (EXATHENA, "PreToolUse", {"deny": "no"}, DENY),
    (EXATHENA, "PreToolUse", ["deny", "no"], DENY),
    (EXATHENA, "PreToolUse", {"deny": None}, {"verdict": "deny", "reason": ""}),
    (EXATHENA, "PreToolUse", {"deny": ["a", 1]}, {"verdict": "deny", "reason": '["a",1]'}),
    (EXATHENA, "PreToolUse", {"halt": "no"}, {"verdict": "halt", "reason": "no"}),
    (EXATHENA, "UserPromptSubmit", {"deny": "no"}, DENY),
    (EXATHENA, "UserPromptSubmit", {"transform": "deploy"}, {"patch": {"prompt": "deploy"}}),
    (EXATHENA, "ChatParams", {"inject": MESSAGE}, {"inject": MESSAGE}),
    (EXATHENA, "PostToolUse", {"augment": "more"}, {"append": "more"}),
    (EXATHENA, "PostToolUse", {"deny": "no"}, ignored("deny", "PostToolUse")),
    (EXATHENA, "SessionEnd", {"halt": "no"}, ignored("halt", "SessionEnd")),
    (
        EXATHENA,
        "UserPromptSubmit",
        {"halt": None, "injects": [MESSAGE], "transform": "deploy", "augments": []},
        {"inject": [MESSAGE], "patch": {"prompt": "deploy"}},
    ),
    (
        EXATHENA,
        "UserPromptSubmit",
        {"halt": "no", "injects": [MESSAGE], "transform": None},
        {"verdict": "halt", "reason": "no"},
    ),
    (
        REASONIX,
        "PreToolUse",
        {"verdict": "deny", "reason": "no", "instead": "ls"},
        {"verdict": "deny", "reason": "no", "instead": "ls"},
    ),
    (REASONIX, "PreToolUse", 0, {}),
    (REASONIX, "PreToolUse", {"exitCode": 2, "stderr": "no\n", "stdout": "x"}, DENY),
    (REASONIX, "PreToolUse", {"exitCode": 2, "stdout": "no"}, DENY),
    (REASONIX, "PreToolUse", {"exitCode": 0, "decision": "block", "message": "no"}, DENY),
    (REASONIX, "PreToolUse", {"decision": "warn", "message": "careful"}, {"warnings": ["careful"]}),
    (REASONIX, "PostToolUse", {"exitCode": 2, "stderr": "late"}, {"warnings": ["late"]}),
    (REASONIX, "PostToolUse", {"exitCode": 7}, {"warnings": ["a hook on PostToolUse exited 7"]}),
    (REASONIX, "Stop", {"timedOut": True}, {"warnings": ["a hook on Stop failed"]}),
    (REASONIX, "PostLLMCall", {"exitCode": 0, "stdout": "  short \n"}, {"patch": {"reasoning": "short"}}),
    (REASONIX, "PostLLMCall", {"exitCode": 0, "stdout": " \n"}, {}),
    (
        REASONIX,
        "SessionStart",
        {"exitCode": 0, "stdout": "ticket 7"},
        {"inject": [{"role": "system", "content": "ticket 7"}]},
    ),
    (
        ETHOS,
        "before_prompt_build",
        {"prependSystem": "x", "later": 1, "also": None},
        {
            "patch": {"prepend_system": "x"},
            "warnings": ["a hook on before_prompt_build cannot answer with 'also', 'later', which was ignored"],
        },
    ),
    (
        ETHOS,
        "message_sending",
        {"reason": "x"},
        {"warnings": ["a hook on message_sending cannot answer with 'reason', which was ignored"]},
    ),
    (
        RADIUM,
        "AfterModel",
        {**GO, "modified_data": {"response": "r", "cost": 1}},
        {
            "patch": {"response": "r"},
            "warnings": ["a hook on AfterModel cannot answer with 'cost', which was ignored"],
        },
    ),
    (RADIUM, "BeforeTool", GO, {}),
    (RADIUM, "BeforeTool", STOP, DENY),
    (
        RADIUM,
        "BeforeTool",
        {**GO, "modified_data": {"modified_arguments": {"n": 1}}},
        {"patch": {"tool_input": {"n": 1}}},
    ),
    (RADIUM, "ErrorLogging", STOP, {"warnings": ["no"], "last": True, "reason": "no"}),
    (RADIUM, "ErrorLogging", {**GO, "message": "done"}, {"reason": "done"}),
    (RADIUM, "ErrorInterception", {**GO, "message": "not mine"}, {"reason": "not mine"}),
    (RADIUM, "ErrorInterception", STOP, {"verdict": "claim", "value": "no"}),
    (
        RADIUM,
        "ErrorRecovery",
        {**GO, "modified_data": {"recovered_error": 7}},
        {"verdict": "claim", "value": 7},
    ),
    (
        RADIUM,
        "TelemetryCollection",
        {**GO, "modified_data": {"cost": 1}},
        {"warnings": ["modified data on TelemetryCollection has no effect; it was ignored"]},
    ),
    (BEAM, "pre_tool_use", "ok", {}),
    (BEAM, "pre_tool_use", {"deny": "no"}, DENY),
    (BEAM, "pre_tool_use", ["deny", "no"], DENY),
    (BEAM, "pre_tool_use", {"ask": "sure?"}, {"verdict": "ask", "reason": "sure?"}),
    (BEAM, "pre_tool_use", {"deny": 7}, {"verdict": "deny", "reason": "7"}),
    (BEAM, "post_tool_use", {"deny": "no"}, ignored("deny", "post_tool_use")),
    (BEAM, "post_tool_use", {"ask": "no"}, ignored("ask", "post_tool_use")),
    (BEAM, "stop", ["deny", "no"], ignored("deny", "stop")),
    (BEAM, "pre_tool_use", {"ok": {"tool_input": {"n": 1}}}, {"patch": {"tool_input": {"n": 1}}}),
]


@table(("dialect", "event", "answer", "expected"), READ, ids=label)
def test_answers_are_understood(dialect: Dialect, event: str, answer: object, expected: dict[str, Any]) -> None:
    assert translate_answer(dialect, event, answer) == expected


GARBAGE: list[tuple[Dialect, str, object]] = [
    (ETHOS, "before_tool_call", False),
    (ETHOS, "before_tool_call", {"eror": "no"}),
    (ETHOS, "before_tool_call", {"args": {}, "eror": "no"}),
    (ETHOS, "before_tool_call", ["error", "no"]),
    (ETHOS, "before_tool_call", {"reason": "no"}),
    (ETHOS, "inbound_claim", {"handled": "yes"}),
    (EXATHENA, "PreToolUse", "okay"),
    (EXATHENA, "PreToolUse", True),
    (EXATHENA, "PreToolUse", {"ok": 1}),
    (EXATHENA, "PreToolUse", {"transform": "x"}),
    (EXATHENA, "PreToolUse", {"deny": "no", "inject": []}),
    (EXATHENA, "PreToolUse", ["deny"]),
    (EXATHENA, "PreToolUse", {"halt": None, "injects": [], "transform": "x", "augments": []}),
    (REASONIX, "PreToolUse", 1),
    (REASONIX, "PreToolUse", True),
    (REASONIX, "PreToolUse", "pass"),
    (REASONIX, "PreToolUse", {"exitCode": 127}),
    (REASONIX, "PreToolUse", {"exitCode": 1, "decision": "warn"}),
    (REASONIX, "PreToolUse", {"exitCode": 0, "timedOut": True}),
    (REASONIX, "PreToolUse", {"spawnError": "no shell"}),
    (REASONIX, "PreToolUse", {"decision": "error"}),
    (REASONIX, "PreToolUse", {"decision": "approve"}),
    (REASONIX, "PreToolUse", {"stdout": "fine"}),
    (REASONIX, "PostLLMCall", {"exitCode": 0, "stdout": "half", "truncated": True}),
    (RADIUM, "BeforeTool", {**STOP, "should_continue": True}),
    (RADIUM, "ErrorLogging", {**STOP, "should_continue": True}),
    (RADIUM, "ErrorRecovery", {**STOP, "should_continue": True}),
    (RADIUM, "ErrorInterception", {**STOP, "should_continue": True}),
    (RADIUM, "AfterTool", {"success": False}),
    (RADIUM, "BeforeTool", {"message": "no"}),
    (RADIUM, "BeforeTool", {**GO, "should_continue": None}),
    (RADIUM, "BeforeTool", {**GO, "modified_data": {"args": {}}}),
    (RADIUM, "BeforeTool", {**GO, "modified_data": "text"}),
    (RADIUM, "BeforeTool", [GO]),
    (BEAM, "pre_tool_use", True),
    (BEAM, "pre_tool_use", "denied"),
    (BEAM, "pre_tool_use", {"ok": "fine"}),
    (BEAM, "pre_tool_use", {"error": "no"}),
    (BEAM, "pre_tool_use", {"ok": {}, "deny": "no"}),
    (BEAM, "pre_tool_use", ["deny", "no", "really"]),
]


@table(("dialect", "event", "answer"), GARBAGE, ids=label)
def test_what_nobody_understands_is_garbage(dialect: Dialect, event: str, answer: object) -> None:
    with pytest.raises(GarbageError):
        translate_answer(dialect, event, answer)


@table("answer", [None, {}, {"verdict": "deny", "reason": "no"}, {"warnings": ["w"]}], ids=str)
@table(("dialect", "event"), cases(), ids=label)
def test_our_own_words_are_understood_everywhere(dialect: Dialect, event: str, answer: dict[str, Any] | None) -> None:
    assert translate_answer(dialect, event, answer) == (answer or {})


BACK: list[tuple[Dialect, str, object, str]] = [  # an answer, and where in what is rendered it stands
    (ETHOS, "before_tool_call", {"error": "no"}, ""),
    (ETHOS, "before_tool_call", {"args": {"n": 1}}, ""),
    (ETHOS, "before_prompt_build", {"prependSystem": "x"}, ""),
    (ETHOS, "subagent_spawning", {"prompt": "less"}, ""),
    (ETHOS, "inbound_claim", {"handled": True, "reply": "hi"}, ""),
    (ETHOS, "inbound_claim", {"handled": False}, ""),
    (EXATHENA, "PreToolUse", "ok", "result"),
    (EXATHENA, "PreToolUse", {"deny": "no"}, "result"),
    (EXATHENA, "PreToolUse", {"halt": "no"}, "result"),
    (EXATHENA, "UserPromptSubmit", {"transform": "deploy"}, "result"),
    (EXATHENA, "ChatParams", {"inject": [MESSAGE]}, "result"),
    (EXATHENA, "PostToolUse", {"augment": "more"}, "result"),
    (
        EXATHENA,
        "UserPromptSubmit",
        {"halt": None, "injects": [MESSAGE], "transform": "deploy", "augments": []},
        "outputs",
    ),
    (REASONIX, "PreToolUse", 0, "exitCode"),
    (REASONIX, "PreToolUse", 2, "exitCode"),
    (REASONIX, "PostToolUse", 0, "exitCode"),
    (REASONIX, "PostToolUse", 1, "exitCode"),
    (RADIUM, "BeforeTool", {**GO, "modified_data": {"modified_arguments": {"n": 1}}}, "0"),
    (RADIUM, "BeforeTool", STOP, "0"),
    (RADIUM, "ErrorTransformation", {**GO, "modified_data": {"transformed_error": "x"}}, "0"),
    (RADIUM, "ErrorInterception", STOP, "0"),
    (RADIUM, "ErrorRecovery", {**GO, "modified_data": {"recovered_error": 7}}, "0"),
    (BEAM, "pre_tool_use", {"deny": "no"}, ""),
    (BEAM, "pre_tool_use", {"ask": "sure?"}, ""),
]


@table(("dialect", "event", "answer", "place"), BACK, ids=label)
def test_an_answer_that_is_read_and_rendered_comes_back(
    dialect: Dialect, event: str, answer: object, place: str
) -> None:
    native = sample(dialect, event)
    fed = translate_to_canonical(dialect, event, native)[0]
    verdict = translate_answer(dialect, event, answer, shown=native)

    decision = wire(play(adapt_spec(fed.feed, CATALOGUE[fed.event]), payload=fed.payload, a=dump(verdict)).decision)
    value = render_decision(dialect, event, decision, [], native).value

    assert (value[int(place)] if place.isdigit() else value[place] if place else value) == answer


def dump(verdict: dict[str, Any]) -> bytes:
    data = json.dumps(verdict).encode()
    decode_answer(data)
    return data


SHOWN = {"event": "pre_tool_use", "tool_name": "Bash", "tool_input": {"command": "ls"}, "dangerous": True}


def test_a_context_that_is_handed_back_unchanged_says_nothing() -> None:
    assert translate_answer(BEAM, "pre_tool_use", {"ok": dict(SHOWN)}, shown=SHOWN) == {}


def test_what_a_context_changes_is_told_apart_as_patch_and_context() -> None:
    changed = {**SHOWN, "tool_input": {"command": "ls -l"}, "checked": True}

    read = translate_answer(BEAM, "pre_tool_use", {"ok": changed}, shown=SHOWN)

    assert read == {"patch": {"tool_input": {"command": "ls -l"}}, "context": {"checked": True}}


def test_a_key_taken_out_of_the_context_is_null() -> None:
    rest = {key: value for key, value in SHOWN.items() if key != "dangerous"}

    assert translate_answer(BEAM, "pre_tool_use", {"ok": rest}, shown=SHOWN) == {"context": {"dangerous": None}}


def test_a_guard_that_changes_what_it_cannot_change_answers_garbage() -> None:
    with pytest.raises(GarbageError, match="cannot change tool_name"):
        translate_answer(BEAM, "pre_tool_use", {"ok": {**SHOWN, "tool_name": "Read"}}, shown=SHOWN)


def test_a_change_of_a_part_keeps_the_rest_of_the_field() -> None:
    shown = {"model_id": "m", "input": "hi", "request_modifications": {"top_p": 1}}
    answer = {**GO, "modified_data": {"modified_input": "less"}}

    read = translate_answer(RADIUM, "BeforeModel", answer, shown=shown)

    assert read == {"patch": {"request": {"input": "less", "request_modifications": {"top_p": 1}}}}

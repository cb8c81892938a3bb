"""Payloads translate both ways, keep unknown keys, and are refused if two spellings of a field disagree."""

from typing import Any

import pytest

from dialects.samples import cases, label, sample
from hooklatch.core.payload import PayloadError
from hooklatch.dialects.beam import BEAM
from hooklatch.dialects.dialect import Dialect
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.exathena import EXATHENA
from hooklatch.dialects.radium import RADIUM
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.dialects.translation import carry_patch, translate_to_canonical, translate_to_native
from support.tables import table

SESSION = {"session_id": "s", "parent_session_id": None}
CANONICAL = [  # dialect, event, native payload, canonical payload
    (
        ETHOS,
        "before_tool_call",
        {"sessionId": "s", "toolCallId": "t", "toolName": "terminal", "args": {"command": "ls"}},
        {"session_id": "s", "tool_use_id": "t", "tool_name": "terminal", "tool_input": {"command": "ls"}},
    ),
    (
        ETHOS,
        "inbound_claim",
        {"message": {"platform": "telegram", "chatId": "c", "text": "hi", "isDm": True}},
        {
            "message": {"platform": "telegram", "chatId": "c", "text": "hi", "isDm": True},
            "platform": "telegram",
            "chat_id": "c",
            "text": "hi",
        },
    ),
    (
        ETHOS,
        "subagent_spawning",
        {"parentSessionId": "p", "prompt": "go", "personalityId": "scout"},
        {"parent_session_id": "p", "prompt": "go", "personality_id": "scout", "agent_type": "scout"},
    ),
    (
        EXATHENA,
        "PreToolUse",
        {"tool_name": "edit", "path": "a.ex", "content": "x"},
        {"tool_name": "edit", "tool_input": {"path": "a.ex", "content": "x"}},
    ),
    (
        EXATHENA,
        "PreToolUse",
        {"tool_name": "call", '"tool_name"': "other", '""tool_use_id""': 1},
        {"tool_name": "call", "tool_input": {"tool_name": "other", '"tool_use_id"': 1}},
    ),
    (EXATHENA, "PreToolUse", {"tool_name": "now"}, {"tool_name": "now", "tool_input": {}}),
    (
        EXATHENA,
        "PostToolUse",
        {"tool_name": "edit", "result": "ok", "arguments": {"path": "a"}, "cwd": "/w"},
        {"tool_name": "edit", "tool_response": "ok", "tool_input": {"path": "a"}, "cwd": "/w"},
    ),
    (
        EXATHENA,
        "ChatParams",
        {"request": {"model": "m"}, "messages": [], **SESSION},
        {"request": {"model": "m"}, "messages": [], "model_id": "m", **SESSION},
    ),
    (EXATHENA, "PreCompact", {"estimate": 9}, {"estimate": 9, "trigger": "auto"}),
    (
        REASONIX,
        "PreToolUse",
        {"event": "PreToolUse", "cwd": "/w", "toolName": "edit_file", "toolArgs": {"path": "a.ts"}},
        {"cwd": "/w", "tool_name": "edit_file", "tool_input": {"path": "a.ts"}},
    ),
    (
        REASONIX,
        "Stop",
        {"event": "Stop", "cwd": "/w", "lastAssistantText": "done", "turn": 2},
        {"cwd": "/w", "last_assistant_message": "done", "turn": 2},
    ),
    (
        RADIUM,
        "BeforeModel",
        {"input": "hi", "model_id": "m", "request_modifications": {"top_p": 1}},
        {"model_id": "m", "request": {"input": "hi", "request_modifications": {"top_p": 1}}},
    ),
    (
        RADIUM,
        "ErrorLogging",
        {"error_message": "no", "error_type": "io", "error_source": "disk"},
        {"message": "no", "error_type": "io", "source": "disk"},
    ),
    (
        BEAM,
        "permission_request",
        {"event": "permission_request", "permission_prompt_tool_name": "p", "updated_permissions": {"a": 1}},
        {"prompt_tool_name": "p", "permissions": {"a": 1}},
    ),
    (
        BEAM,
        "config_change",
        {"event": "config_change", "reload_type": "hooks"},
        {"reload_type": "hooks", "source": "hooks"},
    ),
    (BEAM, "subagent_start", {"event": "subagent_start", "agent_id": "a"}, {"subagent_id": "a"}),
]


@table(("dialect", "event", "native", "expected"), CANONICAL, ids=label)
def test_keys_lead_both_ways(dialect: Dialect, event: str, native: dict[str, Any], expected: dict[str, Any]) -> None:
    payload = translate_to_canonical(dialect, event, native)[0].payload

    assert payload == expected
    assert translate_to_native(dialect, event, payload) == native


@table(("dialect", "event"), cases(), ids=label)
def test_every_key_of_every_event_survives_the_round_trip(dialect: Dialect, event: str) -> None:
    native = sample(dialect, event)

    found = translate_to_canonical(dialect, event, native)

    assert found
    for fed in found:
        assert translate_to_native(dialect, event, fed.payload, feed=fed.feed) == native


@table(("dialect", "event"), cases(), ids=label)
def test_unknown_keys_are_kept(dialect: Dialect, event: str) -> None:
    found = translate_to_canonical(dialect, event, sample(dialect, event))

    assert found
    for fed in found:
        place = fed.payload[fed.feed.gathers] if fed.feed.gathers else fed.payload
        assert place["extraKey"] == {"kept": True}


@table(("dialect", "event"), cases(), ids=label)
def test_the_payload_that_was_given_is_not_changed(dialect: Dialect, event: str) -> None:
    native = sample(dialect, event)

    for fed in translate_to_canonical(dialect, event, native):
        translate_to_native(dialect, event, fed.payload)

    assert native == sample(dialect, event)


CONTRADICTIONS = [
    (ETHOS, "before_tool_call", {"toolName": "terminal", "tool_name": "read", "args": {}}),
    (ETHOS, "inbound_claim", {"message": {"platform": "telegram"}, "platform": "slack"}),
    (REASONIX, "PreToolUse", {"event": "PostToolUse", "toolName": "shell", "toolArgs": {}}),
    (REASONIX, "PreToolUse", {"toolName": "shell", "toolArgs": {"n": 1}, "tool_input": {"n": True}}),
    (RADIUM, "BeforeModel", {"input": "hi", "request": {"input": "ho"}}),
]


@pytest.mark.parametrize(("dialect", "event", "native"), CONTRADICTIONS, ids=label)
def test_a_field_said_in_two_ways_is_refused(dialect: Dialect, event: str, native: dict[str, Any]) -> None:
    with pytest.raises(PayloadError):
        translate_to_canonical(dialect, event, native)


def test_two_spellings_that_agree_are_one() -> None:
    native = {"event": "Stop", "lastAssistantText": "done", "last_assistant_message": "done"}

    assert translate_to_canonical(REASONIX, "Stop", native)[0].payload == {"last_assistant_message": "done"}


def test_no_argument_can_pass_for_the_name_of_the_tool() -> None:
    native = {"tool_name": "bash", ":tool_name": "read", '"tool_name"': "read", "command": "rm -rf /"}

    payload = translate_to_canonical(EXATHENA, "PreToolUse", native)[0].payload

    assert payload["tool_name"] == "bash"
    assert payload["tool_input"] == {":tool_name": "read", "tool_name": "read", "command": "rm -rf /"}


NESTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"arguments": {"path": "a"}}, {"path": "a"}),
    ({"arguments": {}}, {}),
    ({"arguments": {"tool_name": "other", "arguments": {"x": 1}}}, {"tool_name": "other", "arguments": {"x": 1}}),
    ({"arguments": {'"tool_name"': 1}}, {'"tool_name"': 1}),  # what is nested is taken as it is
    ({'"arguments"': {"x": 1}}, {"arguments": {"x": 1}}),
    ({'"arguments"': {"x": 1}, "y": 2}, {"arguments": {"x": 1}, "y": 2}),
    ({"arguments": "-la"}, {"arguments": "-la"}),
]


@table(("native", "tool_input"), NESTED)
def test_arguments_stand_in_a_map_of_their_own_or_beside_the_names(
    native: dict[str, Any], tool_input: dict[str, Any]
) -> None:
    (fed,) = translate_to_canonical(EXATHENA, "PreToolUse", {"tool_name": "edit", "tool_use_id": "t", **native})
    (again,) = translate_to_canonical(EXATHENA, "PreToolUse", translate_to_native(EXATHENA, "PreToolUse", fed.payload))

    assert fed.payload == again.payload == {"tool_name": "edit", "tool_use_id": "t", "tool_input": tool_input}


@pytest.mark.parametrize("beside", [{"path": "a"}, {"cwd": "/w"}, {'"tool_name"': "x"}, {"arguments ": 1}])
def test_arguments_in_both_places_are_refused(beside: dict[str, Any]) -> None:
    with pytest.raises(PayloadError, match="keep one form"):
        translate_to_canonical(EXATHENA, "PreToolUse", {"tool_name": "edit", "arguments": {}, **beside})


def test_a_later_feed_sees_what_an_earlier_one_changed() -> None:
    first, second = translate_to_canonical(RADIUM, "AfterTool", {"tool_name": "t", "arguments": {}, "result": "raw"})

    assert first.event == "tool_result"
    assert carry_patch(second, {"tool_response": "clean"}).payload["tool_response"] == "clean"


def test_a_threaded_context_stands_in_for_no_field() -> None:
    context = {"tool_input": {"command": "rm"}, "dangerous": None, "note": 1, "event": "stop"}
    payload = {"tool_name": "Bash", "dangerous": True}

    native = translate_to_native(BEAM, "pre_tool_use", payload, context=context)

    assert native == {"event": "pre_tool_use", "tool_name": "Bash", "note": 1}

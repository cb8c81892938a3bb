"""The input of a command: one event in three vocabularies."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.hosts.find import find_host
from hooklatch_worker.author import events
from hooklatch_worker.runtime.shell_forms import (
    CLAUDE_FIELDS,
    CLAUDE_NAMES,
    REASONIX_NAMES,
    UnsupportedFormatError,
    encode_form_payload,
)
from support.repository import RECORDED

LINES = [
    pytest.param(line, id=f"{file.stem}-{number}")
    for file in sorted(RECORDED.glob("*.jsonl"))
    if file.stem in CLAUDE_NAMES.values()
    for number, line in enumerate(file.read_bytes().splitlines())
]
ENVELOPE = {"session_id": "s1", "cwd": "/work-tree", "agent_id": "a1", "host": "mine", "context": {"k": 1}}
TOOL = {"tool_name": "edit_file", "tool_input": {"path": "a.ts"}}


def event(
    name: str, payload: dict[str, Any], config: dict[str, Any] | None = None, envelope: dict[str, Any] = ENVELOPE,
    reinvoked: bool = False,
) -> events.Event:  # fmt: skip
    return events.build_event(name, payload, envelope, {"command": "true", "config": config or {}}, None, reinvoked)


def formed(form: str, name: str, payload: dict[str, Any], **rest: Any) -> dict[str, Any]:
    line = encode_form_payload(form, event(name, payload, **rest))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_canonical_has_envelope_and_payload_at_the_top() -> None:
    document = formed("canonical", "pre_tool_use", TOOL, config={"patterns": [".env"]})

    assert document == {
        "event": "pre_tool_use",
        "agent_id": "a1",
        "agent_type": None,
        "call_id": None,
        "context": {"k": 1},
        "cwd": "/work-tree",
        "host": "mine",
        "metadata": None,
        "parent_session_id": None,
        "session_id": "s1",
        "turn": None,
        **TOOL,
        "tool_kind": "other",
        "tool_args": {"path": "a.ts"},
        "config": {"patterns": [".env"]},
    }


def test_in_canonical_the_payload_wins_over_the_envelope_but_not_over_what_is_ours() -> None:
    lies = {"session_id": "other", "event": "stop", "config": {"patterns": []}, "reinvoked": True, "merged": {"a": 1}}

    document = formed("canonical", "pre_tool_use", lies, config={"patterns": [".env"]})

    assert (document["session_id"], document["event"]) == ("other", "pre_tool_use")
    assert document["config"] == {"patterns": [".env"]}
    assert document.keys().isdisjoint({"reinvoked", "merged"})


def test_canonical_says_when_a_guard_is_asked_again() -> None:
    assert formed("canonical", "pre_tool_use", TOOL, reinvoked=True)["reinvoked"] is True


def test_canonical_takes_every_event() -> None:
    for name in [*Catalogue.standard(), "deploy_requested"]:
        assert formed("canonical", name, {"x": 1})["event"] == name


@pytest.mark.parametrize("line", LINES)
def test_claude_gives_back_what_claude_code_sent(line: bytes) -> None:
    host = find_host("claude-code")
    fire = host.make_fire(host.read(None, line, {}))
    params = msgspec.to_builtins(fire.params, enc_hook=msgspec.json.decode)

    document = formed("claude", fire.after or params["event"], params["payload"], envelope=params["envelope"])

    assert document == json.loads(line)


def test_claude_knows_the_events_that_the_host_knows() -> None:
    # How a command answers these in Claude Code's form, nothing here reads.
    without = {"WorktreeCreate", "WorktreeRemove", "Elicitation", "ElicitationResult", "PreSkillShellCommand"}
    specs = {name: spec.after or spec for name, spec in find_host("claude-code").events.items()}
    known = {name: spec.event for name, spec in specs.items() if spec.event}
    assert {theirs: ours for ours, theirs in CLAUDE_NAMES.items()} == {
        name: event for name, event in known.items() if name not in without
    }


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        ("subagent_started", {"subagent_id": "x"}, {"hook_event_name": "SubagentStart", "agent_id": "x"}),
        ("config_change", {"source": "user_settings", "path": "/f"}, {"file_path": "/f", "source": "user_settings"}),
        ("task_completed", {"subject": "t"}, {"task_subject": "t"}),
        ("teammate_idle", {"teammate": "t"}, {"teammate_name": "t"}),
        ("permission_request", {"suggestions": [1]}, {"permission_suggestions": [1]}),
        ("stop", {"last_assistant_message": "done"}, {"last_assistant_message": "done", "stop_hook_active": False}),
    ],
)
def test_events_of_other_hosts_get_claude_codes_names(
    name: str, payload: dict[str, Any], expected: dict[str, Any]
) -> None:
    document = formed("claude", name, payload)

    assert document | expected == document
    assert document.keys().isdisjoint(CLAUDE_FIELDS.get(name, {}))  # RG-22: no name of ours leaks


def test_claude_always_has_what_scripts_read_unasked() -> None:
    document = formed("claude", "pre_tool_use", TOOL, envelope={})

    assert (document["session_id"], document["transcript_path"], document["cwd"]) == ("", "", "")


def test_what_a_host_knows_beside_the_payload_reaches_claude_hooks() -> None:
    metadata = {"transcript_path": "/t", "permission_mode": "plan", "other": 1}

    document = formed("claude", "pre_tool_use", TOOL, envelope={**ENVELOPE, "metadata": metadata})

    assert (document["transcript_path"], document["permission_mode"]) == ("/t", "plan")
    assert "other" not in document


BASE = {"cwd": "/work-tree", "sessionId": "s1"}
TOOL_KEYS = {"toolName": "edit_file", "toolArgs": {"path": "a.ts"}}


@pytest.mark.parametrize(
    ("name", "payload", "expected"),
    [
        pytest.param("pre_tool_use", TOOL, {"event": "PreToolUse", **TOOL_KEYS}, id="RX-20-PreToolUse"),
        pytest.param(
            "post_tool_use", {**TOOL, "tool_response": "ok", "duration_ms": 3},
            {"event": "PostToolUse", **TOOL_KEYS, "toolResult": "ok"}, id="RX-20-PostToolUse",
        ),
        pytest.param(
            "post_tool_use_failure", {**TOOL, "error": "bad", "is_interrupt": True},
            {"event": "PostToolUseFailure", **TOOL_KEYS, "error": "bad", "isInterrupt": True}, id="PostToolUseFailure",
        ),
        pytest.param(
            "user_prompt_submit", {"prompt": "hi", "turn": 2},
            {"event": "UserPromptSubmit", "prompt": "hi", "turn": 2}, id="RX-20-UserPromptSubmit",
        ),
        pytest.param(
            "stop", {"last_assistant_message": "done", "turn": 0},
            {"event": "Stop", "lastAssistantText": "done", "turn": 0}, id="RX-20-Stop",
        ),
        pytest.param(
            "subagent_stop", {"result": "done"}, {"event": "SubagentStop", "lastAssistantText": "done"},
            id="SubagentStop",
        ),
        pytest.param("post_model", {"reasoning": "r"}, {"event": "PostLLMCall", "reasoning": "r"}, id="PostLLMCall"),
        pytest.param("pre_compact", {"trigger": "auto"}, {"event": "PreCompact", "trigger": "auto"}, id="PreCompact"),
        pytest.param(
            "notification", {"message": "m", "notification_type": "t"},
            {"event": "Notification", "message": "m", "notificationType": "t"}, id="Notification",
        ),
        pytest.param("session_end", {"reason": "bye"}, {"event": "SessionEnd", "reason": "bye"}, id="SessionEnd"),
    ],
)  # fmt: skip
def test_reasonix_has_its_own_keys_and_no_other(name: str, payload: dict[str, Any], expected: dict[str, Any]) -> None:
    assert formed("reasonix", name, payload) == {**BASE, **expected}


def test_the_turn_may_be_in_the_envelope() -> None:
    assert formed("reasonix", "stop", {}, envelope={"turn": 7})["turn"] == 7


@pytest.mark.parametrize("form", ["claude", "reasonix"])
def test_a_hooks_own_table_is_in_every_form_but_only_if_it_has_one(form: str) -> None:
    assert "config" not in formed(form, "pre_tool_use", TOOL)
    assert formed(form, "pre_tool_use", TOOL, config={"a": 1})["config"] == {"a": 1}


@pytest.mark.parametrize(
    ("form", "name"),
    [("claude", "subagent_start"), ("claude", "pre_model"), ("claude", "deploy_requested"), ("reasonix", "tool_path")],
)
def test_an_event_that_a_system_does_not_have_is_refused(form: str, name: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"payload = \"{form}\" has no name for the event '{name}'"):
        encode_form_payload(form, event(name, {}))


def test_every_name_is_one_of_the_catalogue() -> None:
    known = set(Catalogue.standard())

    assert known >= set(CLAUDE_NAMES) | set(REASONIX_NAMES)
    for name, fields in CLAUDE_FIELDS.items():
        assert {field.name for field in Catalogue.standard()[name].fields} >= set(fields) - {"teammate"}

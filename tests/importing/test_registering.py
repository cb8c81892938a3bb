"""A settings file as definitions for a session: what is there, what is none, and what may not be taken for none."""

from __future__ import annotations

import json
from typing import Any

from hooklatch.importing.settings_files import MAX_BYTES, read_definitions
from support.tables import table

GUARD = {"match": "shell", "command": "exit 2"}
IN_A_SESSION: list[tuple[object, dict[str, Any]]] = [
    ({"PreToolUse": [GUARD]}, {"event": "PreToolUse", "match": "shell", "command": "exit 2", "exit_codes": "advisory"}),
    ({"PreToolUse": [{**GUARD, "match": "a|b"}]}, {"match": "a|b"}),
    ({"PreToolUse": [{**GUARD, "match": "edit_.*"}]}, {"match": "edit_.*"}),
    ({"PreToolUse": [{**GUARD, "timeout": 1500}]}, {"timeout": 1500}),
    ({"PreToolUse": [{**GUARD, "timeout": 1.5}]}, {"timeout": 1.5}),
    ({"Stop": [{**GUARD, "cwd": "/srv", "env": {"A": "b"}, "description": "d"}]}, {"event": "Stop", "cwd": "/srv"}),
    ({"PreToolUse": [{"command": "true", "args": ["x"]}]}, {"argv": ["true", "x"]}),
    (
        {"PreToolUse": [{"matcher": "Bash|Edit", "hooks": [{"type": "command", "command": "x"}]}]},
        {"event": "PreToolUse", "match": "Bash|Edit", "payload": "claude", "timeout": 600_000},
    ),
    (
        {"PreToolUse": [{"matcher": "Ba.*", "hooks": [{"type": "command", "command": "x"}]}]},
        {"event": "PreToolUse", "match": {"regex": "Ba.*", "search": True}},
    ),
    (
        {"SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "x", "timeout": 2}]}]},
        {"event": "session_start", "match": "startup", "timeout": 2.0},
    ),
    (
        {"TaskCompleted": [{"hooks": [{"type": "command", "command": "x", "timeout": 2}]}]},
        {"event": "task_completed", "timeout": 2.0},
    ),
]


def read(data: str | bytes) -> dict[str, list[dict[str, Any]]]:
    return read_definitions("/h/settings.json", data.encode() if isinstance(data, str) else data, "project")


@table(("hooks", "expected"), IN_A_SESSION)
def test_an_entry_is_a_definition_in_the_systems_form(hooks: object, expected: dict[str, Any]) -> None:
    (definition,) = read(json.dumps({"hooks": hooks}))["hooks"]

    assert {key: definition.get(key) for key in expected} == expected
    assert definition["id"].endswith("@project")


NO_HOOKS = [
    "{}",
    '{"hooks": {}}',
    '{"hooks": {"PreToolUse": []}}',
    '{"theme": "dark"}',
    '{"notifications": true, "stop": ["a"], "webhooks": {"url": "x"}, "sounds": {"Stop": "ding.wav"}}',
    '{"permissions": {"allow": ["Read"]}, "env": {"HOOK": "1"}}',
]


@table("text", NO_HOOKS)
def test_settings_without_hooks_have_none(text: str) -> None:
    assert read(text) == {"hooks": [], "notes": []}


ENTRIES = '{"PreToolUse": [{"match": "shell", "command": "exit 2"}]}'
FOR_EVERY_GATE = [
    "",
    "x",
    "[]",
    "7",
    '"hooks"',
    '{"hooks": ',
    '{"hooks": null}',
    '{"hooks": "guard.sh"}',
    '{"hooks": [' + ENTRIES + "]}",
    '{"hook": 1}',
    '{"Hooks": ' + ENTRIES + "}",
    '{"hook": ' + ENTRIES + "}",
    '{"hoks": ' + ENTRIES + "}",
    '{"settings": {"hooks": ' + ENTRIES + "}}",
    '{"preToolUse": [{"command": "exit 2"}]}',
    '{"hooks": {"Stop": []}, "hooks": ' + ENTRIES + "}",
    '{"hooks": {"Stop": [{"command": "a", "command": "b"}]}}',
    b"\xff\xfe\xff",
    b'{"theme": "' + b"x" * MAX_BYTES + b'"}',
    json.dumps({"hooks": {"Stop": [{"command": f"{number}"} for number in range(1001)]}}),
]


@table("data", FOR_EVERY_GATE)
def test_a_file_that_cannot_be_read_stands_in_at_every_gate(data: str | bytes) -> None:
    result = read(data)

    (definition,) = result["hooks"]
    assert definition.keys() == {"event", "problem"}
    assert definition["event"] == "*"
    assert result["notes"] == [{"place": "", "line": 0, "text": definition["problem"], "red": True}]


STOOD_IN: list[tuple[str, str, str | None, str]] = [
    ('{"hooks": {"PreToolUse": [{"match": "shell", "comand": "x"}]}}', "PreToolUse", "shell", "PreToolUse[1] (line 1)"),
    ('{"hooks": {\n"PreToolUze": [{"command": "x"}]}}', "PreToolUse", None, "did you mean 'PreToolUse'"),
    ('{"hooks": {"PreToolUse": {"command": "x"}}}', "PreToolUse", None, "its entries are a list"),
    ('{"hooks": {"PreToolUse": ["x"]}}', "PreToolUse", None, "not an object"),
    ('{"hooks": {"PreToolUse": [{"match": "(?=x)", "command": "x"}]}}', "PreToolUse", "(?=x)", "RE2"),
    ('{"hooks": {"Stop": [\n{"command": 7}]}}', "Stop", None, "Stop[1] (line 2): its command is 7"),
    ('{"hooks": {}, "PreToolUse": [{"command": "x"}]}', "PreToolUse", None, "it is beside 'hooks'"),
    ('{"hooks": {}, "pre_tool_use": [{"command": "x"}]}', "PreToolUse", None, "it is beside 'hooks'"),
    ('{"PreToolUse": [], "PermissionRequest": {"command": "x"}}', "PermissionRequest", None, "are a list"),
    ('{"hooks": {}, "Hooks": ' + ENTRIES + "}", "*", None, "it is beside 'hooks'"),
    ('{"hooks": {}, "project": {"hooks": ' + ENTRIES + "}}", "*", None, "it is beside 'hooks'"),
    ('{"hooks": {"project": ' + ENTRIES + "}}", "*", None, "its entries are a list"),
    ('{"PreToolUse": [], "Hooks": ' + ENTRIES + "}", "*", None, "its entries are a list"),
]


@table(("text", "event", "match", "why"), STOOD_IN)
def test_what_cannot_be_used_stands_in_and_is_noted_in_red(text: str, event: str, match: str | None, why: str) -> None:
    result = read(text)

    (definition,) = result["hooks"]
    assert (definition["event"], definition.get("match")) == (event, match)
    assert why in definition["problem"]
    assert [note["text"] in definition["problem"] for note in result["notes"] if note["red"]] == [True]


def test_what_looks_misspelt_is_noted_in_red_and_what_nobody_knows_stands_in_at_every_gate() -> None:
    result = read(json.dumps({"hooks": {"Nonesuch": [GUARD, GUARD], "Stop": [{"command": "true", "timeot": 5}]}}))

    assert [hook["event"] for hook in result["hooks"]] == ["Stop", "*"]
    assert "Nonesuch[1] (line 1): there is no event here for 'Nonesuch'; 1 more" in result["hooks"][1]["problem"]
    assert [note["place"] for note in result["notes"] if note["red"]] == ["Nonesuch[1]", "Nonesuch[2]", "Stop[1]"]


def test_texts_that_no_answer_can_hold_are_written_out_and_notes_end() -> None:
    hooks = {"\ud800": [GUARD], **{f"Nonesuch{number}": [GUARD] for number in range(300)}}

    result = read(json.dumps({"hooks": hooks}))

    assert len(result["notes"]) == 201
    assert "\\ud800" in json.dumps(result["notes"][0]["place"])

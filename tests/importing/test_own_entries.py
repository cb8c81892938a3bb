"""hooklatch's own entries in a settings file are no hooks; what is joined to one is."""

from __future__ import annotations

import json

import pytest

from hooklatch.importing import read_hooks

OWN = "/v/bin/python3 -I -S /v/hooklatch/entry/entry.py claude-code PreToolUse --kind gate --wait 605"


@pytest.mark.parametrize(
    ("hooks", "kept"),
    [
        ({"PreToolUse": [{"hooks": [{"type": "command", "command": OWN}]}]}, []),
        ({"Elicitation": [{"hooks": [{"type": "command", "command": OWN}]}]}, []),
        ({"PreToolUse": [{"command": OWN}]}, []),
        ({"PreToolUse": [{"hooks": [{"command": OWN}, {"command": "guard.sh"}]}]}, ["guard.sh"]),
    ],
)
def test_our_own_entries_are_no_hooks(hooks: object, kept: list[str]) -> None:
    imported = read_hooks("settings.json", json.dumps({"hooks": hooks}).encode())

    assert [hook.settings["command"] for hook in imported.hooks] == kept
    assert not imported.has_losses
    assert "hooklatch's own entries are left out (1)" in str(imported.notes)


@pytest.mark.parametrize("joint", [" && ", "; ", "\n", " | "])
def test_a_guard_that_is_joined_to_our_own_entry_is_not_left_out(joint: str) -> None:
    line = f"{OWN}{joint}guard.sh"
    for hooks in ({"PreToolUse": [{"hooks": [{"command": line}]}]}, {"PreToolUse": [{"command": line}]}):
        imported = read_hooks("settings.json", json.dumps({"hooks": hooks}).encode())

        assert [hook.settings["command"] for hook in imported.hooks] == [line]

"""Our entries in settings: put in once, found again, taken out without a trace of anybody else's."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.cli.hosts.editing import parse_jsonc
from hooklatch.cli.hosts.entries import SettingsShape, add_entries, find_entries, is_nothing, remove_entries
from hooklatch.hosts.own_entries import is_entry

GROUPED, FLAT = SettingsShape(), SettingsShape(is_grouped=False, root=(("version", 1),))
WORDS = ["/usr/bin/python3", "-I", "-S", "/a b/hooklatch/entry/entry.py", "claude-code", "Stop", "--kind", "gate"]
LINE = shlex.join([*WORDS, "--wait", "605"])
OURS: dict[str, dict[str, Any]] = {
    event: {"type": "command", "command": LINE, "timeout": 610} for event in ("PreToolUse", "Stop", "SessionEnd")
}
THEIRS = {"type": "command", "command": "my-guard --kind strict", "timeout": 5}
GROUPS = st.lists(st.sampled_from([{"matcher": "Bash", "hooks": [THEIRS]}, {"hooks": []}, THEIRS, {}, 1]), max_size=2)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("x"),
        "version": st.just(1),
        "hooks": st.dictionaries(st.sampled_from(["PreToolUse", "Stop", "Other"]), GROUPS, max_size=3),
    },
)
STYLES: list[dict[str, Any]] = [{"indent": 2}, {"indent": 4}, {"indent": "\t"}, {}]


def value(text: str) -> Any:
    root = parse_jsonc(text)
    return None if root is None else root.value


@given(SETTINGS, st.sampled_from(STYLES), st.sampled_from([GROUPED, FLAT]))
def test_all_is_found_again_and_taken_out(
    settings: dict[str, Any], style: dict[str, Any], shape: SettingsShape
) -> None:
    import json

    text = json.dumps(settings, **style) + "\n"

    after = add_entries(text, shape, OURS)

    assert {one.event: one.handler for one in find_entries(after)} == OURS
    rest = value(remove_entries(after, settings))
    assert {**rest, "version": 1} == {**settings, "version": 1}
    assert not list(find_entries(remove_entries(after)))


def test_a_usual_file_gets_its_bytes_back_without_a_backup() -> None:
    text = '{\n  "hooks": {\n    "PreToolUse": [\n      {"hooks": [{"command": "mine"}]} // first\n    ]\n  }\n}\n'

    assert remove_entries(add_entries(text, GROUPED, OURS)) == text


def test_a_handler_that_somebody_added_to_our_group_stays() -> None:
    text = add_entries("{}", GROUPED, OURS)
    mine = text.replace('"hooks": [{"type"', '"hooks": [{"command": "mine"}, {"type"', 1)

    assert value(remove_entries(mine)) == {"hooks": {"PreToolUse": [{"hooks": [{"command": "mine"}]}]}}


def test_lists_that_were_empty_before_stay_empty() -> None:
    text = '{"hooks": {"Stop": []}}'

    assert remove_entries(add_entries(text, GROUPED, OURS), value(text)) == text


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        ([*WORDS, "--wait", "1"], True),
        (["/x/hooklatch-entry", "codex", "Stop", "--kind", "gate", "--wait", "1"], True),
        (["hooklatch", "fire", "stop"], False),
        (["/x/hooklatch/entry/entry.py"], False),
        (["my-entry", "--kind", "gate", "--wait", "1"], False),
        ([], False),
    ],
)
def test_our_command_line_is_told_from_others(words: list[str], is_ours: bool) -> None:
    assert is_entry(words) is is_ours


@pytest.mark.parametrize(
    ("text", "shape", "is_empty"),
    [
        ("", GROUPED, True),
        ("{}\n", GROUPED, True),
        ('{"version": 1, "hooks": {}}', FLAT, True),
        ('{"version": 1}', GROUPED, False),
        ("{} // mine", GROUPED, False),
        ('{"hooks": {"Stop": []}}', GROUPED, False),
    ],
)
def test_an_empty_file_is_one_that_nobody_wrote_to(text: str, shape: SettingsShape, is_empty: bool) -> None:
    assert is_nothing(text, shape) is is_empty

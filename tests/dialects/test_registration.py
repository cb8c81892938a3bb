"""Hooks are registered in each system's own form: names, matchers, groups, models."""

from typing import Any

import pytest

from dialects.samples import label
from hooklatch.core.hooks.definitions import InvalidHookError, read_definition
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.dialects.beam import BEAM
from hooklatch.dialects.dialect import Dialect
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.exathena import EXATHENA
from hooklatch.dialects.radium import RADIUM
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.dialects.registration import read_matcher, read_registration
from support.tables import table

MATCHERS: list[tuple[Dialect, object, object]] = [
    (EXATHENA, None, None),
    (EXATHENA, "Write|Edit", {"regex": "Write|Edit", "search": True}),
    (EXATHENA, "", {"regex": "", "search": True}),
    (EXATHENA, {"glob": "mcp__*"}, {"glob": "mcp__*"}),
    (REASONIX, "", None),
    (REASONIX, "*", None),
    (REASONIX, "edit_file|write_file", {"regex": "edit_file|write_file"}),
    (BEAM, "Bash", "Bash"),
    (BEAM, "^(Write|Edit)$", {"regex": "^(Write|Edit)$", "search": True}),
    (BEAM, "Read.*", {"regex": "Read.*", "search": True}),
]


@table(("dialect", "source", "expected"), MATCHERS, ids=label)
def test_a_bare_string_is_read_the_way_of_its_system(dialect: Dialect, source: object, expected: object) -> None:
    assert read_matcher(dialect, source) == expected


TOOLS = [
    (REASONIX, "edit_file|write_file", "edit_file", True),
    (REASONIX, "edit_file|write_file", "read_file", False),
    (REASONIX, "file", "edit_file", False),
    (REASONIX, ".*file", "edit_file", True),
    (EXATHENA, "write|edit", "multi_edit", True),
    (EXATHENA, "^(Edit|Write)$", "Read", False),
    (BEAM, "Bash", "BashOutput", False),
    (BEAM, "^Read.*", "ReadFile", True),
    (BEAM, "^Read.*", "Write", False),
]


@table(("dialect", "source", "tool", "expected"), TOOLS, ids=label)
def test_a_matcher_fires_on_the_tools_it_fires_on_there(
    dialect: Dialect, source: str, tool: str, expected: bool
) -> None:
    assert compile_matcher(read_matcher(dialect, source)).matches(tool) is expected


@pytest.mark.parametrize("dialect", [ETHOS, RADIUM], ids=label)
def test_a_matcher_is_refused_where_there_are_none(dialect: Dialect) -> None:
    with pytest.raises(MatcherError, match="has no matchers"):
        read_matcher(dialect, "Bash")


@pytest.mark.parametrize("dialect", [EXATHENA, REASONIX, BEAM], ids=label)
def test_a_broken_pattern_is_refused_at_registration(dialect: Dialect) -> None:
    with pytest.raises(MatcherError, match="RE2"):
        read_matcher(dialect, "[unclosed")


WRITE = {"regex": "Write|Edit", "search": True}
REGISTERED: list[tuple[Dialect, object, list[dict[str, Any]]]] = [
    (
        ETHOS,
        {"name": "before_tool_call", "model": "modifying", "handler": "guard", "pluginId": "acme"},
        [{"id": "guard", "event": "pre_tool_use", "plugin": "acme", "served": True}],
    ),
    (ETHOS, {"event": "agent_done", "id": "log", "model": "void"}, [{"id": "log", "event": "stop", "served": True}]),
    (
        EXATHENA,
        {"PreToolUse": [{"matcher": "Write|Edit", "hooks": ["guard", "guards.py:other"]}], "Stop": ["log"]},
        [
            {"id": "guard", "event": "pre_tool_use", "match": WRITE, "served": True},
            {"run": "guards.py:other", "event": "pre_tool_use", "match": WRITE},
            {"id": "log", "event": "stop", "served": True},
        ],
    ),
    (
        EXATHENA,
        {"PreToolUse": [{"hooks": ["guard"]}], "PermissionRequest": ["guard"]},
        [
            {"id": "guard@pre_tool_use", "event": "pre_tool_use", "served": True},
            {"id": "guard@permission_request", "event": "permission_request", "served": True},
        ],
    ),
    (
        REASONIX,
        {"hooks": {"PreToolUse": [{"match": "shell", "command": "exit 2", "timeout": 500, "description": "no"}]}},
        [
            {
                "id": "PreToolUse: exit 2",
                "event": "pre_tool_use",
                "match": {"regex": "shell"},
                "command": "exit 2",
                "payload": "reasonix",
                "exit_codes": "advisory",
                "timeout": 0.5,
                "description": "no",
            }
        ],
    ),
    (
        REASONIX,
        {"event": "UserPromptSubmit", "id": "a", "match": "never"},
        [{"id": "a", "event": "user_prompt_submit", "served": True}],
    ),
    (
        RADIUM,
        {"name": "my-hook", "type": "before_model", "priority": 100, "enabled": True, "config": {"level": "info"}},
        [
            {
                "id": "my-hook",
                "event": "pre_model",
                "priority": 100,
                "enabled": True,
                "config": {"level": "info"},
                "served": True,
            }
        ],
    ),
    (
        RADIUM,
        {"name": "late", "type": "AfterTool", "run": "h.py:f"},
        [{"id": "late", "event": "tool_result", "run": "h.py:f"}],
    ),
    (
        BEAM,
        {"event": "pre_tool_use", "callback": "guard", "matcher": {"tool_name": "^(Write|Edit)$"}},
        [
            {
                "id": "guard",
                "event": "pre_tool_use",
                "match": {"regex": "^(Write|Edit)$", "search": True},
                "served": True,
            }
        ],
    ),
    (
        BEAM,
        {"event": ["stop", "session_end"], "id": "log"},
        [
            {"id": "log@stop", "event": "stop", "served": True},
            {"id": "log@session_end", "event": "session_end", "served": True},
        ],
    ),
]


def tables(dialect: Dialect, native: object) -> list[dict[str, Any]]:
    """Return the definitions of what is registered, if none of them has a fault."""
    hooks = read_registration(dialect, native)
    for fault in (hook.fault for hook in hooks if hook.fault is not None):
        raise fault
    return [hook.table for hook in hooks]


@table(("dialect", "native", "expected"), REGISTERED, ids=label)
def test_a_native_definition_becomes_ours(dialect: Dialect, native: object, expected: list[dict[str, Any]]) -> None:
    assert tables(dialect, native) == expected


def test_what_is_read_is_a_definition() -> None:
    definitions = tables(EXATHENA, {"PreToolUse": [{"matcher": "Write", "hooks": ["guard"]}]})

    (hook,) = read_definition(definitions[0])

    assert (hook.id, hook.event, hook.matcher.matches("MultiWrite")) == ("guard", "pre_tool_use", True)


REFUSED: list[tuple[Dialect, object, str]] = [
    (ETHOS, {"name": "before_tool_call", "model": "void", "handler": "g"}, "it takes no void hooks"),
    (ETHOS, {"name": "agent_done", "model": "modifying", "handler": "g"}, "is a void point"),
    (ETHOS, {"name": "inbound_claim", "model": "modifying", "handler": "g"}, "is a claiming point"),
    (ETHOS, {"name": "before_tool_cal", "handler": "g"}, "did you mean 'before_tool_call'"),
    (ETHOS, {"name": "before_tool_call", "handler": "g", "match": "Bash"}, "has no matchers"),
    (ETHOS, {"name": "agent_done", "handler": "g", "failurePolicy": "fail-closed"}, "the point decides it"),
    (EXATHENA, {"Stop": [{"matcher": "x", "hooks": ["log"]}]}, "is not about a tool"),
    (EXATHENA, {"PreToolUse": [{"matcher": "[", "hooks": ["g"]}]}, "RE2"),
    (EXATHENA, {"PreToolUse": "guard"}, "a list of hooks"),
    (EXATHENA, {"PreToolUse": [7]}, "a name or a table"),
    (EXATHENA, {"pre_tool_use": ["g"]}, "has no event 'pre_tool_use'"),
    (REASONIX, {"event": "PreToolUse", "id": "g", "match": "[unclosed"}, "RE2"),
    (RADIUM, {"name": "h", "type": "before_tool", "script": "x.sh"}, "Radium never runs it"),
    (BEAM, {"event": "user_prompt_submit", "callback": "g", "matcher": {"tool_name": "Bash"}}, "is not about a tool"),
    (BEAM, {"event": "pre_tool_use", "callback": "g", "matcher": {"tool": "Bash"}}, "has only 'tool_name'"),
    (BEAM, {"event": 7, "callback": "g"}, "event is a string"),
    (BEAM, "pre_tool_use", "is a table"),
]


@table(("dialect", "native", "text"), REFUSED, ids=label)
def test_a_definition_that_cannot_stand_is_refused(dialect: Dialect, native: object, text: str) -> None:
    with pytest.raises(InvalidHookError, match=text):
        tables(dialect, native)


def test_a_hook_that_is_refused_leaves_its_neighbours_and_what_is_usable_of_it() -> None:
    native = {
        "PreToolUse": [
            {"matcher": "Write", "hooks": ["good", {"id": "bad", "timeout": "soon"}, 7]},
            {"matcher": "[", "hooks": ["unmatched"]},
        ],
        "Stop": [{"matcher": "x", "hooks": ["log"]}],
        "Nonesuch": ["nowhere"],
    }

    hooks = read_registration(EXATHENA, native)

    kept = [(hook.table.get("id"), hook.table["event"], hook.table.get("match"), hook.written) for hook in hooks]
    write = {"regex": "Write", "search": True}
    assert kept == [
        ("good", "pre_tool_use", write, "PreToolUse"),
        ("bad", "pre_tool_use", write, "PreToolUse"),
        (None, "pre_tool_use", write, "PreToolUse"),
        ("unmatched", "pre_tool_use", None, "PreToolUse"),
        ("log", "stop", None, "Stop"),
        ("nowhere", "Nonesuch", None, "Nonesuch"),
    ]
    assert [hook.fault is None for hook in hooks] == [True, True, False, False, False, False]


COMMANDS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"command": "exit 1"}, {"payload": "reasonix", "exit_codes": "advisory"}),
    ({"argv": ["false"], "id": "a"}, {"payload": "reasonix", "exit_codes": "advisory"}),
    ({"command": "exit 1", "exit_codes": "strict"}, {"payload": "reasonix", "exit_codes": "strict"}),
    ({"command": "exit 1", "payload": "claude"}, {"payload": "claude", "exit_codes": "advisory"}),
]


@table(("table", "expected"), COMMANDS)
def test_a_command_has_the_defaults_of_its_system(table: dict[str, Any], expected: dict[str, str]) -> None:
    (definition,) = tables(REASONIX, {"event": "PreToolUse", **table})

    assert {key: definition[key] for key in expected} == expected

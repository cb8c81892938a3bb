"""How a hook sees an event."""

import copy
from typing import Any

import pytest

from hooklatch_worker.author.events import EVENT_CLASSES, CustomEvent, Event, PreToolUse, build_event
from support.tables import table

ENVELOPE = {"session_id": "s", "turn": 3, "agent_type": "main", "metadata": {"a": 1}}


def event(name: str, **payload: Any) -> Any:
    return build_event(name, payload, ENVELOPE, None, None, False)


def test_an_event_is_of_its_class() -> None:
    assert type(event("pre_tool_use")) is PreToolUse
    assert type(event("deploy_requested")) is CustomEvent


def test_payload_and_envelope_read_as_attributes() -> None:
    seen = event("pre_tool_use", tool_name="Bash", tool_input={"command": "ls"}, surprise=1)

    assert (seen.event, seen.tool_name, seen.tool_input["command"]) == ("pre_tool_use", "Bash", "ls")
    assert (seen.surprise, seen.session_id, seen.cwd) == (1, "s", None)


def test_what_comes_beside_the_payload_is_never_none() -> None:
    seen = event("pre_tool_use")

    assert (seen.payload, seen.config, seen.merged, seen.reinvoked) == ({}, {}, {}, False)


def test_config_and_merged_are_handed_on() -> None:
    seen = build_event("prompt_build", {}, {}, {"a": 1}, {"prepend_system": "x"}, True)

    assert (seen.config, seen.merged, seen.reinvoked) == ({"a": 1}, {"prepend_system": "x"}, True)


def test_a_declared_field_that_is_absent_is_none() -> None:
    assert event("pre_tool_use").tool_use_id is None


@table(
    ("name", "payload", "field", "value"),
    [
        ("subagent_start", {"agent_type": "coder"}, "agent_type", "coder"),
        ("subagent_start", {}, "agent_type", "main"),
        ("stop", {"turn": 7}, "turn", 7),
        ("stop", {}, "turn", 3),
        ("pre_tool_use", {"turn": 7}, "turn", 3),
        ("post_compact", {"metadata": {"before": 9}}, "metadata", {"before": 9}),
        ("personality_switch", {"from": "a", "to": "b"}, "from_", "a"),
        ("personality_switch", {"from": "a", "to": "b"}, "from", "a"),
        ("personality_switch", {}, "from_", None),
    ],
)
def test_a_payload_field_wins_where_the_event_declares_it(
    name: str, payload: dict[str, Any], field: str, value: object
) -> None:
    assert getattr(event(name, **payload), field) == value


def test_a_misspelt_field_names_the_event_and_the_nearest_field() -> None:
    with pytest.raises(AttributeError, match="event 'pre_tool_use' has no field 'tool_nam'; did you mean 'tool_name'"):
        _ = event("pre_tool_use").tool_nam
    with pytest.raises(AttributeError, match="has no field 'comand'; did you mean 'command'"):
        _ = event("pre_tool_use").comand


def test_an_event_that_is_taken_for_a_dict_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"write event\.tool_name"):
        event("pre_tool_use")["tool_name"]


def test_an_event_is_read_only() -> None:
    seen = event("pre_tool_use", tool_name="Bash")

    with pytest.raises(AttributeError, match=r"return amend\(tool_name=...\)"):
        seen.tool_name = "Edit"


def test_an_event_can_be_copied() -> None:
    assert copy.copy(event("pre_tool_use", tool_name="Bash")).tool_name == "Bash"


def test_each_event_has_its_own_class() -> None:
    classes = list(EVENT_CLASSES.values())

    assert len(set(classes)) == len(classes)
    assert all(issubclass(event_class, Event) for event_class in classes)

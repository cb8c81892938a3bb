"""What `@hook` records on a function, and what it rejects at import time."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hooklatch_worker.author.decorator import hook
from hooklatch_worker.author.marker import MarkedEvent
from support.tables import table


def plain(event: Any) -> None:
    return None


def marked(*arguments: Any, **settings: Any) -> tuple[MarkedEvent, ...]:
    def function(event: Any) -> None:
        return None

    decorate: Callable[[Any], Any] = hook(*arguments, **settings)
    found: tuple[MarkedEvent, ...] = decorate(function).__hooklatch_markers__
    return found


def test_a_marker_holds_the_defaults() -> None:
    (marker,) = marked("pre_tool_use")

    assert marker == MarkedEvent(event="pre_tool_use", priority=100, enabled=True, runtime="trio")


def test_the_function_comes_back_unchanged() -> None:
    def function(event: Any) -> None:
        return None

    assert hook("stop")(function) is function


def test_stacked_markers_read_from_the_top_down() -> None:
    @hook("pre_tool_use", priority=1)
    @hook(["stop", "session_end"], priority=2)
    @hook("pre_model", priority=3)
    async def function(event: Any) -> None:
        return None

    markers: tuple[MarkedEvent, ...] = vars(function)["__hooklatch_markers__"]

    assert [(marker.event, marker.priority) for marker in markers] == [
        ("pre_tool_use", 1),
        ("stop", 2),
        ("session_end", 2),
        ("pre_model", 3),
    ]


@table(
    "match",
    [
        None,
        "Bash",
        "*",
        ["Edit", "Write"],
        {"glob": "mcp__*"},
        {"regex": "a)|(b"},
        {"regex": "a", "search": True},
        {"search": False, "regex": "a"},
    ],
)
def test_a_marker_crosses_to_the_daemon_as_it_was_written(match: Any) -> None:
    (marker,) = marked("pre_tool_use", match=match, id="x", timeout=2, config={"patterns": [".env"]})

    assert marker.match == match
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(marker), type=MarkedEvent) == marker


@table(
    ("settings", "error", "text"),
    [
        ({"priority": -1}, ValueError, "from 0 to 1000"),
        ({"priority": 1001}, ValueError, "from 0 to 1000"),
        ({"priority": True}, TypeError, "priority is an int, not a 'bool'"),
        ({"priority": 1.5}, TypeError, "not a 'float'"),
        ({"timeout": 0}, ValueError, "more than 0"),
        ({"timeout": -1}, ValueError, "more than 0"),
        ({"timeout": 5000}, ValueError, "seconds, not milliseconds"),
        ({"timeout": float("nan")}, ValueError, "timeout is nan"),
        ({"timeout": True}, TypeError, "not a 'bool'"),
        ({"timeout": "2"}, TypeError, "not a 'str'"),
        ({"match": ""}, ValueError, "match is empty"),
        ({"match": []}, ValueError, "leave it out to match all"),
        ({"match": ["a", 1]}, TypeError, "match is a str, not a 'int'"),
        ({"match": 1}, TypeError, "not a 'int'"),
        ({"match": {}}, ValueError, '{"glob": "mcp__*"}'),
        ({"match": {"glob": "a", "regex": "b"}}, ValueError, "write"),
        ({"match": {"glob": "a", "search": True}}, ValueError, "write"),
        ({"match": {"regexp": "a"}}, ValueError, "write"),
        ({"match": {"regex": 1}}, TypeError, "match regex is a str"),
        ({"match": {"regex": "a", "search": 1}}, TypeError, "match search is True or False"),
        ({"id": ""}, ValueError, "id is empty"),
        ({"id": 1}, TypeError, "id is a str"),
        ({"description": None}, TypeError, "description is a str"),
        ({"enabled": 1}, TypeError, "enabled is True or False"),
        ({"observe": "no"}, TypeError, "observe is True or False"),
        ({"optional": None}, TypeError, "optional is True or False"),
        ({"amends": "yes"}, TypeError, "amends is True or False"),
        ({"only_judges": 1}, TypeError, "only_judges is True or False"),
        ({"amends": True, "only_judges": True}, ValueError, "remove one of them"),
        ({"config": []}, TypeError, "config is a dict"),
        ({"config": {"a": {1}}}, ValueError, "config holds a 'set'"),
        ({"runtime": "curio"}, ValueError, "write 'trio' or 'asyncio'"),
        ({"event": []}, ValueError, "empty list"),
        ({"event": ["stop", "stop"]}, ValueError, "one event twice"),
        ({"event": ["stop", 1]}, TypeError, "event is a str"),
        ({"event": ""}, ValueError, "event is empty"),
        ({"event": ("stop",)}, TypeError, "not a 'tuple'"),
        ({"event": plain}, TypeError, 'write @hook("pre_tool_use")'),
        ({"event": None}, TypeError, 'write @hook("pre_tool_use")'),
        ({"matc": "Bash"}, TypeError, "@hook has no option 'matc'; did you mean 'match'?"),
        ({"zzz": 1}, TypeError, "@hook has no option 'zzz'; it takes match, where, id, priority, timeout"),
    ],
)
def test_a_setting_that_cannot_stand_is_refused_at_decoration(
    settings: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        marked(**{"event": "pre_tool_use", **settings})

    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda: None, r"takes no parameter, and a hook is called with the event; write: def .*\(event\)"),
        (lambda event, call: None, "takes call too, and a hook is called with the event alone"),
        (lambda event, *, call: None, "takes call too"),
    ],
)
def test_a_function_that_cannot_be_called_with_one_event_cannot_be_marked(function: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        hook("stop")(function)


@pytest.mark.parametrize("function", [lambda *events: None, lambda event, more=1, *, key=2, **rest: None])
def test_a_function_with_other_parameters_may_have_their_defaults(function: Any) -> None:
    assert hook("stop")(function) is function


def test_a_class_cannot_be_marked() -> None:
    decorate: Callable[[Any], Any] = hook("stop")

    with pytest.raises(TypeError, match="marks a def or an async def, not a 'type'"):
        decorate(int)


def test_a_generator_cannot_be_marked() -> None:
    def function(event: Any) -> Any:
        yield event

    with pytest.raises(TypeError, match="yields"):
        hook("any_event")(function)


def test_the_authors_api_loads_msgspec_and_no_runtime() -> None:
    script = "import sys, hooklatch_worker; print(*sorted({'trio', 'asyncio', 'psutil', 're2'} & set(sys.modules)))"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert loaded.split() == []

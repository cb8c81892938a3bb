"""What Radium's own functions give in Rust: native values, hooks that are refused, contexts that cannot be sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import RealDaemon
from clients.programs import CLIENTS, Program, command_of
from clients.scripts import ScriptedServer
from hooklatch.version import VERSION
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # a compiler, and a daemon

Radium = Callable[..., Any]
NAN = {"$f64": "NaN"}
TOOL = {"tool_name": "edit", "arguments": {"path": "a"}}
DONE = {**TOOL, "result": "done"}
GUARDS = """
from hooklatch import amend, deny, hook

@hook("pre_tool_use", match="edit")
def redirect(event):
    if event.tool_input.get("move"):
        return amend(tool_input={**event.tool_input, "path": "theirs"})

@hook("pre_tool_use", match="traced")
def tenant(event):
    if event.metadata and event.metadata.get("tenant") == "locked":
        return deny(f"{event.metadata} is locked")

@hook("telemetry")
def look(event):
    with open("SEEN", "a") as file:
        file.write(repr((event.data, event.metadata)) + "\\n")
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    with nobody_survives():
        folder = tmp_path_factory.mktemp("daemon")
        (folder / "hooks.d").mkdir()
        (folder / "hooks.d/own.py").write_text(GUARDS.replace("SEEN", str(folder / "seen")))
        running = RealDaemon(folder)
        yield running
        running.end()


@pytest.fixture(scope="module")
def program(daemon: RealDaemon) -> Generator[Program]:
    with Program(command_of("rust")) as running:
        yield running


@pytest.fixture
def radium(daemon: RealDaemon, program: Program) -> Generator[Radium]:
    program.do(do="open", path=daemon.path, dialect="radium")
    yield calling(program)
    program.do(do="close")


def calling(program: Program) -> Radium:
    def call(function: str, /, **others: Any) -> Any:
        answer = program.do(do="native", call=function, **others)
        return answer.get("result", answer)

    return call


def add(radium: Radium, name: str, kind: str, does: object = None, **others: Any) -> Any:
    return radium("add", name=name, type=kind, does=does, **others)


def text_of(value: object) -> str:
    """Return a value as text, in which 1 and 1.0 differ."""
    return json.dumps(value, sort_keys=True)


def data_of(results: list[dict[str, Any]]) -> list[Any]:
    return [result["modified_data"] for result in results]


def test_a_registration_that_gives_an_error_registers_nothing(radium: Radium) -> None:
    add(radium, "log", "after_tool")
    for name in ("", "a\0b", "two\nlines", "x" * 300):
        assert "one line of at most 200 characters" in add(radium, name, "after_tool")["error"]

    assert radium("count") == 1
    assert radium("names", type="after_tool") == ["log"]
    assert len(radium("execute", type="after_tool", data=DONE)) == 1
    assert add(radium, "log", "after_tool") == {}
    assert radium("count") == 2


@pytest.mark.parametrize(
    "priorities", [(5000, 7000, 6000), (1000, 1001), (1, 4294967295, 2), (3, 2, 1), (999, 2000, 3000)]
)
def test_hooks_are_called_in_the_order_of_priorities_of_any_size(radium: Radium, priorities: tuple[int, ...]) -> None:
    for priority in priorities:
        assert add(radium, f"p{priority}", "after_tool", priority=priority) == {}
    radium("execute", type="after_tool", data=DONE)

    in_order = [f"p{priority}" for priority in sorted(priorities, reverse=True)]
    assert [call["hook"] for call in radium("calls")] == in_order == radium("names", type="after_tool")


@pytest.mark.parametrize(
    "metadata", [{"trace": 1.0, "n": 1, "u": 2**64 - 1, "z": None}, "text", [1.0], None, {}, {"value": 1}, 0]
)
def test_metadata_is_what_the_host_gave(radium: Radium, metadata: object) -> None:
    add(radium, "one", "before_tool")
    add(radium, "two", "telemetry_collection")

    radium("execute", type="before_tool", data=TOOL, metadata=metadata)
    radium(
        "execute",
        type="telemetry_collection",
        data={"event_type": "t", "data": 1, "metadata": {"own": 1.0}},
        metadata=metadata,
    )

    assert [text_of(call["metadata"]) for call in radium("calls")] == [text_of(metadata)] * 2


def test_an_operators_guard_judges_by_the_metadata(radium: Radium) -> None:
    tool = {**TOOL, "tool_name": "traced"}
    locked = radium("execute", type="before_tool", data=tool, metadata={"tenant": "locked", "rate": 1.0})
    free = radium("execute", type="before_tool", data=tool, metadata={"tenant": "free"})

    assert locked[-1]["message"] == "{'rate': 1.0, 'tenant': 'locked'} is locked"
    assert [result["should_continue"] for result in locked + free].count(False) == 1


def test_values_are_the_hosts_and_the_hooks_own(radium: Radium) -> None:
    result = {"f": 1.0, "i": 1, "u": 2**64 - 1, "small": {"$u64": 5}, "z": None, "zero": -0.0, "big": 1e300}
    add(radium, "first", "after_tool", {"data": {"modified_result": result, "mine": {"deep": [1.0]}}}, priority=200)
    add(radium, "second", "after_tool", {"result": {"success": True, "message": "seen", "modified_data": {"other": 1}}})

    results = radium("execute", type="after_tool", data={**DONE, "result": result})

    assert [text_of(call["data"]["result"]) for call in radium("calls")] == [text_of(result)] * 2
    assert data_of(results) == [{"modified_result": result, "mine": {"deep": [1.0]}}, {"other": 1}]
    assert results[1]["message"] == "seen"


def test_an_operators_change_is_in_what_the_next_hook_sees_and_in_the_results(radium: Radium) -> None:
    add(radium, "look", "before_tool", priority=1)
    arguments = {"move": True, "path": "mine", "rate": 1.0}

    results = radium("execute", type="before_tool", data={"tool_name": "edit", "arguments": arguments})

    assert data_of(results) == [{"modified_arguments": {**arguments, "path": "theirs"}}, None]
    assert radium("calls")[-1]["data"]["arguments"] == {**arguments, "path": "theirs"}


def test_a_hook_that_leaves_the_arguments_as_they_are_takes_back_no_operators_change(radium: Radium) -> None:
    arguments = {"move": True, "path": "mine"}
    add(radium, "same", "before_tool", {"data": {"modified_arguments": arguments}}, priority=2000)
    fired = {"tool_name": "edit", "arguments": arguments}

    results = radium("execute", type="before_tool", data=fired)
    alone = radium("execute", type="before_tool", data={"tool_name": "other", "arguments": arguments})

    assert [data for data in data_of(results) if data][-1] == {"modified_arguments": {**arguments, "path": "theirs"}}
    assert data_of(alone) == [{"modified_arguments": arguments}]


def test_before_model_has_exactly_what_the_hook_gave(radium: Radium) -> None:
    add(radium, "shorter", "before_model", {"data": {"modified_input": "short"}})

    for data in (
        {"input": "long", "model_id": "m"},
        {"input": "long", "model_id": "m", "request_modifications": {"t": 1}},
    ):
        assert data_of(radium("execute", type="before_model", data=data)) == [{"modified_input": "short"}]
    assert radium("orchestrate", method="before_model_call", arguments=["long", "m"]) == ["short", None]


def test_a_change_that_a_type_has_not_stops_a_gate(radium: Radium) -> None:
    add(radium, "odd", "before_tool", {"data": {"modified_argumnets": {}}})

    assert radium("execute", type="before_tool", data=TOOL)[-1]["should_continue"] is False


def test_what_cannot_be_sent_stops_a_gate_with_its_path(radium: Radium) -> None:
    add(radium, "look", "before_tool")

    def stop(data: object, metadata: object = None) -> str:
        (result,) = radium("execute", type="before_tool", data=data, metadata=metadata)
        assert not result["should_continue"]
        return str(result["message"])

    assert stop({"tool_name": "t", "arguments": {"a": [1, {"b c": NAN}]}}).startswith(
        'context.data.arguments.a[1]["b c"] is NaN'
    )
    assert "context.metadata.rate is inf" in stop(TOOL, {"rate": {"$f64": "inf"}})
    assert "nested more than 1000 deep" in stop({"tool_name": "t", "arguments": {"$deep": 3000}})
    assert "no object" in stop([1])
    assert radium("calls") == []
    add(radium, "gives", "tool_selection", {"data": {"x": NAN}})
    assert "modified_data.x is NaN" in radium("execute", type="tool_selection", data=TOOL)[0]["message"]


def test_elsewhere_own_hooks_get_what_cannot_be_sent_and_the_operators_a_mark(
    radium: Radium, daemon: RealDaemon
) -> None:
    add(radium, "look", "telemetry_collection", {"data": {"estimated_cost": NAN}})

    results = radium("execute", type="telemetry_collection", data={"event_type": "t", "data": {"rate": NAN}})
    own, note = results[1], results[2]

    assert [result["success"] for result in results] == [True, True, False]
    assert (own["success"], own["modified_data"]) == (True, {"estimated_cost": NAN})
    assert note["should_continue"]
    assert "context.data.data.rate is NaN" in note["message"]
    assert radium("calls")[0]["data"] == {"event_type": "t", "data": {"rate": NAN}}
    assert "{'$native': 'f64', 'text': 'NaN'}" in (daemon.folder / "seen").read_text()


@pytest.mark.parametrize("data", [{"x": {"$deep": 5000}}, {"x": "y" * 9_000_000}], ids=["deep", "large"])
def test_what_no_mark_can_stand_for_reaches_own_hooks_and_a_failed_result_says_so(radium: Radium, data: Any) -> None:
    add(radium, "fails", "telemetry_collection", {"panic": "kaputt"}, priority=300)
    add(radium, "stops", "telemetry_collection", {"stop": "enough"}, priority=200)
    add(radium, "later", "telemetry_collection")

    failed, stopped, note = radium("execute", type="telemetry_collection", data=data)

    assert "kaputt" in failed["message"]
    assert stopped == {"success": False, "message": "enough", "modified_data": None, "should_continue": False}
    assert "only hooks of this process were called" in note["message"]
    assert radium("calls")[0]["data"] == data


def test_fifty_large_fires_at_once_are_all_decided(radium: Radium) -> None:
    fire = {
        "do": "native",
        "call": "execute",
        "type": "before_tool",
        "data": {"tool_name": "t", "arguments": {"text": "x" * 1_000_000}},
    }

    assert radium("at_once", commands=[fire] * 50) == [{"result": []}] * 50


def test_the_executors_adapter_and_the_orchestrator_ask_the_registrys_hooks(radium: Radium) -> None:
    add(radium, "model", "before_model", {"stop": "no model"})
    add(radium, "after", "after_model", {"result": {"success": False, "should_continue": False, "message": "enough"}})
    add(radium, "intercept", "error_interception", {"stop": "handled"})
    for text in ("first", "second"):
        add(radium, text, "error_transformation", {"data": {"transformed_error": text}})
    add(radium, "cost", "telemetry_collection", {"stop": "ignored"})

    assert radium("executor", method="execute_before_model", arguments=["agent", "hi"])[0]["message"] == "no model"
    assert len(radium("executor", method="execute_after_model", arguments=["agent", "hi"])) == 1
    fault = ["agent", "slow down", "rate_limit", "here"]
    assert radium("executor", method="execute_error_interception", arguments=fault) == "handled"
    assert radium("executor", method="execute_error_transformation", arguments=fault) == "first"
    assert radium("executor", method="execute_error_recovery", arguments=fault) is None
    # A stop of what is no gate ends the chain, and is no error.
    assert radium("orchestrate", method="after_model_call", arguments=["hi", "m", "answer"]) == "answer"
    assert "no model" in radium("orchestrate", method="before_model_call", arguments=["hi", "m"])["error"]
    assert radium("orchestrate", method="error_transformation", arguments=["slow", "t", None]) == "first"
    assert radium("orchestrate", method="telemetry_collection", arguments=["t", {"n": 1.0}]) is None
    telemetry = radium("context", kind="telemetry", moment="custom_logging", arguments=["t", 1.0, {"a": 1}])
    assert telemetry == {
        "hook_type": "custom_logging", "data": {"event_type": "t", "data": 1.0, "metadata": {"a": 1}}, "metadata": {},
    }  # fmt: skip


def test_a_hook_that_the_daemon_refuses_later_answers_for_itself(program: Program, tmp_path: Path) -> None:
    refused = [{"at": 0, "id": "log", "event": "after_tool", "reason": "it is not allowed any more"}]
    script: list[list[dict[str, Any]]] = [
        [{"welcome": {}}, {"hear": "register"}, {"answer": {"ids": ["log"], "refused": [], "revision": 2}},
         {"hear": "fire"}, {"hang_up": True}],
        [
            {"welcome": {"refused": refused}},
            {"hear": "fire"},
            {"refuse": {"name": "overload", "message": "later"}},
        ],
    ]  # fmt: skip
    server = ScriptedServer(tmp_path / "agent.sock", script)
    server.listen()
    program.do(do="open", path=str(server.path), dialect="radium")
    radium = calling(program)
    assert add(radium, "log", "after_tool") == {}

    radium("execute", type="after_tool", data=DONE)  # hears that the daemon is gone
    program.do(**{"do": "wait", "for": "connected"})
    results = radium("execute", type="after_tool", data=DONE)
    refusals = radium("refused")
    program.do(do="close")
    server.close()

    assert refusals == {"log": "it is not allowed any more"}
    assert [result["success"] for result in results] == [False, False]
    assert "the hook log is refused: it is not allowed any more" in results[-1]["message"]


def test_a_registry_whose_session_is_refused_stops_and_says_why(
    program: Program, tmp_path: Path, monkeypatch: Any
) -> None:
    server = ScriptedServer(
        tmp_path / "agent.sock", [[{"hear": "hello"}, {"refuse": {"name": "invalid_params", "message": "too new"}}]]
    )
    server.listen()
    monkeypatch.setenv("HOOKLATCH_RUNTIME_DIR", str(tmp_path))
    with Program(command_of("rust")) as other:
        missing = other.do(do="open", path=str(tmp_path / "nobody.sock"), dialect="radium")
        radium = calling(other)
        made = radium("new")
        (stop,) = radium("execute", type="before_tool", data=TOOL)
        refused = add(radium, "one", "before_tool")
        count = radium("count")
    server.close()

    assert (missing["connected"], made, count) == (False, {}, 0)
    assert (stop["should_continue"], "too new" in stop["message"]) == (False, True)
    assert "too new" in refused["error"]


def test_the_crate_has_the_daemons_version() -> None:
    assert f'\nversion = "{VERSION}"\n' in (CLIENTS / "rust/Cargo.toml").read_text()

"""The five systems' own calls, over a real daemon with real guards, and without one."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import RealDaemon
from clients.programs import Program, command_of
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # a process of each language, and a daemon

Native = Callable[..., Any]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    with nobody_survives():
        running = RealDaemon(tmp_path_factory.mktemp("daemon"))
        yield running
        running.end()


def opened(language: str, path: str, dialect: str | None) -> Generator[Native]:
    with Program(command_of(language)) as program:
        if dialect is None:
            program.do(do="native", call="configure", path=path)
        else:
            program.do(do="open", path=path, dialect=dialect)

        def native(call: str, **others: Any) -> Any:
            answer = program.do(do="native", call=call, **others)
            return answer.get("result", answer)

        native.program = program  # type: ignore[attr-defined]
        yield native
        if dialect is not None:
            program.do(do="close")


@pytest.fixture
def ethos(daemon: RealDaemon) -> Generator[Native]:
    yield from opened("typescript", daemon.path, "ethos")


@pytest.fixture
def reasonix(daemon: RealDaemon) -> Generator[Native]:
    yield from opened("typescript", daemon.path, "reasonix")


@pytest.fixture
def radium(daemon: RealDaemon) -> Generator[Native]:
    yield from opened("rust", daemon.path, "radium")


@pytest.fixture
def elixir(daemon: RealDaemon) -> Generator[Native]:
    yield from opened("elixir", daemon.path, None)


def shell(command: str) -> list[Any]:
    return ["before_tool_call", {"toolCallId": "c1", "toolName": "Shell", "args": {"command": command}}]


def test_ethos_registry_merges_the_operators_guards_with_its_own_handlers(ethos: Native) -> None:
    assert ethos("fireModifying", arguments=shell("ls")) == {}
    assert ethos("fireModifying", arguments=shell("rm -rf /"))["error"] == "name the files to remove, ☃"
    assert ethos("fireModifying", arguments=shell("sudo ls"))["error"] == "this runs as root"
    assert ethos("fireModifying", arguments=shell("ls mine"))["args"] == {"command": "ls theirs"}
    assert ethos("fireModifying", arguments=shell("kaputt"))["error"]

    cleanup = ethos("registerModifying", arguments=["before_tool_call"], handler={"answer": {"error": "not today"}})
    ethos("registerModifying", arguments=["before_prompt_build"], handler={"answer": {"prependSystem": "Today."}})
    ethos("registerClaiming", arguments=["inbound_claim"], handler={"answer": {"handled": True}})
    message = {"platform": "cli", "chatId": "1", "text": "hello"}

    assert cleanup == "a function"
    assert ethos("fireModifying", arguments=shell("ls")) == {"error": "not today"}
    assert ethos("fireModifying", arguments=["before_prompt_build", {"history": []}]) == {"prependSystem": "Today."}
    assert ethos("fireClaiming", arguments=["inbound_claim", {"message": message}])["handled"] is True
    assert ethos("fireVoid", arguments=["agent_done", {"sessionId": "s", "text": "done", "turnCount": 1}]) is None
    assert ethos("hasHandlers", arguments=["modifying", "before_tool_call"]) is True


def test_an_ethos_handler_that_throws_refuses_the_call(ethos: Native) -> None:
    ethos("registerModifying", arguments=["before_tool_call"], handler={"raise": "kaputt"})

    assert ethos("fireModifying", arguments=shell("ls"))["error"]


def test_an_ethos_point_that_nobody_has_is_refused_when_it_is_registered(ethos: Native) -> None:
    answer = ethos("registerClaiming", arguments=["before_ticket_complete"], handler={"answer": {"handled": True}})

    assert "before_ticket_complete" in answer["error"]


def test_an_ethos_plugins_handler_fires_where_it_is_allowed(ethos: Native) -> None:
    class_of = {"pluginId": "p1"}
    ethos("registerModifying", arguments=["before_tool_call", class_of], handler={"answer": {"error": "plugin"}})

    assert ethos("fireModifying", arguments=shell("ls")) == {}
    assert ethos("fireModifying", arguments=[*shell("ls"), ["p1"]]) == {"error": "plugin"}
    ethos("unregisterPlugin", arguments=["p1"])
    assert ethos("fireModifying", arguments=[*shell("ls"), ["p1"]]) == {}


def payload(command: str) -> dict[str, Any]:
    return {"event": "PreToolUse", "cwd": "/", "toolName": "Shell", "toolArgs": {"command": command}}


def test_reasonix_runs_its_commands_beside_the_operators_guards(reasonix: Native) -> None:
    hooks = [{"event": "PreToolUse", "match": "Sh.*", "command": "echo denied >&2; exit 2", "scope": "project"}]

    passed = reasonix("runHooks", arguments=[{"payload": payload("ls")}])
    guarded = reasonix("runHooks", arguments=[{"payload": payload("rm -rf /")}])
    own = reasonix("runHooks", arguments=[{"hooks": hooks, "payload": payload("ls")}])
    swapped = reasonix("runHooks", arguments=[{"hooks": [], "payload": payload("ls")}])

    assert passed["blocked"] is False
    assert guarded["blocked"] is True
    assert "name the files" in guarded["stderr"]
    assert own["blocked"] is True
    assert [one["stderr"] for one in own["outcomes"] if one["decision"] == "block"] == ["denied"]
    assert swapped["blocked"] is False


def test_a_reasonix_hook_that_cannot_be_registered_blocks(reasonix: Native) -> None:
    hooks = [{"event": "PreToolUse", "match": "[unclosed", "command": "true"}]

    assert reasonix("runHooks", arguments=[{"hooks": hooks, "payload": payload("ls")}])["blocked"] is True


def test_reasonix_settings_are_read_project_first_and_block_where_they_cannot_be(
    reasonix: Native, tmp_path: Path
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project, home):
        (folder / ".reasonix").mkdir(parents=True)
    settings = {"hooks": {"Stop": [{"command": "true"}, {"command": ""}], "PostToolUse": [{"command": "exit 1"}]}}
    (project / ".reasonix/settings.json").write_text(json.dumps(settings))
    (home / ".reasonix/settings.json").write_text(json.dumps({"hooks": {"Stop": [{"command": "false"}]}}))
    program: Program = reasonix.program  # type: ignore[attr-defined]
    places = {"projectRoot": str(project), "homeDir": str(home)}

    whole = program.do(do="load", places=places)
    (home / ".reasonix/settings.json").write_text("{ it's no JSON")
    broken = program.do(do="load", places=places)
    report = reasonix("runHooks", arguments=[{"hooks": broken, "payload": payload("ls")}])
    line = program.do(do="format", outcome=report["outcomes"][-1])["result"]

    assert [(one["scope"], one["event"], one["command"]) for one in whole] == [
        ("project", "Stop", "true"),
        ("project", "Stop", ""),
        ("project", "PostToolUse", "exit 1"),
        ("global", "Stop", "false"),
    ]
    assert report["blocked"] is True
    assert "settings.json:1: not JSON" in report["stderr"]
    assert "cannot be run" in whole[1]["problem"]
    assert "block" in line


@pytest.mark.parametrize("more", [{"payloadFormat": "claude"}, {"event": "PreToolUze"}])
def test_a_reasonix_hook_that_nobody_can_run_as_it_is_meant_blocks(reasonix: Native, more: dict[str, str]) -> None:
    hooks = [{"event": "PreToolUse", "command": "true", **more}]

    assert reasonix("runHooks", arguments=[{"hooks": hooks, "payload": payload("ls")}])["blocked"] is True


def test_an_event_that_nobody_knows_is_refused(reasonix: Native, elixir: Native) -> None:
    misspelt = {**payload("ls"), "event": "PreToolUze"}

    assert reasonix("runHooks", arguments=[{"payload": misspelt}])["blocked"] is True
    assert beam(elixir, "Read", "ls", [], event="pre_tool_uze")[0] == "deny"
    assert elixir("run_lifecycle", event="UserPromptSubmitted", payload={}, hooks={})[0] == "halt"


def before_tool(command: str) -> dict[str, Any]:
    return {"type": "before_tool", "data": {"tool_name": "Shell", "arguments": {"command": command}}}


def stopped(results: list[dict[str, Any]]) -> bool:
    return any(not one["should_continue"] for one in results)


def test_radiums_registry_runs_its_hooks_beside_the_operators_guards(radium: Native) -> None:
    assert not stopped(radium("execute_hooks", **before_tool("ls")))
    assert radium("execute_hooks", **before_tool("rm -rf /"))[-1]["message"] == "name the files to remove, ☃"
    assert stopped(radium("execute_hooks", **before_tool("sudo ls")))
    assert stopped(radium("execute_hooks", **before_tool("kaputt")))
    patched = radium("execute_hooks", **before_tool("ls mine"))
    assert [one["modified_data"] for one in patched if one["modified_data"]] == [
        {"modified_arguments": {"command": "ls theirs"}}
    ]

    radium("register", handler={"stop": "not here"})
    assert stopped(radium("execute_hooks", **before_tool("ls")))
    radium("set_enabled", enabled=False)
    assert not stopped(radium("execute_hooks", **before_tool("ls")))


def test_a_radium_hook_that_fails_stops_a_gate(radium: Native) -> None:
    radium("register", handler={"raise": "kaputt"})

    assert stopped(radium("execute_hooks", **before_tool("ls")))


def around(radium: Native, command: str, tool: str = "Shell") -> Any:
    return radium("around_tool", tool_name=tool, arguments={"command": command})


def test_radiums_orchestrator_and_typed_hooks_ask_the_operators_guards_and_their_own(radium: Native) -> None:
    assert around(radium, "ls") == {"arguments": {"command": "ls"}, "result": "done"}
    assert around(radium, "ls mine") == {"arguments": {"command": "ls theirs"}, "result": "done"}
    assert "name the files to remove" in around(radium, "rm -rf /")["error"]

    radium("register_tool", handler={"data": {"modified_arguments": {"command": "ls -l"}}})
    assert around(radium, "ls")["arguments"] == {"command": "ls -l"}
    radium("register_tool", handler={"stop": "not here"})
    assert "not here" in around(radium, "ls")["error"]


def test_a_radium_tool_hook_that_fails_keeps_the_tool_from_running(radium: Native) -> None:
    radium("register_tool", handler={"raise": "kaputt"})

    assert "kaputt" in around(radium, "ls")["error"]


def beam(native: Native, tool: str, command: str, hooks: list[Any], event: str = "pre_tool_use") -> Any:
    context = {"tool_name": tool, "tool_input": {"command": command}}
    return native("fire", event=event, context=context, hooks=[{"event": event, **hook} for hook in hooks])


def test_beam_agents_fire_asks_the_operators_guards_and_its_own_callbacks(elixir: Native) -> None:
    passed = beam(elixir, "Shell", "ls", [])
    patched = beam(elixir, "Shell", "ls mine", [{"answer": ["ok", {"checked": True}]}])

    assert passed == ["ok", {":event": "pre_tool_use", ":tool_name": "Shell", ":tool_input": {"command": "ls"}}]
    assert beam(elixir, "Shell", "rm -rf /", []) == ["deny", "name the files to remove, ☃"]
    assert beam(elixir, "Shell", "sudo ls", []) == ["ask", "this runs as root"]
    assert patched[0] == "ok"
    assert patched[1][":tool_input"] == {"command": "ls theirs"}
    assert beam(elixir, "Bash", "ls", [{"answer": ["no_shell"]}]) == ["deny", "No shell access allowed"]
    assert beam(elixir, "Read", "ls", [{"answer": ["no_shell"], "matcher": "^(Bash|Read)$"}])[0] == "ok"
    assert beam(elixir, "Read", "ls", [{"answer": ["ask", "sure?"]}]) == ["ask", "sure?"]


@pytest.mark.parametrize("answer", [["raise", "kaputt"], ["throw", "kaputt"], ["exit"], ["whatever"]])
def test_a_beam_callback_that_fails_denies_and_holds_up_no_notification(elixir: Native, answer: list[str]) -> None:
    assert beam(elixir, "Read", "ls", [{"answer": answer}])[0] == "deny"
    assert beam(elixir, "Read", "ls", [{"answer": answer}], event="post_tool_use")[0] == "ok"


def test_ex_athenas_runs_ask_the_operators_guards_and_its_own_callbacks(elixir: Native) -> None:
    def tool(name: str, hooks: dict[str, Any], **arguments: str) -> Any:
        return elixir("run_pre_tool_use", tool=name, input=arguments, hooks=hooks)

    guard = {"PreToolUse": [["protected"]]}
    inject = {"ChatParams": [["inject", {"role": "system", "content": "ENG-1234"}]]}
    chat = {"request": {"model": "m"}, "messages": [], "session_id": "s"}
    outputs = elixir("outputs", event="ChatParams", payload=chat, hooks=inject)

    assert tool("Shell", {}, command="ls") == "ok"
    assert tool("Shell", {}, command="rm -rf /") == ["deny", "name the files to remove, ☃"]
    assert tool("write", guard, path="priv/secrets/key") == ["deny", "protected_path"]
    assert tool("write", guard, path="lib/x.ex") == "ok"
    assert tool("write", {"PreToolUse": [["raise"]]}, path="x")[0] == "deny"
    assert outputs["injects"] == [{"role": "system", "content": "ENG-1234"}]
    assert outputs["halt"] is None
    prompt = {"prompt": "/deploy", "session_id": "s"}
    transform = {"UserPromptSubmit": [["transform", "Deploy."]]}
    assert elixir("outputs", event="UserPromptSubmit", payload=prompt, hooks=transform)["transform"] == "Deploy."
    halt = {"UserPromptSubmit": [["halt", "stalled"]]}
    assert elixir("run_lifecycle", event="UserPromptSubmit", payload=prompt, hooks=halt) == ["halt", "stalled"]


def test_without_a_daemon_each_systems_gate_refuses_and_its_notifications_pass(tmp_path: Path) -> None:
    path, reasons = str(tmp_path / "nobody.sock"), []
    for native in opened("typescript", path, "ethos"):
        reasons.append(native("fireModifying", arguments=shell("ls"))["error"])
        assert native("fireModifying", arguments=["before_prompt_build", {}]) == {}
        assert native("fireClaiming", arguments=["inbound_claim", {}]) == {"handled": False}
        assert native("fireClaiming", arguments=["before_ticket_complete", {}])["handled"] is True
    for native in opened("typescript", path, "reasonix"):
        report = native("runHooks", arguments=[{"payload": payload("ls")}])
        assert report["blocked"]
        reasons.append(report["outcomes"][0]["stderr"])
        assert not native("runHooks", arguments=[{"payload": {**payload("ls"), "event": "Stop"}}])["blocked"]
    for native in opened("rust", path, "radium"):
        results = native("execute_hooks", **before_tool("ls"))
        assert stopped(results)
        reasons.append(results[0]["message"])
        assert not stopped(native("execute_hooks", type="metrics", data={}))
    for native in opened("elixir", path, None):
        tag, reason = beam(native, "Read", "ls", [])
        assert tag == "deny"
        reasons.append(reason)
        assert beam(native, "Read", "ls", [], event="stop")[0] == "ok"
        refused = native("run_pre_tool_use", tool="write", input={"path": "x"}, hooks={})
        assert refused[0] == "deny"
        assert native("run_lifecycle", event="Stop", payload={"session_id": "s"}, hooks={}) == "ok"

    assert all("no daemon is reachable" in reason for reason in reasons), reasons

"""Reasonix' and Ethos' hooks in TypeScript: settings that guard, hooks that are refused alone, lists in use at once.

Both sides of each: what a gate must not let pass, and the ordinary use that must go on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import RealDaemon
from clients.programs import Program, command_of
from hooklatch.dialects.ethos import ETHOS
from hooklatch.dialects.reasonix import REASONIX
from support.survivors import nobody_survives
from support.tables import table

pytestmark = pytest.mark.slow  # a process of Node, and a daemon

Native = Callable[..., Any]
SCOPED = {"scope": "project", "source": "/srv/app/.reasonix/settings.json"}
GUARD = {"match": "shell", "command": "echo no >&2; exit 2"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    with nobody_survives():
        running = RealDaemon(tmp_path_factory.mktemp("daemon"))
        yield running
        running.end()


@pytest.fixture(scope="module")
def program(daemon: RealDaemon) -> Generator[Program]:
    with Program(command_of("typescript")) as running:
        yield running


def opened(program: Program, path: str, dialect: str) -> Native:
    program.do(do="open", path=path, dialect=dialect)

    def native(call: str, *arguments: Any, **others: Any) -> Any:
        answer = program.do(do="native", call=call, arguments=list(arguments), **others)
        return answer["result"] if "result" in answer else pytest.fail(str(answer))

    return native


@pytest.fixture
def reasonix(program: Program, daemon: RealDaemon) -> Native:
    return opened(program, daemon.path, "reasonix")


@pytest.fixture
def ethos(program: Program, daemon: RealDaemon) -> Native:
    return opened(program, daemon.path, "ethos")


def run(native: Native, hooks: Any, tool: str = "shell", event: str = "PreToolUse", **payload: Any) -> Any:
    return native(
        "runHooks", {"hooks": hooks, "payload": {"event": event, "toolName": tool, "toolArgs": {}, **payload}}
    )


def on(event: str, command: str = "true", **more: Any) -> dict[str, Any]:
    return {"event": event, "command": command, **SCOPED, **more}


@table("cwd", ["relative", "", 5, {}])
def test_a_payload_that_is_refused_blocks_and_says_why(reasonix: Native, cwd: Any) -> None:
    report = run(reasonix, [on("PreToolUse")], cwd=cwd)

    assert report["blocked"]
    assert [(one["decision"], one["hook"]["scope"]) for one in report["outcomes"]] == [("block", "hooklatch")]
    assert "cwd" in report["outcomes"][0]["stderr"]


def test_a_payload_that_cannot_be_used_on_an_event_that_cannot_refuse_is_said(reasonix: Native) -> None:
    report = run(reasonix, [on("Stop")], event="Stop", cwd="relative")

    assert (report["blocked"], report["outcomes"]) == (False, [])
    assert any("cwd" in text for text in reasonix("warnings"))


# -- settings ---------------------------------------------------------------------------------------------------------


def settings(folder: Path, data: bytes) -> dict[str, str]:
    path = folder / ".reasonix" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return {"homeDir": str(folder)}


def guarding(**events: Any) -> bytes:
    return json.dumps({"hooks": events}).encode()


BLOCKING: dict[str, bytes] = {
    "a guard": guarding(PreToolUse=[GUARD]),
    "a guard for Claude Code": guarding(
        PreToolUse=[{"matcher": "shell", "hooks": [{"type": "command", "command": "exit 2"}]}]
    ),
    "a guard with words": guarding(PreToolUse=[{"match": "shell", "command": "sh", "args": ["-c", "exit 2"]}]),
    "a byte order mark": b"\xef\xbb\xbf" + guarding(PreToolUse=[GUARD]),
    "GB18030": json.dumps({"hooks": {"PreToolUse": [{**GUARD, "description": "不行"}]}}, ensure_ascii=False).encode(
        "gb18030"
    ),
    "a misspelt command": guarding(PreToolUse=[{"match": "shell", "comand": "exit 2"}]),
    "a misspelt hooks": json.dumps({"Hooks": {"PreToolUse": [GUARD]}}).encode(),
    "a misspelt event": guarding(PreToolUze=[GUARD]),
    "a command that is a number": guarding(PreToolUse=[{"match": "shell", "command": 42}]),
    "a command that is a list": guarding(PreToolUse=[{"match": "shell", "command": ["exit 2"]}]),
    "a matcher that is none": guarding(PreToolUse=[{"match": "[unclosed", "command": "true"}]),
    "entries that are no list": guarding(PreToolUse=GUARD),
    "an entry that is no object": guarding(PreToolUse=["exit 2"]),
    "hooks that are a number": b'{"hooks": 5}',
    "no JSON": b"{ it's no JSON",
    "nothing at all": b"",
    "bytes of no text": bytes(range(256)),
    "a key twice": b'{"hooks": {"PreToolUse": []}, "hooks": {}}',
    "a list": b"[1]",
}
NO_HOOKS: dict[str, bytes] = {
    "an empty object": b"{}",
    "no hooks": b'{"hooks": {}}',
    "other settings": b'{"model": "deepseek-chat", "theme": "dark"}',
}


@table("name, data", BLOCKING.items(), ids=BLOCKING)
def test_settings_that_guard_or_cannot_be_read_block(reasonix: Native, tmp_path: Path, name: str, data: bytes) -> None:
    reasonix("load", places=settings(tmp_path, data))

    assert run(reasonix, {"$loaded": True})["blocked"] is True
    assert run(reasonix, [])["blocked"] is False  # and nothing of it stays behind


@table("name, data", NO_HOOKS.items(), ids=NO_HOOKS)
def test_settings_without_hooks_are_no_hooks(reasonix: Native, tmp_path: Path, name: str, data: bytes) -> None:
    assert reasonix("load", places=settings(tmp_path, data)) == []


def test_a_file_that_is_not_there_is_no_hooks(reasonix: Native, tmp_path: Path) -> None:
    places = {"projectRoot": str(tmp_path / "nowhere"), "homeDir": str(tmp_path)}

    assert reasonix("load", places=places) == []


def dangling(path: Path) -> None:
    path.symlink_to("nothing")


def dangling_folder(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to("nothing")


def no_folder(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("")


PLACES: dict[str, Callable[[Path], None]] = {
    "a link to nothing": dangling,
    "a folder that is such a link": dangling_folder,
    "a folder that is none": no_folder,
    "a folder in its place": Path.mkdir,
    "a FIFO in its place": os.mkfifo,
    "a circle of links": lambda path: path.symlink_to(path.name),
    "a file of a megabyte": lambda path: path.write_text(" " * 2**20 + "{}") and None,
}


@table("name, put", PLACES.items(), ids=PLACES)
def test_what_is_there_and_is_no_settings_file_blocks(
    reasonix: Native, tmp_path_factory: pytest.TempPathFactory, name: str, put: Callable[[Path], None]
) -> None:
    folder = tmp_path_factory.mktemp("place")
    (folder / ".reasonix").mkdir()
    put(folder / ".reasonix" / "settings.json")

    (hook,) = reasonix("load", places={"homeDir": str(folder)})

    assert hook["problem"]
    assert run(reasonix, {"$loaded": True})["blocked"] is True
    assert run(reasonix, {"$loaded": True}, event="Stop")["blocked"] is False


def test_a_slip_where_nothing_can_be_refused_is_said(reasonix: Native, tmp_path: Path) -> None:
    entries = [{"comand": "true"}, {"command": "echo stopped"}]
    reasonix("load", places=settings(tmp_path, guarding(Stop=entries)))

    report = run(reasonix, {"$loaded": True}, event="Stop")

    assert any("Stop[1]" in text and "comand" in text for text in reasonix("warnings"))
    assert [outcome["decision"] for outcome in report["outcomes"]] == ["error", "pass"]
    assert reasonix("same_hooks") == [0, 1]


def test_without_a_daemon_settings_are_a_hook_that_blocks(program: Program, tmp_path: Path) -> None:
    native = opened(program, str(tmp_path / "nobody.sock"), "reasonix")

    (hook,) = native("load", places=settings(tmp_path, guarding(PreToolUse=[GUARD])))

    assert "no daemon is reachable" in hook["problem"]
    assert any("no daemon is reachable" in text for text in native("warnings"))
    assert run(native, {"$loaded": True})["blocked"] is True


# -- hooks ------------------------------------------------------------------------------------------------------------

BAD: dict[str, Any] = {
    "a matcher that is none": on("Stop", timeout="soon"),
    "a key that nobody knows": on("Stop", retries=3),
    "a command that JSON cannot say": on("Stop", command={"$function": "f"}),
    "nothing to run": {"event": "Stop", **SCOPED},
    "a time-out that is none": on("Stop", timeout=-1),
}


@table("name, bad", BAD.items(), ids=BAD)
def test_a_hook_that_is_refused_drops_no_neighbour_and_is_said(reasonix: Native, name: str, bad: Any) -> None:
    report = run(reasonix, [on("Stop", "echo a"), bad, on("Stop", "echo b")], event="Stop")

    assert [outcome["decision"] for outcome in report["outcomes"]] == ["pass", "error", "pass"]
    assert reasonix("same_hooks") == [0, 1, 2]
    assert reasonix("warnings") != []


@table("name, bad", BAD.items(), ids=BAD)
def test_on_a_gate_it_answers_for_itself(reasonix: Native, name: str, bad: Any) -> None:
    hooks = [on("PreToolUse", "echo a"), {**bad, "event": "PreToolUse", "match": "shell"}]

    assert run(reasonix, hooks)["blocked"] is True
    assert reasonix("same_hooks") == [0, 1]
    assert run(reasonix, hooks, tool="other")["blocked"] is False  # it is about the tool that it matches


@table(
    "hook",
    [
        "a text",
        None,
        5,
        [],
        {"command": "exit 2"},
        {"event": 5, "command": "true"},
        {"event": "PreToolUze", "command": "true"},
    ],
)
def test_a_hook_of_nobody_knows_which_event_blocks_every_gate(reasonix: Native, hook: Any) -> None:
    hooks = [hook, on("Stop", "echo stopped")]

    assert run(reasonix, hooks)["blocked"] is True
    assert run(reasonix, hooks, event="UserPromptSubmit", prompt="hi")["blocked"] is True
    stopped = run(reasonix, hooks, event="Stop")
    assert (stopped["blocked"], stopped["outcomes"][-1]["stdout"]) == (False, "stopped\n")


def test_an_exit_code_of_one_is_a_warning_and_two_blocks(reasonix: Native) -> None:
    merging = "test -f /nowhere/MERGE_HEAD && exit 2"

    assert run(reasonix, [on("PreToolUse", merging)])["blocked"] is False
    assert run(reasonix, [on("PreToolUse", f"{merging}; exit 2")])["blocked"] is True


def test_an_outcome_names_the_hook_that_was_passed_and_the_daemons_by_their_own_names(reasonix: Native) -> None:
    hooks = [
        on("PreToolUse", "exit 1", match="Shell"),
        on("PreToolUse", "exit 1", scope="global", source="/home/me/settings.json"),
    ]

    report = run(reasonix, hooks, tool="Shell", toolArgs={"command": "ls"})

    assert reasonix("same_hooks") == [None, 0, 1]
    assert [outcome["hook"]["scope"] for outcome in report["outcomes"]] == ["global", "project", "global"]
    assert report["message"].splitlines()[:2] == [
        f"hook [{scope}/PreToolUse] exit 1: warn" for scope in ("project", "global")
    ]


def test_two_lists_in_use_at_once_do_not_run_each_others_hooks(reasonix: Native) -> None:
    strict, loose = [on("PreToolUse", "sleep 0.2; exit 2")], [on("PreToolUse", "true")]

    def call(hooks: list[Any]) -> dict[str, Any]:
        payload = {"event": "PreToolUse", "toolName": "shell", "toolArgs": {}}
        return {"call": "runHooks", "arguments": [{"hooks": hooks, "payload": payload}]}

    reports = reasonix("together", runs=[call(hooks) for hooks in [strict, loose, strict, strict, loose, []] * 3])

    assert [report["blocked"] for report in reports] == [True, False, True, True, False, False] * 3
    assert [len(report["outcomes"]) for report in reports] == [1, 1, 1, 1, 1, 0] * 3


def test_a_slow_hook_of_one_event_does_not_hold_up_a_list_that_differs_elsewhere(reasonix: Native) -> None:
    slow = {"hooks": [on("PostToolUse", "sleep 20 & wait")], "payload": {"event": "PostToolUse", "toolName": "t"}}
    reasonix("begin", slow, of="runHooks", **{"as": "slow"})

    assert run(reasonix, [on("PreToolUse", "exit 2")])["blocked"] is True


def test_a_value_that_json_cannot_say_blocks_a_gate_and_nothing_else(reasonix: Native) -> None:
    at = {"$date": "2026-01-31T12:00:00.000Z"}

    blocked = run(reasonix, [], toolArgs={"at": at})
    passed = run(reasonix, [on("PostToolUse", "cat")], event="PostToolUse", toolResult=at)

    assert blocked["blocked"] is True
    assert "payload.toolArgs.at is a Date" in blocked["outcomes"][0]["stderr"]
    assert '"toolResult":{"$native":"Date"' in passed["outcomes"][0]["stdout"]


def test_each_system_knows_which_events_can_be_refused(program: Program, tmp_path: Path) -> None:
    native = opened(program, str(tmp_path / "nobody.sock"), "reasonix")
    blocked = {name for name in REASONIX.events if run(native, [], event=name)["blocked"]}
    native = opened(program, str(tmp_path / "nobody.sock"), "ethos")
    points = {name: event for name, event in ETHOS.events.items() if event.model == "modifying"}
    refused = {name for name in points if "error" in native("fireModifying", name, {})}

    assert blocked == {name for name, event in REASONIX.events.items() if event.feeds[0].fails_closed}
    assert refused == {name for name, event in points.items() if event.feeds[0].fails_closed}


# -- handlers ---------------------------------------------------------------------------------------------------------


def guarded(native: Native) -> Any:
    return native("fireModifying", "before_tool_call", {"toolCallId": "t-1", "toolName": "t", "args": {}})


def test_a_clean_up_holds_at_once(ethos: Native) -> None:
    ethos("registerVoid", "agent_done", handler={"answer": None}, **{"as": "done"})
    ethos("registerModifying", "before_tool_call", handler={"answer": {"error": "no"}}, **{"as": "guard"})
    assert guarded(ethos) == {"error": "no"}

    runs = [{"call": "cleanup", "as": "guard"}, {"call": "cleanup", "as": "done"}]
    fires = [{"call": "fireModifying", "arguments": ["before_tool_call", {"toolName": "t", "args": {}}]}]
    fires += [{"call": "fireVoid", "arguments": ["agent_done", {"text": "done"}]}]
    given = ethos("together", runs=[*runs, *fires])

    assert given == [None, None, {}, None]
    assert ethos("called", **{"as": "done"}) == []


def test_a_clean_up_before_the_registration_was_answered_holds_too(ethos: Native) -> None:
    register = {"call": "registerModifying", "arguments": ["before_tool_call"], "handler": {"answer": {"error": "no"}}}
    fire = {"call": "fireModifying", "arguments": ["before_tool_call", {"toolName": "t", "args": {}}]}

    given = ethos("together", runs=[{**register, "as": "guard"}, {"call": "cleanup", "as": "guard"}, *[fire] * 5])

    assert given == ["a function", None, *[{}] * 5]
    assert guarded(ethos) == {}


def test_a_plugin_that_is_unregistered_answers_nothing_at_once(ethos: Native) -> None:
    for plugin in ("p1", "p2"):
        ethos("registerModifying", "before_tool_call", {"pluginId": plugin}, handler={"answer": {"error": plugin}})
    call = {"toolName": "t", "args": {}}

    runs = [
        {"call": "unregisterPlugin", "arguments": ["p1"]},
        {"call": "fireModifying", "arguments": ["before_tool_call", call, ["p1"]]},
        {"call": "fireModifying", "arguments": ["before_tool_call", call, ["p1", "p2"]]},
    ]

    assert ethos("together", runs=runs) == [None, {}, {"error": "p2"}]


def test_a_handler_that_is_refused_refuses_its_gate_and_is_said_elsewhere(ethos: Native) -> None:
    strange = {"pluginId": 5}
    ethos("registerVoid", "agent_done", strange, handler={"answer": None})
    ethos("registerVoid", "agent_done", handler={"answer": None}, **{"as": "other"})

    ethos("fireVoid", "agent_done", {"text": "done"})

    assert ethos("called", **{"as": "other"}) == [{"text": "done"}]
    assert any("agent_done" in text for text in ethos("warnings"))
    assert guarded(ethos) == {}
    ethos("registerModifying", "before_tool_call", strange, handler={"answer": None})
    assert "error" in guarded(ethos)


def test_handlers_that_are_lost_without_a_daemon_are_said(program: Program, tmp_path: Path) -> None:
    native = opened(program, str(tmp_path / "nobody.sock"), "ethos")
    native("registerVoid", "agent_done", handler={"answer": None})
    native("fireVoid", "agent_done", {"text": "done"})

    assert any("no daemon is reachable" in text for text in native("warnings"))


def test_handlers_of_a_registry_that_met_no_daemon_are_there_with_one(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "run" / "agent.sock"
    native = opened(program, str(path), "ethos")
    native("registerModifying", "before_tool_call", handler={"answer": {"error": "mine"}})
    assert "no daemon is reachable" in guarded(native)["error"]

    daemon = RealDaemon(tmp_path)
    program.do(do="wait", **{"for": "connected"})
    given = guarded(native)
    program.do(do="close")
    daemon.end()

    assert given == {"error": "mine"}


def test_a_registry_counts_its_handlers_and_the_operators(ethos: Native) -> None:
    def has(model: str, point: str) -> Any:
        return ethos("hasHandlers", model, point)

    ethos("refresh")
    ethos("registerVoid", "agent_done", handler={"answer": None}, **{"as": "done"})
    before = [has("void", "agent_done"), has("modifying", "before_tool_call"), has("void", "session_start")]
    ethos("together", runs=[{"call": "cleanup", "as": "done"}])

    assert before == [True, True, False]
    assert [has("void", "agent_done"), has("claiming", "agent_done"), has("void", "constructor")] == [False] * 3
    assert has("modifying", "before_tool_call") is True

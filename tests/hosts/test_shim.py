"""The hook command with a working daemon, a broken one, and none."""

import json
import os
import socket

import pytest

from hooklatch.hosts import claude_code
from support.host_daemon import (
    GATES,
    Daemon,
    Start,
    answer,
    assert_silent,
    hook,
    is_blocked,
    recorded,
    said,
)


def test_a_decision_is_fetched_and_said(start: Start, folder: str) -> None:
    daemon = start(answer("pre_tool_use", "deny", layer="global", hook="no-rm"))

    done = hook(recorded("PreToolUse"), "--runtime-dir", folder)

    reason = said(done)["hookSpecificOutput"]["permissionDecisionReason"]
    assert reason == "why (hooklatch hook 'global/no-rm')"
    assert done.returncode == 0
    (line,) = daemon.lines
    request = json.loads(line)
    assert (request["method"], request["params"]["event"]) == ("fire", "pre_tool_use")
    assert json.loads(recorded("PreToolUse")) == request["params"]["payload"]


def test_a_pass_leaves_nothing(start: Start, folder: str) -> None:
    start(answer("pre_tool_use", "pass", reason=None, patch=None))

    assert_silent(hook(recorded("PreToolUse"), "--runtime-dir", folder))


def test_a_teammate_is_kept_working(start: Start, folder: str) -> None:
    start(answer("task_completed", "pass", resume="tests fail"))

    done = hook(recorded("TaskCompleted"), "--runtime-dir", folder)

    assert (done.stdout, done.stderr, done.returncode) == (b"", b"tests fail\n", 2)


def test_the_next_folder_is_tried_when_nobody_listens_in_the_first(folder: str) -> None:
    state = f"{folder}/.local/state/hooklatch/run"
    os.makedirs(state)
    os.mkdir(f"{folder}/run", 0o700)
    daemon = Daemon(state, lambda connection, _: connection.sendall(answer("pre_tool_use", "ask")))

    done = hook(recorded("PreToolUse"), environ={"HOME": folder, "XDG_RUNTIME_DIR": f"{folder}/run"})

    daemon.close()
    assert said(done)["hookSpecificOutput"]["permissionDecision"] == "ask"


def test_an_event_without_a_canonical_name_is_not_sent(start: Start, folder: str) -> None:
    daemon = start(b"")

    assert_silent(hook(recorded("PostToolBatch"), "--runtime-dir", folder))

    assert daemon.lines == []


def test_a_large_event_and_a_large_answer_go_through(start: Start, folder: str) -> None:
    content = "é" * 3_000_000
    document = {**json.loads(recorded("PreToolUse")), "tool_input": {"content": content}}
    start(answer("pre_tool_use", "allow", patch={"tool_input": {"content": content}}))

    done = hook(json.dumps(document, ensure_ascii=False).encode(), "--runtime-dir", folder)

    assert said(done)["hookSpecificOutput"]["updatedInput"] == {"content": content}


BROKEN_ANSWERS = {
    "error": (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such"}}\n', "no such"),
    "error without an id": (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}\n', "bad"),
    "garbage": (b"garbage\n", "not JSON"),
    "not UTF-8": (b"\xff\n", "not JSON"),
    "an empty line": (b"\n", "not JSON"),
    "another message": (b'{"method":"announce"}\n', "not a JSON-RPC"),
    "no result": (b'{"jsonrpc":"2.0","id":1}\n', "not an object"),
    "another id": (answer("EVENT", "pass").replace(b'"id": 1', b'"id": 2'), "a different request"),
    "another event": (answer("deploy_requested", "pass"), "a different request"),
    "an unknown verdict": (answer("EVENT", "approve"), "approve"),
    "too deep": (b"[" * 100_000 + b"\n", "protocol"),
    "half a line": (answer("EVENT", "pass")[:-9], "hung up"),
    "a line without its end": (answer("EVENT", "pass")[:-1], "hung up"),
    "nothing": (b"", "without an answer"),
}


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("broken", BROKEN_ANSWERS)
def test_a_broken_answer_blocks_a_gate(start: Start, folder: str, name: str, broken: str) -> None:
    line, text = BROKEN_ANSWERS[broken]
    start(line.replace(b"EVENT", claude_code.EVENTS[name].encode()))

    done = hook(recorded(name), "--runtime-dir", folder)

    assert is_blocked(name, done)
    assert text in done.stdout.decode()


@pytest.mark.parametrize("broken", ["error", "garbage", "half a line", "nothing"])
def test_a_broken_answer_to_a_notification_is_silence(start: Start, folder: str, broken: str) -> None:
    start(BROKEN_ANSWERS[broken][0])

    assert_silent(hook(recorded("Stop"), "--runtime-dir", folder))


@pytest.mark.parametrize("name", GATES)
def test_a_missing_daemon_blocks_a_gate_and_says_what_to_do(folder: str, name: str) -> None:
    done = hook(recorded(name), "--runtime-dir", folder)

    assert is_blocked(name, done)
    assert f"{folder}/agent.sock" in done.stdout.decode()
    assert "hooklatch serve" in done.stdout.decode()


def test_a_missing_daemon_is_silence_for_a_notification(folder: str) -> None:
    assert_silent(hook(recorded("SessionStart"), "--runtime-dir", folder))


def test_a_socket_that_nobody_serves_is_a_missing_daemon(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(f"{folder}/agent.sock")

    done = hook(recorded("PreToolUse"), "--runtime-dir", folder)

    assert is_blocked("PreToolUse", done)
    assert "Connection refused" in done.stdout.decode()


def test_a_path_too_long_for_a_socket_is_a_missing_daemon() -> None:
    done = hook(recorded("PreToolUse"), "--runtime-dir", "/" + "a" * 200)

    assert is_blocked("PreToolUse", done)
    assert "too long" in done.stdout.decode()

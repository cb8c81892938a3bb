"""The method `host` for what a tool gave: a gate where a hook is on it, and the event that tells what ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooklatch.service.dispatch.results import HeldResults
from support.daemons import Daemon, running_daemon
from support.native import decided

pytestmark = pytest.mark.slow  # each runs a daemon

READER = """
from hooklatch_worker import amend, deny, hook

@hook("tool_result")
def reader(event):
    text = str(event.tool_response)
    if "crash" in text:
        raise RuntimeError("bug")
    if "secret" in text:
        return amend(tool_response=event.tool_response | {"stdout": "redacted"})
    if "shape" in text:
        return amend(tool_response={"stdout": "x"})
    return deny("not this") if "deny" in text else None
"""
WATCHER = """
from hooklatch_worker import append, halt, hook

@hook("post_tool_use")
def watcher(event):
    with open({log!r}, "a") as log:
        log.write(event.tool_response["stdout"] + "\\n")
    return halt("enough") if "halt" in event.tool_response["stdout"] else append("watched")
"""


async def read(daemon: Daemon, stdout: str, *, document: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return what Claude Code is told of a shell command that printed this."""
    response = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    given = {
        "session_id": "s", "cwd": "/", "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t",
        "tool_input": {"command": "x"}, "tool_response": response,
    }  # fmt: skip
    client = daemon.connect()
    answer = await client.call(
        "host", host="claude-code", event="PostToolUse", environ={}, budget=60.0, document=document or given
    )
    await client.aclose()
    found: dict[str, Any] = json.loads(answer["stdout"] or "{}")
    return found


def gates_fired(daemon: Daemon) -> int:
    daemon.parts.statistics.add_up()
    timings = daemon.parts.statistics.events().get("tool_result")
    return 0 if timings is None else timings["count"]


def shown(answer: dict[str, Any]) -> Any:
    return answer.get("hookSpecificOutput", {}).get("updatedToolOutput", {}).get("stdout")


async def test_the_gate_changes_what_is_read_and_the_watcher_is_told_what_ran(tmp_path: Path) -> None:
    log = tmp_path / "log"
    files = {"hooks.d/reader.py": READER, "hooks.d/watcher.py": WATCHER.format(log=str(log))}
    said = ("plain", "a secret", "deny", "crash", "shape", "halt, secret")

    async with running_daemon(tmp_path, files) as daemon:
        answers = [await read(daemon, stdout) for stdout in said]
        fired = gates_fired(daemon)

    assert answers[0] == {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "watched"}}
    assert [shown(answer) for answer in answers[:2]] == [None, "redacted"]
    assert shown(answers[2]).startswith("withheld by hooklatch: not this (hooklatch hook")
    assert "failed: RuntimeError" in shown(answers[3])
    assert "another shape" in shown(answers[4])
    assert (answers[5]["continue"], shown(answers[5])) == (False, "redacted")
    assert answers[1]["hookSpecificOutput"]["additionalContext"] == "watched"
    assert log.read_text().splitlines() == list(said)
    assert fired == 6


async def end_batch(daemon: Daemon, read_as: str) -> dict[str, Any]:
    """Return what Claude Code is told as its model is about to read this of the call."""
    calls = [{"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t", "tool_response": read_as}]
    document = {"session_id": "s", "cwd": "/", "hook_event_name": "PostToolBatch", "tool_calls": calls}
    client = daemon.connect()
    answer = await client.call("host", host="claude-code", event="PostToolBatch", environ={}, document=document)
    await client.aclose()
    found: dict[str, Any] = json.loads(answer["stdout"] or "{}")
    return found


async def test_a_run_ends_before_its_model_reads_what_another_hook_gave_back(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.d/reader.py": READER}) as daemon:
        for stdout in ("deny this line", "first\nwith a secret in it", "crash of a line"):
            withheld = shown(await read(daemon, stdout))
            as_answered = await end_batch(daemon, withheld)
            await read(daemon, stdout)
            given_back = await end_batch(daemon, f"1\t{stdout}")

            assert as_answered == {}
            assert given_back["continue"] is False
            assert "another hook gave the model what was withheld" in given_back["stopReason"]
        await read(daemon, "plain and open")
        assert await end_batch(daemon, "plain and open, and changed by another hook") == {}

        async with daemon.administrator() as admin:
            halted = (await admin.call("log", event="post_tool_batch", verdict="halt"))["records"]

    assert len(halted) == 3


async def test_what_a_host_never_tells_again_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list[str]()

    def keep(_held: HeldResults, host: str, *_: object) -> None:
        kept.append(host)

    monkeypatch.setattr(HeldResults, "keep", keep)
    given = {
        "session_id": "s", "turn_id": "1", "cwd": "/", "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_use_id": "t", "tool_input": {"command": "x"}, "tool_response": "deny this line",
    }  # fmt: skip
    async with running_daemon(tmp_path, {"hooks.d/reader.py": READER}) as daemon:
        client = daemon.connect()
        answer = await client.call("host", host="codex", event="PostToolUse", environ={}, budget=60.0, document=given)
        await client.aclose()
        await read(daemon, "deny this line")

    assert "withheld" in answer["stdout"]
    assert kept == ["claude-code"]


def test_a_long_result_with_one_line_less_is_compared_at_once() -> None:
    lines = [f"line {number}" for number in range(200_000)]
    held = HeldResults()

    decision = decided("pass", patch={"tool_response": "\n".join(lines[1:])})
    held.keep("claude-code", "t", "\n".join(["the secret", *lines]), decision)

    assert held.lines == {("claude-code", "t"): ["the secret", "line 0"]}


async def test_where_no_hook_is_on_the_gate_it_is_not_fired(tmp_path: Path) -> None:
    files = {"hooks.d/watcher.py": WATCHER.format(log=str(tmp_path / "log"))}
    huge = {"session_id": "s", "hook_event_name": "Stop", "tool_name": "Bash"}

    async with running_daemon(tmp_path, files) as daemon:
        answer = await read(daemon, "a secret")
        unread = await read(daemon, "", document=huge)
        fired = gates_fired(daemon)

    assert answer == {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "watched"}}
    assert unread == {}
    assert fired == 0


async def test_a_document_that_cannot_be_read_is_withheld_where_a_hook_is_on_the_gate(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.d/reader.py": READER}) as daemon:
        answer = await read(daemon, "", document={"session_id": "s", "hook_event_name": "Stop"})

    assert answer["continue"] is False
    assert "withheld by hooklatch" in answer["stopReason"]


async def test_a_watcher_that_hangs_holds_no_result(tmp_path: Path) -> None:
    hanging = WATCHER.format(log=str(tmp_path / "log")).replace(
        "    with open", "    import time; time.sleep(600)\n    with open"
    )

    async with running_daemon(tmp_path, {"hooks.d/w.py": hanging, "hooks.d/reader.py": READER}) as daemon:
        answer = await read(daemon, "a secret")

    assert shown(answer) == "redacted"

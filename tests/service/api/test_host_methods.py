"""The method `host` over a real socket: a host's own document in, what its hook process leaves out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.hosts.find import find_host, load_host
from support.daemons import Daemon
from support.pools import until
from support.shared_daemon import daemon_in_thread

GUARDS = """
from hooklatch_worker import allow, amend, deny, hook, inject, resume

@hook("pre_tool_use", match="shell")
def shell(event):
    if "rm" in event.tool_args["command"]:
        return deny("no rm")
    if event.tool_args["command"] == "mv":
        return amend(tool_input={"command": "mv -n"})

@hook("pre_tool_use", match="Read")
def crash(event):
    raise RuntimeError("bug")

@hook("user_prompt_submit")
def prompt(event):
    from hooklatch_worker import ask
    if "password" in event.prompt:
        return ask("a secret?")

@hook("pre_tool_use", match="view")
def slow(event):
    import time
    time.sleep(600)

@hook("session_end")
def end(event):
    open(event.reason, "w").close()

@hook("pre_tool_use", match="fetch")
def count(event):
    with open(event.tool_args["url"], "a") as file:
        file.write(f"{event.call_id}\\n")

@hook("post_tool_use", match="fetch")
def count_too(event):
    with open(event.tool_args["url"], "a") as file:
        file.write(f"{event.call_id}\\n")

@hook("pre_tool_use", match="mcp")
def twice(event):
    with open(event.tool_args["arguments"]["file"], "a") as file:
        file.write("judged\\n")

@hook("stop")
def stop(event):
    return resume("tests fail")
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}
    with daemon_in_thread(tmp_path_factory.mktemp("d"), files) as daemon:
        yield daemon


async def told(
    daemon: Daemon, event: str | None, document: object, *, host: str = "claude-code", **more: Any
) -> dict[str, Any]:
    """Send one document as a forwarder does and return the whole response; the daemon closes after it."""
    text = document if isinstance(document, str) else json.dumps(document)
    params = {"host": host, "event": event, "environ": {}, "budget": 60, **more}
    head = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "host", "params": params}, separators=(",", ":"))
    return await answer_to(daemon, f'{head[:-2]},"document":{text}}}}}\n'.encode())


async def answer_to(daemon: Daemon, line: bytes) -> dict[str, Any]:
    client = daemon.connect()
    await client.send_raw(line)
    with trio.fail_after(10):
        answer = await client.read()
        assert answer is not None
        assert await client.read() is None
    await client.aclose()
    return answer


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("command", ["rm -rf /", "ls"])
async def test_a_client_of_another_order_sends_the_document_as_json_or_as_text(
    daemon: Daemon, command: str, is_text: bool
) -> None:
    document: object = call("Bash", command=command)
    params = {"document": json.dumps(document) if is_text else document, "event": "PreToolUse", "host": "claude-code"}

    answer = await answer_to(
        daemon, json.dumps({"id": 1, "jsonrpc": "2.0", "method": "host", "params": params}).encode() + b"\n"
    )

    assert is_denied(answer) == (command != "ls")


ENDED_EARLY = [
    '{"hook_event_name":"PreToolUse"},"event":"Stop"',
    '{"hook_event_name":"Stop"},"event":"Stop","x":{}',
    '{}},"params":{"host":"claude-code","event":"Stop","document":{}',
    '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}},"document":{}',
]


@pytest.mark.parametrize("document", ENDED_EARLY)
async def test_a_document_that_ends_early_names_no_other_event(daemon: Daemon, document: str) -> None:
    answer = await told(daemon, "PreToolUse", document)

    assert is_denied(answer)


def said(answer: dict[str, Any]) -> dict[str, Any]:
    result = answer["result"]
    assert list(result) == ["exit_code", "stdout", "stderr"]
    return json.loads(result["stdout"]) if result["stdout"] else {}


def call(tool: str, **tool_input: object) -> dict[str, object]:
    return {
        "session_id": "s", "cwd": "/", "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": tool_input,
        "tool_use_id": "t",
    }  # fmt: skip


def is_denied(answer: dict[str, Any]) -> bool:
    specific = said(answer).get("hookSpecificOutput", {})
    return answer["result"]["exit_code"] == 2 or specific.get("permissionDecision") == "deny"


async def test_a_guard_that_matches_a_kind_denies_in_the_hosts_own_form(daemon: Daemon) -> None:
    answer = await told(daemon, "PreToolUse", call("Bash", command="rm -rf /"), budget=30)

    specific = said(answer)["hookSpecificOutput"]
    assert specific["permissionDecision"] == "deny"
    assert "no rm" in specific["permissionDecisionReason"]


async def test_what_no_guard_objects_to_passes_in_silence(daemon: Daemon) -> None:
    answer = await told(daemon, "PreToolUse", call("Bash", command="ls"))

    assert answer["result"] == {"exit_code": 0, "stdout": "", "stderr": ""}


async def test_an_input_that_a_guard_changed_is_handed_to_the_host(daemon: Daemon) -> None:
    answer = await told(daemon, "PreToolUse", call("Bash", command="mv"))

    assert said(answer)["hookSpecificOutput"]["updatedInput"] == {"command": "mv -n"}


async def test_a_guard_that_crashes_denies(daemon: Daemon) -> None:
    assert is_denied(await told(daemon, "PreToolUse", call("Read", file_path="/etc/passwd")))


@pytest.mark.parametrize(
    "document",
    [
        "", "rubbish", "[]", "{", "\x00", '{"hook_event_name":"PreToolUse","hook_event_name":"Stop"}',
        '{"hook_event_name":"Stop"}', '{"hook_event_name":"NoSuchEvent"}', '{"hook_event_name":7}',
        '{"hook_event_name":"PreToolUse","tool_name":"Bash"}',
        '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":[]}',
        '{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","cmd":"rm"}}',
        '{"hook_event_name":"PreToolUse","tool_name":7,"tool_input":{}}',
        '{"hook_event_name":"PreToolUse","tool_input":{}}',
    ],
)  # fmt: skip
async def test_what_cannot_be_read_in_one_way_is_refused_at_a_gate(daemon: Daemon, document: str) -> None:
    assert is_denied(await told(daemon, "PreToolUse", document))


@pytest.mark.parametrize("document", ["", "rubbish", '{"hook_event_name":"Notification","x":1,"x":2}'])
async def test_what_cannot_be_read_elsewhere_is_met_with_silence(daemon: Daemon, document: str) -> None:
    answer = await told(daemon, "Notification", document)

    assert answer["result"] == {"exit_code": 0, "stdout": "", "stderr": ""}


async def test_an_unreadable_document_is_on_record_and_counted(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        before = (await admin.call("status"))["dropped"].get("unreadable", 0)

        await told(daemon, "PreToolUse", "rubbish")

        assert (await admin.call("status"))["dropped"]["unreadable"] == before + 1


async def test_a_verdict_that_the_host_lacks_becomes_a_stricter_one(daemon: Daemon) -> None:
    document = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "password"}

    answer = said(await told(daemon, "UserPromptSubmit", document))

    assert answer["decision"] == "block"
    assert "cannot ask" in answer["reason"]


async def test_an_agent_is_kept_working(daemon: Daemon) -> None:
    answer = await told(daemon, "Stop", {"session_id": "s", "hook_event_name": "Stop"})

    assert said(answer) == {"decision": "block", "reason": "tests fail"}


async def test_an_unknown_host_is_an_error(daemon: Daemon) -> None:
    answer = await told(daemon, "PreToolUse", call("Bash"), host="clod-code")

    assert "unknown host 'clod-code'" in answer["error"]["message"]


async def test_an_adapter_that_cannot_be_imported_is_an_error_which_a_forwarder_refuses(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hooklatch.hosts.speakers", None)
    load_host.cache_clear()

    answer = await told(daemon, "PreToolUse", call("Bash", command="ls"), host="qwen")

    assert answer["error"]["data"]["name"] == "internal_error"


async def test_an_unknown_event_is_refused(daemon: Daemon) -> None:
    answer = await told(daemon, "PreToolUze", call("Bash"))

    assert answer["result"]["exit_code"] == 2
    assert answer["result"]["stderr"]


async def test_a_gate_is_decided_within_the_budget(daemon: Daemon) -> None:
    document = {"sessionId": "s", "toolName": "view", "toolArgs": {"path": "/"}}

    answer = said(await told(daemon, "preToolUse", document, host="copilot", budget=1))

    assert answer["permissionDecision"] == "deny"
    assert "gave no answer in time" in answer["permissionDecisionReason"]


async def test_an_event_that_nobody_waits_for_is_answered_at_once_and_its_hooks_run(
    daemon: Daemon, tmp_path: Path
) -> None:
    document = {"session_id": "s", "hook_event_name": "SessionEnd", "reason": str(tmp_path / "ended")}

    answer = await told(daemon, "SessionEnd", document)

    assert answer["result"] == {"exit_code": 0, "stdout": "", "stderr": ""}
    await until(lambda: (tmp_path / "ended").exists())


async def test_calls_without_an_id_get_one_that_both_ends_share(daemon: Daemon, tmp_path: Path) -> None:
    url = tmp_path / "calls"
    call = {"sessionId": "s", "toolName": "web_fetch", "toolArgs": {"url": str(url)}}

    await told(daemon, "preToolUse", call, host="copilot")
    await told(daemon, "postToolUse", call, host="copilot")
    await until(lambda: url.exists() and len(url.read_text().split()) == 2)
    await told(daemon, "preToolUse", call, host="copilot")

    first, second, third = url.read_text().split()
    assert first == second != third


async def test_a_call_that_cursor_tells_twice_is_judged_once(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    one = {"conversation_id": "c", "generation_id": "g"}
    first = {**one, "tool_name": "MCP:create", "tool_input": {"file": str(file)}}
    second = {**one, "tool_name": "create", "tool_input": json.dumps({"file": str(file)})}

    for event, document in (("preToolUse", first), ("beforeMCPExecution", second), ("beforeMCPExecution", second)):
        assert said(await told(daemon, event, document, host="cursor")) == {}

    assert file.read_text().split() == ["judged", "judged"]  # the third one had no decision to share


async def test_what_the_host_was_told_is_what_subscribers_see(daemon: Daemon) -> None:
    document = {"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "password"}
    async with daemon.administrator() as admin:
        await admin.call("subscribe", topics=["decisions"])

        await told(daemon, "UserPromptSubmit", document, host="codex")

        decision = (await admin.announcement())["decision"]
        assert decision["verdict"] == "deny"
        assert any("Codex cannot ask" in warning for warning in decision["warnings"])


@pytest.mark.parametrize("step", ["read", "make_fire", "fit", "render"])
async def test_an_adapters_own_bug_is_a_refusal(daemon: Daemon, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(find_host("codex"), step, fail, raising=True)

    answer = await told(daemon, "PreToolUse", call("Bash", command="ls"), host="codex")

    assert is_denied(answer)
    assert "ZeroDivisionError" in answer["result"]["stdout"] + answer["result"]["stderr"]


async def test_an_adapters_own_bug_elsewhere_is_silence(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(find_host("codex"), "render", fail, raising=True)

    answer = await told(daemon, "SessionStart", {"hook_event_name": "SessionStart", "source": "startup"}, host="codex")

    assert answer["result"] == {"exit_code": 0, "stdout": "", "stderr": ""}


async def test_a_canary_is_refused_by_the_daemon_itself_and_is_no_fire(daemon: Daemon) -> None:
    nonce = "ab" * 16
    before = daemon.parts.statistics.count_all()

    answer = await told(daemon, "PreToolUse", {**call("Glob", pattern="*"), "hooklatch_canary": nonce})

    assert is_denied(answer)
    assert nonce in answer["result"]["stdout"]
    assert daemon.parts.statistics.count_all() == before


async def test_a_session_that_begins_in_a_project_without_trust_is_told_and_so_is_the_status(
    daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / ".hooklatch").mkdir()
    start = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "SessionStart", "source": "startup"}

    answer = await told(daemon, "SessionStart", start, budget=5)
    elsewhere = await told(daemon, "SessionStart", {**start, "cwd": "/"}, budget=5)

    assert f"{tmp_path}/.hooklatch is not trusted, its hooks are ignored" in said(answer)["systemMessage"]
    assert said(elsewhere) == {}
    assert [one for one in await daemon.parts.projects.all_warnings() if str(tmp_path) in one]


async def test_projects_without_trust_that_hosts_began_in_are_forgotten_at_some_point(
    daemon: Daemon, tmp_path: Path
) -> None:
    projects = daemon.parts.projects
    for number in range(150):
        (tmp_path / str(number) / ".hooklatch").mkdir(parents=True)
        await projects.begun([str(tmp_path / str(number)), None])

    shown = [one for one in await projects.all_warnings() if f"{tmp_path}/" in one]

    assert len(shown) == 100
    assert not any(f"{tmp_path}/0/" in one for one in shown)

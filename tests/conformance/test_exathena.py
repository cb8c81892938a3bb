"""ExAthena's own cases, fired in its words at a real daemon whose hooks run in real workers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from conformance.examples import by_page, host_of
from conformance.rows.exathena import ROWS
from conformance.runs.exathena import (
    CALLBACKS,
    PAGE,
    SERVER,
    check,
    config,
    fire,
    on,
    ours,
    plain,
    result,
    run,
    speak,
    told,
)
from conformance.table import with_checks
from support.daemons import Daemon

FILES = {
    "hooks.toml": config(),
    "exathena.py": (CALLBACKS / "exathena.py").read_text(),
    "a.bad": "BAD\n",
    "sub/a.bad": "\n  BAD\n",
}


@pytest.mark.parametrize("row_id", [row.id for row in with_checks(ROWS)])
async def test_row(row_id: str, daemon: Daemon) -> None:
    await check[row_id](daemon)


async def ids_told(daemon: Daemon, *payloads: dict[str, Any], **options: Any) -> list[tuple[str, str | None]]:
    """Return the session and the parent that each SessionStart is told."""
    async with speak(daemon, on("SessionStart", "tells"), **options) as session:
        decisions = [await session.fire("SessionStart", payload=payload) for payload in payloads]
    return [(told(one)["session"], told(one)["parent"]) for one in decisions]


@check("XA-32")
async def a_generated_id(daemon: Daemon) -> None:
    (one, parent), (other, _) = *await ids_told(daemon, {}), *await ids_told(daemon, {})

    assert (len(one), one != other, parent) == (18, True, None)


@check("XA-33")
async def a_given_id(daemon: Daemon) -> None:
    assert await ids_told(daemon, {}, session_id="my-run") == [("my-run", None)]


@check("XA-34")
async def two_messages(daemon: Daemon) -> None:
    first, second = await ids_told(daemon, {}, {})

    assert first == second


@check("XA-35")
async def an_explicit_id(daemon: Daemon) -> None:
    assert await ids_told(daemon, {"session_id": "explicit"}, session_id="explicit") == [("explicit", None)]


@check("XA-36")
async def an_id_that_a_call_states(daemon: Daemon) -> None:
    assert await ids_told(daemon, {"session_id": "other"}, session_id="the-sessions") == [("other", None)]
    async with daemon.administrator() as admin:
        (record,) = (await admin.call("log", session="the-sessions", event="session_start"))["records"]
    assert (record["session"], record["claimed_session"]) == ("the-sessions", "other")


@check("XA-37")
async def a_named_subagent(daemon: Daemon) -> None:
    started = {"subagent_id": "a-1", "prompt": "look", "agent": "explore", "isolation": ["in_process", "no_git"]}
    decision = await fire(daemon, "SubagentStart", [on("SubagentStart", "tells")], **started)

    assert told(decision)["agent_type"] == "explore"
    assert told(decision)["isolation"] == ["in_process", "no_git"]


@check("XA-38")
async def a_refused_mcp_tool(daemon: Daemon) -> None:
    denied: list[Any] = []
    heard = trio.Event()

    async def note(event: Any) -> None:
        denied.append((event.tool_name, event.reason))
        heard.set()

    async with plain(daemon, ours("pre_tool_use", "no"), ("permission_denied", note, {"id": "note"})) as session:
        refused = await run(session, "mcp__files__write")
        with trio.fail_after(10):
            await heard.wait()

    assert refused.as_tool_result()["is_error"] is True
    assert denied == [("mcp__files__write", "not this")]


@check("XA-39")
async def an_mcp_tool(daemon: Daemon) -> None:
    async with speak(daemon, {"PreToolUse": ["exathena.py:tells"], "PostToolUse": ["exathena.py:tells"]}) as session:
        before = await session.fire("PreToolUse", payload={"tool_name": "mcp__files__read", "path": "a"})
        after = await session.fire("PostToolUse", payload={"tool_name": "mcp__files__read", "result": "text"})

    assert [told(one)["tool_name"] for one in (before, after)] == ["mcp__files__read"] * 2


async def edit(daemon: Daemon, path: object, tool: str = "Edit", **config: Any) -> Any:
    """Tell of an edit; `config` is that of a hook of its own, for a tool that the built-in one leaves alone."""
    hook = {"run": "hooklatch_worker.lsp.diagnostics:diagnose", "id": "own", "timeout": 20.0, "config": config}
    hooks = [{"PostToolUse": [{"matcher": "^poke$", "hooks": [hook]}]}]
    arguments = {} if path is None else {"arguments": path if isinstance(path, dict) else {"file_path": path}}
    return result(await fire(daemon, "PostToolUse", hooks, tool_name=tool, result="edited", **arguments))


def server(mode: str = "publish") -> dict[str, Any]:
    return {"servers": {".bad": [*SERVER, mode]}}


@check("XA-41")
async def disabled_diagnostics(daemon: Daemon) -> None:
    assert await edit(daemon, "a.bad", "poke", enabled=False, timeout=10.0, **server()) == "ok"
    assert await edit(daemon, "a.bad", "poke", timeout=10.0, **server()) != "ok"


check |= {
    "XA-42": lambda daemon: says_nothing(daemon, {}),
    "XA-43": lambda daemon: says_nothing(daemon, None),
    "XA-44": lambda daemon: says_nothing(daemon, "a.unheard-of"),
    "XA-45": lambda daemon: says_nothing(daemon, "a.bad", "poke", servers={".bad": ["/nowhere/server"]}),
}


async def says_nothing(daemon: Daemon, path: object, tool: str = "Edit", **config: Any) -> None:
    assert await edit(daemon, path, tool, **config) == "ok"


@check("XA-46")
async def an_error(daemon: Daemon) -> None:
    expected = {"augment": "[lsp diagnostics]\nerror: this is BAD at a.bad:1:1"}

    assert await edit(daemon, "a.bad") == expected
    assert await edit(daemon, str(daemon.folder / "a.bad"), "write") == expected


@check("XA-47")
async def other_severities(daemon: Daemon) -> None:
    assert await edit(daemon, "a.bad", "poke", severities=["warning"], timeout=10.0, **server()) == "ok"


@check("XA-48")
async def nothing_in_time(daemon: Daemon) -> None:
    started = time.monotonic()

    assert await edit(daemon, "a.bad", "poke", timeout=0.2, **server("quiet")) == "ok"
    assert 0.2 <= time.monotonic() - started < 5


@check("XA-49")
async def telemetry(daemon: Daemon) -> None:
    async with daemon.session(cwd=str(daemon.folder)) as client:
        await client.call("subscribe", topics=["telemetry"])
        await client.fire("post_tool_use", tool_name="Edit", tool_input={"file_path": "a.bad"})
        with trio.fail_after(10):
            started, stopped = await client.announcement(), await client.announcement()

    assert [one["event_type"] for one in (started, stopped)] == ["lsp_diagnostics_start", "lsp_diagnostics_stop"]
    assert (stopped["data"]["tool_name"], stopped["data"]["count"]) == ("Edit", 1)
    assert stopped["data"]["had_errors"] is True
    assert stopped["data"]["duration_ms"] >= 0


@check("XA-50")
async def a_path_below(daemon: Daemon) -> None:
    assert await edit(daemon, "sub/a.bad") == {"augment": "[lsp diagnostics]\nerror: this is BAD at sub/a.bad:2:3"}


async def layers(daemon: Daemon, *hooks: Any) -> list[tuple[str, str]]:
    async with speak(daemon, *hooks) as session:
        return [(one["layer"], one["id"]) for one in (await session.hooks(event="post_tool_use"))["hooks"]]


@check("XA-51")
async def hooks_without_diagnostics(daemon: Daemon) -> None:
    async with daemon.administrator() as admin:
        daemon.write("hooks.toml", config(enabled=False))
        await admin.call("reload")
        try:
            found = await layers(daemon, on("PostToolUse", "fine"))
        finally:
            daemon.write("hooks.toml", config())
            await admin.call("reload")

    assert found == [("session", "fine")]


@check("XA-52")
async def diagnostics_come_first(daemon: Daemon) -> None:
    (layer, name), *rest = await layers(daemon, on("PostToolUse", "fine"))

    assert (name, rest) == ("lsp", [("session", "fine")])
    assert layer != "session"


@check("XA-53")
async def diagnostics_alone(daemon: Daemon) -> None:
    assert [name for _, name in await layers(daemon)] == ["lsp"]


async def test_the_pages_hooks_do_what_exathenas_own_examples_do(daemon: Daemon, tmp_path: Path) -> None:
    named = by_page(PAGE, daemon)
    functions = {
        "PreToolUse": "deny_protected", "ChatParams": "inject_metadata", "UserPromptSubmit": "expand_macros",
        "PostToolUseFailure": "capture", "Stop": "persist",
    }  # fmt: skip
    async with speak(daemon, cwd=tmp_path) as session:
        for event, function in functions.items():
            await session.register_all([{**named(event, function), "run": f"{daemon.folder}/page_0.py:{function}"}])
        denied = await session.fire("PreToolUse", tool_name="write", path="priv/secrets/key")
        shown = await host_of(PAGE, 1)["before_a_model_call"](session, {"model": "m-1"}, [])
        deployed = await session.fire("UserPromptSubmit", prompt="/deploy")
        await session.fire("PostToolUseFailure", tool_name="bash", tool_use_id="t-1", reason="no such file")
        await session.fire("Stop", finish_reason="stop", result="done")

    assert result(denied) == {"deny": "protected path"}
    assert [message["name"] for message in shown["injects"]] == ["ticket-context"]
    assert result(deployed)["transform"].startswith("Deploy the staging branch")
    lines = [json.loads(line) for line in (tmp_path / "agent.jsonl").read_text().splitlines()]
    assert [line.get("reason") or line["result"] for line in lines] == ["no such file", "done"]


async def test_a_transform_of_a_request_is_garbage_where_exathena_ignores_it(daemon: Daemon) -> None:
    served = ("ChatParams", lambda _: {"transform": "be brief"}, {"id": "served"})
    decision = await fire(daemon, "ChatParams", [served], request={"model": "m-1"}, messages=[])

    assert (decision.verdict, decision.cause) == ("deny", "protocol")
    assert "halt" in result(decision)

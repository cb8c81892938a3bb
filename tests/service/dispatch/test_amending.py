"""Hooks marked `amends`, wherever they are declared: they run first, and no session undoes an operator's amendment."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, Daemon, RpcFailure, child_of, running_daemon

HOOKS = """
from hooklatch_worker import amend, deny, hook

def put(event):
    return amend(tool_input={"said": [*event.tool_input["said"], event.config["word"]]})

def put_first(event):
    return amend(tool_input={"said": ["late", *event.tool_input["said"]]})

def clean(event):
    return amend(tool_input={"said": [word for word in event.tool_input["said"] if word != "evil"]})

@hook("pre_tool_use", match="Bash", amends=True, config={"word": "marked"})
def marked(event):
    return put(event)

@hook("pre_tool_use", match="Bash", priority=300)
def guard(event):
    if "forbidden" in event.tool_input["said"]:
        return deny("it says " + " ".join(event.tool_input["said"]))
"""
CONFIG = """
[[source]]
path = "hooks.py"

[[hook]]
id = "in-a-file"
event = "pre_tool_use"
match = "Bash"
run = "hooks.py:put"
amends = true
config = { word = "in-a-file" }

[[hook]]
id = "clean"
event = "pre_tool_use"
match = "Write"
run = "hooks.py:clean"
amends = true
"""
SCRIPT = """python3 -c '
import json, sys
said = json.load(sys.stdin)["tool_input"]["said"]
changed = {"hookEventName": "PreToolUse", "updatedInput": {"said": [*said, "settings"]}}
print(json.dumps({"hookSpecificOutput": changed}))
'"""
SETTINGS = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": SCRIPT, "amends": True}]}]}}
FILES = {"hooks.toml": CONFIG, "hooks.py": HOOKS, "hooks.d/settings.json": json.dumps(SETTINGS)}


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncGenerator[Daemon]:
    async with running_daemon(tmp_path, FILES) as daemon:
        yield daemon


def put(hook_id: str, folder: Path, **rest: Any) -> dict[str, Any]:
    run = f"{folder / 'hooks.py'}:put"
    return {"id": hook_id, "event": "pre_tool_use", "run": run, "amends": True, "config": {"word": hook_id}, **rest}


async def fired(client: Client, tool: str = "Bash", *said: str) -> tuple[dict[str, Any], list[str]]:
    decision = await client.fire_tool(tool, said=list(said))
    return decision, decision["patch"]["tool_input"]["said"] if decision["patch"] is not None else list(said)


async def test_wherever_it_is_declared_a_marked_hook_runs_first_the_operators_last(daemon: Daemon) -> None:
    folder = daemon.folder
    above = daemon.session(id="above", cwd="/", hooks=[put("above", folder)])
    async with above as parent, daemon.administrator() as admin:
        await admin.call("register", scope="global", hooks=[put("admin", folder, match="Bash")])
        async with daemon.session(**child_of(parent), cwd="/", hooks=[put("own", folder)]) as client:
            decision, said = await fired(client)
            listed = {hook["id"]: hook["amends"] for hook in (await client.call("hooks"))["hooks"]}
            explained = await client.call("explain", event="pre_tool_use", payload={"tool_name": "Bash"})

    assert said == ["own", "above", "marked", "in-a-file", "settings", "admin"]
    (settings,) = (name for name in listed if name.startswith("settings:PreToolUse:"))
    order = ["own", "above", "hooks:marked", "in-a-file", settings, "admin", "hooks:guard"]
    assert [outcome["hook"] for outcome in decision["outcomes"]] == order
    assert [(one["hook"], one["amends"]) for one in explained["fires"]] == [(name, name != order[-1]) for name in order]
    assert listed == {"clean": True, **{name: name != order[-1] for name in order}}


async def test_guards_judge_what_was_made(daemon: Daemon) -> None:
    async with daemon.session(cwd="/", hooks=[put("forbidden", daemon.folder)]) as client:
        decision, _ = await fired(client)

    assert (decision["verdict"], decision["hook"], decision["patch"]) == ("deny", "hooks:guard", None)
    assert decision["reason"] == "it says forbidden marked in-a-file settings"


async def test_no_session_undoes_an_operators_amendment(daemon: Daemon) -> None:
    async with (
        daemon.session(cwd="/", hooks=[put("evil", daemon.folder)]) as marked,
        daemon.session(cwd="/", hooks=[put("evil", daemon.folder, amends=False)]) as unmarked,
    ):
        cleaned, said = await fired(marked, "Write", "evil", "good")
        refused, _ = await fired(unmarked, "Write", "good")

    assert (cleaned["verdict"], said) == ("pass", ["good"])
    assert (refused["verdict"], refused["cause"], refused["hook"]) == ("deny", "unsettled", "clean")
    assert "/evil amends = true" in refused["reason"]


async def test_an_operators_marks_keep_what_they_mean(daemon: Daemon) -> None:
    """An observing amender changes nothing, an optional one may fail, a suspended one is not asked."""
    raising = {"id": "raises", "event": "pre_tool_use", "run": f"{daemon.folder / 'hooks.py'}:gone", "amends": True}
    daemon.write("hooks.py", HOOKS + "\ndef gone(event):\n    raise ValueError('no')\n")
    async with daemon.administrator() as admin:
        await admin.call("reload")
        await admin.call("suspend", id="hooks:marked", seconds=60, reason="a test")
        hooks = [put("seen", daemon.folder, observe=True), {**raising, "optional": True}]
        async with daemon.session(cwd="/", hooks=hooks) as client:
            decision, said = await fired(client)
        async with daemon.session(cwd="/", hooks=[raising]) as client:
            refused, _ = await fired(client)

    assert (decision["verdict"], said) == ("pass", ["in-a-file", "settings"])
    assert [re.sub("session:[^/]+", "session", warning.partition(" is ")[0]) for warning in decision["warnings"]] == [
        "global/hooks:marked",
        "session/raises",
    ]
    assert (refused["verdict"], refused["cause"], refused["hook"]) == ("deny", "crash", "raises")


async def test_an_event_that_nobody_can_change_has_nothing_to_amend(daemon: Daemon) -> None:
    async with daemon.session(cwd="/") as client:
        for event in ("stop", "pre_compact", "post_tool_use", "message_claim"):
            with pytest.raises(RpcFailure, match="nothing to amend; remove amends") as caught:
                await client.call("register", hooks=[put("mine", daemon.folder, event=event)])
            assert caught.value.name == "invalid_params"
            assert (await client.call("hooks", event=event))["hooks"] == []


async def test_in_a_file_that_is_a_diagnostic_and_its_gate_denies(daemon: Daemon) -> None:
    declared = '[[hook]]\nid = "unfit"\nevent = "pre_compact"\nrun = "../hooks.py:clean"\namends = true\n'
    daemon.write("hooks.d/unfit.toml", declared)

    async with daemon.administrator() as admin, daemon.session() as client:
        problems = (await admin.call("reload"))["diagnostics"]
        decision = await client.fire("pre_compact", trigger="manual")

    assert [(one["line"], "nothing to amend" in one["message"]) for one in problems] == [(1, True)]
    assert (decision["verdict"], decision["cause"], decision["hook"]) == ("deny", "load", "unfit")


async def test_of_a_broken_file_it_is_remembered_who_amends(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES):
        pass
    broken = {"hooks.py": "def broken(\n"}

    async with running_daemon(tmp_path, broken) as daemon, daemon.session() as client:
        listed = {hook["id"]: hook["amends"] for hook in (await client.call("hooks"))["hooks"]}

    assert listed["hooks:marked"] is True
    assert listed["hooks:guard"] is False

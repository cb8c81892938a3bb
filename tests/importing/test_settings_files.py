"""Another system's settings file in hooks.d: read as it is, live, and never fatal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from support.daemons import running_daemon

CLAUDE = {
    "permissions": {"allow": ["Read"]},
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [
                    {"type": "command", "command": "grep -q 'rm -rf' && { echo 'no rm' >&2; exit 2; } || exit 0"}
                ],
            }
        ]
    },
}
REASONIX = {"hooks": {"PreToolUse": [{"match": "edit_.*", "command": "echo 'read only' >&2; exit 2", "timeout": 2000}]}}


async def test_claudes_and_reasonix_settings_are_hooks_as_they_stand(tmp_path: Path) -> None:
    files = {"hooks.d/claude.json": json.dumps(CLAUDE), "hooks.d/reasonix.json": json.dumps(REASONIX)}

    async with running_daemon(tmp_path, files) as daemon, daemon.session(cwd=str(tmp_path)) as client:
        removal = await client.fire_tool("Bash", command="rm -rf /")
        listing = await client.fire_tool("Bash", command="ls")
        edit = await client.fire_tool("edit_file", path="a.ts")
        status = await client.call("status")

    assert (removal["verdict"], removal["reason"]) == ("deny", "no rm")
    assert listing["verdict"] == "pass"
    assert (edit["verdict"], edit["reason"]) == ("deny", "read only")
    assert status["health"] == "green"


async def test_an_edit_of_a_settings_file_is_taken_live(tmp_path: Path) -> None:
    files = {"hooks.d/settings.json": json.dumps(REASONIX)}

    async with running_daemon(tmp_path, files) as daemon, daemon.session(cwd=str(tmp_path)) as client:
        await client.call("subscribe", topics=["registry"])
        changed = json.dumps(REASONIX).replace("read only", "still read only")
        daemon.write("hooks.d/settings.json", changed)
        with trio.fail_after(10):
            await client.announcement()
        edit = await client.fire_tool("edit_file", path="a.ts")

    assert edit["reason"] == "still read only"


async def test_a_bad_matcher_in_a_settings_file_is_inactive_visible_and_denies(tmp_path: Path) -> None:
    bad = {"hooks": {"PreToolUse": [{"match": "[unclosed", "command": "exit 0"}], "Stop": [{"command": "exit 0"}]}}

    async with running_daemon(tmp_path, {"hooks.d/s.json": json.dumps(bad)}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash", command="ls")
        stop = await client.fire("stop")
        status = await client.call("status")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "hooklatch hooks disable" in decision["reason"]
    assert stop["verdict"] == "pass"
    assert status["health"] == "red"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{ not valid json", "s.json"),
        (b"[1, 2]", "hooks"),
        (b'{"model": "x"}', "hooks"),
        (b"\xff\xfe\xff", "s.json"),
    ],
)
async def test_a_broken_settings_file_takes_nothing_down_and_says_what_is_wrong(
    tmp_path: Path, data: bytes, said: str
) -> None:
    folder = tmp_path / "hooks.d"
    folder.mkdir()
    (folder / "s.json").write_bytes(data)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        status = await client.call("status")
        notified = await client.fire("notification", message="m")

    assert status["health"] == "red"
    assert said in str(status["problems"])
    assert notified["verdict"] == "pass"


PRE = '{"hooks": {"PreToolUse": [%s]}}'
GUARD = '{"match": "Bash", "command": "exit 2", "description": "no shell"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"hooks": {\n"PreToolUze": [{"command": "exit 2"}]}}', "did you mean 'PreToolUse'"),
        (PRE % '\n{"comand": "exit 2"}', "did you mean 'command'"),
        (PRE % '{"matcher": "Bash", "hooks": [\n{"type": "comand", "command": "exit 2"}]}', "did you mean 'command'"),
        (PRE % '\n{"matcher": "Bash", "hook": [{"type": "command", "command": "exit 2"}]}', "did you mean 'hooks'"),
        (PRE % '\n{"command": " "}', "its command is ' '"),
        (PRE % '{"hooks": [\n{"type": "command", "command": ["a"]}]}', "its command is ['a']"),
        (PRE % '\n{"command": "exit 2", "hooks": []}', "both a command and hooks"),
        ('{"hooks": {},\n"PreToolUse": [{"command": "exit 2"}]}', "it is beside 'hooks'"),
    ],
)
async def test_an_entry_that_cannot_run_is_red_with_its_line_and_denies(tmp_path: Path, text: str, said: str) -> None:
    async with running_daemon(tmp_path, {"hooks.d/s.json": text}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash", command="ls")
        status = await client.call("status")

    (problem,) = status["problems"]
    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert said in problem["message"]
    assert (status["health"], problem["line"]) == ("red", 2)


async def test_an_entry_of_an_event_that_nobody_knows_is_red(tmp_path: Path) -> None:
    text = '{"hooks": {"Stop": [{"command": "true"}],\n"Nonsense": [{"command": "exit 2"}]}}'

    async with running_daemon(tmp_path, {"hooks.d/s.json": text}) as daemon, daemon.session() as client:
        status = await client.call("status")

    (problem,) = status["problems"]
    assert (status["health"], problem["line"]) == ("red", 2)
    assert "no event here for 'Nonsense'" in problem["message"]


async def test_a_file_that_loses_an_entry_keeps_what_was_in_force(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.d/s.json": PRE % GUARD}) as daemon,
        daemon.administrator() as admin,
        daemon.session() as client,
    ):
        daemon.write("hooks.d/s.json", (PRE % GUARD).replace("PreToolUse", "Nonsense"))
        await daemon.parts.reloader.reload()
        before = await client.fire_tool("Bash", command="ls")
        await admin.call("reload")
        after = await client.fire_tool("Bash", command="ls")

    assert (before["verdict"], before["cause"]) == ("deny", "policy")
    assert after["verdict"] == "pass"


async def test_a_switch_stays_with_its_guard_when_another_one_goes(tmp_path: Path) -> None:
    other = '{"match": "Bash", "command": "echo other >&2; exit 2"}'
    async with (
        running_daemon(tmp_path, {"hooks.d/s.json": PRE % f"{GUARD}, {other}"}) as daemon,
        daemon.administrator() as admin,
        daemon.session() as client,
    ):
        first = next(hook for hook in (await client.call("hooks"))["hooks"] if hook["target"] == "exit 2")
        await admin.call("disable", id=first["id"])
        daemon.write("hooks.d/s.json", PRE % other)
        await admin.call("reload")
        decision = await client.fire_tool("Bash", command="ls")

    assert first["description"] == "no shell"
    assert (decision["verdict"], decision["reason"]) == ("deny", "other")


async def test_a_cyclic_import_of_hooks_is_told_with_its_place(tmp_path: Path) -> None:
    files = {
        "hooks.toml": '[[source]]\npath = "first.py"\n',
        "first.py": "from second import guard\n\ndef helper():\n    pass\n",
        "second.py": "from first import helper\n\ndef guard(event):\n    pass\n",
    }

    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash", command="ls")
        (problem,) = (await client.call("status"))["problems"]

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert problem["file"].endswith("second.py")
    assert problem["line"] == 1
    assert "import" in problem["message"]

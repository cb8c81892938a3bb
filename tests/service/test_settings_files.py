"""Another system's settings file in hooks.d: read as it is, live, and never fatal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from support import running_daemon

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

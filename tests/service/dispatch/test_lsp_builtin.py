"""The built-in hook: where it stands, what it is told, and the telemetry of its work.

Slow where a language server starts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from support.daemons import Client, running_daemon
from support.repository import TESTS

FAKE = TESTS / "workers/lsp/fake_server.py"
USERS = """
from hooklatch_worker import append, hook

@hook("post_tool_use", priority=1000)
def users(event):
    return append("[user]")
"""
LISTENER = """
from hooklatch_worker import hook

@hook("telemetry", match={"glob": "lsp_*"})
def heard(event):
    with open(event.config["path"], "a") as file:
        file.write(event.event_type + "\\n")
"""
BROKEN = "x = BAD\n"  # what the fake server finds


def config(folder: Path, mode: str = "pull") -> str:
    command = [sys.executable, "-I", "-S", str(FAKE), mode, str(folder / "server.log")]
    return f"[lsp]\nservers = {{ '.py' = {command!r} }}\n"


async def edited(client: Client, path: Path) -> dict[str, Any]:
    path.write_text(BROKEN)  # noqa: ASYNC240  (a test may)
    return await client.fire("post_tool_use", tool_name="Write", tool_input={"file_path": str(path)}, tool_result="ok")


async def ids(client: Client) -> list[str]:
    hooks = (await client.call("hooks", event="post_tool_use"))["hooks"]
    return [f"{hook['layer']}/{hook['id']}" for hook in hooks]


@pytest.mark.parametrize(
    ("text", "files", "expected"),
    [
        pytest.param("[lsp]\nenabled = false\n", {"hooks.d/u.py": USERS}, ["global/u:users"], id="XA-51"),
        pytest.param("[lsp]\n", {"hooks.d/u.py": USERS}, ["builtin/lsp", "global/u:users"], id="XA-52"),
        pytest.param("[lsp]\n", {}, ["builtin/lsp"], id="XA-53"),
        pytest.param("", {}, [], id="no table: off"),
    ],
)
async def test_it_stands_before_the_users_own(
    tmp_path: Path, text: str, files: dict[str, str], expected: list[str]
) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": text, **files}) as daemon, daemon.session() as client:
        assert await ids(client) == expected


async def test_its_time_is_a_second_over_what_a_server_gets(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": "[lsp]\ntimeout = 2\n"}) as daemon, daemon.session() as client:
        (hook,) = (await client.call("hooks"))["hooks"]

        assert hook["timeout"] == 3.0
        assert "Edit" in hook["match"]


@pytest.mark.slow
async def test_diagnostics_come_first_and_are_told_of(tmp_path: Path) -> None:
    """Slow: a language server starts."""
    heard = tmp_path / "heard"
    listening = '[[hook]]\nid = "heard"\nevent = "telemetry"\nrun = "listener.py:heard"\n'
    listening += f"config = {{ path = {str(heard)!r} }}\n"
    files = {"hooks.toml": config(tmp_path) + listening, "listener.py": LISTENER, "hooks.d/u.py": USERS}
    work = tmp_path / "work"
    work.mkdir()

    async with (
        running_daemon(tmp_path, files) as daemon,
        daemon.session(cwd=str(work)) as client,
        daemon.administrator() as admin,
    ):
        for one in (client, admin):
            await one.call("subscribe", topics=["telemetry"])
        decision = await edited(client, work / "a.py")
        told = [await client.announcement(), await client.announcement()]
        also = await admin.announcement()

        assert decision["append"].startswith("[lsp diagnostics]\nerror: ")
        assert decision["append"].endswith("[user]")
        assert [one["event_type"] for one in told] == ["lsp_diagnostics_start", "lsp_diagnostics_stop"]
        assert told[0]["data"] == {"tool_name": "Write", "path": "a.py"}
        assert told[1]["data"]["count"] >= 1
        assert also["session_id"] == client.hello["session_id"]  # type: ignore[attr-defined]
        await daemon.parts.generations.wait_quiesced()
        assert sorted(heard.read_text().splitlines()) == ["lsp_diagnostics_start", "lsp_diagnostics_stop"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\n[lsp]\ntimeot = 1\n", 3, "did you mean 'timeout'?"),
        ('[lsp]\ntimeout = "1"\n', 2, "timeout is a number over 0 and at most 60"),
        ("[lsp]\ntimeout = 900\n", 2, "at most 60"),
        ('[lsp]\nservers = { py = ["x"] }\n', 2, 'servers is a table of commands by extension, like { ".py" ='),
        ('[lsp]\nseverities = ["fatal"]\n', 2, "severities is a list, each one of"),
    ],
)
async def test_bad_settings_are_a_diagnostic(tmp_path: Path, text: str, line: int, message: str) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": text}) as daemon, daemon.session() as client:
        (problem,) = (await client.call("status"))["problems"]

    assert problem["line"] == line
    assert message in problem["message"]


async def test_telemetry_of_a_users_own_code_is_garbage(tmp_path: Path) -> None:
    forging = (
        "from hooklatch_worker import hook\nfrom hooklatch_worker.author.event import find_call\n"
        "@hook('pre_tool_use')\n"
        "def forging(event):\n    find_call(event).emit('lsp_diagnostics_start', {})\n"
    )

    async with running_daemon(tmp_path, {"hooks.d/f.py": forging}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["cause"]) == ("deny", "protocol")

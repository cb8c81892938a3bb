"""The Claude Code that the Claude Agent SDK brings, with a scripted model on loopback: the bridge holds in it too."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip(
    "claude_agent_sdk", reason="the package is not installed: pip install 'hooklatch[claude-agent-sdk]'"
)
pytest.importorskip("real_hosts.model.server", reason="the scripted model of tests/real_hosts is not there")

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from hooklatch.bridges.claude_agent_sdk import guarded
from hooklatch.bridges.guard import open_guard
from real_hosts.model.conversation import Call, opening
from real_hosts.model.server import Model
from support.bridged import Bridged
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # each run starts Claude Code


@pytest.fixture(scope="module")
def model() -> tuple[Model, int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return Model(port), port


def run(model: tuple[Model, int], runtime_dir: str, folder: Path, *commands: str) -> list[str]:
    """Have the model run these commands at once; return what it was told of each."""
    api, port = model
    api.begin({"main": [[Call("Bash", {"command": line, "description": "do it"}) for line in commands]]})
    environment = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "none",
        "HTTPS_PROXY": "http://127.0.0.1:9",  # nobody: it reaches nothing but the model
        "NO_PROXY": "127.0.0.1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
    }

    async def main() -> None:
        options = ClaudeAgentOptions(cwd=folder, env=environment, allowed_tools=["Bash"])
        async with open_guard(runtime_dir=runtime_dir) as guard, ClaudeSDKClient(guarded(guard, options)) as client:
            await client.query(opening("main"))
            async for _ in client.receive_response():
                pass

    with nobody_survives():
        anyio.run(main)
    assert api.errors == []
    return [api.told[f"call_main_0_{number}"] for number in range(len(commands)) if api.told]


def test_a_refused_call_never_executes_and_the_model_is_told_why(
    model: tuple[Model, int], place: Bridged, tmp_path: Path
) -> None:
    told = run(model, place.runtime_dir, tmp_path, "touch ran", "touch refused; rm -rf build")

    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "refused").exists()
    assert "name the files to remove" in told[1]
    assert place.wait_told("post_tool_use")["tool_input"]["command"] == "touch ran"
    assert place.wait_told("stop")


def test_without_a_daemon_nothing_runs(model: tuple[Model, int], nowhere: str, tmp_path: Path) -> None:
    told: Any = run(model, nowhere, tmp_path, "touch ran")

    assert told == []
    assert not (tmp_path / "ran").exists()

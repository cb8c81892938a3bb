"""The example agents and the blocks of docs/guides/clients.md, run as they stand, beside a daemon and without one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.repository import ROOT

BLOCKS = re.findall(
    r"^```python\n(# runs\b.*?)^```$", (ROOT / "docs/guides/clients.md").read_text(), re.MULTILINE | re.DOTALL
)
GUARDS = """
from hooklatch import append, ask, deny, hook

@hook("pre_tool_use", match="Shell")
def guard(event):
    command = event.tool_input["command"]
    if "rm -rf" in command:
        return deny("name the files to remove")
    if "sudo" in command:
        return ask("this runs as root")

@hook("post_tool_use", match="Shell")
def lint(event):
    return append("lint: ok")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')
    (folder / "guards.py").write_text(GUARDS)
    environment = {
        **os.environ,
        "HOOKLATCH_CONFIG": str(folder / "hooks.toml"),
        "HOOKLATCH_RUNTIME_DIR": str(folder / "run"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    daemon = subprocess.Popen(
        [sys.executable, "-m", "hooklatch", "serve", "--json"], env=environment, stdout=subprocess.PIPE, text=True
    )
    with daemon:
        assert daemon.stdout is not None
        assert json.loads(daemon.stdout.readline())["ready"]
        yield environment
        daemon.send_signal(signal.SIGTERM)


def output_of(*program: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *program], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def blocks_of(example: str, environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    lines = output_of(str(ROOT / "examples" / example), environment=environment).splitlines()
    blocks = [json.loads(line) for line in lines if not line.startswith("#")]
    return {block["tool_use_id"]: block for block in blocks}


@pytest.mark.slow
def test_the_agent_under_asyncio_runs_what_it_may(environment: Mapping[str, str]) -> None:
    """Slow: it is a process, and the first to use the daemon."""
    blocks = blocks_of("agent_asyncio.py", environment)

    assert blocks["toolu_1"] == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "hello\n\n\nlint: ok"}
    assert (blocks["toolu_2"]["is_error"], blocks["toolu_2"]["content"]) == (True, "name the files to remove")
    assert blocks["toolu_3"]["content"] == "the user said no (this runs as root)"


@pytest.mark.slow
def test_the_agent_under_trio_serves_its_own_guard(environment: Mapping[str, str]) -> None:
    """Slow: it is a process."""
    blocks = blocks_of("agent_trio.py", environment)

    assert blocks["toolu_2"]["content"] == "keys are not read here"
    assert "is_error" not in blocks["toolu_1"]


@pytest.mark.slow
def test_the_agent_of_threads_reports_a_failure(environment: Mapping[str, str]) -> None:
    """Slow: it is a process."""
    blocks = blocks_of("agent_threads.py", environment)

    assert blocks["toolu_1"]["content"] == "hello\n\n\nlint: ok"
    assert blocks["toolu_2"]["content"] == "name the files to remove"
    assert "exit status 3" in blocks["toolu_3"]["content"]


@pytest.mark.slow
@pytest.mark.parametrize("example", ["agent_asyncio.py", "agent_trio.py", "agent_threads.py"])
def test_without_a_daemon_nothing_is_run(example: str, tmp_path: Path) -> None:
    """Slow: each is a process."""
    blocks = blocks_of(example, {**os.environ, "HOOKLATCH_RUNTIME_DIR": str(tmp_path)})

    assert blocks
    assert all(block["is_error"] and "Not run: " in block["content"] for block in blocks.values())


def conversation(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    lines = output_of(str(ROOT / "examples/agent_loop.py"), environment=environment).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_the_plain_loop_tells_the_model_of_each_call(environment: Mapping[str, str]) -> None:
    """Slow: it is a process."""
    prompt, calls, results, said = conversation(environment)

    hello, removal, root = results["content"]
    assert (prompt["content"], len(calls["content"])) == ("clean up", 3)
    assert hello["content"].startswith("hello\n")
    assert "is_error" not in hello
    assert (removal["is_error"], removal["content"]) == (True, "name the files to remove")
    assert (root["is_error"], root["content"]) == (True, "the user said no (this runs as root)")
    assert json.loads(said["content"][0]["text"]) == results["content"]


@pytest.mark.slow
def test_the_plain_loop_says_nothing_to_the_model_without_a_daemon(tmp_path: Path) -> None:
    """Slow: it is a process."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/agent_loop.py")],
        env={**os.environ, "HOOKLATCH_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (1, "")
    assert "user_prompt_submit refused" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_the_blocks_of_the_page_run(block: str, environment: Mapping[str, str]) -> None:
    """Slow: each is a process."""
    assert output_of("-c", block, environment=environment)

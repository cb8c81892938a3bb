"""Shell hooks through the daemon: declared in TOML or over the socket, run by a worker, judged like any hook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.daemons import RpcFailure, running_daemon

NO_RM = """
[[hook]]
id = "no-rm"
event = "pre_tool_use"
match = "Bash"
command = '''case "$(cat)" in *"rm -rf"*) echo "no recursive removals" >&2; exit 2;; esac'''
"""


def hook(command: str, event: str = "pre_tool_use", **settings: object) -> str:
    rest = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    return f"[[hook]]\nid = \"it\"\nevent = \"{event}\"\ncommand = '''{command}'''\n{rest}\n"


async def test_a_command_that_exits_with_two_denies_with_its_standard_error(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": NO_RM}) as daemon, daemon.session() as client:
        denied = await client.fire_tool("Bash", command="rm -rf /")
        passed = await client.fire_tool("Bash", command="ls")

    assert (denied["verdict"], denied["cause"], denied["reason"]) == ("deny", "policy", "no recursive removals")
    assert denied["outcomes"][0]["exit_code"] == 2
    assert denied["outcomes"][0]["stderr"] == "no recursive removals\n"
    assert passed["verdict"] == "pass"


@pytest.mark.parametrize(
    ("settings", "verdict", "cause"),
    [
        ({"command": "exit 1"}, "deny", "crash"),
        ({"command": "exit 1", "exit_codes": "advisory"}, "pass", None),
        ({"command": "test -f .git/MERGE_HEAD && exit 2", "exit_codes": "advisory"}, "pass", None),
        ({"command": "exit 127", "exit_codes": "advisory"}, "deny", "crash"),
        ({"command": "kill -9 $$"}, "deny", "crash"),
        ({"command": "sleep 30", "timeout": 0.2}, "deny", "timeout"),
        ({"command": "echo nonsense", "output": "json"}, "deny", "protocol"),
        ({"command": """echo '{"verdict": "ask", "reason": "sure?"}'""", "output": "json"}, "ask", "policy"),
        ({"command": "exit 0"}, "pass", None),
    ],
)
async def test_how_a_command_ends_decides_a_gate(
    tmp_path: Path, settings: dict[str, object], verdict: str, cause: str | None
) -> None:
    config = hook(str(settings.pop("command")), **settings)

    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon, daemon.session(cwd=str(tmp_path)) as client:
        decision = await client.fire_tool("Bash", command="ls")
        again = await client.fire("notification", message="m")

    assert (decision["verdict"], decision["cause"]) == (verdict, cause)
    assert again["verdict"] == "pass"


async def test_a_command_can_rewrite_the_input(tmp_path: Path) -> None:
    config = hook("""echo '{"patch": {"tool_input": {"command": "ls -l"}}}'""", output="json")

    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash", command="ls")

    assert (decision["verdict"], decision["patch"]) == ("pass", {"tool_input": {"command": "ls -l"}})
    assert [outcome.get("reinvoked", False) for outcome in decision["outcomes"]] == [False]


async def test_a_command_runs_in_the_folder_of_its_session_with_its_own_variables(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    config = hook('echo "$(pwd) $GREETING" >&2; exit 2', env={}).replace("env = {}", 'env = {GREETING = "hello"}')

    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon, daemon.session(cwd=str(folder)) as client:
        decision = await client.fire_tool("Bash", command="ls")

    assert decision["reason"] == f"{folder} hello"


async def test_a_session_registers_a_command_over_the_socket(tmp_path: Path) -> None:
    definition = {"id": "mine", "event": "pre_tool_use", "argv": ["sh", "-c", "echo no >&2; exit 2"]}

    async with running_daemon(tmp_path) as daemon, daemon.session(cwd="/") as client:
        await client.call("register", hooks=[definition])
        decision = await client.fire_tool("Bash", command="ls")
        listed = await client.call("hooks")

    assert (decision["verdict"], decision["reason"]) == ("deny", "no")
    assert listed["hooks"][0]["target"] == "sh -c echo no >&2; exit 2"


@pytest.mark.parametrize(
    ("definition", "complaint"),
    [
        ({"command": "true", "argv": ["true"]}, "either command"),
        ({"command": " "}, "command is a shell line"),
        ({"argv": []}, "argv is a list"),
        ({"command": "true", "payload": "xml"}, "payload is one of 'canonical', 'claude', 'reasonix'"),
        ({"command": "true", "run": "a.py:b"}, "one target"),
        ({"run": "a.py:b", "exit_codes": "strict"}, "belongs to a shell hook"),
        ({"command": "true", "env": {"A": 1}}, "env is a table of strings"),
    ],
)
async def test_a_bad_command_is_refused_with_what_to_write(
    tmp_path: Path, definition: dict[str, object], complaint: str
) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session(cwd="/") as client:
        with pytest.raises(RpcFailure, match=complaint):
            await client.call("register", hooks=[{"id": "x", "event": "pre_tool_use", **definition}])

"""Shell hooks through the daemon: declared in TOML or over the socket, run by a worker, judged like any hook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemons import Daemon, RpcFailure, running_daemon
from support.shared_daemon import daemon_in_thread

NO_RM = """
[[hook]]
id = "no-rm"
event = "pre_tool_use"
match = "Bash"
command = '''case "$(cat)" in *"rm -rf"*) echo "no recursive removals" >&2; exit 2;; esac'''
"""


def hook(command: object, **settings: object) -> str:
    settings = {"id": "it", "event": "pre_tool_use", **settings}
    rest = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    return f"[[hook]]\ncommand = '''{command}'''\n{rest}\n"


async def test_a_command_that_exits_with_two_denies_with_its_standard_error(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": NO_RM}) as daemon, daemon.session() as client:
        denied = await client.fire_tool("Bash", command="rm -rf /")
        passed = await client.fire_tool("Bash", command="ls")

    assert (denied["verdict"], denied["cause"], denied["reason"]) == ("deny", "policy", "no recursive removals")
    assert denied["outcomes"][0]["exit_code"] == 2
    assert denied["outcomes"][0]["stderr"] == "no recursive removals\n"
    assert passed["verdict"] == "pass"


ENDS: list[tuple[dict[str, object], str, str | None]] = [
    ({"command": "exit 1"}, "deny", "crash"),
    ({"command": "exit 1", "exit_codes": "advisory"}, "pass", None),
    ({"command": "test -f .git/MERGE_HEAD && exit 2", "exit_codes": "advisory"}, "pass", None),
    ({"command": "exit 127", "exit_codes": "advisory"}, "deny", "crash"),
    ({"command": "kill -9 $$"}, "deny", "crash"),
    ({"command": "sleep 30", "timeout": 0.2}, "deny", "timeout"),
    ({"command": "echo nonsense", "output": "json"}, "deny", "protocol"),
    ({"command": """echo '{"verdict": "ask", "reason": "sure?"}'""", "output": "json"}, "ask", "policy"),
    ({"command": "exit 0"}, "pass", None),
]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a hook for each way in which a command ends, on a tool of its own."""
    hooks = "".join(hook(id=f"hook-{number}", match=f"Tool{number}", **ENDS[number][0]) for number in range(len(ENDS)))
    with daemon_in_thread(tmp_path_factory.mktemp("d"), {"hooks.toml": hooks}) as daemon:
        yield daemon


@pytest.mark.parametrize("number", range(len(ENDS)), ids=[str(settings) for settings, *_ in ENDS])
async def test_how_a_command_ends_decides_a_gate(ends: Daemon, tmp_path: Path, number: int) -> None:
    _, verdict, cause = ENDS[number]

    async with ends.session(cwd=str(tmp_path)) as client:
        decision = await client.fire_tool(f"Tool{number}", command="ls")
        again = await client.fire("notification", message="m")

    assert (decision["verdict"], decision["cause"]) == (verdict, cause)
    assert [outcome["hook"] for outcome in decision["outcomes"]] == [f"hook-{number}"]
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
    ends: Daemon, definition: dict[str, object], complaint: str
) -> None:
    async with ends.session(cwd="/") as client:
        with pytest.raises(RpcFailure, match=complaint):
            await client.call("register", hooks=[{"id": "x", "event": "pre_tool_use", **definition}])

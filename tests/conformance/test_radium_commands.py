"""Radium's own cases on a real daemon: its profiler and its command line (RD)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.native import Place
from conformance.rows.radium import ROWS
from conformance.runs.radium import hook, run
from conformance.table import Checks
from support import commands
from support.commands import new_place, serving

check = Checks(ROWS)
EVENTS = {
    "RD-73": ("model", "pre_model"),
    "RD-74": ("tool", "pre_tool_use"),
    "RD-75": ("error", "error_log"),
    "RD-76": ("telemetry", "telemetry"),
}
CONFIG = "".join(
    f'[[hook]]\nid = "{name}"\nevent = "{event}"\nrun = "hooks.py:succeed"\n' for name, event in EVENTS.values()
)


class Shell(Place):
    """A place with a command line beside the socket."""

    def __init__(self, home: commands.Place, folder: Path) -> None:
        super().__init__(str(home.runtime / "agent.sock"), folder, str(home.config.parent / "hooks.py"))
        self.home = home


@pytest.fixture(scope="module")
def home(radium_hooks: str) -> Iterator[commands.Place]:
    files = {"hooks.toml": CONFIG, "hooks.py": Path(radium_hooks).read_text()}
    with new_place(files) as home, serving(home):
        yield home


@pytest.fixture
def shell(home: commands.Place, tmp_path: Path) -> Shell:
    return Shell(home, tmp_path)


# -- profiler -----------------------------------------------------------------------------------------------------


async def timings(shell: Shell, *names: str, ms: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """Run hooks that sleep for so long, and give their figures."""
    unique = {f"{name}-{shell.folder.name}": name for name in names}  # figures are kept by id, over all sessions
    hooks = [hook(shell, "sleep", "metrics_aggregation", name=hook_id) for hook_id in unique]
    async with shell.session("radium", *hooks) as client:
        for length in ms:
            await run(client, "metrics_aggregation", event_type="t", data={"ms": length})
        listed = (await client.call("hooks"))["hooks"]
    return {unique[hook["id"]]: hook["timings"] for hook in listed if hook["id"] in unique}


@check("RD-60", "RD-61")
async def three_runs(shell: Shell) -> None:
    (figures,) = (await timings(shell, "three", ms=(10, 20, 30))).values()

    assert figures["count"] == 3
    assert 10 <= figures["min_ms"] <= figures["mean_ms"] <= figures["max_ms"]
    assert figures["max_ms"] >= 30
    assert figures["mean_ms"] >= 20


@check("RD-62")
async def two_hooks(shell: Shell) -> None:
    figures = await timings(shell, "first", "second", ms=(1,))

    assert {name: figure["count"] for name, figure in figures.items()} == {"first": 1, "second": 1}


@check("RD-63")
async def begins_with_the_daemon(shell: Shell) -> None:
    text = '[[hook]]\nid = "fresh"\nevent = "stop"\ncommand = "true"\n'

    for _ in range(2):
        async with shell.own_daemon({"hooks.toml": text}) as daemon, daemon.session() as client:
            assert (await client.call("hooks"))["hooks"][0]["timings"]["count"] == 0
            await client.fire("stop")
            assert (await client.call("hooks"))["hooks"][0]["timings"]["count"] == 1


# -- command line -------------------------------------------------------------------------------------------------


@check("RD-64", "RD-70")
async def listing(shell: Shell) -> None:
    done = shell.home.run("hooks", "list")

    assert done.returncode == 0
    assert "P50 MS" in done.stdout
    for name, _ in EVENTS.values():
        assert name in done.stdout


@check("RD-71")
async def listing_as_json(shell: Shell) -> None:
    listed = shell.home.json("hooks", "list")["hooks"]

    assert [hook["id"] for hook in listed] == [name for name, _ in EVENTS.values()]
    assert {"id", "event", "priority", "enabled", "timings", "origin"} <= listed[0].keys()


@check("RD-72")
async def no_verbose(shell: Shell) -> None:
    assert shell.home.run("hooks", "list", "--verbose").returncode == 64


def lists(name: str, event: str) -> Any:
    async def holds(shell: Shell) -> None:
        assert [hook["id"] for hook in shell.home.json("hooks", "list", "--event", event)["hooks"]] == [name]

    return holds


for row_id, (name, event) in EVENTS.items():
    check(row_id)(lists(name, event))


@check("RD-77")
async def unknown_hook(shell: Shell) -> None:
    done = shell.home.run("hooks", "enable", "nobody")

    assert (done.returncode, "nobody" in done.stderr) == (66, True)


@check("RD-78", "RD-79")
async def files_are_well(shell: Shell) -> None:
    done = shell.home.run("status")

    assert (done.returncode, "green" in done.stdout) == (0, True)


@check("RD-80")
async def files_are_well_as_json(shell: Shell) -> None:
    status = shell.home.json("status")

    assert (status["health"], status["problems"]) == ("green", [])


@check("RD-81")
async def unknown_event(shell: Shell) -> None:
    done = shell.home.run("hooks", "explain", "before_lunch")

    assert (done.returncode, "before_lunch" in done.stderr) == (64, True)


@check("RD-82")
async def help_of_hooks(shell: Shell) -> None:
    done = shell.home.run("hooks", "--help")

    assert (done.returncode, "enable" in done.stdout) == (0, True)


@check("RD-83")
async def help_of_all(shell: Shell) -> None:
    done = shell.home.run("--help")

    assert (done.returncode, "hooks" in done.stdout) == (0, True)


@pytest.mark.parametrize("holds", check.cases())
async def test_a_row_of_the_command_line(holds: Any, shell: Shell) -> None:
    await holds(shell)

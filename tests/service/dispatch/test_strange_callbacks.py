"""Callbacks that are strange and answered as they meant it, and those that hang; whoever comes next is answered.

Each has a daemon of its own, since the next test would find what it leaves: a strange worker that lives on, or a
pool that takes its calls for long ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemons import running_daemon
from support.misbehaviour import assert_failed, assert_well, files_of, try_on
from support.survivors import nobody_survives

SLACK = 10.0  # seconds after its deadline in which a decision must be there on any machine; a promise would be far less

PRINTING = ["prints", "writes_to_descriptors", "runs_a_program_that_prints"]
HARMLESS = [
    "closes_stdout", "removes_stdout", "replaces_stdout", "replaces_stdout_by_something_hostile",
    "closes_descriptors_1_and_2", "starts_a_thread", "starts_a_daemon_thread", "exits_in_a_thread",
    "forks_a_child_that_lives_on", "forks_a_child_that_returns", "forks_a_child_that_raises",
    pytest.param(
        "double_forks_a_daemon",
        marks=pytest.mark.linux_only("an orphan in a session of its own, which gets its worker for a parent"),
    ),
    "starts_a_program_that_lives_on", "sends_sigterm_to_its_parent", "sends_sigint_to_its_group",
    "changes_directory_and_environment", "breaks_signals",
]  # fmt: skip
HANGS = [
    "sleeps", "spins_in_c", "spins_in_python", "stops_itself", "floods_stderr_for_ever", "waits_for_a_child_for_ever",
    "reads_the_socket", "ignores_all_signals_and_sleeps",
]  # fmt: skip

pytestmark = pytest.mark.slow  # each test starts a daemon with its zygote: 0.2 s and more


async def try_alone(folder: Path, kind: str, how: str) -> tuple[dict[str, Any], dict[str, Any], float]:
    files = files_of("misbehaving.py" if kind in ("sync", "hang") else "misbehaving_async.py")
    with nobody_survives():
        async with running_daemon(folder, files) as daemon:
            return await try_on(daemon, kind, how)


@pytest.mark.parametrize("how", HARMLESS)
async def test_what_is_merely_strange_is_answered_as_meant(tmp_path: Path, how: str) -> None:
    decisions, after, _ = await try_alone(tmp_path, "sync", how)

    assert_well(decisions)
    assert_well(after)


@pytest.mark.parametrize("how", PRINTING)
async def test_what_a_callback_prints_is_shown_in_its_outcome(tmp_path: Path, how: str) -> None:
    decisions, after, _ = await try_alone(tmp_path, "sync", how)

    assert_well(decisions)
    assert_well(after)
    for decision in decisions.values():
        (outcome,) = decision["outcomes"]
        assert (outcome["stdout"], outcome["stderr"]) == ("printed\n", "complained\n")


async def test_a_flood_of_output_is_cut_to_its_end(tmp_path: Path) -> None:
    decisions, after, _ = await try_alone(tmp_path, "sync", "floods_stdout")

    assert_well(decisions)
    assert_well(after)
    (outcome,) = decisions["pre_tool_use"]["outcomes"]
    assert outcome["truncated"]
    assert len(outcome["stdout"]) == 64 * 2**10
    assert outcome["stdout"].endswith("the end\n")
    assert "stdout" not in after["pre_tool_use"]["outcomes"][0]


async def test_a_file_that_took_the_place_of_standard_output_is_not_emptied(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not touch")
    async with running_daemon(tmp_path, files_of("misbehaving.py")) as daemon, daemon.session() as client:
        decision = await client.fire(
            "pre_tool_use", tool_name="sync", how="keeps_a_file_as_descriptor_1", path=str(precious)
        )

    assert decision["reason"] == "well"
    assert precious.read_text() == "do not touch"


@pytest.mark.parametrize("how", HANGS)
async def test_a_hung_callback_denies_at_its_deadline(tmp_path: Path, how: str) -> None:
    decisions, after, elapsed = await try_alone(tmp_path, "hang", how)

    assert_failed(decisions, "timeout")
    assert_well(after)
    assert elapsed < 0.4 + SLACK


@pytest.mark.parametrize("runtime", ["trio", "asyncio"])
async def test_a_hung_async_callback_denies_at_its_deadline(tmp_path: Path, runtime: str) -> None:
    decisions, after, elapsed = await try_alone(tmp_path, f"{runtime}-hang", "")

    assert_failed(decisions, "timeout")
    assert_well(after)
    assert elapsed < 0.4 + SLACK

"""The failure table, a row at a time: real callbacks in real workers, asked through the daemon's socket.

Each misbehaviour is tried on one event of each model at once.  Afterwards the very next call must work, and no process
and no descriptor may be left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Daemon, callbacks, running_daemon
from support.survivors import nobody_survives

CONFIG = '[[source]]\npath = "{}"\nworkers = 6\n\n[workers]\nmemory_mib = 128\n'
FILES = {name: callbacks(name) for name in ("misbehaving.py", "misbehaving_async.py")}
MATCH_FIELDS = {
    "pre_tool_use": "tool_name",
    "notification": "notification_type",
    "post_model": "model_id",
    "message_claim": "platform",
}
PASS = {"verdict": "pass", "cause": None, "patch": None, "value": None}
SLACK = 2.0  # seconds after its deadline in which a decision must be there; a promise would be far less

CRASHES = [
    "raises", "raises_group", "raises_unspeakable", "raises_surrogate", "raises_at_length", "recurses", "system_exit",
    "keyboard_interrupt", "generator_exit", "exits_with_0", "exits_with_3", "segfaults", "aborts", "kills_itself",
    "leaks_memory", "closes_all_descriptors", "closes_the_socket", "shuts_the_socket_down", "kills_from_a_thread",
    "forks_a_child_and_dies", "double_forks_a_daemon_and_dies", "returns_a_coroutine_of_no_runtime",
]  # fmt: skip
GARBAGE = [
    "returns_a_str", "returns_an_int", "returns_true", "returns_an_object", "returns_a_dict", "returns_nan",
    "returns_a_surrogate", "returns_bytes_in_a_patch", "returns_an_illegal_verdict", "returns_an_illegal_patch_key",
    "returns_depth", "returns_a_cycle", "returns_too_much", "writes_garbage_to_the_socket",
    "writes_a_frame_of_garbage", "forges_another_call", "forges_another_generation", "forges_a_load",
    "returns_an_awaitable", "returns_a_generator", "returns_an_async_generator", "returns_the_function",
]  # fmt: skip
HARMLESS = [
    "prints", "writes_to_descriptors", "runs_a_program_that_prints", "floods_stdout", "closes_stdout",
    "removes_stdout", "replaces_stdout", "replaces_stdout_by_something_hostile", "closes_descriptors_1_and_2",
    "starts_a_thread", "starts_a_daemon_thread", "exits_in_a_thread", "forks_a_child_that_lives_on",
    "forks_a_child_that_returns", "forks_a_child_that_raises", "double_forks_a_daemon",
    "starts_a_program_that_lives_on", "sends_sigterm_to_its_parent", "sends_sigint_to_its_group",
    "changes_directory_and_environment", "breaks_signals",
]  # fmt: skip
HANGS = [
    "sleeps", "spins_in_c", "spins_in_python", "stops_itself", "floods_stderr_for_ever", "waits_for_a_child_for_ever",
    "reads_the_socket", "ignores_all_signals_and_sleeps",
]  # fmt: skip

pytestmark = pytest.mark.slow  # each test starts a daemon with its zygote: 0.2 s and more


async def fire_all(daemon: Daemon, kind: str, how: str) -> dict[str, dict[str, Any]]:
    """Fire one event of each model at the same time, each on a connection of its own."""
    decisions: dict[str, dict[str, Any]] = {}

    async def fire(event: str) -> None:
        client = daemon.connect()
        try:
            payload = {MATCH_FIELDS[event]: kind, "how": how, "tool_input": {"command": "ls"}, "response": "was"}
            decisions[event] = await client.fire(event, **payload)
        finally:
            await client.aclose()

    async with trio.open_nursery() as nursery:
        for event in MATCH_FIELDS:
            nursery.start_soon(fire, event)
    return decisions


def assert_well(decisions: dict[str, dict[str, Any]]) -> None:
    """Assert that each event was answered as the callback meant it."""
    gate = decisions["pre_tool_use"]
    assert (gate["verdict"], gate["cause"], gate["reason"]) == ("deny", "policy", "well")
    assert decisions["notification"]["inject"] == [{"role": "user", "content": "well"}]
    assert decisions["post_model"]["patch"] == {"response": "well"}
    assert (decisions["message_claim"]["verdict"], decisions["message_claim"]["value"]) == ("claim", "well")


def assert_failed(decisions: dict[str, dict[str, Any]], cause: str) -> None:
    """Assert that the gate denied for `cause`, and that the others went on as if the hook were not there."""
    gate = decisions.pop("pre_tool_use")
    assert (gate["verdict"], gate["cause"], gate["layer"]) == ("deny", cause, "global"), gate
    assert gate["hook"].startswith("misbehaving")
    assert gate["hook"] in gate["reason"]
    for decision in decisions.values():
        assert {key: decision[key] for key in PASS} == PASS, decision
        assert [(one["outcome"], one["cause"]) for one in decision["outcomes"]] == [("failed", cause)], decision


async def try_out(folder: Path, kind: str, how: str) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Fire a misbehaviour, then something good; give both sets of decisions, and the seconds that the first took."""
    name, good = ("misbehaving.py", "well") if kind in ("sync", "hang") else ("misbehaving_async.py", "denies_async")
    with nobody_survives():
        async with running_daemon(folder, {"hooks.toml": CONFIG.format(name), **FILES}) as daemon:
            started = trio.current_time()
            decisions = await fire_all(daemon, kind, how)
            elapsed = trio.current_time() - started
            after = await fire_all(daemon, kind.replace("hang", "sync").replace("-sync", ""), good)
    return decisions, after, elapsed


@pytest.mark.parametrize("how", CRASHES)
async def test_a_crash_denies_a_gate_and_skips_the_rest(tmp_path: Path, how: str) -> None:
    decisions, after, _ = await try_out(tmp_path, "sync", how)

    assert_failed(decisions, "crash")
    assert_well(after)


@pytest.mark.parametrize("how", GARBAGE)
async def test_garbage_denies_a_gate_and_skips_the_rest(tmp_path: Path, how: str) -> None:
    decisions, after, _ = await try_out(tmp_path, "sync", how)

    assert_failed(decisions, "protocol")
    assert_well(after)


@pytest.mark.parametrize("how", HANGS)
async def test_a_hung_callback_denies_at_its_deadline(tmp_path: Path, how: str) -> None:
    decisions, after, elapsed = await try_out(tmp_path, "hang", how)

    assert_failed(decisions, "timeout")
    assert_well(after)
    assert elapsed < 0.4 + SLACK


@pytest.mark.parametrize("how", HARMLESS)
async def test_what_is_merely_strange_is_answered_as_meant(tmp_path: Path, how: str) -> None:
    decisions, after, _ = await try_out(tmp_path, "sync", how)

    assert_well(decisions)
    assert_well(after)


@pytest.mark.parametrize("runtime", ["trio", "asyncio"])
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("raises_async", "crash"),
        ("exits_async", "crash"),
        ("returns_a_str_async", "protocol"),
        ("returns_a_coroutine", "protocol"),
    ],
)
async def test_an_async_callback_fails_like_any_other(tmp_path: Path, runtime: str, how: str, cause: str) -> None:
    decisions, after, _ = await try_out(tmp_path, runtime, how)

    assert_failed(decisions, cause)
    assert_well(after)


@pytest.mark.parametrize("runtime", ["trio", "asyncio"])
@pytest.mark.parametrize("how", ["denies_async", "leaves_a_generator"])
async def test_an_async_callback_is_heard(tmp_path: Path, runtime: str, how: str) -> None:
    decisions, after, _ = await try_out(tmp_path, runtime, how)

    assert_well(decisions)
    assert_well(after)


@pytest.mark.parametrize("runtime", ["trio", "asyncio"])
async def test_a_hung_async_callback_denies_at_its_deadline(tmp_path: Path, runtime: str) -> None:
    decisions, after, elapsed = await try_out(tmp_path, f"{runtime}-hang", "")

    assert_failed(decisions, "timeout")
    assert_well(after)
    assert elapsed < 0.4 + SLACK


@pytest.mark.parametrize("how", ["prints", "writes_to_descriptors", "runs_a_program_that_prints"])
async def test_what_a_callback_prints_is_shown_in_its_outcome(tmp_path: Path, how: str) -> None:
    decisions, _, _ = await try_out(tmp_path, "sync", how)

    for decision in decisions.values():
        (outcome,) = decision["outcomes"]
        assert (outcome["stdout"], outcome["stderr"]) == ("printed\n", "complained\n")


async def test_a_flood_of_output_is_cut_to_its_end(tmp_path: Path) -> None:
    decisions, after, _ = await try_out(tmp_path, "sync", "floods_stdout")

    (outcome,) = decisions["pre_tool_use"]["outcomes"]
    assert outcome["truncated"]
    assert len(outcome["stdout"]) == 64 * 2**10
    assert outcome["stdout"].endswith("the end\n")
    assert "stdout" not in after["pre_tool_use"]["outcomes"][0]


async def test_a_file_that_took_the_place_of_standard_output_is_not_emptied(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not touch")
    files = {"hooks.toml": CONFIG.format("misbehaving.py"), **FILES}
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        decision = await client.fire(
            "pre_tool_use", tool_name="sync", how="keeps_a_file_as_descriptor_1", path=str(precious)
        )

    assert decision["reason"] == "well"
    assert precious.read_text() == "do not touch"


async def test_a_crash_says_how_and_where(tmp_path: Path) -> None:
    raised, _, _ = await try_out(tmp_path / "a", "sync", "raises")
    killed, _, _ = await try_out(tmp_path / "b", "sync", "kills_itself")

    (outcome,) = raised["pre_tool_use"]["outcomes"]
    assert outcome["message"].startswith("ValueError: went wrong (misbehaving.py:")
    assert "Traceback" in outcome["stderr"]
    assert "the worker" in killed["pre_tool_use"]["reason"]  # "... was killed by signal 9", when that is known in time

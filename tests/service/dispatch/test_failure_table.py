"""The failure table, a row at a time: real callbacks in real workers, asked through the daemon's socket.

Each misbehaviour is tried on one event of each model at once.  Afterwards the very next call must work, and at the end
no process and no descriptor may be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hooklatch.core.status_answers import PoolStatus
from support.daemons import Daemon
from support.misbehaviour import assert_failed, assert_well, files_of, try_on
from support.pools import until
from support.shared_daemon import daemon_in_thread
from support.survivors import nobody_survives

ORPHAN = pytest.mark.linux_only("an orphan in a session of its own, which gets its worker for a parent")
CRASHES: list[Any] = [
    "raises", "raises_group", "raises_unspeakable", "raises_surrogate", "raises_at_length", "recurses", "system_exit",
    "keyboard_interrupt", "generator_exit", "exits_with_0", "exits_with_3", "segfaults", "aborts", "kills_itself",
    "leaks_memory", "closes_all_descriptors", "closes_the_socket", "shuts_the_socket_down", "kills_from_a_thread",
    "forks_a_child_and_dies", pytest.param("double_forks_a_daemon_and_dies", marks=ORPHAN),
    "returns_a_coroutine_of_no_runtime",
]  # fmt: skip
GARBAGE = [
    "returns_a_str", "returns_an_int", "returns_true", "returns_an_object", "returns_a_dict", "returns_nan",
    "returns_a_surrogate", "returns_bytes_in_a_patch", "returns_an_illegal_verdict", "returns_an_illegal_patch_key",
    "returns_depth", "returns_a_cycle", "returns_too_much", "writes_garbage_to_the_socket",
    "writes_a_frame_of_garbage", "forges_another_call", "forges_another_generation", "forges_a_load",
    "returns_an_awaitable", "returns_a_generator", "returns_an_async_generator", "returns_the_function",
]  # fmt: skip
pytestmark = pytest.mark.slow  # most wait for the next worker


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    files = files_of("misbehaving.py", "misbehaving_async.py")
    with nobody_survives(), daemon_in_thread(tmp_path_factory.mktemp("d"), files) as daemon:
        yield daemon


async def try_out(daemon: Daemon, kind: str, how: str) -> tuple[dict[str, Any], dict[str, Any], float]:
    """Try what fails, and changes nothing of a worker that lives on."""
    await until(lambda: all(is_calm(pool.status()) for pool in daemon.parts.sources.pools.values()))
    daemon.parts.breakers.clear()  # all tests together would have the hook quarantined
    return await try_on(daemon, kind, how)


def is_calm(status: PoolStatus) -> bool:
    """Return whether a pool is over what the test before has left it."""
    return not (status["busy"] or status["starting"] or status["condemned"])


@pytest.mark.parametrize("how", CRASHES)
async def test_a_crash_denies_a_gate_and_skips_the_rest(daemon: Daemon, how: str) -> None:
    decisions, after, _ = await try_out(daemon, "sync", how)

    assert_failed(decisions, "crash")
    assert_well(after)


@pytest.mark.parametrize("how", GARBAGE)
async def test_garbage_denies_a_gate_and_skips_the_rest(daemon: Daemon, how: str) -> None:
    decisions, after, _ = await try_out(daemon, "sync", how)

    assert_failed(decisions, "protocol")
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
async def test_an_async_callback_fails_like_any_other(daemon: Daemon, runtime: str, how: str, cause: str) -> None:
    decisions, after, _ = await try_out(daemon, runtime, how)

    assert_failed(decisions, cause)
    assert_well(after)


@pytest.mark.parametrize("runtime", ["trio", "asyncio"])
@pytest.mark.parametrize("how", ["denies_async", "leaves_a_generator"])
async def test_an_async_callback_is_heard(daemon: Daemon, runtime: str, how: str) -> None:
    decisions, after, _ = await try_out(daemon, runtime, how)

    assert_well(decisions)
    assert_well(after)


async def test_a_crash_says_how_and_where(daemon: Daemon) -> None:
    raised, _, _ = await try_out(daemon, "sync", "raises")
    killed, _, _ = await try_out(daemon, "sync", "kills_itself")

    (outcome,) = raised["pre_tool_use"]["outcomes"]
    assert outcome["message"].startswith("ValueError: went wrong (misbehaving.py:")
    assert "Traceback" in outcome["stderr"]
    assert "the worker" in killed["pre_tool_use"]["reason"]  # "... was killed by signal 9", when that is known in time

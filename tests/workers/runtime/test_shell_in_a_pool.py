"""Shell hooks in real workers: the pool does not know commands, and none outlives its worker."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hooklatch.core.messages import CallOutcome
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.zygote import open_zygote
from hooklatch_worker import wire
from support.calls import LoneFire, call_of
from support.daemons import nothing_left
from support.pools import until
from support.survivors import nobody_survives
from workers.runtime.shell_driven import PATH, ends


@asynccontextmanager
async def pool_of_shells() -> AsyncGenerator[Pool]:
    with nobody_survives(), nothing_left():
        async with open_zygote() as zygote, trio.open_nursery() as nursery:
            pool = Pool(
                wire.Source("module", "hooklatch_worker.runtime.shell_runner"), 1, zygote, PoolLimits(workers=1),
                on_busy=str,
            )  # fmt: skip
            await nursery.start(pool.run)
            yield pool
            nursery.cancel_scope.cancel()


async def call(pool: Pool, folder: Path, command: str, limit: float | None = None) -> CallOutcome:
    """Run a command that may take so many seconds, in a call that has time enough."""
    definition = {"command": command, "path": PATH, "fails_closed": True, "allows": ["deny"], "timeout": limit}
    fire = LoneFire(cwd=str(folder), session_id="s1")
    asked = call_of("run", {"tool_name": "Bash"}, definition)
    return await pool.call(asked, fire, trio.current_time() + 10.0)


async def test_one_worker_runs_one_command_after_another(tmp_path: Path) -> None:
    async with pool_of_shells() as pool:
        replies = [await call(pool, tmp_path, command) for command in ("exit 0", "echo no >&2; exit 2", "exit 0")]

        answers = [reply.answer for reply in replies]
        assert answers == [b"", b'{"verdict":"deny","reason":"no"}', b""]
        assert pool.status()["started"] == 1


async def test_a_command_that_fails_is_no_answer_and_costs_no_worker(tmp_path: Path) -> None:
    async with pool_of_shells() as pool:
        failed = await call(pool, tmp_path, "kill -9 $$")
        late = await call(pool, tmp_path, "sleep 100", limit=0.1)

        assert (failed.cause, failed.is_lost) == ("crash", False)
        assert (late.cause != "policy", late.is_lost) == (True, False)
        assert (await call(pool, tmp_path, "exit 0")).cause == "policy"
        assert pool.status()["started"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "echo $$ > began; exec sleep 100",
        "trap '' TERM; sleep 100 & echo $! > began; wait",
        "setsid sleep 100 & echo $! > began; wait",
    ],
)
async def test_the_death_of_a_worker_ends_its_command(tmp_path: Path, command: str) -> None:
    began = tmp_path / "began"
    async with pool_of_shells() as pool, trio.open_nursery() as nursery:
        replies: list[CallOutcome] = []

        async def run() -> None:
            replies.append(await call(pool, tmp_path, command))

        nursery.start_soon(run)
        await until(lambda: began.exists() and began.read_text().endswith("\n"))
        os.kill(pool.status()["pids"][0], signal.SIGKILL)

    assert [(reply.cause, reply.is_lost) for reply in replies] == [("crash", True)]
    assert ends(int(began.read_text()))


@pytest.mark.slow
async def test_the_death_of_a_worker_ends_what_was_told_to_stop(tmp_path: Path) -> None:
    """The worker is killed while the helper waits out its half second."""
    async with pool_of_shells() as pool:
        await call(pool, tmp_path, "trap '' TERM; echo $$ > began; sleep 100; sleep 100", limit=0.2)

        os.kill(pool.status()["pids"][0], signal.SIGKILL)

        assert ends(int((tmp_path / "began").read_text()), within=0.4)

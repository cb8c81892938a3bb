"""A pool of real workers for tests, with nothing of the daemon around it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import trio

from hooklatch.core.messages import CallOutcome
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.resource_limits import MemoryWatch
from hooklatch.processes.zygote import ZygoteClient, open_zygote
from hooklatch_worker import wire
from support.calls import LoneFire, call_of
from support.daemons import Daemon, nothing_left
from support.survivors import nobody_survives
from support.warm_guardians import warm_guardians


class Workers:
    """A running pool, and the ways in which tests ask it."""

    def __init__(self, pool: Pool, zygote: ZygoteClient, folder: Path) -> None:
        self.pool = pool
        self.zygote = zygote
        self.folder = folder

    async def call(
        self, function: str, *, timeout: float = 10.0, is_gate: bool = True, queue_key: str = "", **payload: Any
    ) -> CallOutcome:
        files = {"began": str(self.folder / "began"), "go": str(self.folder / "go")}
        fire = LoneFire("pre_tool_use" if is_gate else "notification", queue_key=queue_key)
        return await self.pool.call(call_of(function, files | payload), fire, trio.current_time() + timeout)

    async def said(self, function: str, **payload: Any) -> Any:
        """Return what a function told of itself."""
        outcome = await self.call(function, **payload)
        assert outcome.cause == "policy", outcome
        return json.loads(outcome.answer)["context"]["said"]

    @property
    def began(self) -> list[int]:
        path = self.folder / "began"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def let_go(self) -> None:
        (self.folder / "go").touch()


@asynccontextmanager
async def running_pool(
    folder: Path, text: str, *, is_watched: bool = False, is_fresh: bool = False, **limits: Any
) -> AsyncGenerator[Workers]:
    """Run a pool over a file of this text, and the watch over its memory too if `is_watched`.

    Its guardian is forked; if `is_fresh`, it is an interpreter of its own, as the product starts it.
    """
    path, pools = folder / "source.py", dict[tuple[str, int], Pool]()
    watch = MemoryWatch(pools)
    path.write_text(text)
    with nobody_survives(), nothing_left(), nullcontext() if is_fresh else warm_guardians():
        async with open_zygote() as zygote, trio.open_nursery() as nursery:
            pool = Pool(
                wire.Source("file", str(path)),
                1,
                zygote,
                PoolLimits(**limits),
                wire.LoadCode(text.encode(), str(folder)),
                on_busy=watch.begin,
            )
            pools[pool.source.location, 1] = pool
            await nursery.start(pool.run)
            if is_watched:
                nursery.start_soon(watch.run)
            yield Workers(pool, zygote, folder)
            nursery.cancel_scope.cancel()


def is_busy(pool: Pool) -> bool:
    """Return whether a worker is at work, or a call waits for one."""
    status = pool.status()
    return bool(status["busy"] or status["waiting"])


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so, as a file or a count that tells nobody when it changes."""
    with trio.fail_after(30):
        while not is_so():  # noqa: ASYNC110  (nobody tells)
            await trio.sleep(0.002)


async def replace_workers(daemon: Daemon) -> None:
    """Kill every worker, and wait until others are there; those that start meanwhile are left."""
    before = set(daemon.worker_pids)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    pools = daemon.parts.sources.pools.values()
    await until(lambda: all((pids := pool.status()["pids"]) and before.isdisjoint(pids) for pool in pools))

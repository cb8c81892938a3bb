"""A daemon that many tests use, each of them a trio run of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import trio

from support.daemons import Daemon, running_daemon


@contextmanager
def daemon_in_thread(folder: Path, files: Mapping[str, str]) -> Iterator[Daemon]:
    """Run one daemon in a thread of its own for as long as the block lasts."""
    started: Future[tuple[Daemon, Callable[[], None]]] = Future()

    async def serve() -> None:
        async with running_daemon(folder, files) as running:
            token, stop = trio.lowlevel.current_trio_token(), trio.Event()
            started.set_result((running, lambda: token.run_sync_soon(stop.set)))
            await stop.wait()

    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(trio.run, serve)
        running, stop = started.result(30)
        yield running
        stop()
        ended.result(30)

"""A daemon that all tests of a file ask: it runs in a thread of its own, since a test's event loop ends with the test.

Only for tests that talk to its sockets and leave its files as they are.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import trio

from support.daemons import Daemon, running_daemon

__all__ = ["daemon_in_thread"]


@contextmanager
def daemon_in_thread(folder: Path, files: Mapping[str, str]) -> Generator[Daemon]:
    """Run a daemon beside the tests; nothing of it is left afterwards."""
    started: Future[tuple[Daemon, trio.lowlevel.TrioToken, trio.Event]] = Future()

    async def run() -> None:
        try:
            async with running_daemon(folder, files) as daemon:
                is_over = trio.Event()
                started.set_result((daemon, trio.lowlevel.current_trio_token(), is_over))
                await is_over.wait()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    with ThreadPoolExecutor(1, "daemon") as thread:
        ended = thread.submit(trio.run, run)
        daemon, token, is_over = started.result()
        try:
            yield daemon
        finally:
            if not ended.done():
                token.run_sync_soon(is_over.set)
            ended.result()

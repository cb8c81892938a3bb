"""Wakes the files' watch early when the kernel reports a change.  A hint only: correctness rests on the stat."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

import trio
import watchfiles

from hooklatch.service.config.settling import PATIENCE
from hooklatch.service.loading.files import Files
from hooklatch.service.loading.watch import STAT_INTERVAL, FileWatch

__all__ = ["give_hints", "watch"]

logger = logging.getLogger("hooklatch.hints")


async def give_hints(files: Files, file_watch: FileWatch) -> None:
    """Watch the directories of all watched files, not those below, and start again when those directories change."""
    while True:
        folders = folders_of(files)
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, folders, lambda: file_watch.hint.set(), stop)
            try:
                while folders_of(files) == folders:
                    with trio.move_on_after(STAT_INTERVAL):
                        await file_watch.hint.wait()  # a path that has just appeared may be a directory to watch
                        await trio.sleep(PATIENCE)
            finally:
                stop.set()
            nursery.cancel_scope.cancel()


def folders_of(files: Files) -> list[str]:
    """Return the existing directory of each watched file, or the nearest one above."""
    found: set[str] = set()
    for path in files.watched:
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        found.add(folder)
    return sorted(found)


async def watch(folders: Sequence[str], tell: Callable[[], object], stop: trio.Event) -> None:
    """Tell whenever the kernel reports a change of a file in these directories, not below them."""
    # Not `awatch`: it loads anyio's trio backend, of which the daemon has no other use; that took 30 ms of its start.
    changes = watchfiles.watch(
        *folders,
        recursive=False,
        debounce=50,
        step=20,  # a thread looks this often (ms) whether the kernel has reported anything, for 0.3 % of a core
        rust_timeout=10_000,  # a look at `stop` comes with each step; this is only how often the thread returns
        stop_event=stop,
        ignore_permission_denied=True,
    )
    try:
        while await trio.to_thread.run_sync(next, changes, None):
            tell()
    except (OSError, RuntimeError) as error:
        logger.info("no file hints (%s); files are looked at every %.0f s", error, STAT_INTERVAL)
        await trio.sleep_forever()

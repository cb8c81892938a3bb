"""The watch of the files that declare hooks: it decides when a reload is due, and reads no file.

    hint, 2 s, or 30 s if hints cover all ─▶ some stamp differs ─▶ quiet for a moment (`settling`) ─▶ reload

Its first attempt takes nothing that may be half of a change. Then it waits until nothing changes any more, and takes
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import trio

from hooklatch.errors import locate_error
from hooklatch.path_lookup import Stamp, stamp_paths
from hooklatch.service.loading.hints import PAUSE, KernelHints
from hooklatch.service.loading.reloader import Reloader, UnsettledError
from hooklatch.service.loading.settling import PATIENCE, SETTLE, WRITING, is_written, measure_quiet
from hooklatch.threads import look_in_thread

__all__ = ["COVERED_INTERVAL", "STAT_INTERVAL", "FileWatch", "ReloadHint"]

STAT_INTERVAL = 2.0  # seconds between two checks of paths that no hint covers
COVERED_INTERVAL = 30.0  # and of paths that hints cover, so that an idle machine sleeps


class ReloadHint:
    """The hint that something has changed, for a watch that looks now and then."""

    def __init__(self) -> None:
        self._given = trio.Event()  # a new one for each wait

    def set(self) -> None:
        """Have the watch look now."""
        self._given.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a hint for so many seconds at most, and return whether there was one."""
        with trio.move_on_after(seconds):
            await self._given.wait()
        was_given, self._given = self._given.is_set(), trio.Event()
        return was_given


class FileWatch:
    """The watch that reloads files when one of them changes. Code that knows of a change earlier sets the `hint`."""

    def __init__(self, reloader: Reloader, hint: ReloadHint) -> None:
        self.hint = hint
        self._reloader = reloader
        self._hints: KernelHints | None = None
        self._unhinted: str | None = None  # why there are none
        self._covered = set[str]()
        self._seen: dict[str, Stamp] = {}  # empty, so that the first look reloads what changed during the start
        self._all_due = 0.0  # when all paths are checked again, covered or not

    async def take_hints(self) -> None:
        """Have the kernel hint at changes until cancelled: paths are covered before each look."""
        while True:
            try:
                hints = KernelHints()
            except OSError as error:
                self._unhinted = f"the kernel watches no files for this daemon ({locate_error(error)})"
                await trio.sleep(COVERED_INTERVAL)
                continue
            try:
                self._hints, self._unhinted = hints, None
                await self._look()
                while True:
                    await hints.hint()
                    self.hint.set()
                    await trio.sleep(PAUSE)
            finally:
                hints.close()
                self._hints, self._covered = None, set[str]()
                self.hint.set()

    @property
    def warnings(self) -> list[str]:
        """Return a text if changes are noticed later than they could be."""
        reason = self._hints.fault if self._hints is not None else self._unhinted
        return [f"changes of files may be noticed {STAT_INTERVAL:.0f} s late: {reason}"] if reason is not None else []

    @property
    def interval(self) -> float:
        """Return the seconds between two checks without a hint."""
        is_covered = self._all_due > 0 and self._seen.keys() <= self._covered and not self._reloader.is_to_retry
        return COVERED_INTERVAL if is_covered else STAT_INTERVAL

    async def run(self) -> None:
        """Reload whenever a watched file changes."""
        reloader = self._reloader
        self._seen, self._all_due = {}, 0.0
        while True:
            is_hinted = await self.hint.wait(self.interval)
            await reloader.forget_unused()
            is_all = is_hinted or reloader.is_to_retry or trio.current_time() >= self._all_due
            if not is_all and await self._are_same():
                continue
            now = await self._look()
            self._all_due = trio.current_time() + COVERED_INTERVAL
            if now != self._seen or reloader.is_to_retry:
                self._seen = await self._take(self._seen, now)
                self._all_due = 0.0  # it may have changed what is to be watched

    async def _are_same(self) -> bool:
        """Return whether the paths that no hint covers have their known stamps."""
        seen, others = self._seen, self._seen.keys() - self._covered
        return await look_in_thread(lambda: all(stamp == seen[path] for path, stamp in stamp_paths(others).items()))

    async def _look(self) -> dict[str, Stamp]:
        """Return the stamps of all watched paths.  They are covered first, so that a change after that is reported."""
        find, hints = self._reloader.watched(), self._hints

        def look() -> tuple[set[str], dict[str, Stamp]]:
            paths = find()
            covered = hints.cover(paths) if hints is not None else set[str]()
            return covered, stamp_paths(paths)

        self._covered, now = await look_in_thread(look)
        return now

    async def _take(self, before: dict[str, Stamp], now: dict[str, Stamp]) -> dict[str, Stamp]:
        """Reload as soon as the changes are known to be whole, or have come to rest. Return the stamps it took."""
        reloader, changed = self._reloader, list_changed_paths(now, before)
        await trio.sleep(max(0.0, SETTLE - await look_in_thread(lambda: measure_quiet(changed))))
        if await look_in_thread(lambda: all(is_written(path) is False for path in changed)):
            with suppress(UnsettledError):  # something has changed since
                await reloader.reload(known=now)
                return now
        latest = trio.current_time() + WRITING
        while True:
            now = await reloader.stamps()
            await trio.sleep(PATIENCE)
            is_late = trio.current_time() > latest
            written = map(is_written, list_changed_paths(now, before))  # looked at in the thread
            if await reloader.stamps() == now and (is_late or not await look_in_thread(partial(any, written))):
                await reloader.reload()
                return now


def list_changed_paths(now: Mapping[str, Stamp], before: Mapping[str, Stamp]) -> list[str]:
    return [path for path, stamp in now.items() if before.get(path) != stamp]

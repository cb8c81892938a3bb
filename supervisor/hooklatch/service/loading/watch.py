"""The watch of the files that declare hooks: when their reload is due.  Knows times and sizes; reads no file.

    hint (inotify) or 2 s ─▶ some time or size differs ─▶ quiet for a moment (`settling`) ─▶ reload

Its first attempt takes nothing that may be half of a change; then it waits until nothing changes any more, and takes
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import trio

from hooklatch.service.config.path_lookup import Stamp
from hooklatch.service.config.settling import PATIENCE, SETTLE, WRITING, is_written, quiet_for
from hooklatch.service.loading.files import Files, UnsettledError

__all__ = ["STAT_INTERVAL", "FileWatch"]

STAT_INTERVAL = 2.0  # seconds; inotify is only a hint (it does not see a directory that is recreated)


class FileWatch:
    """Reloads files whenever one of them changes; whoever knows of a change earlier sets the `hint`."""

    def __init__(self, files: Files) -> None:
        self.hint = trio.Event()  # each wait has one of its own
        self._files = files

    async def run(self) -> None:
        """Reload whenever a watched file changes."""
        files = self._files
        seen: dict[str, Stamp] = {}  # empty, so that the first look reloads what changed during the start
        while True:
            with trio.move_on_after(STAT_INTERVAL):
                await self.hint.wait()
            self.hint = trio.Event()
            await files.forget_unused()
            now = files.stamps()
            if now == seen and not files.is_to_retry:
                continue
            seen = await self._take(seen, now)

    async def _take(self, before: dict[str, Stamp], now: dict[str, Stamp]) -> dict[str, Stamp]:
        """Reload, as soon as what has changed is known to be whole, or else to be left alone; return its stamps."""
        files, changed = self._files, changed_in(now, before)
        await trio.sleep(max(0.0, SETTLE - quiet_for(changed)))
        if files.stamps() == now and all(is_written(path) is False for path in changed):
            with suppress(UnsettledError):
                await files.reload(known=now)
                return now
        latest = trio.current_time() + WRITING
        while True:
            now = files.stamps()
            await trio.sleep(PATIENCE)
            is_late = trio.current_time() > latest
            if files.stamps() == now and (is_late or not any(map(is_written, changed_in(now, before)))):
                await files.reload()
                return now


def changed_in(now: Mapping[str, Stamp], before: Mapping[str, Stamp]) -> list[str]:
    return [path for path, found in now.items() if before.get(path) != found]

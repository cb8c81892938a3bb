"""What the daemon tells unasked, and a queue that a slow listener cannot fill.  Knows no connection, no thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from hooklatch.client.protocol.decisions import Decision

__all__ = ["Announcement", "Inbox"]

CAPACITY: Final = 256  # announcements; a listener this far behind has to look at the whole registry anyway


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the registry (ids added, removed, changed), or a decision that was made.

    `previous` is the revision that the one before it announced. Where `resync` is set, some were left out: ask for
    `hooks()` again, which then are of this revision or a later one.
    """

    topic: str
    previous: int | None = None
    revision: int | None = None
    digest: str | None = None
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    resync: int | None = None
    decision: Decision | None = None
    session_id: str | None = None

    @property
    def current(self) -> int | None:
        """The revision that is in force by it."""
        return self.revision if self.resync is None else self.resync


class Inbox:
    """Announcements that one listener has not taken yet; what does not fit becomes one resync."""

    def __init__(self, wake: Callable[[], object], capacity: int = CAPACITY) -> None:
        self._waiting: deque[Announcement] = deque()
        self.wake = wake
        self._capacity = capacity

    def put(self, announcement: Announcement) -> None:
        waiting = tuple(self._waiting)  # a copy, since another thread may be taking
        if len(waiting) >= self._capacity:
            self._waiting.clear()
            announcement = Announcement(
                topic="registry", resync=max(missed.current or 0 for missed in (*waiting, announcement))
            )
        self._waiting.append(announcement)
        self.wake()

    def take(self) -> Announcement | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

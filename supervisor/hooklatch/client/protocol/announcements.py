"""The daemon's announcements, and a bounded queue of them for a listener.  Does not know connections or threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from hooklatch.client.protocol.decisions import AnsweredDecision

__all__ = ["Announcement", "AnnouncementQueue"]

CAPACITY: Final = 256  # announcements; a listener this far behind has to read the whole registry anyway


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the registry (ids added, removed, changed), or a decision that was made.

    `previous` is the revision of the announcement before it. If `resync` is set, some were left out: call `hooks()`
    again, which returns the hooks of this revision or a later one. `events` are those that no hook listens to, for the
    topic "idle", which only the session itself subscribes to.

    With a decision come `at` (UTC), the `session_id` and the `host` of its fire, and the name of the `tool`. If
    `missed` is set there is no decision: the listener was too slow, and that many lines of the topic were left out.
    """

    topic: str
    previous: int | None = None
    revision: int | None = None
    digest: str | None = None
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    resync: int | None = None
    decision: AnsweredDecision | None = None
    at: str | None = None
    session_id: str | None = None
    host: str | None = None
    tool: str | None = None
    missed: int | None = None
    events: frozenset[str] = frozenset()

    @property
    def current(self) -> int | None:
        """Return the active revision after this announcement."""
        return self.revision if self.resync is None else self.resync


class AnnouncementQueue:
    """The announcements that one listener has not taken yet; if they are too many, one resync replaces them."""

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

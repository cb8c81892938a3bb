"""The start directories of host sessions that have no session here: the place of the first fire that named each.

Knows ids and places; does not know projects.  A one-shot client sends the directory in which its agent is now. An agent
that has left its project by `cd` is still held to the guards of its start directory.  These places only add guards, so
a forged id gains nothing.
"""

from __future__ import annotations

from hooklatch.service.registry.places import ResolvedDirectory

__all__ = ["SessionStarts"]

MAX_SESSIONS = 10_000  # host sessions that are remembered; the least recently used is dropped first


class SessionStarts:
    """The place that the first fire of each host session named."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[ResolvedDirectory, ...]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def get(self, session_id: str) -> tuple[ResolvedDirectory, ...]:
        """Return the places at which a session began, if known, and note that it was used now."""
        places = self._places.pop(session_id, ())
        if places:
            self._places[session_id] = places
        return places

    def note(self, session_id: str, places: tuple[ResolvedDirectory, ...]) -> None:
        """Remember the first places of a session, if they are known."""
        if places and all(place.fault is None for place in places) and session_id not in self._places:
            self._places[session_id] = places
            if len(self._places) > MAX_SESSIONS:
                del self._places[next(iter(self._places))]

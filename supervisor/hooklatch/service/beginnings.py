"""Where host sessions began that open no session here: the place of the first fire that named each.

Knows ids and places; knows no project.  A one-shot tells where its agent is now; an agent that has left its project by
`cd` is held to the guards of where it began.  What is remembered only adds guards, so that a forged id gains nothing.
"""

from __future__ import annotations

from hooklatch.service.places import Place

__all__ = ["Beginnings"]

MOST = 10_000  # host sessions that are remembered; the one that has been silent for longest goes first


class Beginnings:
    """The first place of each host session."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def get(self, session_id: str) -> Place | None:
        """Give where a session began; it counts as heard of now."""
        place = self._places.pop(session_id, None)
        if place is not None:
            self._places[session_id] = place
        return place

    def note(self, session_id: str, place: Place) -> None:
        """Remember the first place of a session that can be told."""
        if place.fault is None and session_id not in self._places:
            self._places[session_id] = place
            if len(self._places) > MOST:
                del self._places[next(iter(self._places))]

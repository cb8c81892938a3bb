"""Ids for tool calls to which the host gives none.

The two events of a call, its begin and its end, have its session, tool and input in common.  Calls that are equal in
all of that are numbered in the order in which they began, and are assumed to end in the same order, since no event says
which of them ended first.
"""

from __future__ import annotations

__all__ = ["CallNumbers"]

MAX_KEPT = 4096  # equal calls that are remembered; an older one begins at 1 again


class CallNumbers:
    """The counts of begun and ended calls, by their key."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, int]] = {}  # begun, ended

    def begin_call(self, key: str) -> str:
        """Return the id of a call that begins."""
        begun, ended = self._counts.pop(key, (0, 0))
        self._keep(key, begun + 1, ended)
        return make_call_id(key, begun + 1)

    def find_open_call(self, key: str) -> str:
        """Return the id of the call that began last."""
        return make_call_id(key, self._counts.get(key, (1, 0))[0])

    def end_call(self, key: str) -> str:
        """Return the id of the oldest call that has not ended, or that of the last call if all have."""
        begun, ended = self._counts.pop(key, (1, 0))
        ended = min(ended + 1, begun)
        self._keep(key, begun, ended)
        return make_call_id(key, ended)

    def _keep(self, key: str, begun: int, ended: int) -> None:
        if len(self._counts) >= MAX_KEPT:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = begun, ended


def make_call_id(key: str, number: int) -> str:
    return f"{key}-{number}"

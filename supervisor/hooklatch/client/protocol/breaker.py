"""The breaker for an agent that repeats refused calls.  Knows decisions; does not know sessions.

Refusals of pre_tool_use by hooks count for every cause, since a guard that crashes refuses too. A refusal by the client
itself (no daemon), an ask, and a person's no neither count nor reset the count. An allowed call resets it.
"""

from __future__ import annotations

from hooklatch.client.protocol.decisions import Decision

__all__ = ["DenialBreaker"]


class DenialBreaker:
    """The count of refusals in a row; open from `limit` on, never without a limit."""

    def __init__(self, limit: int | None) -> None:
        if limit is not None and (isinstance(limit, bool) or limit < 1):
            raise ValueError(f"denial_breaker is {limit!r}; it must be a number of refusals in a row, at least 1")
        self.refusals = 0
        self._limit = limit

    @property
    def is_open(self) -> bool:
        """Return whether the run should halt."""
        return self._limit is not None and self.refusals >= self._limit

    @property
    def reason(self) -> str:
        """Return why it should."""
        return f"{self.refusals} refusals in a row"

    def note(self, decision: Decision) -> None:
        """Take a decision into account."""
        if decision.event != "pre_tool_use":
            return
        if decision.allowed:
            self.reset()
        elif decision.is_refusal and not decision.is_local:
            self.refusals += 1

    def reset(self) -> None:
        """Note that a tool ran."""
        self.refusals = 0

"""The clean-up after a session: its asks, and the deaths, counts and values of it and of its hooks."""

from __future__ import annotations

from hooklatch.service.dispatch.breakers import Breakers
from hooklatch.service.dispatch.shared_state import SharedState
from hooklatch.service.registry.asks import AskBroker
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.service.registry.statistics import Statistics

__all__ = ["SessionCleanup"]


class SessionCleanup:
    """The parts that hold something of a session and its hooks, and forget it at its end."""

    def __init__(self, breakers: Breakers, statistics: Statistics, shared_state: SharedState, asks: AskBroker) -> None:
        self._breakers = breakers
        self._statistics = statistics
        self._shared_state = shared_state
        self._asks = asks

    def forget(self, session: AgentSession, live: Sessions) -> None:
        """Forget a session; `live` are those that remain."""
        self._asks.end_session(session.id)
        self._breakers.forget(session.id)
        self._statistics.forget(session.id)
        self._shared_state.end_session(session.id, live)

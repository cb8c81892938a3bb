"""One call of one hook, as the machine requests it, and the envelope that the hook gets with it.

Not in `core/messages.py`, which clients import: a call has a hook, and a hook a compiled matcher.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hooklatch.core.hooks.registry import Hook
from hooklatch.core.payload import Payload

__all__ = ["Call", "EventEnvelope"]


class Call(msgspec.Struct, frozen=True, eq=False):
    """A request to call this hook with this payload; `index` is its position in the fire's order.

    `merged` holds the patches so far, if the hooks before it were given the same payload.  `following` are the hooks of
    the same source that will be called next, with the same payload, for as long as none has an opinion.  The runner of
    the call may run these after it, and says in the outcome how many of them it ran.
    """

    index: int
    hook: Hook
    payload: Payload
    context: dict[str, Any]
    merged: dict[str, Any] | None = None
    reinvoked: bool = False
    following: tuple[Hook, ...] = ()


class EventEnvelope(msgspec.Struct, frozen=True):
    """The facts that a hook gets besides the payload; null if unknown."""

    event: str
    session_id: str | None
    call_id: str | int | None
    cwd: str | None
    agent_id: str | None
    agent_type: str | None
    parent_session_id: str | None
    host: str | None
    turn: int | str | None
    metadata: dict[str, Any] | None
    context: dict[str, Any]

    def with_context(self, context: dict[str, Any]) -> EventEnvelope:
        """Return a copy with the context that the hooks so far have written."""
        return msgspec.structs.replace(self, context=context)

"""A fire: what was asked, by whom, and what hooks are told of it.  Knows shapes; does nothing.

This is the only place that merges a fire's envelope with what its session says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hooklatch.core.decisions.call import Envelope
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.limits import CallId, Name, Names, Path
from hooklatch.core.payload import Payload
from hooklatch.record.writer import Shown
from hooklatch.service.registry.sessions import Session

__all__ = ["EnvelopeParams", "Fire", "FireParams", "Plan", "Settled", "begin"]


class EnvelopeParams(msgspec.Struct, frozen=True):
    """What a host says about the moment, besides the payload.

    `cwd` is where the agent is, `began_in` where it began, and `began_as` that directory's path with "-" for all but
    letters and digits.  `parent_session_id` is passed on to hooks, and inherits nothing from that session.
    """

    session_id: Name | None = None
    cwd: Path | None = None
    began_in: Path | None = None
    began_as: Path | None = None
    agent_id: Name | None = None
    agent_type: Name | None = None
    parent_session_id: Name | None = None
    host: Name | None = None
    turn: CallId | None = None
    metadata: dict[str, Any] | None = None


class FireParams(msgspec.Struct, frozen=True):
    """The params of `fire`; `dialect` is the format of the event and its payload, if it is not the session's."""

    event: Name
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    context: dict[str, Any] | None = None
    call_id: CallId | None = None
    timeout: float | None = None
    wait: bool = True
    truncated: bool = False
    plugins: Names | None = None
    dialect: Name | None = None
    envelope: EnvelopeParams = EnvelopeParams()


class Plan(msgspec.Struct, frozen=True):
    """How another system runs an event: its axes in the spec, and its order of hooks."""

    spec: EventSpec
    arrange: Callable[[Sequence[Hook]], Sequence[Hook]]


class Settled(msgspec.Struct, frozen=True):
    """The projects whose hooks fire besides those that the session itself sees.

    A `fault` says that these are unknown, or that their hooks could not be loaded in time.
    """

    folders: frozenset[str] = frozenset()
    fault: str | None = None


class Fire:
    """One fire, from its params to its record.

    `session` is the live one of its connection; the envelope may name another one, which is only the host's claim.
    `share` tells whose turn its calls take: its session's, or else that of the session that its host names, or its own.
    A host's claim cannot take a live session's turns: claimed names are kept apart.
    """

    __slots__ = ("decision_id", "envelope", "params", "payload", "session", "share", "shown", "spec")

    def __init__(
        self,
        spec: EventSpec,
        params: FireParams,
        session: Session | None,
        decision_id: str,
        payload: Payload,
        envelope: Envelope,
    ) -> None:
        self.spec = spec
        self.params = params
        self.session = session
        self.decision_id = decision_id
        self.payload = payload
        self.envelope = envelope
        self.share = session.id if session is not None else f"?{envelope.session_id or decision_id}"
        self.shown: Shown | None = None  # what is recorded of its payload, once somebody had the time to choose it

    @property
    def ids(self) -> dict[str, object]:
        """Return the ids for a log line about it."""
        return {
            "event": self.params.event, "decision": self.decision_id, "session": self.envelope.session_id,
            "call": self.params.call_id,
        }  # fmt: skip


def begin(spec: EventSpec, params: FireParams, session: Session | None, decision_id: str) -> Fire:
    """Return a new fire; what its envelope does not say comes from its session."""
    given = params.envelope
    session_id, cwd, host, parent = given.session_id, given.cwd, given.host, given.parent_session_id
    if session is not None:
        session_id, cwd, host = session.id, cwd or session.cwd, host or session.terms.host
        parent = parent or (session.parent.id if session.parent is not None else None)
    envelope = Envelope(
        spec.name, session_id, params.call_id or decision_id, cwd, given.agent_id, given.agent_type, parent, host,
        given.turn, given.metadata, params.context or {},
    )  # fmt: skip
    return Fire(spec, params, session, decision_id, Payload(bytes(params.payload)), envelope)

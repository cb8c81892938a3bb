"""Records each decision before its answer leaves.  Knows the record and what its failure means.

A gate whose decision cannot be recorded is denied, cause `audit`, and that is recorded from the record's reserve.  An
event that cannot refuse goes on, and the record counts what it misses.
"""

from __future__ import annotations

import msgspec

from hooklatch.core.decisions.decision import unrecorded
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.messages import Decision
from hooklatch.core.payload import Payload
from hooklatch.record.writer import Fact, Record, RecordError
from hooklatch.service.dispatch.fires import FireParams
from hooklatch.service.registry.sessions import Session

__all__ = ["Recording"]


class Recording:
    """The dispatcher's hand on the record."""

    def __init__(self, record: Record) -> None:
        self._record = record

    async def keep(
        self, spec: EventSpec, decision: Decision, payload: Payload, params: FireParams, session: Session | None
    ) -> Decision:
        """Record a decision; give it with the record's head, or the denial that takes its place."""
        fact = fact_of(spec, payload, params, session)
        try:
            head = self._record.decided(decision, fact)
            if spec.fails_closed:
                await self._record.durable(head)
        except RecordError as error:
            decision = unrecorded(decision, str(error))
            head = self._record.refused(decision, fact)
        return msgspec.structs.replace(decision, record=head)

    def abandon(
        self, spec: EventSpec, decision_id: str, revision: int, payload: Payload, params: FireParams,
        session: Session | None,
    ) -> None:  # fmt: skip
        """Record that a gate's client left before there was an answer."""
        if spec.fails_closed:
            self._record.abandoned(spec.name, decision_id, revision, fact_of(spec, payload, params, session))


def fact_of(spec: EventSpec, payload: Payload, params: FireParams, session: Session | None) -> Fact:
    given = params.envelope
    return Fact(
        payload=payload,
        is_gate=spec.fails_closed,
        session=session.id if session is not None else given.session_id,
        run=session.run if session is not None else None,
        call_id=params.call_id,
        host=given.host or (session.host if session is not None else None),
        cwd=given.cwd or (session.cwd if session is not None else None),
    )

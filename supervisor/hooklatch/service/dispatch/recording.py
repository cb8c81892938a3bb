"""Records each decision before its answer is sent.  Knows the record and what its failure means.

A gate whose decision cannot be recorded is denied with cause `audit`, and that is recorded from the record's reserve.
An event that cannot refuse goes on, and the record counts the missing entry.
"""

from __future__ import annotations

from msgspec.structs import replace

from hooklatch.core.decisions.decision import unrecorded
from hooklatch.core.messages import Decision
from hooklatch.record.writer import Fact, Record, RecordError
from hooklatch.service.dispatch.fires import Fire

__all__ = ["Recording"]


class Recording:
    """The dispatcher's access to the record."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def prepare(self, fire: Fire) -> Fact:
        """Choose what is recorded of a fire, while its hooks run: that takes nobody's time."""
        fact = fire.fact
        if fact is None:
            envelope, session = fire.envelope, fire.session
            fact = fire.fact = Fact(
                fire.payload, fire.spec.fails_closed, envelope.session_id, session.run if session is not None else None,
                fire.params.call_id, envelope.host, envelope.cwd,
            )  # fmt: skip
            fire.payload.digest()
            self._record.show(fact)
        return fact

    def keep(self, fire: Fire, decision: Decision) -> Decision:
        """Record a decision; return it with the record's head, or the denial that replaces it."""
        try:
            head = self._record.decided(decision, fire.fact or self.prepare(fire))
        except RecordError as error:
            return self._denied(fire, decision, error)
        return replace(decision, record=head)

    @property
    def is_awaited(self) -> bool:
        """Return whether a gate's answer waits until its record is on disk."""
        return self._record.is_synced_first

    async def on_disk(self, fire: Fire, decision: Decision) -> Decision:
        """Wait until a gate's recorded decision is on disk; return it, or the denial that replaces it."""
        try:
            await self._record.durable(decision.record)
        except RecordError as error:
            return self._denied(fire, decision, error)
        return decision

    def _denied(self, fire: Fire, decision: Decision, error: RecordError) -> Decision:
        denial = unrecorded(decision, str(error))
        return replace(denial, record=self._record.refused(denial, self.prepare(fire)))

    def abandon(self, fire: Fire, revision: int) -> None:
        """Record that a gate's client left before there was an answer."""
        if fire.spec.fails_closed:
            self._record.abandoned(fire.spec.name, fire.decision_id, revision, self.prepare(fire))

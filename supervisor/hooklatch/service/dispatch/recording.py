"""Records each decision before its answer is sent.  Knows the record and what its failure means.

A gate whose decision cannot be recorded is denied with cause `audit`, and that is recorded from the record's reserve.
An event that cannot refuse goes on, and the record counts the missing entry.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from hooklatch.core.decisions.asks import Ask, AskReason
from hooklatch.core.decisions.decision import Machine, deny_unrecorded
from hooklatch.core.messages import FireDecision
from hooklatch.record.content.excerpt import excerpt_object
from hooklatch.record.content.redaction import Redactor
from hooklatch.record.files.chain import format_timestamp
from hooklatch.record.writer import FireFacts, RecordError, RecordWriter
from hooklatch.service.dispatch.fires import Fire, find_tool_name

__all__ = ["DecisionRecorder"]

# What a person is shown of one ask, so that all asks together fit into one line of the protocol, whatever they hold.
QUESTIONS = 20
QUESTION_BYTES = 12 * 1024  # of all of them, as JSON
REASON = 500  # characters of each, and of the folder
SHOWN = 16 * 1024  # bytes of the payload, and as many of what hooks changed in it
OWN = "session:"  # how the full names of hooks begin that the agent itself has registered


class DecisionRecorder:
    """The dispatcher's access to the record."""

    def __init__(self, record: RecordWriter) -> None:
        self._record = record

    def prepare(self, fire: Fire) -> FireFacts:
        """Choose what is recorded of a fire, while its hooks run: that takes nobody's time."""
        fact = fire.fact
        if fact is None:
            envelope, session = fire.envelope, fire.session
            fact = fire.fact = FireFacts(
                fire.payload, fire.spec.fails_closed, fire.session_id, session.run if session is not None else None,
                fire.params.call_id, envelope.host, envelope.cwd, decision_id=fire.decision_id, envelope=envelope,
            )  # fmt: skip
            fire.payload.digest()
            self._record.choose_excerpt(fact)
        return fact

    def keep(self, fire: Fire, decision: FireDecision) -> FireDecision:
        """Record a decision; return it with the record's head, or the denial that replaces it."""
        try:
            head = self._record.append_decision(decision, fire.fact or self.prepare(fire))
        except RecordError as error:
            return self._denied(fire, decision, error)
        return replace(decision, record=head)

    @property
    def is_awaited(self) -> bool:
        """Return whether a gate's answer waits until its record is on disk."""
        return self._record.is_synced_first

    async def on_disk(self, fire: Fire, decision: FireDecision) -> FireDecision:
        """Wait until a gate's recorded decision is on disk; return it, or the denial that replaces it."""
        try:
            await self._record.durable(decision.record)
        except RecordError as error:
            return self._denied(fire, decision, error)
        return decision

    def _denied(self, fire: Fire, decision: FireDecision, error: RecordError) -> FireDecision:
        denial = deny_unrecorded(decision, str(error))
        return replace(denial, record=self._record.append_refusal(denial, self.prepare(fire)))

    def abandon(self, fire: Fire, revision: int | None) -> None:
        """Record that a gate's client left before there was an answer."""
        if fire.spec.fails_closed:
            self._record.append_abandoned(fire.spec.name, fire.decision_id, revision, self.prepare(fire))

    def ask_of(self, fire: Fire, machine: Machine, decision: FireDecision, seconds: float) -> Ask:
        """Return the question that a fire's hooks have for a person, with what that one is shown: no secrets."""
        payload, now = machine.payload, time.time()
        fact = FireFacts(payload, is_gate=True)
        self._record.choose_excerpt(fact)
        redactor = fact.redactor
        assert redactor is not None, "what is shown was chosen without a list of what is not"
        asking = machine.questions()
        questions = select_shown_reasons(asking, redactor)
        patch = msgspec.json.encode(decision.patch) if decision.patch else b""
        excerpt, excerpt_cut = excerpt_object(payload.data, SHOWN, redactor)
        changes, changes_cut = excerpt_object(patch, SHOWN, redactor) if patch else (None, None)
        return Ask(
            id=decision.decision_id, at=format_timestamp(now), expires_at=format_timestamp(now + seconds),
            session_id=fire.session_id, host=fire.envelope.host, cwd=clip_reason(fire.envelope.cwd or "") or None,
            event=decision.event, tool=find_tool_name(payload),
            hook=questions[0].hook, reason=questions[0].reason, questions=questions,
            questions_omitted=len(asking) - len(questions), payload_digest=payload.digest(),
            payload_bytes=len(payload.data), excerpt=excerpt, excerpt_cut=excerpt_cut, patch=changes,
            patch_cut=changes_cut,
        )  # fmt: skip


def select_shown_reasons(asking: Sequence[tuple[str, str]], redactor: Redactor) -> list[AskReason]:
    """Return the questions that a person is shown, at least one: those of the operator's hooks before the agent's own.

    An agent can have its hooks called first; what they say must not stand in the place of what a guard says.
    """
    found: list[AskReason] = []
    room = QUESTION_BYTES
    for hook, reason in sorted(asking, key=lambda one: one[0].startswith(OWN)):
        question = AskReason(hook, clip_reason(redactor.clean(reason)))
        room -= len(msgspec.json.encode(question))
        if found and (room < 0 or len(found) == QUESTIONS):
            break
        found.append(question)
    return found


def clip_reason(text: str) -> str:
    return text if len(text) <= REASON else f"{text[:REASON]}…"

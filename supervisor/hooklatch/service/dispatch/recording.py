"""The recorder of decisions: each is recorded before its answer is sent.

A gate whose decision cannot be recorded is denied with cause `audit`, and that is recorded from the record's reserve.
A notification continues without its entry, and the record counts the missing one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hooklatch.core.decision import Machine, deny_unrecorded
from hooklatch.core.messages import FireDecision
from hooklatch.record.excerpt import excerpt_object
from hooklatch.record.redaction import Redactor
from hooklatch.record.storage.chain import format_timestamp
from hooklatch.record.writer import FireFacts, RecordError, RecordWriter
from hooklatch.service.dispatch.fires import Fire, find_tool_name

if TYPE_CHECKING:
    from hooklatch.core.answers import Ask, AskReason

__all__ = ["DecisionRecorder"]

# The bounds of one ask as a person sees it, so that all asks together fit into one line of the protocol.
QUESTIONS = 20
QUESTION_BYTES = 12 * 1024  # of all of them, as JSON
REASON = 500  # characters of each, and of the folder
SHOWN = 16 * 1024  # bytes of the payload, and as many of the patches of hooks
OWN = "session:"  # the beginning of the full names of hooks that the agent itself has registered


class DecisionRecorder:
    """The dispatcher's access to the record."""

    def __init__(self, record: RecordWriter) -> None:
        self._record = record

    def prepare(self, fire: Fire) -> FireFacts:
        """Choose what is recorded of a fire, while its hooks run: then no client waits for it."""
        facts = fire.facts
        if facts is None:
            envelope, session = fire.envelope, fire.session
            facts = fire.facts = FireFacts(
                fire.payload, fire.spec.fails_closed, fire.session_id, session.run if session is not None else None,
                fire.params.call_id, envelope.host, envelope.cwd, decision_id=fire.decision_id, envelope=envelope,
            )  # fmt: skip
            fire.payload.digest()  # the payload keeps it, so that the entry need not hash once the hooks have answered
            self._record.choose_excerpt(facts)
        return facts

    def record_decision(self, fire: Fire, decision: FireDecision) -> FireDecision:
        """Record a decision; return it with the record's head, or the denial that replaces it."""
        try:
            head = self._record.append_decision(decision, fire.facts or self.prepare(fire))
        except RecordError as error:
            return self._deny_unrecorded(fire, decision, error)
        return replace(decision, record=head)

    @property
    def is_awaited(self) -> bool:
        """Return whether a gate's answer waits until its entry is on disk."""
        return self._record.is_synced_first

    async def wait_durable(self, fire: Fire, decision: FireDecision) -> FireDecision:
        """Wait until a gate's recorded decision is on disk; return it, or the denial that replaces it."""
        try:
            await self._record.durable(decision.record)
        except RecordError as error:
            return self._deny_unrecorded(fire, decision, error)
        return decision

    def _deny_unrecorded(self, fire: Fire, decision: FireDecision, error: RecordError) -> FireDecision:
        denial = deny_unrecorded(decision, str(error))
        return replace(denial, record=self._record.append_refusal(denial, self.prepare(fire)))

    def abandon(self, fire: Fire, revision: int | None) -> None:
        """Record that a gate's client left before there was an answer."""
        if fire.spec.fails_closed:
            self._record.append_abandoned(fire.spec.name, fire.decision_id, revision, self.prepare(fire))

    def make_ask(self, fire: Fire, machine: Machine, decision: FireDecision, seconds: float) -> Ask:
        """Return the ask of a fire's hooks as a person sees it: redacted and bounded."""
        payload, now = machine.payload, time.time()
        # Of the amended payload, which the person judges: the facts of the fire are of the payload as it came.
        facts = FireFacts(payload, is_gate=True)
        self._record.choose_excerpt(facts)
        redactor = facts.redactor
        assert redactor is not None, "the excerpt was chosen without a redactor"
        reasons = machine.questions()
        questions = select_shown_reasons(reasons, redactor)
        patch = msgspec.json.encode(decision.patch) if decision.patch else b""
        excerpt, excerpt_cut = excerpt_object(payload.data, SHOWN, redactor)
        changes, changes_cut = excerpt_object(patch, SHOWN, redactor) if patch else (None, None)
        return {
            "id": decision.decision_id, "at": format_timestamp(now), "expires_at": format_timestamp(now + seconds),
            "session_id": fire.session_id, "host": fire.envelope.host,
            "cwd": clip_reason(fire.envelope.cwd or "") or None,
            "event": decision.event, "tool": find_tool_name(payload),
            "hook": questions[0]["hook"], "reason": questions[0]["reason"], "questions": questions,
            "questions_omitted": len(reasons) - len(questions), "payload_digest": payload.digest(),
            "payload_bytes": len(payload.data), "excerpt": excerpt, "excerpt_cut": excerpt_cut, "patch": changes,
            "patch_cut": changes_cut,
        }  # fmt: skip


def select_shown_reasons(reasons: Sequence[tuple[str, str]], redactor: Redactor) -> list[AskReason]:
    """Return the reasons that a person sees, at least one: those of the operator's hooks before the agent's own.

    An agent can have its hooks called first.  Their reasons must not push out that of a guard.
    """
    shown: list[AskReason] = []
    room = QUESTION_BYTES
    for hook, reason in sorted(reasons, key=lambda pair: pair[0].startswith(OWN)):
        ask_reason: AskReason = {"hook": hook, "reason": clip_reason(redactor.clean(reason))}
        room -= len(msgspec.json.encode(ask_reason))
        if shown and (room < 0 or len(shown) == QUESTIONS):
            break
        shown.append(ask_reason)
    return shown


def clip_reason(text: str) -> str:
    return text if len(text) <= REASON else f"{text[:REASON]}…"

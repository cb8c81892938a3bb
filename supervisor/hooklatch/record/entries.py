"""The content of a decision's entry.

Any bytes of a hook or a client must have an entry: texts and lists are cut, what cannot be encoded is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from hooklatch.core.call import EventEnvelope
from hooklatch.core.messages import CallOutcome, Cause, DecisionVerdict, FireDecision
from hooklatch.core.payload import Payload
from hooklatch.record.redaction import UNREADABLE, WINDOW, Redactor, excerpt_fields, replace_secrets

__all__ = ["FireFacts", "encode_abandoned_entry", "encode_decision_entry", "hide_payload", "encode_fields"]

TEXT = 1000  # characters of a reason or a message
NAME = 300  # characters of an id or a path that a client gave
WARNINGS = 20
OUTCOMES = 1000
OUTPUTS = ("append", "resume", "value", "inject", "context")
ENCODER = msgspec.json.Encoder()


class FireFacts(msgspec.Struct, gc=False):
    """The facts of a fire before its decision: the payload as received, its origin, and the excerpt of both.

    `session` may be an id that a one-shot client only claims, or that is reused.  `run` identifies one live session.
    `claimed_session` is the id that hooks received, if the host claimed another one than the session's.
    The excerpt depends on the payload and the settings alone, so it may be chosen while the hooks run: as JSON if it
    fits `limit` bytes, else the beginning as text.  `redactor` has chosen it; without one nothing is chosen yet.
    Where payloads are kept whole, `line` is the line to keep, or why there is none; its digest, or that, is recorded.
    """

    payload: Payload
    is_gate: bool
    session: str | None = None
    run: str | None = None
    call_id: str | int | None = None
    host: str | None = None
    cwd: str | None = None
    redactor: Redactor | None = None
    limit: int = 0
    excerpt: msgspec.Raw | None = None
    excerpt_cut: str | None = None
    decision_id: str = ""
    envelope: EventEnvelope | None = None
    claimed_session: str | None = None
    line: bytes | str | None = None
    payload_kept: str | None = None
    payload_unkept: str | None = None


class PatchEntry(msgspec.Struct, omit_defaults=True, gc=False):
    """The patch of a decision: what hooks replaced in a payload, and digests of the inputs of a tool that may run."""

    sha256: str
    bytes: int
    excerpt: msgspec.Raw | None = None
    excerpt_cut: str | None = None
    inputs: list[str] = []


class DecisionEntry(msgspec.Struct, omit_defaults=True, gc=False):
    """A decision, or the end of a fire that its client abandoned."""

    decision_id: str
    event: str
    gate: bool
    verdict: DecisionVerdict | None = None
    cause: Cause | None = None
    reason: str | None = None
    layer: str | None = None
    hook: str | None = None
    name: str = ""
    session: str | None = None
    run: str | None = None
    call_id: str | None = None
    host: str | None = None
    cwd: str | None = None
    revision: int | None = None
    payload_digest: str | None = None
    payload_bytes: int = 0
    excerpt: msgspec.Raw | None = None
    excerpt_cut: str | None = None
    patch: PatchEntry | None = None
    outputs: list[str] = []
    outcomes: list[CallOutcome] = []
    outcomes_omitted: int = 0
    warnings: list[str] = []
    warnings_omitted: int = 0
    duration_ms: float = 0.0
    payload_kept: str | None = None
    payload_unkept: str | None = None
    claimed_session: str | None = None
    instead: str | None = None


def hide_payload(facts: FireFacts) -> None:
    """Record no part of a payload, nor of its patch."""
    facts.limit, facts.excerpt, facts.excerpt_cut, facts.line = 0, None, None, None


def encode_decision_entry(decision: FireDecision, facts: FireFacts, redactor: Redactor) -> bytes:
    """Encode the entry of a decision, with the excerpt of its payload, and at most as much of its patch."""
    reason, outcomes, warnings = decision.reason, decision.outcomes, decision.warnings
    session, host, cwd = facts.session, facts.host, facts.cwd
    outcomes_omitted = warnings_omitted = 0
    call_id = clip_name(facts.call_id) if isinstance(facts.call_id, int) else facts.call_id
    outputs, instead = list[str](), decision.instead
    try:
        if len(outcomes) > OUTCOMES:
            outcomes, outcomes_omitted = outcomes[:OUTCOMES], len(outcomes) - OUTCOMES
        if len(warnings) > WARNINGS:
            warnings, warnings_omitted = warnings[:WARNINGS], len(warnings) - WARNINGS
        if reason or warnings or instead or not are_all_silent(outcomes):
            cleaner = None if is_clean(reason, outcomes, [*warnings, instead or ""], redactor) else redactor
            outcomes = [redact_outcome(outcome, reason, cleaner) for outcome in outcomes]
            warnings = [clip_text(text, cleaner) for text in warnings]
            reason = clip_text(reason, cleaner) if reason is not None else None
            instead = clip_text(instead, cleaner) if instead is not None else None
        if decision.append or decision.resume or decision.value or decision.inject or decision.context:
            outputs = [name for name in OUTPUTS if getattr(decision, name)]
        if len(f"{session}{call_id}{host}{cwd}") > NAME:
            session, call_id, host, cwd = clip_name(session), clip_name(call_id), clip_name(host), clip_name(cwd)
        return ENCODER.encode(DecisionEntry(
            decision.decision_id, decision.event, facts.is_gate, decision.verdict, decision.cause, reason,
            decision.layer, decision.hook, decision.name, session, facts.run, call_id, host, cwd, decision.revision,
            decision.payload_digest, len(facts.payload.data), facts.excerpt, facts.excerpt_cut,
            build_patch_entry(decision.patch, facts, redactor) if decision.patch else None,
            outputs, outcomes, outcomes_omitted, warnings, warnings_omitted, decision.duration_ms,
            facts.payload_kept, facts.payload_unkept, facts.claimed_session, instead,
        ))  # fmt: skip
    except UNREADABLE as error:
        return ENCODER.encode(DecisionEntry(
            decision.decision_id, decision.event, facts.is_gate, decision.verdict, decision.cause,
            f"the record of this decision could not be encoded ({type(error).__name__}); this is a minimal one",
            payload_digest=decision.payload_digest, payload_bytes=len(facts.payload.data),
        ))  # fmt: skip


def encode_abandoned_entry(event: str, decision_id: str, revision: int | None, facts: FireFacts) -> bytes:
    """Encode the record of a gate whose client left before it was decided."""
    return ENCODER.encode(DecisionEntry(
        decision_id, event, facts.is_gate, cause="abandoned", revision=revision, session=clip_name(facts.session),
        run=facts.run, call_id=clip_name(facts.call_id), host=clip_name(facts.host), cwd=clip_name(facts.cwd),
        payload_digest=facts.payload.digest(), payload_bytes=len(facts.payload.data),
        claimed_session=facts.claimed_session,
    ))  # fmt: skip


def build_patch_entry(patch: Mapping[str, msgspec.Raw], facts: FireFacts, redactor: Redactor) -> PatchEntry:
    data = ENCODER.encode(patch)
    entry = PatchEntry(sha256(data).hexdigest(), len(data))
    if facts.limit > 0:
        entry.excerpt, entry.excerpt_cut = excerpt_fields(patch, facts.limit, redactor)
    if "tool_input" in patch:
        from hooklatch.core.call_ledger import digest_inputs  # imported here: few daemons see a changed input

        entry.inputs = digest_inputs(facts.payload.fields.get("tool_input"), patch)
    return entry


def are_all_silent(outcomes: Sequence[CallOutcome]) -> bool:
    """Return whether the outcomes hold no text that is recorded otherwise than it is."""
    for outcome in outcomes:
        if outcome.message or outcome.patch or outcome.stdout or outcome.stderr:
            return False
        if outcome.truncated or outcome.command or outcome.last:
            return False
    return True


def is_clean(reason: str | None, outcomes: Sequence[CallOutcome], warnings: Sequence[str], redactor: Redactor) -> bool:
    texts = [text[:WINDOW] for text in warnings]
    if reason:
        texts.append(reason[:WINDOW])
    texts += [outcome.message[:WINDOW] for outcome in outcomes if outcome.message and outcome.message is not reason]
    return not texts or redactor.is_clean(ENCODER.encode(texts))


def redact_outcome(outcome: CallOutcome, reason: str | None, redactor: Redactor | None) -> CallOutcome:
    """Return an outcome as it is recorded: its message without secrets, and without what it printed or changed."""
    message = "" if outcome.message == reason else clip_text(outcome.message, redactor)
    return msgspec.structs.replace(
        outcome, message=message, patch=None, stdout="", stderr="", truncated=False, command="", last=False
    )


def clip_text(text: str, redactor: Redactor | None) -> str:
    if redactor is not None:
        text = redactor.clean(text)
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def clip_name(name: str | int | None) -> str | None:
    if name is None or (type(name) is str and len(name) <= NAME):
        return name
    text = str(name) if not isinstance(name, int) or abs(name) < 2**63 else hex(name)
    return text if len(text) <= NAME else f"{text[:NAME]}…"


def encode_fields(fields: Mapping[str, Any], redactor: Redactor) -> bytes:
    """Encode the fields of any other record, with the secrets in their texts replaced.

    Raises:
        TypeError: a field is not a plain value.
    """
    plain = msgspec.to_builtins(fields)
    data = ENCODER.encode(plain)
    return data if redactor.is_clean(data) else ENCODER.encode(replace_secrets(plain, redactor))

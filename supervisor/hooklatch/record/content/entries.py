"""What a record of a decision contains.  Knows decisions and redaction; does not know the chain or files.

A record must be possible whatever a hook or a client sent: texts are cut, lists are bounded, and what cannot be encoded
is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import msgspec

from hooklatch.core.messages import Cause, Decision, DecisionVerdict, Outcome
from hooklatch.core.payload import Payload
from hooklatch.record.content.excerpt import UNREADABLE, Excerpt, encode, shown, shown_payload, visible
from hooklatch.record.content.redaction import Redactor

__all__ = ["Fact", "Shown", "entry_of_abandoned", "entry_of_decision", "scrubbed", "shown_of"]

TEXT = 1000  # characters of a reason or a message
NAME = 300  # characters of an id or a path that a client gave
WARNINGS = 20
OUTCOMES = 1000
OUTPUTS = ("append", "resume", "value", "inject", "context")
ENCODER = msgspec.json.Encoder()


class Fact(msgspec.Struct, frozen=True):
    """What was fired, as opposed to decided: the payload as received, and who fired it.

    `session` may be an id that a one-shot client only claims, or that is reused; `run` identifies one live session.
    """

    payload: Payload
    is_gate: bool
    session: str | None = None
    run: str | None = None
    call_id: str | int | None = None
    host: str | None = None
    cwd: str | None = None


class Shown(msgspec.Struct, frozen=True):
    """What a record shows of a payload: as JSON if it fits, otherwise the beginning of that as text.

    It depends on the payload alone, so it is made while the hooks run.
    """

    redactor: Redactor
    excerpt: msgspec.Raw | None = None
    cut: str | None = None


def shown_of(payload: Payload, limit: int, redactor: Redactor) -> Shown:
    """Choose what is recorded of a payload, at most `limit` bytes, without secrets."""
    try:
        found = shown_payload(payload, limit, redactor) if limit > 0 else None
        if found is None:
            return Shown(redactor)
        return Shown(redactor, *encode(found, limit, None if redactor.is_clean(found.texts) else redactor))
    except UNREADABLE:
        return Shown(redactor)


class PatchEntry(msgspec.Struct, omit_defaults=True):
    """What hooks replaced fields of the payload with."""

    sha256: str
    bytes: int
    excerpt: msgspec.Raw | None = None
    excerpt_cut: str | None = None


class DecisionEntry(msgspec.Struct, omit_defaults=True):
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
    outcomes: list[Outcome] = []
    outcomes_omitted: int = 0
    warnings: list[str] = []
    warnings_omitted: int = 0
    duration_ms: float = 0.0


def entry_of_decision(
    decision: Decision, fact: Fact, payload: Shown | None, excerpt_bytes: int, redactor: Redactor
) -> bytes:
    """Encode the record of a decision, with what is shown of its payload, and at most as much of its patch."""
    try:
        patch = shown(decision.patch, excerpt_bytes, redactor) if decision.patch and excerpt_bytes > 0 else None
        texts = texts_of(decision)
        if patch is not None:
            texts += patch.texts
        careful = None if redactor.is_clean(texts) else redactor
        return ENCODER.encode(filled(decision, fact, payload, patch, excerpt_bytes, careful))
    except UNREADABLE as error:
        least = DecisionEntry(
            decision.decision_id, decision.event, fact.is_gate, decision.verdict, decision.cause,
            f"the record of this decision could not be encoded ({type(error).__name__}); this is a minimal one",
            payload_digest=decision.payload_digest, payload_bytes=len(fact.payload.data),
        )  # fmt: skip
        return ENCODER.encode(least)


def entry_of_abandoned(event: str, decision_id: str, revision: int | None, fact: Fact) -> bytes:
    """Encode the record of a gate whose client left before it was decided."""
    return ENCODER.encode(DecisionEntry(
        decision_id, event, fact.is_gate, cause="abandoned", revision=revision, session=name_of(fact.session),
        run=fact.run, call_id=name_of(fact.call_id), host=name_of(fact.host), cwd=name_of(fact.cwd),
        payload_digest=fact.payload.digest(), payload_bytes=len(fact.payload.data),
    ))  # fmt: skip


def texts_of(decision: Decision) -> list[str]:
    texts = decision.warnings[:WARNINGS]
    if decision.reason:
        texts.append(decision.reason)
    for outcome in decision.outcomes[:OUTCOMES]:
        if outcome.message and outcome.message is not decision.reason:
            texts.append(outcome.message)
    return texts


def filled(
    decision: Decision,
    fact: Fact,
    payload: Shown | None,
    patch: Excerpt | None,
    limit: int,
    redactor: Redactor | None,
) -> DecisionEntry:
    outcomes, warnings = decision.outcomes, decision.warnings
    return DecisionEntry(
        decision.decision_id,
        decision.event,
        fact.is_gate,
        decision.verdict,
        decision.cause,
        text_of(decision.reason, redactor) if decision.reason is not None else None,
        decision.layer,
        decision.hook,
        decision.name,
        name_of(fact.session),
        fact.run,
        name_of(fact.call_id),
        name_of(fact.host),
        name_of(fact.cwd),
        decision.revision,
        decision.payload_digest,
        len(fact.payload.data),
        payload.excerpt if payload is not None else None,
        payload.cut if payload is not None else None,
        entry_of_patch(decision.patch, patch, limit, redactor) if decision.patch else None,
        [name for name in OUTPUTS if getattr(decision, name)],
        [recorded(outcome, decision.reason, redactor) for outcome in outcomes[:OUTCOMES]],
        max(0, len(outcomes) - OUTCOMES),
        [text_of(text, redactor) for text in warnings[:WARNINGS]],
        max(0, len(warnings) - WARNINGS),
        decision.duration_ms,
    )


def entry_of_patch(
    patch: Mapping[str, msgspec.Raw], excerpt: Excerpt | None, limit: int, redactor: Redactor | None
) -> PatchEntry:
    data = ENCODER.encode(patch)
    entry = PatchEntry(sha256(data).hexdigest(), len(data))
    if excerpt is not None:
        entry.excerpt, entry.excerpt_cut = encode(excerpt, limit, redactor)
    return entry


def recorded(outcome: Outcome, reason: str | None, redactor: Redactor | None) -> Outcome:
    """Return an outcome as it is recorded: its message without secrets, and without what it printed or changed."""
    if not (
        outcome.message
        or outcome.patch
        or outcome.stdout
        or outcome.stderr
        or outcome.truncated
        or outcome.command
        or outcome.last
    ):
        return outcome
    message = "" if outcome.message == reason else text_of(outcome.message, redactor)
    return msgspec.structs.replace(
        outcome, message=message, patch=None, stdout="", stderr="", truncated=False, command="", last=False
    )


def text_of(text: str, redactor: Redactor | None) -> str:
    if redactor is not None:
        text = redactor.clean(text)
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def name_of(name: str | int | None) -> str | None:
    if name is None or (type(name) is str and len(name) <= NAME):
        return name
    text = str(name) if not isinstance(name, int) or abs(name) < 2**63 else hex(name)
    return text if len(text) <= NAME else f"{text[:NAME]}…"


def scrubbed(fields: Mapping[str, Any], redactor: Redactor) -> bytes:
    """Encode the fields of any other record, with the secrets in their texts replaced.

    Raises:
        TypeError: a field is not a plain value.
    """
    texts: list[str] = []
    plain = cast("dict[str, object]", visible(msgspec.to_builtins(fields), lambda key: False, texts))
    if redactor.is_clean(texts):
        return ENCODER.encode(plain)
    data, cut_text = encode(Excerpt(plain, texts), 2**62, redactor)
    return bytes(data) if data is not None else ENCODER.encode({"text": cut_text})

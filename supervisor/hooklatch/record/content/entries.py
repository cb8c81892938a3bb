"""What a record of a decision contains.  Knows decisions and redaction; does not know the chain or files.

A record must be possible whatever a hook or a client sent: texts are cut, lists are bounded, and what cannot be encoded
is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, cast

import msgspec

from hooklatch.core.messages import Cause, Decision, DecisionVerdict, Outcome
from hooklatch.core.payload import Payload
from hooklatch.record.content.excerpt import UNREADABLE, Excerpt, encode, fields_of, shown, visible
from hooklatch.record.content.redaction import Redactor

__all__ = ["Fact", "entry_of_abandoned", "entry_of_decision", "scrubbed"]

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


def entry_of_decision(decision: Decision, fact: Fact, excerpt_bytes: int, redactor: Redactor) -> bytes:
    """Encode the record of a decision, with at most `excerpt_bytes` of its payload."""
    try:
        excerpts = excerpts_of(decision, fact, excerpt_bytes, redactor)
        texts = [*texts_of(decision), *(text for one in excerpts if one is not None for text in one.texts)]
        careful = None if redactor.is_clean(texts) else redactor
        return ENCODER.encode(filled(decision, fact, excerpts, excerpt_bytes, careful))
    except UNREADABLE as error:
        least = DecisionEntry(
            decision.decision_id, decision.event, fact.is_gate, decision.verdict, decision.cause,
            f"the record of this decision could not be encoded ({type(error).__name__}); this is a minimal one",
            payload_digest=decision.payload_digest, payload_bytes=len(fact.payload.data),
        )  # fmt: skip
        return ENCODER.encode(least)


def entry_of_abandoned(event: str, decision_id: str, revision: int | None, fact: Fact) -> bytes:
    """Encode the record of a gate whose client left before it was decided."""
    entry = DecisionEntry(
        decision_id, event, fact.is_gate, cause="abandoned", revision=revision, payload_digest=fact.payload.digest()
    )
    return ENCODER.encode(with_place(entry, fact))


def excerpts_of(
    decision: Decision, fact: Fact, limit: int, redactor: Redactor
) -> tuple[Excerpt | None, Excerpt | None]:
    if limit <= 0:
        return None, None
    fields = fields_of(fact.payload)
    payload = shown(fields, limit, redactor) if fields is not None else None
    return payload, shown(decision.patch, limit, redactor) if decision.patch else None


def texts_of(decision: Decision) -> Iterator[str]:
    if decision.reason:
        yield decision.reason
    yield from decision.warnings[:WARNINGS]
    for outcome in decision.outcomes[:OUTCOMES]:
        if outcome.message and outcome.message is not decision.reason:
            yield outcome.message


def filled(
    decision: Decision,
    fact: Fact,
    excerpts: tuple[Excerpt | None, Excerpt | None],
    limit: int,
    redactor: Redactor | None,
) -> DecisionEntry:
    payload, patch = excerpts
    entry = DecisionEntry(
        decision.decision_id, decision.event, fact.is_gate, decision.verdict, decision.cause,
        layer=decision.layer, hook=decision.hook, name=decision.name, revision=decision.revision,
        payload_digest=decision.payload_digest, duration_ms=decision.duration_ms,
    )  # fmt: skip
    if decision.reason is not None:
        entry.reason = text_of(decision.reason, redactor)
    if payload is not None:
        entry.excerpt, entry.excerpt_cut = encode(payload, limit, redactor)
    if decision.patch:
        entry.patch = entry_of_patch(decision.patch, patch, limit, redactor)
    entry.outputs = [name for name in OUTPUTS if getattr(decision, name)]
    entry.outcomes = [recorded(outcome, decision.reason, redactor) for outcome in decision.outcomes[:OUTCOMES]]
    entry.outcomes_omitted = len(decision.outcomes) - len(entry.outcomes)
    entry.warnings = [text_of(text, redactor) for text in decision.warnings[:WARNINGS]]
    entry.warnings_omitted = len(decision.warnings) - len(entry.warnings)
    return with_place(entry, fact)


def with_place(entry: DecisionEntry, fact: Fact) -> DecisionEntry:
    entry.payload_bytes = len(fact.payload.data)
    entry.session, entry.run = name_of(fact.session), fact.run
    entry.call_id = name_of(fact.call_id)
    entry.host = name_of(fact.host)
    entry.cwd = name_of(fact.cwd)
    return entry


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
    message = "" if outcome.message == reason else text_of(outcome.message, redactor)
    return msgspec.structs.replace(
        outcome, message=message, patch=None, stdout="", stderr="", truncated=False, command="", last=False
    )


def text_of(text: str, redactor: Redactor | None) -> str:
    if redactor is not None:
        text = redactor.clean(text)
    return text if len(text) <= TEXT else f"{text[:TEXT]}…"


def name_of(name: str | int | None) -> str | None:
    if name is None:
        return None
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

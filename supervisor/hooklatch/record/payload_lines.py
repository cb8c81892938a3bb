"""The line of a payload that is kept whole: the event and the payload that hooks received, without secrets.

The entry of the decision has the sha256 of the line, without its newline.  So the line itself needs no chain: a changed
line counts as a missing one.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, cast

import msgspec

from hooklatch.core.call import EventEnvelope
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.payload import Payload
from hooklatch.core.text import find_omission_mark
from hooklatch.record.excerpt import UNREADABLE, hide_keys, replace_secrets
from hooklatch.record.redaction import Redactor

__all__ = ["MAX_KEPT", "KeptPayload", "digest_payload_line", "encode_payload_line", "list_redacted_places"]

MAX_KEPT = 2**20  # bytes of a payload; searching a larger one for secrets would hold up all other fires
DEEP = 100  # levels; no hook is given more
MAX_NAMED = 20  # places that were redacted
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class KeptPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kept fire: enough to fire it again."""

    decision_id: str
    event: str
    payload: msgspec.Raw
    envelope: EnvelopeParams = EnvelopeParams()
    call_id: str | int | None = None
    context: dict[str, Any] | None = None

    @property
    def params(self) -> FireParams:
        return FireParams(self.event, msgspec.Raw(self.payload), self.context, self.call_id, envelope=self.envelope)


def encode_payload_line(decision_id: str, envelope: EventEnvelope, payload: Payload, redactor: Redactor) -> bytes | str:
    """Return the line to keep, with its newline; or the reason why there is none."""
    if len(payload.data) > MAX_KEPT:
        return f"it has over {MAX_KEPT // 2**20} MiB"
    given = EnvelopeParams(
        session_id=envelope.session_id, cwd=envelope.cwd, agent_id=envelope.agent_id, agent_type=envelope.agent_type,
        parent_session_id=envelope.parent_session_id, host=envelope.host, turn=envelope.turn,
        metadata=envelope.metadata,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "decision_id": decision_id,
        "event": envelope.event,
        "envelope": {key: value for key, value in msgspec.to_builtins(given).items() if value is not None},
        "call_id": envelope.call_id,
    }
    try:
        if envelope.context:
            fields["context"] = envelope.context
        plain = fields["payload"] = decode(payload.data)
        if type(plain) is not dict:
            return "it is not an object"
        texts: list[str] = []
        if redactor.shows_all(fields, DEEP, texts) and redactor.are_clean(texts):
            if b"\n" not in payload.data:
                fields["payload"] = msgspec.Raw(payload.data)  # as it was, to the byte
        else:
            shown = cast("dict[str, Any]", hide_keys(fields, redactor.hides, DEEP))
            fields = cast("dict[str, Any]", replace_secrets(shown, redactor, window=None))
        return encode(fields) + b"\n"
    except UNREADABLE as error:
        return f"it cannot be read: {type(error).__name__}"


def digest_payload_line(line: bytes) -> str:
    """Return the digest of a line, as its entry has it."""
    return sha256(line.removesuffix(b"\n")).hexdigest()


def list_redacted_places(value: object, path: str = "") -> Iterator[str]:
    """Yield the places of a payload in which something was replaced, the first of them."""
    if isinstance(value, str):
        if find_omission_mark(value):
            yield path
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from list_redacted_places(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[object]", value)):
            yield from list_redacted_places(inner, f"{path}[{number}]")

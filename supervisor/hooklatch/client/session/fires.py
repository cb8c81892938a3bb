"""What a fire sends, and what comes of it.  Knows the request and a session's memory; knows no connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

import msgspec

from hooklatch.client.protocol.core import encode_plain
from hooklatch.client.protocol.decisions import Accepted, Decision, decide_locally, read_fired
from hooklatch.client.session.session_state import Memory
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.errors import HooklatchError

__all__ = ["Firing", "fire_params"]

OPTIONS: Final = ("payload", "envelope", "context", "plugins", "call_id", "timeout")


class Firing:
    """One fire of a session: its params, and how its answer, or none, is read."""

    def __init__(self, memory: Memory, event: str, arguments: Mapping[str, Any], *, wait: bool) -> None:
        """Take the arguments of `fire`: the options by their names, all others as fields of the payload.

        Raises:
            InvalidPayloadError, ValueError: see `fire_params`.
        """
        options = {name: arguments[name] for name in OPTIONS if name in arguments}
        fields = {name: value for name, value in arguments.items() if name not in OPTIONS}
        self.params = fire_params(event, fields, wait=wait, limit=memory.welcome.limits.payload_bytes, **options)
        self._memory = memory
        self._event = event
        self._wait = wait

    def answered(self, result: msgspec.Raw) -> Decision | Accepted:
        """Read the daemon's answer.

        Raises:
            UnreadableAnswerError: it is none.
        """
        return self._noted(read_fired(result, self._event, wait=self._wait, is_native=self._memory.dialect is not None))

    def unanswered(self, error: HooklatchError) -> Decision | Accepted:
        """Decide in the daemon's place."""
        return self._noted(decide_locally(self._event, error, wait=self._wait))

    def _noted(self, answer: Decision | Accepted) -> Decision | Accepted:
        if isinstance(answer, Decision):
            self._memory.breaker.note(answer)
        return answer


def fire_params(
    event: str,
    fields: Mapping[str, Any],
    *,
    payload: Mapping[str, Any] | None = None,
    envelope: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    plugins: Sequence[str] | None = None,
    call_id: str | None = None,
    timeout: float | None = None,
    wait: bool = True,
    limit: int = MAX_PAYLOAD,
) -> dict[str, object]:
    """Return the params of `fire`. A payload over `limit` bytes stays here: the daemon is told, and refuses.

    Raises:
        InvalidPayloadError: something is not plain finite JSON.
        ValueError: the timeout is no positive number of seconds, or a field is given twice.
    """
    data = encode_plain(merge(payload or {}, fields), "payload")
    params: dict[str, object] = {"event": event, "payload": data}
    if len(bytes(data)) > limit:
        params.update(payload=msgspec.Raw(b"{}"), truncated=True)
    if timeout is not None:
        params["timeout"] = checked_timeout(timeout)
    if not wait:
        params["wait"] = False
    for key, value in (("envelope", envelope), ("context", context), ("plugins", plugins), ("call_id", call_id)):
        if value is not None:
            params[key] = encode_plain(value, key)
    return params


def merge(payload: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    twice = sorted(payload.keys() & fields.keys())
    if twice:
        raise ValueError(f"the field {twice[0]!r} is given twice, in payload and by name")
    return {**payload, **fields}


def checked_timeout(timeout: float) -> float:
    if not isfinite(timeout) or timeout <= 0:
        raise ValueError(f"timeout is {timeout!r}; it is a number of seconds above 0")
    return timeout

"""What a fire sends.  Knows the shape of the request and the limits; knows no connection."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from hooklatch.client.core import encode_plain
from hooklatch.core.payload import MAX_PAYLOAD

__all__ = ["fire_params"]


def fire_params(
    event: str,
    fields: Mapping[str, Any],
    *,
    payload: Mapping[str, Any] | None = None,
    envelope: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    call_id: str | None = None,
    timeout: float | None = None,
    wait: bool = True,
    limit: int = MAX_PAYLOAD,
) -> dict[str, object]:
    """Give the params of `fire`. A payload over `limit` bytes stays here: the daemon is told, and refuses.

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
    for key, value in (("envelope", envelope), ("context", context), ("call_id", call_id)):
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

"""The request of a fire, and its decision; and operations as steps that do not wait: a client waits in its way.

A step is yielded; its answer is sent back, and an error is raised where it was yielded.  Does not know connections.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from math import isfinite
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from hooklatch.client.protocol.decisions import Accepted, Decision, decide_locally, read_fired
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.client.protocol.session_state import SessionState, SkippingConnection
from hooklatch.core.payload import MAX_PAYLOAD
from hooklatch.errors import DaemonUnreachableError, RequestFailedError, UnreadableAnswerError

__all__ = [
    "RequestStep", "CallFunction", "FunctionReturned", "RunApart", "Step", "Steps", "fail_steps", "fire_event",
    "fire_params",
]  # fmt: skip

T = TypeVar("T")


class RequestStep(msgspec.Struct, frozen=True):
    """The step to send this request to the daemon; the answer is its raw result."""

    method: str
    params: Mapping[str, object]


class CallFunction(msgspec.Struct, frozen=True):
    """The step to call this function of the host; the answer is `FunctionReturned`."""

    function: Callable[[Any], object]
    argument: object


class FunctionReturned(msgspec.Struct, frozen=True):
    """A function of the host has returned. `duration_ms` is in milliseconds."""

    result: Any
    duration_ms: float


class RunApart(msgspec.Struct, frozen=True):
    """The step to run other steps even if the caller is cancelled; the answer is None."""

    steps: Generator[Any, Any, object]


Step: TypeAlias = RequestStep | CallFunction | RunApart
Steps: TypeAlias = Generator[Step, Any, T]


def fail_steps(steps: Steps[T], error: Exception) -> T:
    """Run steps each of which fails with `error`; return their result."""
    try:
        next(steps)
        while True:
            steps.throw(error)
    except StopIteration as end:
        result: T = end.value
        return result


MAX_CALL_ID: Final = 200  # characters; the daemon refuses a longer one
SELECTING: Final = ("envelope", "context", "plugins", "timeout")
OPTIONS: Final = frozenset({*SELECTING, "payload", "call_id"})


def fire_event(
    state: SessionState, event: str, arguments: Mapping[str, Any], *, wait: bool
) -> Steps[Decision | Accepted]:
    """Fire an event; without a usable answer decide in the daemon's place.

    `arguments` are those of the clients' `fire_event`: options by their names, all others as fields of the payload.

    Raises:
        InvalidPayloadError, ValueError: see `fire_params`.
    """
    link, limit = state.skipping, state.welcome.limits.payload_bytes
    if wait and link is not None and link.may_skip(event):
        decided = decide_skipped(link, event, arguments, limit)
        if decided is not None:
            return decided
    options = {name: arguments[name] for name in OPTIONS if name in arguments}
    fields = {name: value for name, value in arguments.items() if name not in OPTIONS}
    params = fire_params(event, fields, wait=wait, limit=limit, **options)
    try:
        answer = read_fired((yield RequestStep("fire", params)), event, wait=wait, is_native=state.dialect is not None)
    except (DaemonUnreachableError, RequestFailedError, UnreadableAnswerError) as error:
        answer = decide_locally(event, error, wait=wait)
    if isinstance(answer, Decision):
        state.breaker.note(answer)
    return answer


def decide_skipped(link: SkippingConnection, event: str, arguments: Mapping[str, Any], limit: int) -> Decision | None:
    """Decide on an event that no hook listens to; None if the daemon has to be asked.

    The daemon has to be asked unless there are only a payload and a plain call_id: other params may select other hooks,
    or be refused.
    """
    fields = arguments
    if not OPTIONS.isdisjoint(arguments):
        call_id = arguments.get("call_id") or ""
        if any(arguments.get(name) is not None for name in SELECTING) or not is_call_id(call_id):
            return None
        others = {name: value for name, value in arguments.items() if name not in OPTIONS}
        fields = merge_payload(arguments.get("payload") or {}, others)
    data = encode_plain(fields, "payload")
    return link.skip(event) if len(data) <= limit else None


def is_call_id(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and len(value) <= MAX_CALL_ID


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
    """Return the params of `fire_event`. A payload over `limit` bytes is not sent: the daemon is told its size, and
    refuses.

    Raises:
        InvalidPayloadError: something is not plain finite JSON.
        ValueError: the timeout is not a positive number of seconds, or a field is given twice.
    """
    data = encode_plain(merge_payload(payload or {}, fields), "payload")
    params: dict[str, object] = {"event": event, "payload": data}
    if len(bytes(data)) > limit:
        params.update(payload=msgspec.Raw(b"{}"), truncated=True)
    if timeout is not None:
        params["timeout"] = validate_timeout(timeout)
    if not wait:
        params["wait"] = False
    for key, value in (("envelope", envelope), ("context", context), ("plugins", plugins), ("call_id", call_id)):
        if value is not None:
            params[key] = encode_plain(value, key)
    return params


def merge_payload(payload: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    twice = sorted(payload.keys() & fields.keys())
    if twice:
        raise ValueError(f"the field {twice[0]!r} is given twice, in payload and by name")
    return {**payload, **fields}


def validate_timeout(timeout: float) -> float:
    if not isfinite(timeout) or timeout <= 0:
        raise ValueError(f"timeout is {timeout!r}; it must be a number of seconds above 0")
    return timeout

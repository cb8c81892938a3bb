"""The calls of hooks that a client serves: sent over its connection, answered by its responses."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from hooklatch.core.call import Call
from hooklatch.core.messages import CallOutcome
from hooklatch.core.payload import PayloadError
from hooklatch.core.protocol import Response, encode_request
from hooklatch.processes.fire_context import FireContext

__all__ = ["ServedCalls"]

NO_ANSWER = CallOutcome(cause="timeout", message="its client did not answer in time")


class ServedCalls:
    """The pending calls of one client."""

    __slots__ = ("_count", "_pending")

    def __init__(self) -> None:
        self._pending: dict[int, PendingCall] = {}
        self._count = 0

    async def call(self, send: Callable[[bytes], None], call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        """Send a call, and return its outcome by the deadline."""
        started = trio.current_time()
        self._count += 1
        number = self._count
        try:
            request = encode_request(number, "call", make_call_params(call, fire))
        except PayloadError as error:
            return CallOutcome(cause="payload", message=str(error))
        pending = self._pending[number] = PendingCall()
        try:
            send(request)
            fire.prepare_record()
            with trio.move_on_at(deadline):
                await pending.ended.wait()
        finally:
            del self._pending[number]
        ended = trio.current_time()
        # If the answer and the deadline arrive in the same turn of the loop, the clock decides.
        outcome = pending.outcome if ended < deadline else NO_ANSWER
        return outcome.with_duration(ended - started)

    def take_response(self, response: Response) -> None:
        """Take the answer of a call. One that is too late, or belongs to no call, is ignored."""
        pending = self._pending.get(response.id) if isinstance(response.id, int) else None
        if pending is None:
            return
        if response.error is not None:
            text = str(response.error.get("message", "an error"))
            pending.end(CallOutcome(cause="crash", message=f"its client answered: {text[:500]}"))
        else:
            pending.end(CallOutcome(cause="policy", answer=bytes(response.result or b"null")))

    def refuse_response(self, number: object) -> None:
        """End a call whose answer was not read, since there was no room for it."""
        pending = self._pending.get(number) if isinstance(number, int) else None
        if pending is not None:
            pending.end(CallOutcome(cause="overload", message="there was no room for its client's answer"))

    def end(self) -> None:
        """End all pending calls, since the client is gone."""
        for pending in self._pending.values():
            pending.end(CallOutcome(cause="crash", message="the client that served it is gone"))


class PendingCall:
    """A call that was sent to the client, and its outcome."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.outcome = NO_ANSWER

    def end(self, outcome: CallOutcome) -> None:
        if not self.ended.is_set():
            self.outcome = outcome
            self.ended.set()


def make_call_params(call: Call, fire: FireContext) -> dict[str, object]:
    """Return the params of the request `call`. In a dialect the event has that system's name.

    Raises:
        PayloadError: at a gate, and the input of the event's tool could be read in two ways.
    """
    hook, envelope = call.hook, fire.envelope.with_context(call.context)
    is_of_tool = not hook.target.native and any(field.name == "tool_args" for field in fire.spec.fields)
    payload = call.payload.with_tool_words(is_gate=fire.spec.fails_closed) if is_of_tool else call.payload.data
    params: dict[str, object] = {
        "hook": hook.id, "call_id": f"{envelope.call_id or ''}", "event": hook.target.native or fire.spec.name,
        "payload": msgspec.Raw(payload), "envelope": envelope,
    }  # fmt: skip
    if call.merged:
        params["merged"] = call.merged
    if call.reinvoked:
        params["reinvoked"] = True
    if hook.config:
        params["config"] = msgspec.Raw(hook.config)
    return params

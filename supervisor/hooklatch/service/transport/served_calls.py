"""The calls of hooks that a client serves: asked over its connection, answered by its responses.  Knows no socket."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from hooklatch.core.decisions.call import Call
from hooklatch.core.messages import CallOutcome
from hooklatch.core.protocol import Response, encode_request
from hooklatch.processes.fire_context import FireContext

__all__ = ["ServedCalls"]

NO_ANSWER = CallOutcome(cause="timeout", message="its client did not answer in time")


class ServedCalls:
    """The pending calls of one client."""

    __slots__ = ("_asked", "_count")

    def __init__(self) -> None:
        self._asked: dict[int, PendingCall] = {}
        self._count = 0

    async def ask(self, send: Callable[[bytes], None], call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        """Send a call, and return its outcome by the deadline."""
        started = trio.current_time()
        self._count += 1
        number = self._count
        asked = self._asked[number] = PendingCall()
        try:
            send(encode_request(number, "call", make_call_params(call, fire)))
            fire.sent()
            with trio.move_on_at(deadline):
                await asked.ended.wait()
        finally:
            del self._asked[number]
        ended = trio.current_time()
        # If the answer and the deadline arrive in the same turn of the loop, the clock decides.
        outcome = asked.outcome if ended < deadline else NO_ANSWER
        return outcome.with_duration(ended - started)

    def answered(self, response: Response) -> None:
        """Take an answer; one that is too late, or was never asked for, is ignored."""
        asked = self._asked.get(response.id) if isinstance(response.id, int) else None
        if asked is None:
            return
        if response.error is not None:
            text = str(response.error.get("message", "an error"))
            asked.end(CallOutcome(cause="crash", message=f"its client answered: {text[:500]}"))
        else:
            asked.end(CallOutcome(cause="policy", answer=bytes(response.result or b"null")))

    def refused(self, number: object) -> None:
        """Take an answer that was not read: there was no room for it."""
        asked = self._asked.get(number) if isinstance(number, int) else None
        if asked is not None:
            asked.end(CallOutcome(cause="overload", message="there was no room for its client's answer"))

    def end(self) -> None:
        """End all of them: the client is gone."""
        for asked in self._asked.values():
            asked.end(CallOutcome(cause="crash", message="the client that served it is gone"))


class PendingCall:
    """A pending call."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.outcome = NO_ANSWER

    def end(self, outcome: CallOutcome) -> None:
        if not self.ended.is_set():
            self.outcome = outcome
            self.ended.set()


def make_call_params(call: Call, fire: FireContext) -> dict[str, object]:
    """Return the params of the `call` that a client is sent; in a dialect the event has that system's name."""
    hook, envelope = call.hook, fire.envelope.with_context(call.context)
    params: dict[str, object] = {
        "hook": hook.id, "call_id": f"{envelope.call_id or ''}", "event": hook.target.native or fire.spec.name,
        "payload": msgspec.Raw(call.payload.data), "envelope": envelope,
    }  # fmt: skip
    if call.merged:
        params["merged"] = call.merged
    if call.reinvoked:
        params["reinvoked"] = True
    if hook.config:
        params["config"] = msgspec.Raw(hook.config)
    return params

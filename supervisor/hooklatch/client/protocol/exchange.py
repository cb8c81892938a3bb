"""The pending requests of one connection.  Does not know sockets, tasks or threads; the time is passed in.

begin    ─▶ a waiter, and the line to send for it
receive  ─▶ what the shell has to act on; waiters whose answers came are woken
check    ─▶ a ping to send if one is due; a daemon that is silent even to pings ends the exchange
end      ─▶ every waiter fails at once, each with the same error, and `on_end` is called, once
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

import msgspec

from hooklatch.client.protocol.core import (
    Announced,
    CallRequested,
    ClientConnection,
    ConnectionLost,
    ErrorReceived,
    Incoming,
    ProtocolFault,
    ReplyDue,
    ResultReceived,
)
from hooklatch.client.protocol.liveness import Liveness, Pulse
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, UnreadableAnswerError

__all__ = ["Action", "Exchange", "Waiter"]

Action: TypeAlias = CallRequested | ReplyDue | Announced


class Waiter:
    """One request that waits for its answer; `wake` is called when there is something to read."""

    __slots__ = ("error", "number", "result", "wake")

    def __init__(self, number: int, wake: Callable[[], object]) -> None:
        self.number = number
        self.wake = wake
        self.result = msgspec.Raw(b"null")
        self.error: HooklatchError | None = None

    def read(self) -> msgspec.Raw:
        """Return the result.

        Raises:
            RequestFailedError, UnreadableAnswerError, DaemonUnreachableError: there is none.
        """
        if self.error is not None:
            raise self.error
        return self.result


class Exchange:
    """The unanswered requests of one connection, and whether its peer is alive."""

    def __init__(self, liveness: Liveness, on_end: Callable[[], object]) -> None:
        self.failure: HooklatchError | None = None
        self._core = ClientConnection()
        self._pulse = Pulse(liveness)
        self._waiters: dict[int, Waiter] = {}
        self._on_end = on_end

    @property
    def due(self) -> float:
        """Return the time of the next `check`; infinite while no request waits."""
        return self._pulse.due

    def begin(
        self, method: str, params: Mapping[str, object], *, wake: Callable[[], object], now: float
    ) -> tuple[Waiter, bytes]:
        """Return a new request's waiter and its line; `finish` it, whatever becomes of it.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON.
            HooklatchError: the exchange has ended, for this reason.
        """
        if self.failure is not None:
            raise self.failure
        number, line = self._core.request(method, params)
        self._waiters[number] = waiter = Waiter(number, wake)
        self._pulse.begin(now)
        return waiter, line

    def finish(self, waiter: Waiter) -> None:
        """Forget a request; an answer that comes later is dropped."""
        self._waiters.pop(waiter.number, None)
        self._pulse.finish()

    def end(self, failure: HooklatchError) -> None:
        """Give up the connection; only the first failure counts."""
        if self.failure is not None:
            return
        self.failure = failure
        for waiter in self._waiters.values():
            waiter.error = failure
            waiter.wake()
        self._on_end()

    def heard(self, now: float) -> None:
        """Note a sign of life other than bytes: the peer made room in a full buffer."""
        self._pulse.heard(now)

    def check(self, now: float) -> bytes:
        """Return a ping to send if one is due; else nothing."""
        match self._pulse.check(now):
            case "ping":
                return self._core.request("ping", {})[1]
            case "dead":
                self.end(DaemonUnreachableError("the daemon is connected but silent, even to pings"))
            case "fine":
                pass
        return b""

    def receive(self, data: bytes, now: float) -> list[Action]:
        """Take what the daemon sent; empty bytes are the end of its stream."""
        self._pulse.heard(now)
        incoming = self._core.receive_data(data) if data else self._core.receive_eof()
        return [action for one in incoming if (action := self._take(one)) is not None]

    def reply(self, call: CallRequested, answer: bytes | str) -> bytes:
        """Return the line that answers a call: an encoded verdict, or a text that says why there is none."""
        return self._core.fail(call, answer) if isinstance(answer, str) else self._core.answer(call, answer)

    def _take(self, one: Incoming) -> Action | None:
        match one:
            case ResultReceived(number, result):
                if waiter := self._waiters.pop(number, None):
                    waiter.result = result
                    waiter.wake()
            case ErrorReceived(number, code, name, message):
                if waiter := self._waiters.pop(number, None):
                    waiter.error = RequestFailedError(code, name, message)
                    waiter.wake()
            case ProtocolFault(message):
                self.end(UnreadableAnswerError(f"the daemon sent what cannot be understood: {message}"))
            case ConnectionLost(message):
                self.end(DaemonUnreachableError(message))
            case CallRequested() | ReplyDue() | Announced():
                return one
            case _:
                assert_never(one)
        return None

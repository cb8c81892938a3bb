"""The client's end of the protocol: the pending requests of one connection, and the daemon's requests to the client.

Does not know sockets, tasks, threads or clocks: the bytes and the time are passed in.

begin    ─▶ a waiter, and the line to send for it
receive  ─▶ actions for the shell; waiters whose answers came are woken
                CallRequested   run a served hook, and send the result of `encode_reply`
                bytes           send them: the response to a request that no client serves
                Announcement    something changed
check    ─▶ a ping to send if one is due; a daemon that is silent even to pings ends the exchange
end      ─▶ every waiter fails at once, each with the same error, and `on_end` is called, once

A meaningless message ends it too, since it may have been the answer to any request.

A permission to decide events without the daemon belongs to one connection and to the latest announcement on it.  The
counts of such events outlive the connection: those that were not reported yet are reported on the next one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import accumulate
from typing import Any, Final, TypeAlias, cast

import msgspec

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.decisions import TABLE
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.client.protocol.liveness import Heartbeat, Liveness
from hooklatch.core.protocol import (
    MAX_FRAME,
    ErrorCode,
    LineBuffer,
    Request,
    Response,
    RpcError,
    convert_params,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    read_message,
)
from hooklatch.errors import (
    DaemonUnreachableError,
    HooklatchError,
    InvalidPayloadError,
    RequestFailedError,
    UnreadableAnswerError,
)
from hooklatch_worker.author.ambiguity import find_ambiguity
from hooklatch_worker.author.verdicts import GarbageError, Verdict, encode_verdict

__all__ = [
    "NOT_PERMITTED", "REPORT", "Permission", "SkippedCounts", "Action", "CallRequested", "Exchange", "PendingRequest",
    "encode_reply", "explain_unclear_line", "ServedFunction", "describe_exception", "encode_answer", "is_async",
]  # fmt: skip

REPORT = 1.0  # seconds after the first skipped event until its report to the daemon, with all others until then


class Permission(msgspec.Struct, frozen=True):
    """The events that no hook of the session listened to when the registry had this revision."""

    events: frozenset[str] = frozenset()
    revision: int = 0


NOT_PERMITTED = Permission()


class SkippedCounts:
    """The number of times that each event was skipped since the last report."""

    def __init__(self) -> None:
        self.unreported: dict[str, int] = {}
        self._total = 0  # since the session began, reported or not

    def add(self, event: str) -> int:
        """Count a skipped event, and return its number in the session."""
        self._total += 1
        self.unreported[event] = self.unreported.get(event, 0) + 1
        return self._total

    def take(self) -> bytes:
        """Return the line that reports all counts, and reset them; nothing if there are none."""
        if not self.unreported:
            return b""
        line = encode_notification("skipped", {"events": self.unreported})
        self.unreported = {}
        return line


class CallRequested(msgspec.Struct, frozen=True):
    """A request of the daemon to call a hook that this client serves. `number` identifies the answer."""

    hook: str
    event: str
    payload: dict[str, Any]
    envelope: dict[str, Any] = {}
    merged: dict[str, Any] | None = None
    reinvoked: bool = False
    config: dict[str, Any] | None = None
    number: int | str = 0  # the request's, not one of its params


NO_MARKS: Final = bytes({*range(256)} - {*b'[]{}"'})
STRINGS: Final = re.compile(rb'"[^"]*"')
Action: TypeAlias = CallRequested | Announcement | bytes


class PendingRequest:
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
    """The unanswered requests of one connection, and whether its peer is alive.

    `pulse` is the peer's; who sends a line that has to wait begins and finishes it there, too.
    """

    def __init__(self, liveness: Liveness, on_end: Callable[[], object]) -> None:
        self.failure: HooklatchError | None = None
        self.permission = NOT_PERMITTED  # to skip events, until a later announcement ends it
        self._lines = LineBuffer()
        self.pulse = Heartbeat(liveness)
        self._next_number = 1
        self._unanswered: dict[object, PendingRequest | None] = {}  # None where no waiter is left for the answer
        self._on_end = on_end

    def begin(
        self, method: str, params: Mapping[str, object], *, wake: Callable[[], object], now: float
    ) -> tuple[PendingRequest, bytes]:
        """Return a new request's waiter and its line; the caller has to `finish` it in every case.

        Raises:
            InvalidPayloadError: a parameter is not plain finite JSON, or all are too big for one message.
            HooklatchError: the exchange has ended, for this reason.
        """
        if self.failure is not None:
            raise self.failure
        number, line = self._request(method, params)
        self._unanswered[number] = waiter = PendingRequest(number, wake)
        self.pulse.begin(now)
        return waiter, line

    def finish(self, waiter: PendingRequest) -> None:
        """Forget a request; an answer that comes later is dropped."""
        if waiter.number in self._unanswered:
            self._unanswered[waiter.number] = None
        self.pulse.finish()

    def end(self, failure: HooklatchError) -> None:
        """Give up the connection; only the first failure counts."""
        if self.failure is not None:
            return
        self.failure, self.permission = failure, NOT_PERMITTED
        for waiter in self._unanswered.values():
            if waiter is not None:
                waiter.error = failure
                waiter.wake()
        self._on_end()

    def check(self, now: float) -> bytes:
        """Return a ping to send if one is due; else nothing."""
        match self.pulse.check(now):
            case "ping":
                return self._request("ping", {})[1]
            case "dead":
                self.end(DaemonUnreachableError("the daemon is connected but silent, even to pings"))
            case "fine":
                pass
        return b""

    def receive(self, data: bytes, now: float) -> list[Action]:
        """Take data of the daemon, empty at the end of its stream. After the exchange's end they are ignored."""
        actions: list[Action] = []
        if self.failure is not None:
            return actions
        self.pulse.heard(now)
        if not data:
            where = "" if self._lines.is_empty else " in the middle of a message"
            self.end(DaemonUnreachableError(f"the daemon hung up{where}"))
            return actions
        self._lines.feed(data)
        try:
            while (line := self._lines.take()) is not None:
                if (action := self._take(line)) is not None:
                    actions.append(action)
        except RpcError as error:
            self.end(UnreadableAnswerError(f"the daemon sent an unreadable message: {error}"))
        return actions

    def _request(self, method: str, params: Mapping[str, object]) -> tuple[int, bytes]:
        encoded = {key: encode_plain(value, key) for key, value in params.items()}
        number = self._next_number
        line = encode_request(number, method, encoded)
        if len(line) > MAX_FRAME:
            raise InvalidPayloadError(f"{method} would be a message of {len(line)} bytes; the limit is {MAX_FRAME}")
        self._next_number += 1
        self._unanswered[number] = None
        return number, line

    def _take(self, line: bytes) -> Action | None:
        message = read_message(line)
        if (problem := explain_unclear_line(line)) is not None:
            raise RpcError(ErrorCode.PARSE_ERROR, problem)
        if isinstance(message, Response):
            self._settle(message)
            return None
        if message.method == "announce":
            announcement = convert_params(message.params, Announcement)
            if announcement.topic != "idle":
                return announcement
            self.permission = Permission(announcement.events, announcement.revision or 0)
            return None
        if message.is_notification:
            return None  # a newer daemon may announce more than we know
        return read_call(message)

    def _settle(self, response: Response) -> None:
        error = response.error or {}
        if response.id not in self._unanswered:
            message_text = f": {error['message']}" if "message" in error else ""
            raise RpcError(
                ErrorCode.INVALID_REQUEST, f"an answer to request {response.id!r}, which was never sent{message_text}"
            )
        waiter = self._unanswered.pop(response.id)
        if waiter is None:
            return
        if response.result is not None:
            waiter.result = response.result
        else:
            waiter.error = read_error(error)
        waiter.wake()


def explain_unclear_line(line: bytes) -> str | None:
    """Return why other parsers may read a line differently, or not at all; None if they read it alike."""
    # The cheap tests first: a short line, or one with few brackets, cannot be too deep.
    depth = TABLE.depth
    if len(line) > depth and line.count(b"[") + line.count(b"{") > depth and measure_depth(line) > depth:
        return f"it is nested deeper than {depth} levels"
    return find_ambiguity(line)


def measure_depth(line: bytes) -> int:
    """Return how many lists and objects of valid JSON are inside each other at most."""
    marks = line.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, NO_MARKS)
    brackets = STRINGS.sub(b"", marks)
    return max(accumulate(1 if byte in b"[{" else -1 for byte in brackets), default=0)


def encode_reply(call: CallRequested, answer: bytes | str) -> bytes:
    """Return the line that answers a call: an encoded verdict, empty for no opinion, or a text why there is none."""
    if isinstance(answer, str):
        safe = answer.encode("utf-8", "replace").decode()  # an exception's text may contain a lone surrogate
        return encode_error(call.number, RpcError(ErrorCode.INTERNAL_ERROR, safe))
    line = encode_result(call.number, msgspec.Raw(answer or b"null"))
    if len(line) > MAX_FRAME:
        return encode_reply(call, f"the answer of {len(line)} bytes is over the limit of {MAX_FRAME}")
    return line


def read_call(message: Request) -> CallRequested | bytes:
    number = message.id
    if not isinstance(number, (int, str)):
        raise RpcError(ErrorCode.INVALID_REQUEST, "a request whose id is null can have no answer")
    try:
        if message.method != "call":
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"no client serves {message.method!r}")
        return msgspec.structs.replace(convert_params(message.params, CallRequested), number=number)
    except RpcError as error:
        return encode_error(number, error)


def read_error(error: dict[str, Any]) -> RequestFailedError:
    code, data = error.get("code"), error.get("data")
    name = cast("dict[str, object]", data).get("name") if isinstance(data, dict) else None
    code, name = code if isinstance(code, int) else 0, name if isinstance(name, str) else ""
    return RequestFailedError(code, name, str(error.get("message", "it gave no reason")))


ServedFunction: TypeAlias = Callable[[Any], "Verdict[Any] | Awaitable[Verdict[Any] | None] | None"]


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a call returns an awaitable: an async def, or an object whose `__call__` is one."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object may be called like an async def
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def encode_answer(answer: object, *, is_native: bool = False) -> bytes:
    """Encode what a served function returned as JSON; an invalid answer stays one, so that the daemon sees that.

    A native answer, in the format of the session's dialect, is sent unchanged: the daemon reads it.
    """
    try:
        if is_native and is_in_other_words(answer):
            return bytes(encode_plain(answer, "the answer"))
        return encode_verdict(answer)
    except (GarbageError, InvalidPayloadError) as error:
        # An error would read as a crash. No verdict has this key, and it puts the problem in the daemon's record.
        return msgspec.json.encode({"garbage": str(error)})


def is_in_other_words(answer: object) -> bool:
    return not isinstance(answer, Verdict | None)  # apart: a checker would narrow the answer by it


def describe_exception(error: BaseException) -> str:
    """Describe an exception in one line, even if its own text cannot be read."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__

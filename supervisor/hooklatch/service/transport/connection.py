"""One client's connection: lines in, lines out.  Knows bytes, deadlines and requests, but no hook and no layer.

Reading.  The task that reads a request also answers it, which saves two task switches a fire.  A slow fire must not
stop the reading, so a daemon-wide task (`reader_handoff.py`) then has another task take over (`read_on`), and the first
one stops reading when its fire is done.  If the next request has arrived already, another task takes over at once.
Nothing is read while a hello is answered, because what follows must see its session, and after a one-shot only the end
of input is awaited.

Floods.  When a client is ahead of us, by a line or by a few pending requests of its session, its next line waits for
admission (`registry/admission.py`): a flood queues there, and other clients pass it.

Writing.  A line is sent at once; what the kernel does not take is buffered, and drained by a task that lives only as
long as the buffer is not empty.  We do not read from a client that does not read, and close one that reads nothing for
30 s.  Announcements never block: a client that lags gets one `resync` later.

Ending.  The end of input means that no more requests come.  The client is gone when the kernel reports it (EPOLLHUP),
and then its fires are abandoned.  After `session.close` no more requests are accepted; answers of hooks that it serves
still are, until all its requests are answered.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol

import msgspec
import trio

from hooklatch.core.decisions.call import Call
from hooklatch.core.limits import MAX_BYTES_IN_FLIGHT
from hooklatch.core.messages import Outcome
from hooklatch.core.protocol import (
    MAX_IN_FLIGHT,
    ErrorCode,
    LineBuffer,
    LineTooLongError,
    Request,
    Response,
    RpcError,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    read_message,
)
from hooklatch.processes.worker import FireContext
from hooklatch.service.registry.admission import MAX_OF_SESSION, UNHINDERED, Admission, Flow
from hooklatch.service.registry.sessions import Session
from hooklatch.service.transport.hangups import Hangups
from hooklatch.service.transport.line_timeouts import LineTimeouts
from hooklatch.service.transport.reader_handoff import ReaderHandoff

__all__ = ["Connection", "Handler", "Shared"]

logger = logging.getLogger("hooklatch.connection")
HELLO_TIMEOUT = 2.0  # seconds within which a hello or a one-shot must arrive
FRAME_TIMEOUT = 10.0  # seconds within which a started line must end
WRITE_TIMEOUT = 30.0  # seconds within which a client must read some of its pending output
MAX_BUFFERED = 2**20  # bytes of pending output beyond which the client's next request is not read
MAX_ANNOUNCED = 2**18  # bytes of pending output beyond which announcements become one resync
MAX_UNREAD = 64 * 2**20  # bytes of pending output beyond which the hooks that a client serves are not called
MAX_RUBBISH = 5  # unreadable lines in a row
NO_ANSWER = Outcome(cause="timeout", message="its client did not answer in time")
RECEIVED = 2**16  # bytes to receive at once
GONE = (errno.EPIPE, errno.ECONNRESET)  # why nothing can be sent to a client that has left
MAX_UNBROKEN = 8  # consecutive reads that did not have to wait, before other tasks get a turn


class Handler(Protocol):
    """Answers requests: the methods of the service."""

    def handle(self, connection: Connection, request: Request) -> Awaitable[object]: ...

    def revision_for(self, connection: Connection) -> int: ...

    def closed(self, connection: Connection) -> None: ...


class Shared(msgspec.Struct, frozen=True):
    """The daemon-wide tasks that serve all connections."""

    admission: Admission
    handoff: ReaderHandoff
    line_timeouts: LineTimeouts
    hangups: Hangups


class CloseConnection(Exception):
    """Raised inside a connection to end it."""


class Connection:
    """The daemon's end of one client's socket."""

    def __init__(self, number: int, stream: socket.socket, handler: Handler, shared: Shared, *, is_admin: bool) -> None:
        stream.setblocking(False)
        self.number = number
        self.is_admin = is_admin
        self.session: Session | None = None
        self.has_greeted = False
        self.client = ""
        self.topics: set[str] = set()
        self.may_skip: frozenset[str] = frozenset()  # the events that it was told it need not fire
        self._socket = stream
        self._handler = handler
        self._handoff = shared.handoff
        self._admission = shared.admission
        self._hangups = shared.hangups
        self._line_timeouts = shared.line_timeouts
        self._own_flow = Flow()  # the queue position of a client without a session
        self._lines = LineBuffer()
        self._outgoing = bytearray()
        self._drained = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._reader = 0
        self._in_flight = 0
        self._bytes_in_flight = 0
        self._is_line_begun = False
        self._rubbish = 0
        self._unbroken = 0
        self._has_more = False
        self._is_lagging = False
        self._is_ended = False
        self._is_closing = False
        self._is_one_shot = False
        self._is_retired = False
        self._is_gone = False
        self._is_flushing = False
        self._hello_deadline = trio.current_time() + HELLO_TIMEOUT
        self._calls: dict[int, Asked] = {}
        self._call_count = 0

    async def run(self) -> None:
        """Serve the client until it is gone."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._read(self._reader)
        finally:
            self._is_closing = True
            self._handoff.release(self)
            self._line_timeouts.end(self)
            for asked in self._calls.values():
                asked.end(Outcome(cause="crash", message="the client that served it is gone"))
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._handler.closed(self)

    @property
    def _ids(self) -> dict[str, object]:
        return {"connection": self.number, "session": self.session.id if self.session is not None else None}

    @property
    def is_quiet(self) -> bool:
        """Whether every request is answered and every answer sent."""
        return not self._in_flight and not self._outgoing

    def close(self) -> None:
        """Close it now and abandon what runs for it."""
        self._is_closing = True
        with suppress(OSError):  # it may be gone already
            self._socket.shutdown(socket.SHUT_RDWR)  # a notification that has to finish must not keep the client
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def hear_out(self) -> None:
        """Serve one event and nothing else: the client is gone already, so it cannot be identified."""
        self._is_gone = True

    def retire(self) -> None:
        """Accept no more requests: it has left its session, and closes when all its requests are answered."""
        self._is_retired, self.session = True, None
        self.topics.clear()

    # -- reading ---------------------------------------------------------------------------------------------

    def read_on(self) -> None:
        """Let another task continue reading; the present one is busy."""
        if self._nursery is not None and not self._is_ended and not self._is_closing:
            self._reader += 1
            self._nursery.start_soon(self._read, self._reader)

    async def _read(self, reader: int) -> None:
        """Read and answer requests while this task is the one that reads."""
        try:
            while reader == self._reader:
                if self._is_one_shot:
                    await self._end_of_input()
                    return
                if len(self._outgoing) > MAX_BUFFERED:
                    self._end_line()  # we do not read, so the line may take its time
                    await self._drained.wait()
                    continue
                if (self._has_more or self.flow.in_flight >= UNHINDERED) and self._lines.has_line:
                    await self._admission.turn(self.session.flow if self.session is not None else self._own_flow)
                line = self._lines.take()
                if line is not None:
                    if self._is_line_begun:
                        self._end_line()
                    self._has_more = self._lines.has_line
                    request = self._request_in(line)
                    if request is not None:
                        await self._take_request(request, len(line))
                elif not (self._has_received() or await self._receive_more()):
                    if self._lines.is_empty:
                        await self._end_of_input()
                        return
                    self._lines.feed(b"\n")  # the end of input also ends the last line
        except LineTooLongError as error:
            self._send_error(None, error)
            await self._flush_and_close()
        except CloseConnection:
            await self._flush_and_close()

    def _has_received(self) -> bool:
        """Take what has arrived; false if nothing has, if there is to be a pause, or at the end of input."""
        self._unbroken += 1
        if self._unbroken >= MAX_UNBROKEN or not self.has_greeted:
            return False
        try:
            data = self._socket.recv(RECEIVED)
        except OSError:
            return False
        self._lines.feed(data)
        return bool(data)

    async def _receive_more(self) -> bool:
        self._unbroken = 0
        if self.has_greeted:
            if not self._lines.is_empty and not self._is_line_begun:
                self._is_line_begun = True
                self._line_timeouts.begin(self, trio.current_time() + FRAME_TIMEOUT)
            return await self._receive()  # no other deadline: an idle client may stay silent forever
        with trio.move_on_at(self._hello_deadline):
            return await self._receive()
        self._send_error(None, RpcError(ErrorCode.HELLO_REQUIRED, f"no hello within {HELLO_TIMEOUT:.0f} s"))
        raise CloseConnection

    def _end_line(self) -> None:
        self._is_line_begun = False
        self._line_timeouts.end(self)

    def out_of_time(self) -> None:
        """Close it: its line was started too long ago, even if bytes still trickle in."""
        text = f"a line was begun and not ended in {FRAME_TIMEOUT:.0f} s"
        self._send_error(None, RpcError(ErrorCode.PARSE_ERROR, text))
        self.close()

    async def _receive(self) -> bool:
        """Wait for more, if only for one turn of the loop; return whether anything came before the end of input."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(RECEIVED)
            except BlockingIOError:
                continue
            except OSError:
                return False
            self._lines.feed(data)
            return bool(data)

    @property
    def flow(self) -> Flow:
        """The flow that its requests count towards: its session's, or the one of all clients without a session."""
        return self.session.flow if self.session is not None else self._admission.strangers

    async def _end_of_input(self) -> None:
        """Wait until every request is answered or the client is gone."""
        self._is_ended = True
        if self._in_flight or self._outgoing:
            with self._hangups.watching(self._socket.fileno(), self.close):
                while self._in_flight or self._outgoing:
                    await self._drained.wait()
        self.close()

    # -- requests --------------------------------------------------------------------------------------------

    def _request_in(self, line: bytes) -> Request | None:
        """Return the request that a line holds; take a response, and answer what is neither."""
        try:
            message = read_message(line)
        except RpcError as error:
            if line.strip():
                self._rubbish += 1
                self._send_error(error.request_id, error)
                if self._rubbish >= MAX_RUBBISH:
                    raise CloseConnection from None
            return None
        self._rubbish = 0
        if isinstance(message, Response):
            self._take_response(message)
            return None
        return message

    async def _take_request(self, request: Request, size: int) -> None:
        if self._is_gone and (self.is_admin or request.method != "fire"):
            raise CloseConnection
        if self._is_retired:
            text = "this connection has closed its session; open another one"
            self._send_error(request.id, RpcError(ErrorCode.INVALID_REQUEST, text))
            return
        if self._in_flight >= MAX_IN_FLIGHT and request.method != "ping":
            error = RpcError(ErrorCode.OVERLOAD, f"{MAX_IN_FLIGHT} requests of this connection are unanswered")
            self._send_error(request.id, error)
            return
        if self._bytes_in_flight + size > MAX_BYTES_IN_FLIGHT and self._in_flight:
            text = f"unanswered requests of this connection may take {MAX_BYTES_IN_FLIGHT} bytes, and these take more"
            self._send_error(request.id, RpcError(ErrorCode.OVERLOAD, text))
            return
        flow, reader = self.flow, self._reader
        if self.session is not None and flow.in_flight >= MAX_OF_SESSION and request.method != "ping":
            text = f"{MAX_OF_SESSION} requests of this session are unanswered, on all its connections"
            self._send_error(request.id, RpcError(ErrorCode.OVERLOAD, text))
            return
        self._is_one_shot = not self.has_greeted and request.method == "fire"
        self._in_flight += 1
        self._bytes_in_flight += size
        flow.in_flight += 1
        if self._has_more and self.has_greeted:
            self.read_on()
        elif request.method != "hello":
            self._handoff.keep(self)
        try:
            result = await self._handler.handle(self, request)
            if not request.is_notification:
                self.send(encode_result(request.id, result))
        except RpcError as error:
            self._send_error(request.id, error)
        except Exception:
            # The boundary that must catch all: one request's bug ends neither the connection nor the daemon,
            # and a client takes an error in answer to a fire as a deny.
            logger.exception("request failed", extra={"method": request.method, **self._ids})
            self._send_error(request.id, RpcError(ErrorCode.INTERNAL_ERROR, "internal error; the daemon's log has it"))
        finally:
            if reader == self._reader:  # otherwise the handoff tracks the request of the task that reads now
                self._handoff.release(self)
            self._in_flight -= 1
            self._bytes_in_flight -= size
            flow.in_flight -= 1
            if self._is_ended:
                self._wake()
        if self._is_one_shot or (self._is_retired and not self._in_flight):
            raise CloseConnection

    # -- writing ---------------------------------------------------------------------------------------------

    def _send_error(self, number: object, error: RpcError) -> None:
        if number is not msgspec.UNSET:
            self.send(encode_error(number, error))

    def send(self, data: bytes) -> None:
        """Send a line; queue what the kernel does not take at once."""
        if self._is_closing:
            return
        if not self._outgoing:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                if error.errno not in GONE:  # no memory for it, say: nobody may take this for sent
                    self.close()
                return  # the client is gone; the reader will notice
            if sent == len(data):
                return
            data = data[sent:]
        self._outgoing += data
        if not self._is_flushing and self._nursery is not None:
            self._is_flushing = True
            self._nursery.start_soon(self._flush)

    def send_all(self, line: bytes) -> bool:
        """Send a line that must not be left out; return whether the kernel has all of it, or the connection is over."""
        self.send(line)
        return self._is_closing or not self._outgoing

    async def all_sent(self) -> None:
        """Wait until the kernel has all that is to be sent, or the connection is over."""
        while self._outgoing and not self._is_closing:
            await self._drained.wait()

    def announce(self, line: bytes, *, is_registry: bool) -> bool:
        """Queue an announcement; a client that lags gets one `resync` when it has caught up.  False if dropped."""
        if self._is_lagging or len(self._outgoing) > MAX_ANNOUNCED:
            self._is_lagging = self._is_lagging or is_registry
            return False
        self.send(line)
        return True

    async def _flush(self) -> None:
        try:
            while self._outgoing:
                with trio.move_on_after(WRITE_TIMEOUT) as scope:
                    await trio.lowlevel.wait_writable(self._socket)
                if scope.cancelled_caught:
                    logger.warning("client takes nothing, closed", extra=self._ids)
                    self.close()
                    return
                try:
                    del self._outgoing[: self._socket.send(self._outgoing)]
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._outgoing.clear()
                    if error.errno not in GONE:
                        self.close()
                if not self._outgoing and self._is_lagging:
                    self._is_lagging = False
                    if "registry" in self.topics:
                        params = {"topic": "registry", "resync": self._handler.revision_for(self)}
                        self.announce(encode_notification("announce", params), is_registry=True)
        finally:
            self._is_flushing = False
            self._wake()

    def _wake(self) -> None:
        """Wake the tasks that wait for output to be sent or requests to be answered."""
        drained, self._drained = self._drained, trio.Event()
        drained.set()

    async def _flush_and_close(self) -> None:
        while self._outgoing and self._is_flushing:
            await self._drained.wait()
        self.close()

    # -- served hooks ----------------------------------------------------------------------------------------

    async def call(self, call: Call, fire: FireContext, deadline: float) -> Outcome:
        """Ask the client to run a hook that it serves, and return the outcome by the deadline."""
        if len(self._outgoing) > MAX_UNREAD:
            return Outcome(cause="overload", message="its client does not read what it is sent")
        started = trio.current_time()
        self._call_count += 1
        number = self._call_count
        asked = self._calls[number] = Asked()
        params = params_of(call, fire)
        self._handoff.hurry(self)  # the fire that asks may have come on this very connection
        try:
            self.send(encode_request(number, "call", params))
            with trio.move_on_at(deadline):
                await asked.ended.wait()
        finally:
            del self._calls[number]
        ended = trio.current_time()
        # If the answer and the deadline arrive in the same turn of the loop, the clock decides.
        outcome = asked.outcome if ended < deadline else NO_ANSWER
        return outcome.lasting(ended - started)

    def _take_response(self, response: Response) -> None:
        asked = self._calls.get(response.id) if isinstance(response.id, int) else None
        if asked is None:
            return  # too late, or never asked for
        if response.error is not None:
            text = str(response.error.get("message", "an error"))
            asked.end(Outcome(cause="crash", message=f"its client answered: {text[:500]}"))
        else:
            asked.end(Outcome(cause="policy", answer=bytes(response.result or b"null")))


class Asked:
    """A pending call of a served hook."""

    def __init__(self) -> None:
        self.ended = trio.Event()
        self.outcome = NO_ANSWER

    def end(self, outcome: Outcome) -> None:
        if not self.ended.is_set():
            self.outcome = outcome
            self.ended.set()


def params_of(call: Call, fire: FireContext) -> dict[str, object]:
    """Return the params of the `call` that a client is sent; in a dialect the event has that system's name."""
    hook, envelope = call.hook, fire.envelope(call)
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

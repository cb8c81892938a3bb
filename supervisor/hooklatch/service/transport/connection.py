"""One client's connection: lines in, lines out.  Knows bytes, deadlines and requests, but not hooks or layers.

Reading.  The task that reads a request also answers it, which saves two task switches a fire.  A slow fire must not
stop the reading, so a daemon-wide task (`watches.py`) then has another task take over (`hand_over_reading`), and the
first one stops reading when its fire is done.  If the next request has arrived already, another task takes over at
once.  Nothing is read while a hello is answered, because what follows must see its session, and after a one-shot only
the end of input is awaited.

Long lines.  A line that has not ended after 64 KiB needs room (`registry/budget.py`) before any more of it is read.  If
there is none in time, its rest is read and dropped, since only then the sender reads the refusal.

Floods.  When a client is ahead of us, by a line or by a few pending requests of its session, its next line waits for
admission (`registry/admission.py`): a flood queues there, and other clients pass it.

Writing.  A line is sent at once. The part that the kernel does not take is buffered, and drained by a task that lives
only as long as the buffer is not empty.  A client that does not read is not read from, and one that reads nothing for
30 s is closed.  Announcements never block. A client that lags gets one `resync` later for changes of hooks, and for
each other topic the number of lines that it has `missed`.

Giving up.  A client whose line is too long or too slow gets an error, and its input is dropped for a while: if the
daemon hung up at once, the client would see a broken pipe instead.

Ending.  The end of input means that no more requests come.  The client is gone when the kernel reports it (EPOLLHUP),
and then its fires are abandoned.  After `session.close` no more requests are accepted. Answers of hooks that the client
serves still are, until all its requests are answered.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Literal, Protocol, TypeAlias

import msgspec
import trio

from hooklatch.core.call import Call
from hooklatch.core.limits import MAX_BYTES_IN_FLIGHT
from hooklatch.core.messages import CallOutcome
from hooklatch.core.protocol import (
    MAX_IN_FLIGHT,
    ErrorCode,
    LineTooLongError,
    Response,
    RpcError,
    encode_error,
    encode_result,
    read_ends,
)
from hooklatch.credentials import read_credentials
from hooklatch.processes.fire_context import FireContext
from hooklatch.service.registry.admission import MAX_OF_SESSION, UNHINDERED, Admission, FairQueueKey
from hooklatch.service.registry.budget import SMALL, Budget, BudgetShare
from hooklatch.service.registry.sessions import AgentSession
from hooklatch.service.transport.lines import LaggedTopics, ReceiveBuffer, SendBuffer
from hooklatch.service.transport.requests import IncomingRequest, read_line
from hooklatch.service.transport.served_calls import ServedCalls
from hooklatch.service.transport.watches import Hangups, LineTimeouts, ReaderHandoff

__all__ = ["Connection", "RequestHandler", "Role", "ConnectionTasks"]

logger = logging.getLogger("hooklatch.connection")
HELLO_TIMEOUT = 2.0  # seconds within which a hello or a one-shot must arrive
FRAME_TIMEOUT = 10.0  # seconds within which a started line must end
WRITE_TIMEOUT = 30.0  # seconds within which a client must read some of its pending output
MAX_BUFFERED = 2**20  # bytes of pending output beyond which the client's next request is not read
MAX_ANNOUNCED = 2**18  # bytes of pending output beyond which announcements become one resync
MAX_RUBBISH = 5  # unreadable lines in a row
# Seconds that a long line waits for room.  The client of a session takes a daemon for dead that reads nothing for 5 s.
# A client without a session, such as a forwarder, pings the daemon on another connection, and keeps waiting.
ROOM_TIMEOUT, ROOM_TIMEOUT_OF_STRANGERS = 4.0, 10.0
LINGER = 2.0  # seconds in which a client that is given up may still send
NO_TOPICS: frozenset[str] = frozenset()  # one for all: an empty set takes 216 bytes
ONE_SHOTS = frozenset({"fire", "host"})  # methods that a client without a hello calls once
MAX_UNBROKEN = 8  # consecutive reads that did not have to wait, before other tasks get a turn
# The rights of a connection, by its socket. A link is an administrator's connection whose hello made it a link.
Role: TypeAlias = Literal["agent", "admin", "link"]


NO_HELLO = RpcError(ErrorCode.HELLO_REQUIRED, f"no hello within {HELLO_TIMEOUT:.0f} s")
LATE = RpcError(ErrorCode.PARSE_ERROR, "a line was begun and not ended in time")


class RequestHandler(Protocol):
    """The methods of the service, which answer requests."""

    def handle(self, connection: Connection, request: IncomingRequest) -> Awaitable[object]: ...

    def revision_for(self, connection: Connection) -> int: ...

    def closed(self, connection: Connection) -> None: ...


class ConnectionTasks(msgspec.Struct, frozen=True):
    """The daemon-wide tasks that serve all connections."""

    admission: Admission
    budget: Budget
    handoff: ReaderHandoff
    line_timeouts: LineTimeouts
    hangups: Hangups


class CloseConnection(Exception):
    """Raised inside a connection to end it."""


class Connection:
    """The daemon's end of one client's socket."""

    # Thousands of connections are idle: with slots each takes 0.4 KiB, with a dictionary 2.5 KiB.
    __slots__ = (
        "_admission", "_bytes_in_flight", "_handler", "_handoff", "_hangups", "_has_more",
        "_in_flight", "_incoming", "_input_deadline", "_is_closing", "_is_line_begun",
        "_is_one_shot", "_is_retired", "_lag", "_line_timeouts", "_nursery", "_outgoing",
        "_reader", "_rubbish", "_served", "_serves_one_event", "_socket", "_unbroken", "client", "has_greeted",
        "may_skip", "number", "role", "session", "topics",
    )  # fmt: skip

    def __init__(
        self, number: int, stream: socket.socket, handler: RequestHandler, shared: ConnectionTasks, *, role: Role
    ) -> None:
        stream.setblocking(False)
        self.number = number
        self.role: Role = role
        self.session: AgentSession | None = None
        self.has_greeted = False
        self.client = ""
        self.topics = NO_TOPICS
        self.may_skip = NO_TOPICS  # the events that it need not fire, as it was last notified
        self._socket = stream
        self._handler = handler
        self._handoff = shared.handoff
        self._admission = shared.admission
        self._hangups = shared.hangups
        self._line_timeouts = shared.line_timeouts
        holder = read_credentials(stream)[0] or f"connection {number}"  # a process, unless it is in another namespace
        self._incoming = ReceiveBuffer(stream, shared.budget, holder)
        self._outgoing = SendBuffer(stream, BudgetShare(shared.budget, holder))
        self._served = ServedCalls()
        self._nursery: trio.Nursery | None = None
        self._reader = 0
        self._in_flight = 0
        self._bytes_in_flight = 0
        self._is_line_begun = False
        self._rubbish = 0
        self._unbroken = 0
        self._has_more = False
        self._lag: LaggedTopics | None = None  # while announcements are left out
        self._is_closing = False
        self._is_one_shot = False
        self._is_retired = False
        self._serves_one_event = False
        self._input_deadline = trio.current_time() + HELLO_TIMEOUT  # of the hello, or of a long line before it

    async def run(self) -> None:
        """Serve the client until it is gone."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._read(self._reader)
        finally:
            self._is_closing = True
            self._incoming.drop()
            self._outgoing.end()
            self._handoff.kept.pop(self, None)
            self._line_timeouts.end(self)
            self._served.end()
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._handler.closed(self)

    @property
    def _ids(self) -> dict[str, object]:
        return {"connection": self.number, "session": self.session.id if self.session is not None else None}

    @property
    def is_admin(self) -> bool:
        """Return whether the client has an administrator's rights."""
        return self.role == "admin"

    @property
    def peer(self) -> tuple[int, int]:
        """Return the process and the user that connected, as the kernel reports them."""
        return read_credentials(self._socket)

    @property
    def is_quiet(self) -> bool:
        """Return whether every request is answered and every answer is sent."""
        return not self._in_flight and not self._outgoing.pending

    def close(self) -> None:
        """Close the connection now, and abandon the calls that run for it."""
        self._is_closing = True
        with suppress(OSError):  # it may be gone already
            self._socket.shutdown(socket.SHUT_RDWR)  # a notification that has to finish must not keep the client
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def serve_last_event(self) -> None:
        """Serve one event and nothing else, since the client is gone already and cannot be identified."""
        self._serves_one_event = True

    def retire(self) -> None:
        """Accept no more requests after `session.close`. The connection closes when all its requests are answered."""
        self._is_retired, self.session, self.topics = True, None, NO_TOPICS

    # -- reading ---------------------------------------------------------------------------------------------

    def hand_over_reading(self) -> None:
        """Let another task continue reading, since the present one is busy."""
        if self._nursery is not None and not self._incoming.is_ended and not self._is_closing:
            self._reader += 1
            self._nursery.start_soon(self._read, self._reader)

    async def _read(self, reader: int) -> None:
        """Read and answer requests while this task is the one that reads."""
        incoming, lines = self._incoming, self._incoming.lines
        try:
            while reader == self._reader:
                if self._is_one_shot or incoming.is_ended:
                    await self._end_of_input()
                    return
                if incoming.is_dropped:
                    await trio.lowlevel.wait_readable(self._socket)
                    incoming.receive()
                    continue
                if len(self._outgoing.pending) > MAX_BUFFERED:
                    self._end_line()  # we do not read, so the line may take its time
                    await self._outgoing.wait()
                    continue
                if not lines.has_line:
                    # On one core the client has run by now, and has sent its next request.
                    if self._unbroken < MAX_UNBROKEN and self.has_greeted and incoming.receive():
                        self._unbroken += 1
                    else:
                        self._unbroken = 0
                        if self.has_greeted and lines.is_empty:
                            await trio.lowlevel.wait_readable(self._socket)  # an idle client may stay silent forever
                        else:
                            await self._wait_in_time()
                        incoming.receive()
                    if not lines.has_line:
                        if incoming.needs_room:
                            await self._make_room()
                        continue
                flow = self.session.flow if self.session is not None else self._admission.strangers
                if self._has_more or flow.in_flight >= UNHINDERED:
                    await self._admission.turn(flow if self.session is not None else self)
                is_skipped = lines.is_skipping
                line = lines.take()
                assert line is not None
                if self._is_line_begun:
                    self._end_line()
                self._has_more = lines.has_line
                room, incoming.room = incoming.room, None
                try:
                    if is_skipped:
                        self._refuse_line(line)
                        continue
                    size, request = len(line), self._parse_request(line)
                    if room is not None:
                        room.shrink(size)  # it was taken for the longest line that there may be
                    del line  # of a request, nothing but its payload is kept while it is answered
                    if request is not None:
                        answering = self._answer(request, size, flow)
                        del request
                        await answering
                finally:
                    if room is not None:
                        room.shrink(0)
        except LineTooLongError as error:
            self._give_up(error)
            await self._read(reader)
        except CloseConnection:
            await self._drain_and_close()

    async def _make_room(self) -> None:
        """Wait for room for the rest of a long line. Without room in time, the line is read and dropped."""
        self._end_line()  # we do not read, so the line may take its time
        await self._incoming.make_room(ROOM_TIMEOUT if self.has_greeted else ROOM_TIMEOUT_OF_STRANGERS)
        self._input_deadline = trio.current_time() + FRAME_TIMEOUT

    async def _wait_in_time(self) -> None:
        """Wait for a hello, or for the rest of a line."""
        if self.has_greeted:
            if not self._is_line_begun:
                self._is_line_begun = True
                self._line_timeouts.begin(self, trio.current_time() + FRAME_TIMEOUT)
            await trio.lowlevel.wait_readable(self._socket)
            return
        with trio.move_on_at(self._input_deadline):
            await trio.lowlevel.wait_readable(self._socket)
            return
        if self._incoming.lines.is_empty:
            self._send_error(None, NO_HELLO)
            raise CloseConnection
        self._give_up(LATE if self._incoming.is_long else NO_HELLO)

    def _end_line(self) -> None:
        self._is_line_begun = False
        self._line_timeouts.end(self)

    def expire_line(self) -> None:
        """Give the client up: its line was started too long ago, even if bytes still trickle in."""
        self._give_up(LATE)

    def _give_up(self, error: RpcError) -> None:
        """Send the client the reason, and close the connection soon. Until then the client may send, and read that."""
        number, is_response = self._incoming.drop()
        self._send_error(number if not is_response else None, error)
        self._end_line()
        if self._nursery is not None:
            self._nursery.start_soon(self._close_later)

    async def _close_later(self) -> None:
        await trio.sleep(LINGER)
        self.close()

    async def _end_of_input(self) -> None:
        """Wait until every request is answered or the client is gone."""
        self._incoming.is_ended = True
        if self._in_flight or self._outgoing.pending:
            with self._hangups.watching(self._socket.fileno(), self.close):
                while self._in_flight or self._outgoing.pending:
                    await self._outgoing.wait()
        self.close()

    # -- requests --------------------------------------------------------------------------------------------

    def _parse_request(self, line: bytes) -> IncomingRequest | None:
        """Return the request of a line, if it is one. Take a response, and refuse any other line."""
        try:
            request = read_line(line)
        except RpcError as error:
            self._refuse_rubbish(line, error)
            return None
        self._rubbish = 0
        if isinstance(request, Response):
            self._served.take_response(request)
            return None
        return request

    def _refuse_line(self, line: bytes) -> None:
        """Refuse a line that found no room, by the id and kind that its ends show."""
        logger.warning("no room for a line", extra=self._ids)
        number, is_response = read_ends(line)
        if is_response:
            self._served.refuse_response(number)
        else:
            text = f"there was no room in time for a line of over {SMALL} bytes; try again later"
            self._send_error(number, RpcError(ErrorCode.OVERLOAD, text))
        if not self.has_greeted:
            raise CloseConnection

    async def _answer(self, request: IncomingRequest, size: int, flow: FairQueueKey) -> None:
        if (self._in_flight or flow.in_flight or self._is_retired or self._serves_one_event) and (
            refusal := self._refusal(request, size, flow)
        ) is not None:
            self._send_error(request.id, refusal)
            return
        reader, number, method = self._reader, request.id, request.method
        self._is_one_shot = not self.has_greeted and method in ONE_SHOTS
        self._in_flight += 1
        self._bytes_in_flight += size
        flow.in_flight += 1
        self._admission.in_flight += 1
        if self._has_more and self.has_greeted:
            self.hand_over_reading()
        elif method != "hello":
            self._handoff.keep(self)
        try:
            handling = self._handler.handle(self, request)
            del request
            result = await handling
            if number is not msgspec.UNSET:
                self.send(encode_result(number, result))
        except RpcError as error:
            self._send_error(number, error)
        except Exception:
            # The boundary that must catch all: a bug in one request must not end the connection or the daemon. For a
            # fire this fails closed, since a client takes an error as a deny.
            logger.exception("request failed", extra={"method": method, **self._ids})
            self._send_error(number, RpcError(ErrorCode.INTERNAL_ERROR, "internal error; the daemon's log has it"))
        finally:
            if reader == self._reader:  # otherwise the handoff tracks the request of the task that reads now
                self._handoff.kept.pop(self, None)
            self._in_flight -= 1
            self._bytes_in_flight -= size
            flow.in_flight -= 1
            self._admission.in_flight -= 1
            if self._incoming.is_ended:
                self._outgoing.wake()
        if self._is_one_shot or (self._is_retired and not self._in_flight):
            raise CloseConnection

    def _refuse_rubbish(self, line: bytes, error: RpcError) -> None:
        """Answer a line that is not a request with an error. An empty line is ignored."""
        if line.strip():
            self._rubbish += 1
            self._send_error(error.request_id, error)
            if self._rubbish >= MAX_RUBBISH:
                raise CloseConnection

    def _refusal(self, request: IncomingRequest, size: int, flow: FairQueueKey) -> RpcError | None:
        """Return the refusal of a request, if others are under way or the connection is ending."""
        if self._serves_one_event and (self.is_admin or request.method not in ONE_SHOTS):
            raise CloseConnection
        if self._is_retired:
            return RpcError(ErrorCode.INVALID_REQUEST, "this connection has closed its session; open another one")
        if self._in_flight >= MAX_IN_FLIGHT and request.method != "ping":
            text = f"{MAX_IN_FLIGHT} requests of this connection are unanswered"
        elif self._bytes_in_flight + size > MAX_BYTES_IN_FLIGHT and self._in_flight and request.method != "ping":
            text = f"unanswered requests of this connection may take {MAX_BYTES_IN_FLIGHT} bytes, and these take more"
        elif flow.in_flight >= MAX_OF_SESSION and self.session is not None and request.method != "ping":
            text = f"{MAX_OF_SESSION} requests of this session are unanswered, on all its connections"
        else:
            return None
        return RpcError(ErrorCode.OVERLOAD, text)

    # -- writing ---------------------------------------------------------------------------------------------

    def _send_error(self, number: object, error: RpcError) -> None:
        if number is not msgspec.UNSET:
            self.send(encode_error(number, error))

    def send(self, data: bytes) -> None:
        """Send a line. Buffer what the kernel does not take at once, if there is room for that."""
        outgoing = self._outgoing
        if self._is_closing or not outgoing.send(data):
            return
        if not outgoing.take_room(0) and not self.is_admin:
            logger.warning("no room for what a client does not read, closed", extra=self._ids)
            self.close()
        elif not outgoing.is_draining and self._nursery is not None:
            outgoing.is_draining = True
            self._nursery.start_soon(self._drain)

    def send_all(self, line: bytes) -> bool:
        """Send a line that must not be left out. Return whether the kernel has all of it, or the connection is over."""
        self.send(line)
        return self._is_closing or not self._outgoing.pending

    async def wait_all_sent(self) -> None:
        """Wait until the kernel has all pending output, or the connection is over."""
        while self._outgoing.pending and not self._is_closing:
            await self._outgoing.wait()

    def announce(self, line: bytes, *, topic: str) -> None:
        """Send an announcement, or leave it out for a client that lags and is notified of that later."""
        if self._lag is None and len(self._outgoing.pending) <= MAX_ANNOUNCED:
            self.send(line)
            return
        self._lag = self._lag or LaggedTopics()
        self._lag.leave_out(topic)

    async def _drain(self) -> None:
        try:
            while self._outgoing.pending:
                if not await self._outgoing.drain(WRITE_TIMEOUT):
                    logger.warning("client takes nothing, closed", extra=self._ids)
                    self.close()
                    return
                self._announce_lag()
        finally:
            self._outgoing.is_draining = False
            self._outgoing.wake()

    def _announce_lag(self) -> None:
        """Notify a client that has caught up of the announcements that were left out."""
        lag, self._lag = self._lag, None
        if lag is not None:
            for topic, line in lag.lines(self.topics, lambda: self._handler.revision_for(self)):
                self.announce(line, topic=topic)

    async def _drain_and_close(self) -> None:
        while self._outgoing.pending and self._outgoing.is_draining:
            await self._outgoing.wait()
        self.close()

    # -- served hooks ----------------------------------------------------------------------------------------

    async def call(self, call: Call, fire: FireContext, deadline: float) -> CallOutcome:
        """Have the client run a hook that it serves. Return the outcome by the deadline."""
        if self._outgoing.pending and not self._outgoing.take_room(len(call.payload.data)):
            return CallOutcome(cause="overload", message="its client does not read what it is sent")
        self._handoff.hurry(self)  # or a fire of this very connection would wait for an answer that is not read
        return await self._served.call(self.send, call, fire, deadline)

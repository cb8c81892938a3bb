"""The connections of a session, as far as no one waits on them: one link after another, kept up until the session ends.

no link ──connect, hello──▶ link ──lost, silent, faulty──▶ no link, and again after a back-off

Does not know tasks or threads, nor what is requested over the link. A request that finds the link just lost waits for
the first attempt to get another: replacing a daemon takes a moment. After that attempt, and until a later one succeeds,
every request fails at once.
"""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Generic, Protocol, TypeVar, assert_never
from weakref import WeakSet

from hooklatch.client.protocol.announcements import Announcement, AnnouncementQueue
from hooklatch.client.protocol.decisions import Decision, make_skipped_decision
from hooklatch.client.protocol.exchange import (
    Action,
    CallRequested,
    Exchange,
    ServedFunction,
    SkippedCounts,
    describe_exception,
    encode_answer,
)
from hooklatch.client.protocol.fires import Steps
from hooklatch.client.protocol.liveness import Liveness, compute_backoff
from hooklatch.client.protocol.operations import introduce_session
from hooklatch.client.protocol.session_state import SessionState
from hooklatch.client.sockets import connect_to_first, make_poll
from hooklatch.errors import DaemonUnreachableError, HooklatchError, SessionClosedError
from hooklatch_worker.author.events import Event, build_event

__all__ = ["FAREWELL", "SessionLink", "SessionReconnector"]

CHUNK: Final = 2**16


class SessionLink:
    """The base of both links. `lock` guards the exchange, and `hang_up` is called when it ends."""

    def __init__(
        self,
        connection: socket.socket,
        liveness: Liveness,
        *,
        lock: AbstractContextManager[object],
        hang_up: Callable[[], object],
        announce: Callable[[Announcement], None],
        skipped: SkippedCounts,
    ) -> None:
        self._socket = connection
        self._state = lock
        self._exchange = Exchange(liveness, hang_up)
        self._announce = announce
        self._skipped = skipped
        self._poll = make_poll(connection)

    @property
    def failure(self) -> HooklatchError | None:
        """Return why it has ended, if it has."""
        return self._exchange.failure

    def end(self, failure: HooklatchError) -> None:
        """Give up the connection: every waiting request fails now, and `run` returns."""
        with self._state:
            self._exchange.end(failure)

    def allow(self, count: int) -> None:
        """Allow this many waiting requests at a time; before that, one."""
        raise NotImplementedError

    def report(self) -> None:
        """Send the daemon the counts of skipped events, if there are any."""
        raise NotImplementedError

    def may_skip(self, event: str) -> bool:
        """Return whether the latest permission that was read has the event; `skip` looks for a later one."""
        return event in self._exchange.permission.events

    def skip(self, event: str) -> Decision | None:
        """Decide on an event in the daemon's place if the daemon permits it, and count it.

        A later permission would still be in the socket, so the socket must have nothing to read.
        """
        with self._state:  # nothing reads while it is held, so all data that were read are processed
            permission = self._exchange.permission
            if event not in permission.events or self._poll.poll(0):
                return None
            is_first = not self._skipped.unreported
            number = self._skipped.add(event)
        if is_first:
            self._start_report()
        return make_skipped_decision(event, number, permission.revision)

    def _start_report(self) -> None:
        """Report the skipped events in a moment, without waiting for it."""
        raise NotImplementedError

    def _start_answer(self, call: CallRequested) -> None:
        """Call a served hook and send its answer, without waiting for either."""
        raise NotImplementedError

    def _start_send(self, line: bytes) -> None:
        """Send a line without waiting for the daemon to read it."""
        raise NotImplementedError

    def _take_report(self) -> bytes:
        """Return the line with the counts of skipped events, empty if there are none or no connection."""
        with self._state:
            return self._skipped.take() if self._exchange.failure is None else b""

    def _receive(self) -> None:
        """Read once, without waiting, and do what the data ask for."""
        try:
            with self._state:  # in one step, or a thread could skip an event with a permission that has ended
                actions = self._exchange.receive(self._socket.recv(CHUNK), time.monotonic())
        except BlockingIOError:
            return
        except OSError as error:
            self._break_off(error)
            return
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case CallRequested():
                self._start_answer(action)
            case bytes():
                self._start_send(action)
            case Announcement():
                self._announce(action)
            case _:
                assert_never(action)

    def _write_some(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the kernel takes now; return how many bytes need not be sent again."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return len(data)  # the daemon hung up; its last data are still to be read, then the end
        except OSError as error:
            self._break_off(error)
            return len(data)

    def _break_off(self, error: OSError) -> None:
        self.end(DaemonUnreachableError(f"the connection broke: {error.strerror or error}"))


log = logging.getLogger("hooklatch.client")
FAREWELL = 1.0  # seconds that the end of a session waits for the daemon to acknowledge it
Link = TypeVar("Link", bound=SessionLink)


class Settable(Protocol):
    """An event of tasks or of threads."""

    def set(self) -> object: ...


Signal = TypeVar("Signal", bound=Settable)


class SessionReconnector(Generic[Link, Signal]):
    """The base of both reconnectors: the connections of one session, one at a time. `problem` says why there is none.

    `resettled` is set when the first attempt is over, and made anew with each link: it is then set at the end of the
    first attempt after its loss.
    """

    def __init__(self, paths: Sequence[str], state: SessionState, new_signal: Callable[[], Signal]) -> None:
        self.state = state
        self.inboxes: WeakSet[AnnouncementQueue] = WeakSet()
        self.problem = "no attempt to connect was made yet"
        self.link: Link | None = None
        self.newest: Link | None = None  # the same, or one that the daemon has not accepted yet
        self.is_first = True  # the first attempt is not over
        self.refusal: HooklatchError | None = None
        self.resettled = new_signal()
        self._new_signal = new_signal
        self._paths = paths

    @property
    def is_connected(self) -> bool:
        return self.link is not None and self.link.failure is None

    def attempts(self) -> Generator[Any, Any, None]:
        """Connect again and again, until the session is closed, as steps.

        A step is a number of seconds to wait, or what a method below returned: the client that awaits, awaits it.
        """
        count = 0
        while not self.state.is_closed:
            link: Link | None = None
            try:
                connection = yield from connect_to_first(
                    self._paths, self.state.daemon_uid, self.state.liveness.connect
                )
                link = self.newest = self.make_link(connection)
                if self.state.is_closed:  # closed since this call looked for a link to end
                    raise DaemonUnreachableError("the session was closed")
                revision = yield self.introduce(link, introduce_session(self.state, self._publish))
            except BaseException as error:
                self.link = None
                if link is not None:
                    link.end(DaemonUnreachableError(str(error)))
                if not isinstance(error, HooklatchError):
                    raise
                self._failed(error)
            else:
                count, self.is_first = 0, False
                resettled, self.resettled = self.resettled, self._new_signal()
                resettled.set()
                self._connected(revision)
            if link is not None:
                yield self.wait_end(link)
                if self.link is link:
                    self.link = None
                    self.note(link.failure)
            yield compute_backoff(count, random.random())
            count += 1

    def make_link(self, connection: socket.socket) -> Link:
        """Return a link over a connection, that is read from now on or by its requests."""
        raise NotImplementedError

    def introduce(self, link: Link, steps: Steps[int | None]) -> Any:
        """Run steps over a link; return their result."""
        raise NotImplementedError

    def wait_end(self, link: Link) -> Any:
        """Return once a link has ended, and its socket is closed."""
        raise NotImplementedError

    def _publish(self) -> None:
        assert self.newest is not None
        self.link = self.state.skipping = self.newest
        self.link.allow(self.state.in_flight)
        self.link.report()  # what the last connection could not

    def _failed(self, error: HooklatchError) -> None:
        if self.is_first and self.state.must_raise(error):
            self.refusal = error
            self.state.is_closed = True
        self.is_first = False
        self.note(error)
        self.resettled.set()

    def check_open(self) -> None:
        """Return if the session may still be used.

        Raises:
            SessionClosedError: it is over.
        """
        if self.state.is_closed:
            raise SessionClosedError("the session is closed; open another one")

    def announce(self, announcement: Announcement) -> None:
        if announcement.current is not None:
            self.state.revision = announcement.current
        for inbox in list(self.inboxes):
            inbox.put(announcement)

    def wake_listeners(self) -> None:
        for inbox in list(self.inboxes):
            inbox.wake()

    def opening(self) -> None:
        """Log why the host needs no gate, if it said so."""
        if self.state.ungated is not None and not self.state.is_copy:
            log.warning("no gate is required: session=%s %s", self.state.session_id, self.state.ungated)

    def _connected(self, revision: int | None) -> None:
        """Record that a daemon has accepted the session, and notify listeners if they missed something."""
        self.problem = ""
        log.info("connected: session=%s revision=%s", self.state.session_id, revision)
        if missed := self.state.heard_of(revision):
            self.announce(missed)

    def note(self, error: Exception | None) -> None:
        """Record why there is no daemon; each reason is logged once."""
        problem = str(error)
        if problem != self.problem:
            self.problem = problem
            if not self.state.is_closed:
                log.warning("no daemon: session=%s %s", self.state.session_id, problem)

    def served(self, call: CallRequested) -> tuple[ServedFunction, Event]:
        """Return the function that a call is for, and the event that it is called with.

        Raises:
            LookupError: there is none.
        """
        definition = self.state.hooks.served(call.hook)
        if definition is None or definition.function is None:
            raise LookupError(f"this client serves no hook {call.hook!r}")
        event = build_event(call.event, call.payload, call.envelope, call.config, call.merged, call.reinvoked)
        return definition.function, event

    def encoded(self, answer: object) -> bytes:
        """Encode what a served function returned."""
        return encode_answer(answer, is_native=self.state.dialect is not None)

    def failed(self, call: CallRequested, error: BaseException) -> str:
        """Return the answer to a call whose function raised."""
        log.warning("a served hook failed: session=%s hook=%s", self.state.session_id, call.hook, exc_info=error)
        return describe_exception(error)

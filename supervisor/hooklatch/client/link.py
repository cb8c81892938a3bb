"""One connection of a session, as far as no one waits on it: what both links do with data, actions and permissions."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, assert_never

from hooklatch.client.protocol.announcements import Announcement
from hooklatch.client.protocol.decisions import Decision, make_skipped_decision
from hooklatch.client.protocol.exchange import Action, CallRequested, Exchange
from hooklatch.client.protocol.liveness import Liveness
from hooklatch.client.protocol.skipping import SkippedCounts
from hooklatch.client.sockets import make_poll
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = ["SessionLink"]

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

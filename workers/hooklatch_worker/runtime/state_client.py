"""The worker's end of `event.state`: asks the daemon over the worker's own socket, during a call.

    callback ─▶ ask ─▶ Asked ══▶ daemon, which does one operation after the other ══▶ Told ─▶ callback

A question belongs to the call under way, and to nothing else: an event that is used after its call's end, and a process
that the callback has forked, are refused.  If a callback does not wait for its answer (its own signal handler raised
during a question), what comes next on the stream is unknown, and the worker ends.
"""

from __future__ import annotations

import os
import socket
from _thread import allocate_lock

import msgspec
from msgspec.structs import replace

from hooklatch_worker import wire
from hooklatch_worker.author.state import MAX_STEPS, NOT_HERE, StateError, StateRequest
from hooklatch_worker.runtime.calls import file_identity

__all__ = ["StateClient"]

TOLD = msgspec.msgpack.Decoder(wire.StateResponse)


class StateClient:
    """The questions of one worker, one at a time."""

    def __init__(self, connection: socket.socket, reader: wire.FrameReader, generation: int) -> None:
        self._connection = connection
        self._reader = reader
        self._generation = generation
        self._pid = os.getpid()
        self._lock = allocate_lock()  # a callback may ask from several threads
        self._call_id: int | None = None
        self._asked = 0
        self._is_torn = False  # a question was interrupted
        self._socket = file_identity(os.fstat(connection.fileno()))

    def begin(self, call_id: int) -> None:
        """Record which call is under way from now on."""
        self._call_id = call_id
        self._asked = 0

    def end(self) -> None:
        """Refuse further questions: what is sent next is the call's answer.  Not for a child that a callback forked."""
        with self._lock:  # a thread of the callback may be asking a question
            self._check_in_step()
            self._call_id = None

    def ask(self, asked: StateRequest) -> bytes:
        """Have the daemon perform one operation; return its value.

        Raises:
            StateError: it was not done.
        """
        if os.getpid() != self._pid:
            raise StateError("a process that the callback has forked cannot ask; ask in the callback")
        with self._lock:
            if self._call_id != asked.call_id:
                raise StateError(NOT_HERE)
            self._check_in_step()
            if self._asked >= MAX_STEPS:
                raise StateError(f"one call may take at most {MAX_STEPS} steps")
            self._asked += 1
            try:
                told = self._exchange(replace(asked, generation=self._generation, number=self._asked))
            except (OSError, msgspec.MsgspecError, wire.FrameError) as error:
                raise StateError(
                    f"the daemon could not be asked: {getattr(error, 'strerror', None) or error}"
                ) from None
        if told.error:
            raise StateError(told.error)
        return told.value

    def _check_in_step(self) -> None:
        if self._is_torn:
            os._exit(1)

    def check_socket(self) -> None:
        """End this process if a callback has closed or replaced its socket.

        An answer would show that as well.  This is for a callback after which another one runs before any answer is
        sent, and would be blamed.
        """
        try:
            is_ours = file_identity(os.fstat(self._connection.fileno())) == self._socket
        except OSError:
            is_ours = False
        if not is_ours:
            os._exit(1)

    def _exchange(self, asked: StateRequest) -> wire.StateResponse:
        self._is_torn = True
        self._connection.sendall(wire.encode_frame(asked))
        body = None
        while body is None:
            data = self._connection.recv(2**14)
            if not data:
                raise OSError("it is gone")
            body = self._reader.take(data)
        told = TOLD.decode(body)
        if (told.generation, told.call_id, told.number) != (asked.generation, asked.call_id, asked.number):
            raise wire.FrameError("an answer to another question")
        self._is_torn = False
        return told

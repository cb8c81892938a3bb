"""The worker's end of `event.state`: it sends requests to the daemon over the worker's own socket, during a call.

    hook ─▶ ask ─▶ StateRequest ══▶ daemon, which does one operation after the other ══▶ StateResponse ─▶ hook

A request belongs to the running call.  An event that is used after the end of its call, and a process that the hook has
forked, are refused.  If a hook does not wait for its response (its own signal handler raised during a request), the
next bytes of the stream are unknown, and the worker ends.
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

STATE_RESPONSES = msgspec.msgpack.Decoder(wire.StateResponse)


class StateClient:
    """The state requests of one worker, one at a time."""

    def __init__(self, connection: socket.socket, reader: wire.FrameReader, generation: int) -> None:
        self._connection = connection
        self._reader = reader
        self._generation = generation
        self._pid = os.getpid()
        self._lock = allocate_lock()  # a hook may use several threads
        self._call_id: int | None = None
        self._steps = 0
        self._is_interrupted = False  # within a request that has no response yet
        self._socket = file_identity(os.fstat(connection.fileno()))

    def begin(self, call_id: int) -> None:
        """Record the call that runs from now on."""
        self._call_id = call_id
        self._steps = 0

    def end(self) -> None:
        """Refuse further requests, since the call's answer is sent next.  Not for a child that a hook forked."""
        self._call_id = None
        if self._steps:  # a request counts itself before it looks whether its call runs, so none is missed
            with self._lock:  # a thread of the hook may be waiting for a response
                self._check_in_sync()

    def ask(self, request: StateRequest) -> bytes:
        """Request one operation from the daemon; return its value.

        Raises:
            StateError: it was not done.
        """
        if os.getpid() != self._pid:
            raise StateError(
                "event.state is not available in a process that the hook has forked; use it in the hook itself"
            )
        with self._lock:
            self._steps += 1
            if self._call_id != request.call_id:
                raise StateError(NOT_HERE)
            self._check_in_sync()
            if self._steps > MAX_STEPS:
                raise StateError(f"one call may take at most {MAX_STEPS} steps")
            try:
                response = self._exchange(replace(request, generation=self._generation, number=self._steps))
            except (OSError, msgspec.MsgspecError, wire.FrameError) as error:
                raise StateError(
                    f"the daemon could not be reached: {getattr(error, 'strerror', None) or error}"
                ) from None
        if response.error:
            raise StateError(response.error)
        return response.value

    def _check_in_sync(self) -> None:
        if self._is_interrupted:
            os._exit(1)

    def check_socket(self) -> None:
        """End this process if a hook has closed or replaced its socket.

        The next answer would show that as well.  But if another hook runs before any answer is sent, that hook would
        be blamed.
        """
        try:
            is_ours = file_identity(os.fstat(self._connection.fileno())) == self._socket
        except OSError:
            is_ours = False
        if not is_ours:
            os._exit(1)

    def _exchange(self, request: StateRequest) -> wire.StateResponse:
        self._is_interrupted = True
        self._connection.sendall(wire.encode_frame(request))
        body = None
        while body is None:
            data = self._connection.recv(2**14)
            if not data:
                raise OSError("it is gone")
            body = self._reader.take(data)
        response = STATE_RESPONSES.decode(body)
        if (response.generation, response.call_id, response.number) != (
            request.generation,
            request.call_id,
            request.number,
        ):
            raise wire.FrameError("a response to another request")
        self._is_interrupted = False
        return response

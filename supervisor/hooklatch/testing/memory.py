"""The shared state of hooks (`event.state`) without a daemon: the daemon's own rules and limits, in this process.

A test may move its clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hooklatch.core.keyspace import Keyspace, Namespace, RefusedStepError, StateScope, name_session_scope
from hooklatch_worker.author.state import MAX_STEPS, NOT_HERE, State, StateError, StateRequest

__all__ = ["Memory", "MemoryLine"]

LINGER = 24 * 3600.0  # seconds that values of a session outlast their last use, as in a daemon


class Memory:
    """The shared state of the hooks of all sources, empty at first; several runs that get one memory share it."""

    def __init__(self) -> None:
        self._keyspace = Keyspace()
        self._passed = 0.0

    def pass_time(self, seconds: float) -> None:
        """Let time pass, for what expires."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds!r}")
        self._passed += seconds

    def clear(self) -> None:
        """Forget everything."""
        self._keyspace.clear()

    def state(self, function: Callable[..., object], session_id: str | None = "test") -> State:
        """Return the state that a hook sees in a session, to prepare it and to look at it."""
        return State(MemoryLine(self, find_source_file(function), session_id, call_id=0), 0)

    def step(self, place: StateScope, request: StateRequest) -> bytes:
        """Perform one operation at once.

        Raises:
            RefusedStepError: the step exceeds a limit, or the current value does not allow it.
        """
        now = time.monotonic() + self._passed
        planned = self._keyspace.plan(place, request, now)
        if planned.is_change:
            self._keyspace.take(place, request.key, planned.entry, now)
        return planned.result

    def value(self, place: StateScope, key: str) -> bytes:
        """Return a value as JSON; 0 if there is none."""
        stored = self._keyspace.find(place, key, time.monotonic() + self._passed)
        return stored.value if stored is not None else b"0"


class MemoryLine:
    """The way of one fire's calls to a memory, in place of the worker's line to the daemon.

    With a `call_id` it is always open; otherwise between `begin` and `end`.
    """

    def __init__(self, memory: Memory, source: str, session_id: str | None, *, call_id: int | None = None) -> None:
        self._memory = memory
        self._source = source
        self._session_id = session_id
        self._call_id = call_id
        self._is_limited = call_id is None
        self._steps = 0
        self._counted: set[tuple[str, StateScope, str]] = set()
        self.function = ""  # of the current call: an increment `once` counts once for each function

    def begin(self, call_id: int) -> None:
        """Begin a call."""
        self._call_id, self._steps = call_id, 0

    def end(self) -> None:
        """End the call: later requests are refused, since an event is of no use after its call."""
        self._call_id = None

    def ask(self, request: StateRequest) -> bytes:
        """Perform one operation; return its value.

        Raises:
            StateError: it was not done.
        """
        if self._call_id != request.call_id:
            raise StateError(NOT_HERE)
        self._steps += 1
        if self._is_limited and self._steps > MAX_STEPS:
            raise StateError(f"one call may take at most {MAX_STEPS} steps")
        try:
            return self._step(request)
        except RefusedStepError as error:
            raise StateError(str(error)) from None

    def _step(self, request: StateRequest) -> bytes:
        place = self._place(request)
        is_once = request.once and request.operation == "increment"
        mark = self.function, place, request.key
        if is_once and mark in self._counted:
            return self._memory.value(place, request.key)
        result = self._memory.step(place, request)
        if is_once:
            self._counted.add(mark)
        return result

    def _place(self, request: StateRequest) -> StateScope:
        namespace = Namespace("global", "", self._source)
        if not request.is_session:
            return StateScope(namespace)
        if not self._session_id:
            raise RefusedStepError("this fire has no session, so it has no session state; give it a session_id")
        return StateScope(namespace, name_session_scope(self._session_id, is_claimed=True), LINGER)


def find_source_file(function: Callable[..., object]) -> str:
    """Return the file of a function, which is the key of its source's shared state."""
    code = getattr(function, "__code__", None)
    return str(getattr(code, "co_filename", ""))

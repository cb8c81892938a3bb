"""State that a source keeps across calls and workers: `event.state`.  Knows values and limits, but no sockets.

Module globals exist once per worker, so a counter there is one of several.  This state is kept by the daemon, which
processes one step at a time: each method here is one atomic step.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from hooklatch_worker.author.verdicts import GarbageError, check_plain

__all__ = [
    "StateRequest", "StateChannel", "MAX_KEY", "MAX_STEPS", "MAX_TTL", "MAX_VALUE", "Operation", "Scope", "State",
    "StateError",
]  # fmt: skip

MAX_KEY = 256  # bytes of a key in UTF-8
MAX_VALUE = 16 * 2**10  # bytes of a value as JSON
MAX_TTL = 366 * 86400.0  # seconds
MAX_STEPS = 1000  # per call: each takes a turn of the daemon's event loop, delaying others

Number: TypeAlias = int | float
Operation: TypeAlias = Literal["get", "set", "increment", "delete", "compare_and_set"]
ENCODER = msgspec.json.Encoder(order="deterministic")  # equal values encode to equal bytes
NOT_HERE = "event.state is only available while a worker of the daemon runs the event's call"


class StateRequest(msgspec.Struct, frozen=True, tag="asked", array_like=True):
    """Worker to daemon, during a call: one step on the state of its source.  See `Scope` for the operations.

    `number` counts from 1 in each call; nothing else is sent before its `StateResponse` has come.  `value` and
    `expected` are JSON, or empty for none; `ttl` is in seconds, 0 for no expiry.
    """

    generation: int
    call_id: int
    number: int
    operation: Operation
    key: str
    is_session: bool = False
    value: bytes = b""
    expected: bytes = b""
    ttl: float = 0.0
    once: bool = False


class StateError(Exception):
    """A step failed: over a limit, without a session, after the end of the call, or with an unsuitable value.

    A guard that does not catch it fails closed.  Nothing is ever evicted to make room.
    """


class StateChannel(Protocol):
    """The channel to the daemon, which fills in the generation and the number of a request."""

    def ask(self, request: StateRequest) -> bytes: ...


class Scope:
    """Values by key, shared by all hooks and workers of one source.  Values are plain finite JSON; None is not a value.

    A key has at most 256 bytes, a value 16 KiB as JSON, a counter 64 bits.  One call may take 1000 steps.  A source
    may store 10,000 keys and 4 MiB, the daemon 16 MiB.  A step over a limit raises StateError and changes nothing.

    `ttl` is in seconds, at most 366 days; without it a value does not expire.  Every method may raise StateError.
    """

    __slots__ = ("_call_id", "_is_session", "_line")

    def __init__(self, line: StateChannel | None, call_id: int | None, *, is_session: bool = False) -> None:
        self._line = line
        self._call_id = call_id
        self._is_session = is_session

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` if it has none."""
        data = self._ask("get", key)
        return msgspec.json.decode(data) if data else default

    def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
        """Set a key to a value, which expires after `ttl`."""
        if value is None:
            raise StateError(f"None cannot be set as a value; to remove {key!r}: delete")
        self._ask("set", key, value=encode_value(value), ttl=validate_ttl(ttl))

    def increment(self, key: str, by: Number = 1, *, ttl: float | None = None, once: bool = False) -> Number:
        """Add to the number of a key (initially 0), and return the result.

        `ttl` counts from the increment that creates the key, so a window ends no matter how often it is incremented.
        With `once` this hook counts a decision only once: when it is called again because other hooks changed the
        payload, it adds nothing and gets the current number.
        """
        if isinstance(by, bool) or not isinstance(by, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise StateError(f"by is a number, not a {type(by).__name__!r}")
        data = self._ask("increment", key, value=encode_value(by), ttl=validate_ttl(ttl), once=bool(once))
        number: Number = msgspec.json.decode(data)
        return number

    def delete(self, key: str) -> bool:
        """Remove a key; return whether it had a value."""
        return bool(self._ask("delete", key))

    def compare_and_set(self, key: str, expected: Any, value: Any, *, ttl: float | None = None) -> bool:
        """Set a key if its current value is exactly `expected`; return whether it was.

        None as `expected` means no value, None as `value` removes the key.  1 and 1.0 differ, as in JSON.
        """
        return bool(
            self._ask(
                "compare_and_set", key, expected=encode_or_none(expected), value=encode_or_none(value),
                ttl=validate_ttl(ttl),
            )
        )  # fmt: skip

    def _ask(
        self, operation: Operation, key: str, *, value: bytes = b"", expected: bytes = b"", ttl: float = 0.0,
        once: bool = False,
    ) -> bytes:  # fmt: skip
        check_key(key)
        if self._line is None or self._call_id is None:
            raise StateError(NOT_HERE)
        return self._line.ask(
            StateRequest(0, self._call_id, 0, operation, key, self._is_session, value, expected, ttl, once)
        )


class State(Scope):
    """The state of the source across all sessions; `session` is its state for this session."""

    __slots__ = ()

    @property
    def session(self) -> Scope:
        """The values for this session, which end with it.

        In a fire without a session, every method raises StateError.
        """
        return Scope(self._line, self._call_id, is_session=True)


def check_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        raise StateError(f"a key is a text that is not empty, not {key!r:.100}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise StateError("a key holds a lone surrogate, which UTF-8 cannot encode") from None
    if size > MAX_KEY:
        raise StateError(f"a key has at most {MAX_KEY} bytes, not {size}; hash what is longer")


def validate_ttl(ttl: object) -> float:
    if ttl is None:
        return 0.0
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl <= MAX_TTL:
        raise StateError(f"ttl must be a number of seconds over 0 and at most {MAX_TTL:.0f}, not {ttl!r:.100}")
    return float(ttl)


def encode_or_none(value: object) -> bytes:
    return b"" if value is None else encode_value(value)


def encode_value(value: object) -> bytes:
    """Encode a value as JSON."""
    if type(value) is float and not isfinite(value):
        raise StateError(f"{value!r} is not a finite number")
    try:
        check_plain(value, "the value")
        data = ENCODER.encode(value)
    except GarbageError as error:
        raise StateError(str(error)) from None
    # OverflowError, ValueError: an int beyond 64 bits; TypeError: a subclass that msgspec cannot encode.
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise StateError(f"the value cannot be stored: {error}") from None
    if len(data) > MAX_VALUE:
        raise StateError(f"a value has at most {MAX_VALUE} bytes as JSON, not {len(data)}")
    return data

"""What a source remembers between calls and across its workers: `event.state`.  Knows values and bounds, no socket.

A module's globals are one for each worker, so a counter there is one of several.  This one is the daemon's, which does
one step after the other: each method here is one step, and no other worker comes between its reading and its writing.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from hooklatch_worker.author.verdicts import GarbageError, check_plain

__all__ = ["Asked", "Line", "MAX_KEY", "MAX_STEPS", "MAX_TTL", "MAX_VALUE", "Operation", "Scope", "State", "StateError"]

MAX_KEY = 256  # bytes of a key in UTF-8
MAX_VALUE = 16 * 2**10  # bytes of a value as JSON
MAX_TTL = 366 * 86400.0  # seconds
MAX_STEPS = 1000  # in one call: each is a turn of the daemon's loop, which others wait for

Number: TypeAlias = int | float
Operation: TypeAlias = Literal["get", "set", "increment", "delete", "compare_and_set"]
ENCODER = msgspec.json.Encoder(order="deterministic")  # equal values are equal bytes
NOT_HERE = "event.state is there while a worker of the daemon runs the call that the event belongs to"


class Asked(msgspec.Struct, frozen=True, tag="asked", omit_defaults=True):
    """Worker to daemon, in the middle of a call: one step on the state of its source.  `Scope` says what each does.

    `number` counts from 1 in each call, and nothing else is sent before its `Told` has come.  `value` and `expected`
    are JSON, empty for none; `ttl` is in seconds, 0 for ever.
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
    """A step that was not done: over a bound, of no session, after the call's end, or not to be stored.

    A guard that lets it rise fails closed.  Nothing is ever forgotten to make room.
    """


class Line(Protocol):
    """The way to who keeps the values; `asked` says all but who asks it, and how often that has asked before."""

    def ask(self, asked: Asked) -> bytes: ...


class Scope:
    """Values by key, shared by all hooks and workers of one source.  Values are plain finite JSON, None is no value.

    A key has at most 256 bytes, a value 16 KiB as JSON, a counter 64 bits.  One call may take 1000 steps.  A source
    may hold 10,000 keys and 4 MiB, the daemon 16 MiB.  What is over a bound raises StateError and changes nothing.

    A `ttl` is in seconds, at most 366 days; without one a value stays.  Every method may raise StateError.
    """

    __slots__ = ("_call_id", "_is_session", "_line")

    def __init__(self, line: Line | None, call_id: int | None, *, is_session: bool = False) -> None:
        self._line = line
        self._call_id = call_id
        self._is_session = is_session

    def get(self, key: str, default: Any = None) -> Any:
        """Return a key's value, or `default` where it has none."""
        found = self._ask("get", key)
        return msgspec.json.decode(found) if found else default

    def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
        """Set a key to a value, which ends after `ttl`."""
        if value is None:
            raise StateError(f"None is no value to set; to remove {key!r}: delete")
        self._ask("set", key, value=written(value), ttl=checked_ttl(ttl))

    def increment(self, key: str, by: Number = 1, *, ttl: float | None = None, once: bool = False) -> Number:
        """Add to a key's number (0 where it has none), and give what it is then.

        `ttl` counts from the increment that makes the key, so that a window ends however often it is incremented.
        With `once` this hook counts a decision once: when it is asked again about a payload that others have changed,
        nothing is added, and it gets what the number is.
        """
        if isinstance(by, bool) or not isinstance(by, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise StateError(f"by is a number, not a {type(by).__name__!r}")
        found = self._ask("increment", key, value=written(by), ttl=checked_ttl(ttl), once=bool(once))
        number: Number = msgspec.json.decode(found)
        return number

    def delete(self, key: str) -> bool:
        """Remove a key; say whether it had a value."""
        return bool(self._ask("delete", key))

    def compare_and_set(self, key: str, expected: Any, value: Any, *, ttl: float | None = None) -> bool:
        """Return a key a value if its present one is exactly `expected`; say whether it was.

        None as `expected` is a key without a value, None as `value` removes it.  1 and 1.0 differ, as they do in JSON.
        """
        return bool(
            self._ask(
                "compare_and_set", key, expected=written_or_none(expected), value=written_or_none(value),
                ttl=checked_ttl(ttl),
            )
        )  # fmt: skip

    def _ask(
        self, operation: Operation, key: str, *, value: bytes = b"", expected: bytes = b"", ttl: float = 0.0,
        once: bool = False,
    ) -> bytes:  # fmt: skip
        check_key(key)
        if self._line is None or self._call_id is None:
            raise StateError(NOT_HERE)
        return self._line.ask(Asked(0, self._call_id, 0, operation, key, self._is_session, value, expected, ttl, once))


class State(Scope):
    """What the source remembers whatever session asks; `session` is what it remembers of this one."""

    __slots__ = ()

    @property
    def session(self) -> Scope:
        """The session's own values, which end with it.

        A fire that names no session has none: every method raises StateError.
        """
        return Scope(self._line, self._call_id, is_session=True)


def check_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        raise StateError(f"a key is a text that is not empty, not {key!r:.100}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise StateError("a key holds a lone surrogate, which UTF-8 cannot say") from None
    if size > MAX_KEY:
        raise StateError(f"a key has at most {MAX_KEY} bytes, not {size}; hash what is longer")


def checked_ttl(ttl: object) -> float:
    if ttl is None:
        return 0.0
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl <= MAX_TTL:
        raise StateError(f"ttl is a number of seconds over 0 and at most {MAX_TTL:.0f}, not {ttl!r:.100}")
    return float(ttl)


def written_or_none(value: object) -> bytes:
    return b"" if value is None else written(value)


def written(value: object) -> bytes:
    """Return a value as JSON."""
    if type(value) is float and not isfinite(value):
        raise StateError(f"{value!r} is no finite number")
    try:
        check_plain(value, "the value")
        data = ENCODER.encode(value)
    except GarbageError as error:
        raise StateError(str(error)) from None
    # OverflowError, ValueError: an int beyond 64 bits; TypeError: a subclass that JSON does not know.
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise StateError(f"the value cannot be stored: {error}") from None
    if len(data) > MAX_VALUE:
        raise StateError(f"a value has at most {MAX_VALUE} bytes as JSON, not {len(data)}")
    return data

"""What happened to a fleet, as publishers, agents of hosts and the harness saw it: one line of JSON for each thing.

Each process writes its own file, by one call with O_APPEND, before a thing is done or once it is known.  Times are
nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share, however wrong a host's wall clock is.
Knows lines; judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from support.histories import Pen, now, read_lines

__all__ = [
    "Answered",
    "Applied",
    "Committed",
    "Declined",
    "Fault",
    "Healed",
    "Kept",
    "Line",
    "Pen",
    "Seen",
    "Sent",
    "Shipped",
    "now",
    "read",
]


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """A version that a trusted publisher signed and the engine took; `number` is what its guards are called by.

    It may have been in force since `since`, when its publisher began.
    """

    version: int
    bundle: str
    number: int
    since: int
    at: int


class Declined(msgspec.Struct, frozen=True, tag="declined"):
    """A publisher was told that its version was not taken."""

    number: int
    since: int
    at: int
    text: str = ""


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """A daemon, asked at `since`, said at `at` which version was in force, and what it had read; 0 for none."""

    host: str
    version: int
    bundle: str
    head: int
    since: int
    at: int


class Applied(msgspec.Struct, frozen=True, tag="applied"):
    """A record of a host says that it applied a version."""

    host: str
    seq: int
    version: int
    bundle: str


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """An agent of a host is about to fire a gate; `is_forbidden` if every version denies it."""

    op: str
    host: str
    at: int
    is_forbidden: bool


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """What that agent was told; `numbers` are those of the guards that answered, `is_local` without a daemon."""

    op: str
    host: str
    at: int
    verdict: str
    cause: str | None = None
    decision_id: str = ""
    numbers: list[int] = []
    is_local: bool = False


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    """A record that is in a host's own file at the end; those with a decision say which."""

    host: str
    seq: int
    hash: str
    decision_id: str = ""
    verdict: str | None = None


class Shipped(msgspec.Struct, frozen=True, tag="shipped"):
    """A record as the sink gives it, after it has left out what came twice."""

    host: str
    epoch: int
    seq: int
    hash: str


class Fault(msgspec.Struct, frozen=True, tag="fault"):
    """The harness did this, to a host or to what all of them need."""

    kind: str
    at: int
    host: str = ""


class Healed(msgspec.Struct, frozen=True, tag="healed"):
    """All faults were over at `since`; at `at` every host had the same digest, or none did by the end of patience."""

    since: int
    at: int
    digests: dict[str, str]
    wanted: str


Line: TypeAlias = Committed | Declined | Seen | Applied | Sent | Answered | Kept | Shipped | Fault | Healed
LINES = msgspec.json.Decoder(Line)


def read(paths: Iterable[Path]) -> Iterator[Line]:
    """Yield all lines of these files; a last line that was torn is left out."""
    return read_lines(paths, LINES)

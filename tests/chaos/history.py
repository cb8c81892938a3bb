"""What clients and the nemesis write down while they run: one line of JSON for each thing that they did or saw.

Every line is written by one call with O_APPEND before the thing is done, or once it is known, so a process that is
killed leaves at worst an operation without an end.  Times are CLOCK_MONOTONIC, which all processes of a machine share.
Knows lines; judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from support.histories import Pen, now, read_lines

__all__ = [
    "Acked",
    "Answered",
    "Barred",
    "Change",
    "Fault",
    "Heard",
    "Line",
    "Lost",
    "Outcome",
    "Pen",
    "Sent",
    "now",
    "read",
]


class Sent(msgspec.Struct, frozen=True, tag="sent"):
    """A client is about to fire.  `viewer` is its session, empty for a one-shot.

    `required` are the hooks that must have answered before this may be allowed; `is_forbidden` says that one of them
    must refuse it.  `digest` is the sha256 of the payload as it is sent.
    """

    op: str
    viewer: str
    event: str
    is_gate: bool
    at: int
    digest: str = ""
    is_forbidden: bool = False
    required: list[str] = []


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """One hook's part in an answer."""

    hook: str
    outcome: str
    verdict: str | None = None
    cause: str | None = None


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """What the client was told; `is_local` where it had to decide by itself.  `versions` is what the guards said."""

    op: str
    at: int
    verdict: str
    cause: str | None = None
    decision_id: str = ""
    revision: int | None = None
    digest: str | None = None
    is_local: bool = False
    is_patched: bool = False
    outcomes: list[Outcome] = []
    versions: dict[str, int] = {}
    head: tuple[int, str] | None = None


class Heard(msgspec.Struct, frozen=True, tag="heard"):
    """A session was told of a revision, by hello or by an announcement."""

    viewer: str
    revision: int
    at: int


class Change(msgspec.Struct, frozen=True, tag="change"):
    """Somebody is about to change a subject: a version's number, or 1 and 0 for a hook that is there or not.

    `viewer` is the session that alone is concerned, None for all.
    """

    change: str
    subject: str
    value: int
    at: int
    viewer: str | None = None


class Acked(msgspec.Struct, frozen=True, tag="acked"):
    """A change was acknowledged; `revision` is what the answer said."""

    change: str
    at: int
    revision: int | None = None


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """A change was not acknowledged, and its daemon is dead: it was made or not, and will not be made later."""

    change: str
    at: int


class Barred(msgspec.Struct, frozen=True, tag="barred"):
    """From `since` to `at` nothing that requires this hook may be allowed."""

    hook: str
    since: int
    at: int


class Fault(msgspec.Struct, frozen=True, tag="fault"):
    """The nemesis did this."""

    kind: str
    at: int
    detail: str = ""


Line: TypeAlias = Sent | Answered | Heard | Change | Acked | Lost | Barred | Fault
LINES = msgspec.json.Decoder(Line)


def read(paths: Iterable[Path]) -> Iterator[Line]:
    """Yield all lines of these files; a last line that was torn is left out."""
    return read_lines(paths, LINES)

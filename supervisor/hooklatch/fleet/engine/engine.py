"""What an engine must do: keep an ordered log of versions, bundles by digest, and a log and a report for each host.

Knows bytes and numbers.  A second engine is a second module with a class of this shape, and a scheme in `open_engine`.

Nothing depends on seen edges: a reader asks for what follows the number that it has.  A lost reply is harmless: what is
written carries its own number, and the engine refuses a number that it has already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

__all__ = [
    "AddressError",
    "RecordBatch",
    "BehindError",
    "ConflictError",
    "Engine",
    "EngineError",
    "LogFacts",
    "LostError",
    "MissingFileError",
    "NotInstalledError",
    "EngineOpener",
    "EngineRefusedError",
    "StoredReport",
    "UnreachableError",
]


class EngineError(Exception):
    """The engine cannot do it.  The text says what happened, where (without secrets), and what to do."""


class UnreachableError(EngineError):
    """There is no connection, or no answer in time: try again later."""


class EngineRefusedError(EngineError):
    """The engine refuses: wrong credentials, no right, its disk is full, too old.  Trying again may not help."""


class AddressError(EngineRefusedError):
    """What should name an engine is no URL of one."""


class MissingFileError(EngineRefusedError):
    """A file that was named is not there: a password's, or one of certificates."""


class NotInstalledError(EngineRefusedError):
    """The package that speaks to such an engine is not installed."""


class ConflictError(EngineError):
    """Somebody else wrote that number first."""


class LostError(EngineError):
    """A log was emptied: the engine has taken a batch, and what it had acknowledged before is gone."""


class BehindError(EngineRefusedError):
    """The engine has lost versions that were read from it, or that it must have: it is no source of policy as it is."""


class RecordBatch(msgspec.Struct, frozen=True):
    """Records of one host: all from `first` to `last` that were to be shipped, as the bytes that were given.

    `at` is when the engine took it, in ms since the epoch by its clock.
    """

    first: int
    last: int
    data: bytes
    at: int = 0


class LogFacts(msgspec.Struct, frozen=True):
    """Of one epoch of a host's log: the newest number that it ever took, its batches, and how many it was ever given.

    What is missing between those two was removed: by an operator, whose note says so, or with the host's credentials.
    """

    last: int
    batches: int
    added: int


class StoredReport(msgspec.Struct, frozen=True):
    """What a host last said of itself, and when the engine heard it, in ms since the epoch by the engine's clock."""

    host: str
    data: bytes
    at: int


class Engine(Protocol):
    """An open connection to one fleet's part of an engine.  Every method may raise EngineError."""

    # -- policy: publishers write, hosts read --------------------------------------------------------------------------

    async def versions(self, after: int, *, wait: float = 0.0, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        """Return versions after a number, in order and without a gap; none, if none comes within `wait` seconds.

        Fewer than `limit` are all that there are.

        Raises:
            BehindError: the engine has fewer than `after` versions, or some between are gone.
        """
        ...

    async def newest_version(self) -> int:
        """Return the number of the newest version, 0 if there is none.

        Raises:
            BehindError: some before it are gone.
        """
        ...

    async def commit(self, version: int, manifest: bytes) -> None:
        """Append a version.

        Raises:
            ConflictError: it is not the one after the newest.
            BehindError: some before it are gone.
            UnreachableError: it may be there or not: look at what is there.
        """
        ...

    async def bundle(self, digest: str) -> bytes | None:
        """Return a bundle's bytes, None if there is no such bundle."""
        ...

    async def put_bundle(self, digest: str, data: bytes) -> None:
        """Store a bundle; one that is there already is kept.

        Raises:
            RefusedError: other bytes are there under its name.
        """
        ...

    # -- decisions: each host appends to its own log -------------------------------------------------------------------

    async def append(self, host: str, epoch: int, batch: RecordBatch) -> None:
        """Append records to a host's log.

        Raises:
            ConflictError: the log holds `batch.last` or later records already.
            LostError: the batch is there, and the log, whose end was read or written before, had become none.
            UnreachableError: it may be there or not: sent again, it is refused if it is.  Also if the connection was
                lost since the log's end was read or written: what answers now may have less than was acknowledged, so
                ask for `last_batch` first.
        """
        ...

    async def last_batch(self, host: str) -> tuple[int, RecordBatch] | None:
        """Return the newest epoch of a host's log that has batches, and its newest batch; None if there is none.

        Its data is empty if the engine took it and holds it no more.
        """
        ...

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        """Return batches of a host's log whose `last` is after a number, in order."""
        ...

    async def epochs(self, host: str) -> Sequence[int]:
        """Return the epochs of a host's log, in order: more than one if its record began anew."""
        ...

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        """Return batches of a host's log whose `last` is before a number, newest first."""
        ...

    def logs(self) -> AsyncIterator[tuple[str, int]]:
        """Return the logs that there are by host and epoch, in no order; `epochs` is what a host says of its own."""
        ...

    async def log_facts(self, host: str, epoch: int) -> LogFacts | None:
        """Return what is known of a log beside what it holds, None if there is no such log."""
        ...

    async def trim(self, host: str, epoch: int, through: int, note: bytes) -> int:
        """Keep a note on a host's epoch in place of the one before, then remove its batches through a number.

        Return how many were removed.  Hosts have no right to do this.
        """
        ...

    async def notes(self, host: str) -> Mapping[int, bytes]:
        """Return the notes on what was trimmed from a host's log, by epoch."""
        ...

    # -- hosts: each reports on itself ---------------------------------------------------------------------------------

    async def report(self, host: str, data: bytes) -> None:
        """Replace what a host says of itself."""
        ...

    def reports(self) -> AsyncIterator[StoredReport]:
        """Return what every host last said of itself, in no order."""
        ...

    async def facts(self) -> dict[str, str]:
        """Return what is worth showing of the engine: its name, its version, whether it syncs what it acknowledges."""
        ...


class EngineOpener(Protocol):
    """Opens a fleet's part of an engine by its URL; a password comes from a file, never from an argument."""

    def __call__(
        self,
        url: str,
        fleet: str,
        *,
        password: str | None = None,
        ca: str | None = None,
        timeout: float = 5.0,
    ) -> AbstractAsyncContextManager[Engine]: ...

"""The engine on files: an archive of a fleet's versions, bundles, logs and reports, to be read where no server is.

`file:///PATH` names it.  Commands read it as any other engine, and nothing can be published or shipped to it; only
`ArchiveWriter` adds to it.  A file is written once and never changed, so any object store can hold a copy:

| path below `PATH/<fleet>` | holds |
|---|---|
| `policy/<version>` | the manifest |
| `keys/<version>` | the key set |
| `bundles/<sha256>` | the bundle |
| `logs/<host>/<epoch>/<last seq>-<first seq>-<ms by the engine>` | a batch |
| the same and `.signature` | the host's signature of the batch, if it has one |
| `logs/<host>/<epoch>.json` | `ArchivedLog`, written again after each batch |
| `reports/<host>.json`, `facts.json` | the report, and the engine's facts, when the archive was last written |
| `events.json` | the events of enrolment, likewise |

Numbers in names have leading zeros, so a listing is in order.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, NoReturn, TypeVar

import msgspec
import trio

from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.engine.engine import (
    Address,
    BehindError,
    Engine,
    EngineError,
    EngineRefusedError,
    LogFacts,
    RecordBatch,
    StoredReport,
)
from hooklatch.fleet.manifests import NAME

__all__ = ["ArchiveEngine", "ArchiveWriter", "ArchivedLog", "opens_archive"]

T = TypeVar("T")
BATCH = re.compile(r"(\d{20})-(\d{20})-(\d{1,20})")
SIGNATURE = ".signature"
EPOCH = re.compile(r"\d{1,19}")


class ArchivedLog(msgspec.Struct, frozen=True):
    """The extent of one epoch in an archive: `batches` up to `last`.

    `note` is the engine's note on `noted` batches that were trimmed before the archive began.
    """

    last: int = 0
    batches: int = 0
    note: str | None = None
    noted: int = 0


class BatchPlace(NamedTuple):
    """The numbers in a batch's name."""

    last: int
    first: int
    at: int

    @property
    def name(self) -> str:
        return f"{self.last:020d}-{self.first:020d}-{self.at}"


class DamagedArchiveError(EngineError):
    """A file of an archive cannot be read.  It is not a missing right, so no command goes on without it."""


class ArchiveEngine(Engine):
    """The reading half: what `Engine` says of each method.  It refuses all that writes."""

    def __init__(self, folder: str, fleet: str) -> None:
        self.folder = os.path.join(folder, fleet)
        self._places: dict[tuple[str, int], list[BatchPlace]] = {}

    # -- policy --------------------------------------------------------------------------------------------------------

    async def wait(self, heads: Mapping[str, int], seconds: float) -> Collection[str]:
        await trio.sleep(seconds)  # nothing arrives in an archive
        return ()

    async def versions(self, after: int, *, limit: int = 100) -> Sequence[tuple[int, bytes]]:
        newest = await self.newest_version()
        if newest < after:
            raise BehindError(f"{self.folder} has {newest} versions of the policy, and version {after} was read")
        numbers = range(after + 1, min(newest, after + limit) + 1)
        return [(number, self._read("policy", f"{number:012d}")) for number in numbers]

    async def newest_version(self) -> int:
        names = self._list("policy")
        if names != [f"{number:012d}" for number in range(1, len(names) + 1)]:
            raise BehindError(f"{self.folder}/policy does not have each version once: copy it again from where it is")
        return len(names)

    async def bundle(self, digest: str) -> bytes | None:
        return self._read("bundles", digest) if digest in self._list("bundles") else None

    async def key_sets(self, after: int) -> Sequence[bytes]:
        names = self._list("keys")
        if len(names) < after:
            raise BehindError(f"{self.folder} has {len(names)} key sets, and key set {after} was read")
        return [self._read("keys", name) for name in names[after:]]

    async def timestamp(self) -> tuple[int, bytes] | None:
        return None  # of now, and an archive is not

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def logs(self) -> AsyncIterator[tuple[str, int]]:
        for host in filter(NAME.fullmatch, self._list("logs")):
            for epoch in await self.epochs(host):
                yield host, epoch

    async def epochs(self, host: str) -> Sequence[int]:
        names = {name.removesuffix(".json") for name in self._list("logs", host)}
        return sorted(int(name) for name in names if EPOCH.fullmatch(name))

    async def batches(self, host: str, epoch: int, after: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        places = [place for place in self._list_batches(host, epoch) if place.last > after][:limit]
        return [self._read_batch(host, epoch, place) for place in places]

    async def batches_before(self, host: str, epoch: int, before: int, *, limit: int = 100) -> Sequence[RecordBatch]:
        places = [place for place in self._list_batches(host, epoch) if place.last < before][::-1][:limit]
        return [self._read_batch(host, epoch, place) for place in places]

    async def last_batch(self, host: str) -> tuple[int, RecordBatch] | None:
        for epoch in reversed(await self.epochs(host)):
            for batch in await self.batches_before(host, epoch, 2**64, limit=1):
                return epoch, batch
        return None

    async def log_facts(self, host: str, epoch: int) -> LogFacts | None:
        log = self.read_log(host, epoch)
        return LogFacts(log.last, len(self._list_batches(host, epoch)), log.batches + log.noted)

    async def notes(self, host: str) -> Mapping[int, bytes]:
        logs = {epoch: self.read_log(host, epoch) for epoch in await self.epochs(host)}
        return {epoch: log.note.encode() for epoch, log in logs.items() if log.note is not None}

    def read_log(self, host: str, epoch: int) -> ArchivedLog:
        """Return what the archive must have of an epoch.

        Raises:
            DamagedArchiveError: that cannot be read.
        """
        return self._read_json(ArchivedLog, "logs", host, f"{epoch}.json")

    # -- hosts ---------------------------------------------------------------------------------------------------------

    async def reports(self) -> AsyncIterator[StoredReport]:
        for name in self._list("reports"):
            yield self._read_json(StoredReport, "reports", name)

    async def newest_report(self, host: str) -> StoredReport | None:
        return next(iter([report async for report in self.reports() if report.host == host]), None)

    async def events(self) -> Sequence[bytes]:
        return [text.encode() for text in self._read_json(list[str], "events.json")]

    async def registered_key(self, host: str, slot: str) -> str:
        return ""  # the events have it

    async def fullness(self) -> float | None:
        return None

    async def facts(self) -> dict[str, str]:
        return self._read_json(dict[str, str], "facts.json")

    def _refuse(self) -> NoReturn:
        raise EngineRefusedError(f"{self.folder} is an archive, which is only read: name the engine itself with --to")

    # -- files ---------------------------------------------------------------------------------------------------------

    def _list(self, *parts: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(os.path.join(self.folder, *parts)) if not name.endswith(".new"))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._make_error(os.path.join(*parts), error) from None

    def _list_batches(self, host: str, epoch: int) -> list[BatchPlace]:
        if (host, epoch) not in self._places:
            matches = map(BATCH.fullmatch, self._list("logs", host, str(epoch)))
            self._places[host, epoch] = [BatchPlace(*map(int, match.groups())) for match in matches if match]
        return self._places[host, epoch]

    def _read_batch(self, host: str, epoch: int, place: BatchPlace) -> RecordBatch:
        parts = ("logs", host, str(epoch), place.name)
        signed = (*parts[:-1], f"{place.name}{SIGNATURE}")
        has_signature = os.path.lexists(os.path.join(self.folder, *signed))
        signature = self._read(*signed).decode("ascii", "replace") if has_signature else ""
        return RecordBatch(place.first, place.last, self._read(*parts), place.at, signature)

    def _read_json(self, shape: type[T], *parts: str) -> T:
        try:
            return msgspec.json.decode(self._read(*parts), type=shape)
        except msgspec.MsgspecError as error:
            raise self._make_error(os.path.join(*parts), error) from None

    def _read(self, *parts: str) -> bytes:
        try:
            with open_regular_file(os.path.join(self.folder, *parts)) as file:
                return file.read()
        except OSError as error:
            raise self._make_error(os.path.join(*parts), error) from None

    def _make_error(self, name: str, error: Exception) -> DamagedArchiveError:
        reason = explain_error(error) if isinstance(error, OSError) else error
        return DamagedArchiveError(f"{self.folder}/{name} of the archive cannot be read: {reason}")


class ArchiveWriter(ArchiveEngine):
    """An archive that is added to, by one process at a time.  Its methods raise OSError for what cannot be written."""

    async def events(self) -> Sequence[bytes]:
        return await super().events() if "events.json" in self._list() else []  # at the first time

    def find_newest(self, host: str, epoch: int) -> int:
        """Return the number after which batches are still to be copied."""
        return max((place.last for place in self._list_batches(host, epoch)), default=0)

    def put(self, data: bytes, *parts: str) -> None:
        """Write a file, unless one of this content is there.

        Raises:
            EngineRefusedError: a file of another content is there, which stays.
        """
        path = os.path.join(self.folder, *parts)
        with suppress(FileNotFoundError):
            if os.stat(path, follow_symlinks=False) and self._read(*parts) != data:
                raise EngineRefusedError(f"{path} is there with other content than the engine's; it stays as it is")
            return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, data)

    def begin_log(self, host: str, epoch: int, note: str | None, noted: int) -> None:
        """Begin the log of an epoch, if the archive has none."""
        if not os.path.lexists(os.path.join(self.folder, "logs", host, f"{epoch}.json")):
            self.put_current(ArchivedLog(note=note, noted=noted), "logs", host, f"{epoch}.json")

    def put_batches(self, host: str, epoch: int, batches: Sequence[RecordBatch]) -> None:
        """Add batches to a log that was begun, and after them how many there are."""
        places = self._list_batches(host, epoch)
        for batch in batches:
            place = BatchPlace(batch.last, batch.first, batch.at)
            if batch.signature:
                self.put(batch.signature.encode(), "logs", host, str(epoch), f"{place.name}{SIGNATURE}")
            self.put(batch.data, "logs", host, str(epoch), place.name)
            places.append(place)
        # What a process that was killed here had added is counted with the next batches.
        log = self.read_log(host, epoch)
        count = log.batches + sum(place.last > log.last for place in places)
        self.put_current(
            msgspec.structs.replace(log, last=places[-1].last, batches=count), "logs", host, f"{epoch}.json"
        )

    def put_current(self, document: object, *parts: str) -> None:
        """Write a document in place of the one before."""
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, msgspec.json.encode(document))


@asynccontextmanager
async def opens_archive(address: Address, fleet: str) -> AsyncGenerator[Engine]:
    """Open the archive of a fleet.

    Raises:
        DamagedArchiveError: there is none.
    """
    archive = ArchiveEngine(address.path, fleet)
    await archive.facts()
    yield archive

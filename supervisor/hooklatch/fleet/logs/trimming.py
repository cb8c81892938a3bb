"""The trimming of the engine's logs by an operator, with a note on it, and the copy into an archive.

A note is written before anything is removed: the number and hash of the last removed entry, how many batches, when, by
whom and why.  So a trimmed log can be distinguished from a log with a hole.  The newest batch of the epoch that a host
ships to always stays: the link continues from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from hooklatch.fleet.batches import BatchError, ShippedRecord, find_newest_place, unpack_batch
from hooklatch.fleet.engine.archive import ArchiveWriter
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, RecordBatch
from hooklatch.fleet.enrolment import read_events
from hooklatch.fleet.logs.reading import FleetScan
from hooklatch.fleet.manifests import FleetError, Sha256, decode_document, read_envelope, read_payload
from hooklatch.fleet.publishing.versions import HistoryError
from hooklatch.fleet.reports import read_report

__all__ = [
    "TrimNote", "TrimmedHost", "TrimmedHosts", "read_trimmed", "trim_hosts", "ArchivedHost",
    "ArchivedHosts", "archive_fleet",
]  # fmt: skip

AT_ONCE = 8  # batches in memory


class TrimNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note on one epoch of a host's log: everything through `seq` was removed, `batches` of them in all."""

    epoch: int
    seq: Annotated[int, Meta(ge=1)]
    hash: Sha256
    batches: Annotated[int, Meta(ge=0)]
    at: int  # ms since the epoch, by the engine's clock
    by: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"epoch {self.epoch} was trimmed through record {self.seq} by {self.by or 'an operator'}{why}"


class TrimmedHost(TrimNote, frozen=True, kw_only=True):
    """A note of a removal, and its host."""

    host: str


TrimmedHosts: TypeAlias = list[TrimmedHost]


def read_trimmed(notes: Mapping[int, bytes]) -> dict[int, TrimNote]:
    """Read the notes on a host's log, by epoch.

    Raises:
        FleetError: a note cannot be read; only operators can write them.
    """
    notes_by_epoch: dict[int, TrimNote] = {}
    for epoch, data in notes.items():
        notes_by_epoch[epoch] = decode_document(data, TrimNote, f"the note on what was trimmed from epoch {epoch}")
        if notes_by_epoch[epoch].epoch != epoch:
            raise FleetError(
                f"the note on what was trimmed from epoch {epoch} is of epoch {notes_by_epoch[epoch].epoch}"
            )
    return notes_by_epoch


async def trim_hosts(
    engine: Engine, scan: FleetScan, *, older: float, by: str, reason: str, is_dry: bool = False
) -> tuple[list[TrimmedHost], list[str]]:  # fmt: skip
    """Remove batches of these hosts that arrived more than `older` seconds ago, by the engine's clock.

    Return the notes and a text for each log that was kept though it is old enough.
    """
    now = int((await engine.facts())["clock"])
    ships_to = set(dict(scan.logs).items())
    for report in scan.reports:
        with suppress(FleetError):  # the newest epoch counts then
            ships_to.add((report.host, read_report(report.data, report.host).epoch))
    written_notes: list[TrimmedHost] = []
    kept_texts = [finding.text for finding in scan.excess]
    for host, epoch in scan.logs:
        keeps_newest = (host, epoch) in ships_to
        batches = await list_older(engine, host, epoch, now - int(older * 1000), keeps_newest=keeps_newest)
        if not batches:
            continue
        try:
            before = read_trimmed(await engine.notes(host)).get(epoch)
            last, count = await find_readable_record(engine, host, epoch, batches)
        except FleetError as error:
            kept_texts.append(f"{host}: nothing of epoch {epoch} is removed: {error}")
            continue
        note = TrimNote(epoch=epoch, seq=last.seq, hash=last.hash, batches=0, at=now, by=by, reason=reason)
        note = count_in_note(note, batches[:count], before)
        if not is_dry:
            await engine.trim(host, epoch, note.seq, msgspec.json.encode(note))
        written_notes.append(TrimmedHost(host=host, **msgspec.structs.asdict(note)))
    return written_notes, kept_texts


def count_in_note(note: TrimNote, batches: Sequence[RecordBatch], before: TrimNote | None) -> TrimNote:
    """Return a note on these batches with their number, or `before`, the present note, if that is on more.

    A trim that was killed after its note has left batches that this note has counted, and another operator may just
    have removed more.  A note that counts too many would cover what a host removes.
    """
    if before is not None and before.seq >= note.seq:
        return before
    noted, through = (before.batches, before.seq) if before is not None else (0, 0)
    return msgspec.structs.replace(note, batches=noted + sum(batch.last > through for batch in batches))


async def list_older(
    engine: Engine, host: str, epoch: int, older_than: int, *, keeps_newest: bool
) -> list[RecordBatch]:
    """Return the batches of a log, without their data, that arrived before a moment in ms by the engine's clock.

    What stays is not read, but for a few.  Where `keeps_newest` the last of the epoch stays.
    """
    older: list[RecordBatch] = []
    while batches := await engine.batches(host, epoch, older[-1].last if older else 0, limit=AT_ONCE):
        for batch in batches:
            if batch.at >= older_than:  # a host may claim any time, but a later batch did not arrive earlier
                return older
            older.append(msgspec.structs.replace(batch, data=b""))
    return older[:-1] if keeps_newest else older


async def find_readable_record(
    engine: Engine, host: str, epoch: int, batches: Sequence[RecordBatch]
) -> tuple[ShippedRecord, int]:
    """Return the last entry of the newest of these batches that can be read, and how many batches end with it.

    Raises:
        BatchError: none can be read.
    """
    for count in range(len(batches), 0, -1):
        for batch in await engine.batches_before(host, epoch, batches[count - 1].last + 1, limit=1):
            try:
                records = unpack_batch(batch.data, host=host, epoch=epoch, first=batch.first, last=batch.last)
            except BatchError:
                continue
            return records[-1], count
    raise BatchError("none of the batches that are old enough can be read, and the note needs the last record's hash")


class ArchivedHost(msgspec.Struct, frozen=True):
    """The extent of an epoch in the archive: how many batches came now, and the newest record's seq:hash."""

    host: str
    epoch: int
    added: int
    head: str | None


ArchivedHosts: TypeAlias = list[ArchivedHost]


async def archive_fleet(
    engine: Engine, archive: ArchiveWriter, scan: FleetScan
) -> tuple[list[ArchivedHost], list[str]]:
    """Copy versions, bundles, and the logs and reports of these hosts.

    Return what the archive has of each log, and what is wrong: where the engine and the archive contradict each other,
    the archive stays as it is.

    Raises:
        EngineError: the engine or the archive cannot be read.
        OSError: the archive cannot be written.
    """
    findings = [finding.text for finding in scan.excess]
    await copy_versions(engine, archive, findings)
    archived: list[ArchivedHost] = []
    for host, epoch in scan.logs:
        try:
            archived.append(await copy_log(engine, archive, host, epoch, findings))
        except (EngineRefusedError, FleetError) as error:
            findings.append(f"{host}: {error}")
    for report in scan.reports:
        archive.put_current(report, "reports", f"{report.host}.json")
    events = [msgspec.json.encode(event).decode() for event in await read_events(engine)]
    if len(events) < (count := len(await archive.events())):
        findings.append(
            f"the engine has {len(events)} of the {count} events of enrolment in {archive.folder}, which stay"
        )
    else:
        archive.put_current(events, "events.json")
    archive.put_current(await engine.facts(), "facts.json")  # last: without it there is no archive to read
    return archived, findings


async def copy_versions(engine: Engine, archive: ArchiveWriter, findings: list[str]) -> None:
    number = 0
    while sets := await engine.key_sets(number):
        for data in sets:
            number += 1
            try:
                archive.put(data, "keys", f"{number:012d}")
            except EngineRefusedError as error:
                findings.append(f"key set {number}: {error}")
    if number < (count := len(await archive.key_sets(0))):
        findings.append(
            f"the engine has {number} of the {count} key sets in {archive.folder}: it lost some; put them back:"
            f" hooklatch fleet restore --from {archive.folder}"
        )
    after = 0
    while page := await engine.versions(after):
        for number, data in page:
            try:
                archive.put(data, "policy", f"{number:012d}")
                digest = read_payload(read_envelope(data)).bundle
            except (EngineRefusedError, FleetError) as error:
                findings.append(f"version {number}: {error}")
                continue
            bundle = await archive.bundle(digest) or await engine.bundle(digest)
            if bundle is not None:
                archive.put(bundle, "bundles", digest)
            else:
                findings.append(f"version {number}: the engine does not have its bundle {digest}")
        after = page[-1][0]
    if await archive.newest_version() > after:
        raise HistoryError(
            f"{archive.folder} has more versions than the engine, which has {after}: the engine lost some, so nothing"
            f" more is copied; put them back: hooklatch fleet restore --from {archive.folder}"
        )


async def copy_log(engine: Engine, archive: ArchiveWriter, host: str, epoch: int, findings: list[str]) -> ArchivedHost:
    notes = await engine.notes(host)
    trimmed = read_trimmed({epoch: notes[epoch]})[epoch] if epoch in notes else None
    if trimmed is not None:
        archive.begin_log(host, epoch, notes[epoch].decode(), trimmed.batches)
    else:
        archive.begin_log(host, epoch, None, 0)
    after, added = archive.find_newest(host, epoch), 0
    while batches := await engine.batches(host, epoch, after, limit=AT_ONCE):
        archive.put_batches(host, epoch, batches)
        added, after = added + len(batches), batches[-1].last
    head = None
    for batch in await archive.batches_before(host, epoch, after + 1, limit=1):
        try:
            head = f"{batch.last}:{find_newest_place(batch.data, batch.last).hash}"
        except BatchError as error:
            findings.append(f"{host}: the batch up to record {batch.last} of epoch {epoch} cannot be read: {error}")
    return ArchivedHost(host, epoch, added, head)

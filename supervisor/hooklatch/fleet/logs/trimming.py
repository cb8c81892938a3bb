"""The trimming of the engine's logs by an operator, and the notes on it.

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

from hooklatch.fleet.batches import BatchError, ShippedRecord, unpack_batch
from hooklatch.fleet.engine.engine import Engine, RecordBatch
from hooklatch.fleet.logs.logs import LogFinding
from hooklatch.fleet.logs.reading import FleetScan, limit_epochs
from hooklatch.fleet.manifests import FleetError, Sha256, decode_document
from hooklatch.fleet.reports import read_report

__all__ = ["TrimNote", "TrimmedHost", "TrimmedHosts", "count_older", "read_trimmed", "trim_hosts"]

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


def count_older(batches: Sequence[RecordBatch], older_than: int, *, keeps_newest: bool) -> int:
    """Return how many batches arrived before a moment, in ms by the engine's clock, from the beginning on.

    `batches` are all of an epoch, or its oldest; the last of them stays where `keeps_newest`.
    """
    older = latest = 0
    candidates = batches[:-1] if keeps_newest else batches
    for count, batch in enumerate(candidates, 1):
        # A host may claim any time, but a later batch did not arrive earlier.
        latest = max(latest, batch.at)
        if latest >= older_than:
            break
        older = count
    return older


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
    engine: Engine, scan: FleetScan, *, older: float, by: str, reason: str, is_dry: bool = False,
    are_named: bool = True,
) -> tuple[list[TrimmedHost], list[str]]:  # fmt: skip
    """Remove batches of these hosts that arrived more than `older` seconds ago, by the engine's clock.

    Without `are_named`, one host with very many epochs must not stop the trimming of the others.

    Return the notes and a text for each log that was kept though it is old enough.
    """
    now = int((await engine.facts())["clock"])
    logs, excess = (scan.logs, list[LogFinding]()) if are_named else limit_epochs(scan.logs)
    ships_to = set(dict(logs).items())
    for report in scan.reports:
        with suppress(FleetError):  # the newest epoch counts then
            ships_to.add((report.host, read_report(report.data, report.host).epoch))
    written_notes: list[TrimmedHost] = []
    kept_texts = [finding.text for finding in excess]
    for host, epoch in logs:
        batches = await list_bare_batches(engine, host, epoch)
        cut = count_older(batches, now - int(older * 1000), keeps_newest=(host, epoch) in ships_to)
        if not cut:
            continue
        try:
            before = read_trimmed(await engine.notes(host)).get(epoch)
            last, count = await find_readable_record(engine, host, epoch, batches[:cut])
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


async def list_bare_batches(engine: Engine, host: str, epoch: int) -> list[RecordBatch]:
    """Return the batches of a log without their data, which may be gigabytes."""
    bare_batches: list[RecordBatch] = []
    while batches := await engine.batches(host, epoch, bare_batches[-1].last if bare_batches else 0, limit=AT_ONCE):
        bare_batches += [msgspec.structs.replace(batch, data=b"") for batch in batches]
    return bare_batches


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

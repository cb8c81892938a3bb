"""The copy of a fleet's part of an engine into an archive: what is new since the last time."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from hooklatch.fleet.batches import BatchError, find_newest_place
from hooklatch.fleet.engine.archive import ArchiveWriter
from hooklatch.fleet.engine.engine import Engine, EngineRefusedError
from hooklatch.fleet.enrolment import read_events
from hooklatch.fleet.logs.reading import FleetScan
from hooklatch.fleet.logs.trimming import read_trimmed
from hooklatch.fleet.manifests import FleetError, read_envelope, read_payload
from hooklatch.fleet.publishing.versions import HistoryError

__all__ = ["ArchivedHost", "ArchivedHosts", "archive_fleet"]

AT_ONCE = 8  # batches in memory


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
    findings: list[str] = []
    await copy_versions(engine, archive, findings)
    archived: list[ArchivedHost] = []
    for host, epoch in scan.logs:
        try:
            archived.append(await copy_log(engine, archive, host, epoch, findings))
        except (EngineRefusedError, FleetError) as error:
            findings.append(f"{host}: {error}")
    for report in scan.reports:
        archive.put_current(report, "reports", f"{report.host}.json")
    archive.put_current([msgspec.json.encode(event).decode() for event in await read_events(engine)], "events.json")
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

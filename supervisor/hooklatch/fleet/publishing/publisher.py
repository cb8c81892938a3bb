"""Reads a fleet's versions from an engine, and adds one.  Knows an engine and keys; knows no folder, hook or terminal.

read()      all versions, each link of the chain checked, compared with what was seen before and with hosts' heads
put()       a bundle, read back and compared
commit()    the next version; of two publishers one wins, and a lost reply is settled by reading back
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import trio

from hooklatch.fleet.engine.engine import ConflictError, Engine, EngineError, UnreachableError
from hooklatch.fleet.policy.bundles import Bundle, read_bundle
from hooklatch.fleet.policy.manifests import FleetError, Manifest, SignedManifest, read_envelope, read_payload
from hooklatch.fleet.policy.reports import HostReport, read_report
from hooklatch.fleet.policy.signing import PrivateKey, PublicKey
from hooklatch.fleet.publishing.memory import LastSeenHead
from hooklatch.fleet.publishing.versions import (
    HistoryError,
    StoredVersion,
    VersionDraft,
    VersionHistory,
    encode_envelope,
    sign_version,
)

__all__ = ["ReceivedReport", "LostRaceError", "OverwrittenError", "Publisher", "UnknownOutcomeError", "read_history"]

PAUSES = (0.25, 0.5, 1.0, 2.0)  # seconds between attempts to learn what became of a commit


class LostRaceError(FleetError):
    """Somebody else's version came first; the one that was about to be written was not."""

    def __init__(self, winner: Manifest, ended: str = "") -> None:
        by = f" by {winner.publisher}" if winner.publisher else ""
        text = f" ({winner.message})" if winner.message else ""
        look = f"`hooklatch fleet diff {winner.version - 1} {winner.version}`"
        super().__init__(
            f"version {winner.version}{by}{text} came first, and {ended or 'yours was not written'}; look at what it"
            f" changes with {look}, and {'decide again' if ended else 'push again'}"
        )
        self.winner = winner


class UnknownOutcomeError(FleetError):
    """The engine was lost while a version was being committed."""


class OverwrittenError(FleetError):
    """The engine has other bytes than those that belong there."""


class ReceivedReport(msgspec.Struct, frozen=True):
    """A host's report, and when the engine heard it."""

    report: HostReport
    at: int


class Publisher:
    """One fleet's versions, as one publisher sees them; `keys` are those that it believes, by id.

    `memory` is what it saw last time; without `heeds_hosts` the hosts' heads are not compared.
    """

    def __init__(
        self,
        engine: Engine,
        fleet: str,
        keys: Mapping[str, PublicKey],
        memory: LastSeenHead | None = None,
        *,
        heeds_hosts: bool = True,
    ) -> None:
        self.engine = engine
        self.fleet = fleet
        self.history = VersionHistory(fleet)
        self.notes: list[str] = []
        self._keys = keys
        self._memory = memory
        self._heeds_hosts = heeds_hosts

    async def read(self, hosts: Mapping[str, ReceivedReport] | None = None) -> VersionHistory:
        """Read the versions that are new, and check all of them; `hosts` is what hosts have just said, if known.

        Raises:
            FleetError: they are not to be believed.
            EngineError: they cannot be read.
        """
        if hosts is None:  # asked for first: what a host has read, the engine had before
            hosts = await self.hosts() if self._heeds_hosts else {}
        history = await read_history(self.engine, self.history, self._keys)
        if self._memory is not None:
            self._check_memory(history, self._memory)
        if self._heeds_hosts:
            history.check_reports([heard.report for heard in hosts.values()])
        if self._memory is not None:
            self._memory.keep(history.head)
        self.history = history
        return history

    def _check_memory(self, history: VersionHistory, memory: LastSeenHead) -> None:
        try:
            history.check_seen(memory.head(), by="this machine")
        except HistoryError as error:
            raise HistoryError(
                f"{error}. If they cannot be restored: remove {memory.path}, and push with --despite-hosts"
            ) from None

    async def hosts(self) -> dict[str, ReceivedReport]:
        """Return what each host last said; a report that cannot be read is noted and is as good as none."""
        found: dict[str, ReceivedReport] = {}
        self.notes = []
        async for heard in self.engine.reports():
            try:
                found[heard.host] = ReceivedReport(read_report(heard.data, heard.host), heard.at)
            except FleetError as error:
                self.notes.append(str(error))
        return found

    async def bundle(self, manifest: Manifest) -> Bundle:
        """Return the bundle of a version.

        Raises:
            FleetError: the engine does not have it, or has other bytes.
        """
        data = await self.engine.bundle(manifest.bundle)
        if data is None:
            raise FleetError(
                f"the engine does not have the bundle of version {manifest.version}; push its folder again, as it was"
            )
        return read_bundle(data, manifest)

    async def put(self, data: bytes) -> str:
        """Store a bundle and return its digest.

        Raises:
            OverwrittenError: other bytes are there.
        """
        digest = hashlib.sha256(data).hexdigest()
        await self.engine.put_bundle(digest, data)
        if await self.engine.bundle(digest) != data:
            raise OverwrittenError(
                f"the engine has other bytes as the bundle {digest}: no host would take it. Find out who wrote it,"
                " delete it there, and push again"
            )
        return digest

    async def commit(self, plan: VersionDraft, key: PrivateKey, *, publisher: str, message: str) -> Manifest:
        """Add the version that follows what was read; return it once the engine has it.

        Raises:
            LostRaceError: another one came first.
            UnknownOutcomeError: the engine was lost meanwhile, and may have it.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        manifest, envelope = sign_version(
            self.history, plan, key, created=created, publisher=publisher, message=message
        )
        await self._write(manifest.version, encode_envelope(envelope))
        self.history = VersionHistory(
            self.fleet, (*self.history.entries, StoredVersion(manifest, envelope, is_believed=True))
        )
        try:
            if self._memory is not None:
                self._memory.keep(self.history.head)
        except FleetError as error:
            self.notes.append(str(error))  # the version is out all the same
        return manifest

    async def _write(self, version: int, data: bytes) -> None:
        fault: EngineError | None = None
        for pause in (*PAUSES, None):
            try:
                await self.engine.commit(version, data)
                return
            except ConflictError:
                fault = None
            except UnreachableError as error:
                fault = error
            # Whatever became of it: what stands there now says who won.
            try:
                found = await self._at(version)
            except UnreachableError as error:
                fault, found = error, None
            if found == data:
                return
            if found is not None:
                raise LostRaceError(read_payload(read_envelope(found)))
            if pause is not None:
                await trio.sleep(pause)
        raise UnknownOutcomeError(
            f"it is not known whether version {version} was written: {fault or 'the engine refuses it, but has none'};"
            " look at `hooklatch fleet history` when the engine is back, before you run it again"
        )

    async def _at(self, version: int) -> bytes | None:
        for number, data in await self.engine.versions(version - 1, limit=1):
            if number == version:
                return data
        return None


async def read_history(engine: Engine, history: VersionHistory, keys: Mapping[str, PublicKey]) -> VersionHistory:
    """Return a history with all that follows it in the engine.

    Raises:
        FleetError: it does not follow, or is not signed by a key of `keys`.
    """
    envelopes: list[SignedManifest] = []
    last = history.head.version
    while page := await engine.versions(last):
        for number, data in page:
            if number != last + 1:
                raise HistoryError(f"the engine has version {number} where {last + 1} should be: the log was trimmed")
            envelopes.append(read_envelope(data))
            last = number
    if not envelopes:
        newest = await engine.newest_version()
        if newest < last:
            raise HistoryError(
                f"the engine's newest version is {newest}, but {last} was read from it: versions were lost"
            )
        return history
    if (signer := envelopes[-1].key) not in keys:
        raise HistoryError(
            f"version {last} is signed by the key {signer}, which is not believed here; if it was yours, as where a key"
            " was changed or stolen, give its public key with --trust: so you read on from there, and hosts still"
            " believe only the keys that they list"
        )
    return history.followed_by(envelopes, keys)

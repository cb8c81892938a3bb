"""What tests of the link share: a daemon in memory that checks as the real one does, a publisher, a record, a link."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import trio

from hooklatch.fleet.batches import unpack_batch
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.enrolment import HostIdentity
from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, FollowAnswer
from hooklatch.fleet.link.link import Link
from hooklatch.fleet.manifests import (
    START,
    Bundle,
    BundleVersion,
    FleetError,
    Manifest,
    PolicyHead,
    PolicyVersions,
    RolloutTarget,
    SignedManifest,
    encode_bundle,
    encode_signed_text,
    read_bundle,
    read_envelope,
    read_payload,
    select_newest,
    verify_manifests,
)
from hooklatch.fleet.reports import EngineFault
from hooklatch.fleet.roles import LONGEST, sign_timestamp
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import PrivateKey, Purpose, make_key
from hooklatch.record.storage.chain import GENESIS, seal_entry

__all__ = [
    "FLEET", "HOST", "MemoryDaemon", "Publisher", "RunLink", "WrittenRecord", "linked", "settings_of",
    "shipped_records", "until", "until_shipped",
]  # fmt: skip

FLEET, HOST = "acme", "h1"
EVERYBODY = RolloutTarget()
PATIENCE = 30.0  # seconds; only a failing test waits so long


class MemoryDaemon:
    """A daemon that follows and applies in memory, with the real checks; `is_there` takes it away."""

    def __init__(self, *keys: PrivateKey, host: str = HOST, labels: Collection[str] = ()) -> None:
        self.host, self.labels = host, labels
        self.is_there = True
        self.head = START
        self.applied: BundleVersion | None = None
        self.history: list[BundleVersion] = []  # as applied
        self.contacts = 0
        self.key_sets: list[str] = []
        self.key_set = 0  # the newest that it says it has
        self.timestamps: list[str | None] = []  # as they were brought
        self.shipped_seq: list[int] = []
        self.refusals: list[str] = []
        self.engine: EngineFault | None = None
        self.engine_faults: list[EngineFault | None] = []
        self.refuses_bundles: str | None = None
        self._keys = {key.public.id: key.public for key in keys}
        self._wanted: dict[str, Manifest] = {}
        self._applied: dict[str, BundleVersion] = {}
        self._is_connected = False

    def restart(self) -> None:
        self._is_connected = False

    def trust(self, *keys: PrivateKey) -> None:
        self._keys = {key.public.id: key.public for key in keys}

    def is_connected(self) -> bool:
        return self._is_connected and self.is_there

    async def _connect(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self.is_there:
            self._is_connected = False
            raise DaemonAbsentError("there is no daemon")
        self._is_connected = True

    async def follow(
        self, manifests: Sequence[str] | None, timestamp: str | None = None, keys: Sequence[str] = ()
    ) -> FollowAnswer:
        await self._connect()
        self.timestamps.append(timestamp)
        self.key_sets += keys
        if manifests == []:
            self.contacts += 1
        elif manifests:
            try:
                envelopes = [read_envelope(text.encode()) for text in manifests]
                is_anew = len(envelopes) > self.head.version and read_payload(envelopes[0]).version == 1
                head, known = (START, [self.head]) if is_anew else (self.head, [])
                walked = verify_manifests(FLEET, head, envelopes, self._keys, known)
            except FleetError as error:
                self.refusals.append(str(error))
                raise DaemonRefusedError(str(error)) from None
            self.head = walked.head
            self._wanted |= select_newest(walked.manifests, self.host, self.labels)
        wanted = {name: BundleVersion(manifest.version, manifest.bundle) for name, manifest in self._wanted.items()}
        policies = {name: PolicyVersions(version, self._applied.get(name)) for name, version in wanted.items()}
        newest = max(wanted.values(), key=lambda version: version.version, default=None)
        return FollowAnswer(
            head=self.head, wanted=newest, applied=self.applied, host=self.host, labels=tuple(self.labels), revision=7,
            policies=policies, engine=self.engine, key_set=self.key_set,
        )  # fmt: skip

    async def report_engine(self, fault: EngineFault | None) -> FollowAnswer:
        self.engine = fault
        self.engine_faults.append(fault)
        return await self.follow(None)

    async def apply(self, version: int, bundle: bytes) -> None:
        await self._connect()
        wanted = next((manifest for manifest in self._wanted.values() if manifest.version == version), None)
        try:
            if self.refuses_bundles is not None:
                raise FleetError(self.refuses_bundles)
            if wanted is None:
                raise FleetError("it is another version that is wanted")
            read_bundle(bundle, wanted)
        except FleetError as error:
            self.refusals.append(str(error))
            raise DaemonRefusedError(str(error)) from None
        self.applied = self._applied[wanted.policy] = BundleVersion(version, wanted.bundle)
        self.history.append(self.applied)

    async def report_shipped(self, seq: int) -> None:
        await self._connect()
        self.shipped_seq.append(seq)


class Publisher:
    """Signs versions one after the other."""

    def __init__(self, key: PrivateKey | None = None) -> None:
        self.key = key or make_key()
        self._last = START
        self.envelopes: list[bytes] = []

    @property
    def head(self) -> PolicyHead:
        return self._last

    def make(self, text: str, rollout: RolloutTarget = EVERYBODY, **changes: Any) -> tuple[bytes, bytes]:
        """Return the next version and its bundle, without publishing it."""
        bundle = encode_bundle(Bundle({"guards.py": text.encode()}))
        manifest = Manifest(
            fleet=FLEET, version=self._last.version + 1, previous=self._last.digest,
            bundle=hashlib.sha256(bundle).hexdigest(), size=len(bundle), rollout=rollout,
        )  # fmt: skip
        payload = encode_signed_text(msgspec.structs.replace(manifest, **changes))
        envelope = SignedManifest(payload, self.key.public.id, self.key.sign(payload.encode(), Purpose.MANIFEST))
        return msgspec.json.encode(envelope), bundle

    async def push(self, engine: Engine, text: str, rollout: RolloutTarget = EVERYBODY, **changes: Any) -> int:
        envelope, bundle = self.make(text, rollout, **changes)
        read = read_envelope(envelope)
        await engine.put_bundle(msgspec.json.decode(read.payload)["bundle"], bundle)
        version = self._last.version + 1
        await engine.commit(version, envelope)
        self._last = msgspec.structs.replace(self._last, version=version, digest=read.digest)
        self.envelopes.append(envelope)
        await engine.put_timestamp(self.timestamp(self._last))
        return version

    def timestamp(self, head: PolicyHead) -> bytes:
        """Return a timestamp of a version, as of now."""
        return sign_timestamp(FLEET, head, self.key, at=time.time(), lasts=LONGEST)


class WrittenRecord:
    """A chained record in files, written here, as a daemon would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seq, self.hash = 0, GENESIS
        self.lines: list[bytes] = []
        self._segment = 1
        folder.mkdir(exist_ok=True)

    def write(self, count: int = 1, kind: str = "decision", **fields: object) -> None:
        body = msgspec.json.encode(fields or {"gate": True, "verdict": "allow", "excerpt": {"secret": "s3cr3t"}})
        found: list[bytes] = []
        for _ in range(count):
            self.seq += 1
            line, self.hash = seal_entry(self.seq, self.hash, "2026-01-01T00:00:00.000Z", kind, body)
            found.append(line)
        self.lines += found
        with open(self.folder / f"{self._segment:016d}.jsonl", "ab") as file:
            file.write(b"".join(found))

    def rotate(self) -> None:
        """Begin a new segment with the next record."""
        self._segment = self.seq + 1

    def retire(self, before: int) -> None:
        """Remove the segments that begin before a number, as retention does."""
        for path in self.folder.glob("*.jsonl"):
            if int(path.name[:16]) < before:
                path.unlink()

    def truncate(self, count: int) -> None:
        """Keep this many lines of one segment, and go on from there."""
        self.lines = self.lines[:count]
        self.seq, self.hash = count, msgspec.json.decode(self.lines[-1])["hash"]
        (self.folder / f"{self._segment:016d}.jsonl").write_bytes(b"".join(self.lines))


def settings_of(url: str, *keys: PrivateKey, **changes: Any) -> FleetSettings:
    given: dict[str, Any] = {"name": FLEET, "url": url, "host": HOST, "keys": tuple(key.public.text for key in keys)}
    return FleetSettings(**{**given, "reconnect": 0.1, **changes})


@asynccontextmanager
async def linked(
    settings: FleetSettings,
    daemon: Any,
    record: Path,
    opened: Callable[[], AbstractAsyncContextManager[Engine]] | None = None,
    identity: HostIdentity | None = None,
) -> AsyncGenerator[Link]:
    """Run a link in this process."""
    log_url = settings.log_url
    link = Link(
        settings, opened or (lambda: open_engine(settings.url, FLEET)), daemon, str(record),
        open_logs=(lambda: open_engine(log_url, FLEET)) if log_url is not None else None, identity=identity,
        report_every=0.5,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        yield link
        nursery.cancel_scope.cancel()


class RunLink(Protocol):
    """Runs the link of a test's own engine, daemon and record while a block runs."""

    def __call__(self, **settings: Any) -> AbstractAsyncContextManager[Link]: ...


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    with trio.fail_after(PATIENCE):
        while not is_so():  # noqa: ASYNC110  (nobody tells)
            await trio.sleep(0.005)


async def shipped_records(engine: Engine, host: str = HOST, epoch: int = 1) -> list[dict[str, Any]]:
    """Return every record of an epoch as it lies in the engine, repeats too."""
    return [
        record.document
        for batch in await engine.batches(host, epoch, 0, limit=10_000)
        for record in unpack_batch(batch.data, host=host, epoch=epoch, first=batch.first, last=batch.last)
    ]


async def until_shipped(engine: Engine, record: WrittenRecord, *, epoch: int = 1) -> list[dict[str, Any]]:
    """Wait until the engine has the record's newest record; return what it has."""
    with trio.fail_after(PATIENCE):
        while True:
            found = await shipped_records(engine, epoch=epoch)
            if found and found[-1]["hash"] == record.hash:
                return found
            await trio.sleep(0.02)

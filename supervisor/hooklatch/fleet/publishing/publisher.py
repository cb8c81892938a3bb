"""The reader and writer of a fleet's versions in an engine, and the newest version that this machine has seen there.

read()      all versions, each link of the chain checked, compared with the last seen head and with hosts' heads
put()       a bundle, read back and compared
commit()    the next version; of two publishers one wins, and after a lost reply the version is read back
stamp()     a timestamp of the newest version
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import attrgetter

import msgspec
import trio

from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.engine.engine import ConflictError, Engine, EngineError, UnreachableError
from hooklatch.fleet.manifests import (
    START,
    Bundle,
    FleetError,
    Manifest,
    PolicyHead,
    RolloutTarget,
    SignedManifest,
    read_bundle,
    read_envelope,
    read_payload,
)
from hooklatch.fleet.publishing.versions import (
    LOST,
    HistoryError,
    NoVersionError,
    StoredVersion,
    VersionDraft,
    VersionHistory,
    encode_envelope,
    sign_version,
)
from hooklatch.fleet.reports import LEFT, HostReport, describe_false_time, read_report
from hooklatch.fleet.roles import (
    LONGEST,
    KeySet,
    RoleKeys,
    Timestamp,
    follow_key_set,
    read_number,
    read_timestamp,
    sign_timestamp,
)
from hooklatch.fleet.signing import PrivateKey, PublicKey
from hooklatch.fleet.version_copies import (
    keep_bundle,
    keep_key_sets,
    keep_timestamp,
    keep_versions,
    read_kept_key_sets,
    read_kept_versions,
)

__all__ = [
    "AGREEING", "LastSeenHead", "ReceivedReport", "LostRaceError", "Publisher", "PushOutput", "UnknownOutcomeError",
]  # fmt: skip

MAX_FILE = 4096  # bytes of the file
AGREEING = 2  # hosts by whose word versions were lost: the word of one may be a lie, and must not stop a publisher


class SeenHeadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file: the head, and for people the fleet and its engine's URL."""

    fleet: str
    url: str
    head: PolicyHead


class LastSeenHead:
    """The head that was last seen of one fleet at one URL; a file that cannot be used is a FleetError.

    `copy` is the folder beside it, of the versions themselves and their bundles.
    """

    def __init__(self, folder: str, fleet: str, url: str) -> None:
        self.copy = os.path.join(folder, hashlib.sha256(f"{fleet} {url}".encode()).hexdigest()[:16])
        self.path = f"{self.copy}.json"
        self._fleet = fleet
        self._url = url

    def read_head(self) -> PolicyHead:
        """Return the newest head of the file and of the copy, START if there is neither."""
        head = START
        try:
            for envelope in read_kept_versions(self.copy):
                head = max(head, PolicyHead(read_payload(envelope).version, envelope.digest), key=attrgetter("version"))
            with open_regular_file(self.path) as file:
                return max(
                    msgspec.json.decode(file.read(MAX_FILE), type=SeenHeadFile).head, head, key=attrgetter("version")
                )
        except FileNotFoundError:
            return head
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FleetError(
                f"{self.path}, which holds the newest version that was seen of the fleet, cannot be read:"
                f" {explain_error(error)}; check `hooklatch fleet history`, and remove the file if that is as it should"
                " be"
            ) from None

    def keep(self, history: VersionHistory) -> None:
        """Keep a history's versions, and its head, whole or not at all, if that is newer than the one in the file."""
        is_newer = history.head.version > self.read_head().version
        with self._writing():
            keep_versions(self.copy, (entry.envelope for entry in history.entries))
            if is_newer:
                content = msgspec.json.encode(SeenHeadFile(self._fleet, self._url, history.head))
                replace_file(self.path, content, temporary=f"{self.path}.{os.getpid()}.new")

    def find_lost_key_sets(self, newest: KeySet | None) -> str | None:
        """Return that an engine lacks key sets that were seen here, if its newest one is this."""
        with self._writing():
            seen = max((read_number(data, self._fleet) for data in read_kept_key_sets(self.copy)), default=0)
        if seen <= (version := newest.version if newest is not None else 0):
            return None
        return (
            f"the engine's newest key set is {version}, and this machine has seen key set {seen}: it has lost some,"
            " or withholds them; put them back with: hooklatch fleet restore"
        )

    def keep_key_sets(self, stored: Iterable[bytes]) -> None:
        """Keep key sets."""
        with self._writing():
            keep_key_sets(self.copy, stored)

    def keep_timestamp(self, stored: bytes) -> None:
        """Keep the newest timestamp."""
        with self._writing():
            keep_timestamp(self.copy, stored)

    def keep_bundle(self, digest: str, data: bytes) -> None:
        """Keep a bundle."""
        with self._writing():
            keep_bundle(self.copy, digest, data)

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            path = error.filename or self.copy
            raise FleetError(f"{path} cannot be used: {error.strerror}; mend that, and run it again") from None


ATTEMPTS = 5  # to sign a timestamp before others push again
PAUSES = (0.25, 0.5, 1.0, 2.0)  # seconds between attempts to learn whether a commit succeeded


class LostRaceError(FleetError):
    """Another publisher's version came first, and this publisher's was not written."""

    def __init__(self, winner: Manifest, ended: str = "") -> None:
        author = f" by {winner.publisher}" if winner.publisher else ""
        message = f" ({winner.message})" if winner.message else ""
        command = f"`hooklatch fleet diff {winner.version - 1} {winner.version}`"
        super().__init__(
            f"version {winner.version}{author}{message} came first, and {ended or 'yours was not written'}; look at its"
            f" changes with {command}, and {'decide again' if ended else 'push again'}"
        )
        self.winner = winner


class UnknownOutcomeError(FleetError):
    """The engine was lost while a version was being committed."""


class ReceivedReport(msgspec.Struct, frozen=True):
    """A host's report, and when the engine got it."""

    report: HostReport
    at: int


class PushOutput(msgspec.Struct, frozen=True, kw_only=True):
    """`fleet push`: one line for each version; `is_new` is false if the version existed already."""

    version: int
    policy: str
    is_new: bool
    bundle: str
    size: int
    rollout: RolloutTarget
    same_as: int | None
    message: str
    commit: str | None
    files: list[str]
    left_out: tuple[str, ...]
    suspendable: bool
    cases: int
    observe_until: datetime | None


class Publisher:
    """One fleet's versions, as one publisher sees them.

    `keys` are those that hosts list, and its own, by id.  What others have signed is not believed; with a `trusted` one
    the history can be read on.  One of `anchors`, by default `keys`, has signed the fleet's first key set, if it has
    any; from then on its key set says whom hosts believe.  `memory` is what it saw last time.  Without `heeds_hosts`
    the hosts' heads are not compared.  `gives_up` is the number of a lost version that the next ones give up.  What is
    not valid in the engine is a FleetError.
    """

    def __init__(
        self,
        engine: Engine,
        fleet: str,
        keys: Mapping[str, PublicKey],
        memory: LastSeenHead | None = None,
        *,
        heeds_hosts: bool = True,
        trusted: Mapping[str, PublicKey] = {},
        gives_up: int | None = None,
        anchors: Mapping[str, PublicKey] | None = None,
    ) -> None:
        self.engine = engine
        self.fleet = fleet
        self.history = VersionHistory(fleet)
        self.notes: list[str] = []
        self.key_set: KeySet | None = None
        self.stored_key_sets: list[bytes] = []  # that were read, as the engine has them
        self.keys = keys
        self._trusted = dict(trusted)
        self._anchors = keys if anchors is None else anchors
        self._memory = memory
        self._heeds_hosts = heeds_hosts
        self._gives_up = gives_up

    async def read(self, hosts: Mapping[str, ReceivedReport] | None = None) -> VersionHistory:
        """Read the versions that are new, and check all of them; `hosts` are reports that were just read, if any."""
        if hosts is None:  # before the history: the engine had every version that a host reports to have read
            hosts = await self.hosts() if self._heeds_hosts else {}
        await self.read_key_sets()
        history = await read_history(self.engine, self.history, self.keys, self._trusted)
        memory = self._memory
        seen = memory.read_head() if memory is not None else START
        reports = [received.report for received in hosts.values()]
        if self._gives_up is not None:
            history = VersionHistory(self.fleet, history.entries)
            history = history.give_up(self._gives_up, seen, [report.head for report in reports])
        if text := history.find_contradiction(seen, by="this machine"):
            raise HistoryError(f"{text}. {LOST}")
        if self._heeds_hosts:
            contradictions = history.list_host_contradictions(reports)
            if len(contradictions) >= AGREEING:
                raise HistoryError(f"{contradictions[0]} (and {len(contradictions) - 1} more hosts). {LOST}")
            self.notes += [f"{text}. No other host says so, and it stops nothing" for text in contradictions]
        if memory is not None:
            memory.keep(history)
        self.history = history
        return history

    async def read_key_sets(self) -> None:
        """Read the key sets that are new; with one it says whose versions are believed, as on the hosts."""
        while texts := await self.engine.key_sets(self.key_set.version if self.key_set is not None else 0):
            for data in texts:
                self._believe(follow_key_set(data, self.fleet, self.key_set, self._anchors.values()))
                self.stored_key_sets.append(data)
            if self._memory is not None:
                self._memory.keep_key_sets(texts)
        lost = self._memory.find_lost_key_sets(self.key_set) if self._memory is not None else None
        if lost is not None:  # 5.3.5: an engine that hides a rotation would have keys believed that were taken away
            raise HistoryError(lost)

    def _believe(self, key_set: KeySet) -> None:
        self._trusted |= self.keys  # the history is read past what earlier keys have signed
        self.key_set, self.keys = key_set, key_set.index_policy_keys()

    @property
    def timestamp_role(self) -> RoleKeys:
        """Return whose timestamps hosts believe."""
        listed = RoleKeys(tuple(key.text for key in self.keys.values()))
        return self.key_set.timestamp if self.key_set is not None else listed

    async def put_key_set(self, data: bytes) -> KeySet:
        """Append a key set, which must follow the newest one.

        Raises:
            ConflictError: another publisher was first.
        """
        key_set = follow_key_set(data, self.fleet, self.key_set, self._anchors.values())
        await self.engine.put_key_set(key_set.version, data)
        self._believe(key_set)
        if self._memory is not None:
            self._memory.keep_key_sets([data])
        return key_set

    async def hosts(self) -> dict[str, ReceivedReport]:
        """Return each host's last report, but for hosts that have left.

        An unreadable report, or one from the future, is noted and left out.
        """
        reports: dict[str, ReceivedReport] = {}
        self.notes = []
        now = int((await self.engine.facts())["clock"])
        async for stored in self.engine.reports():
            try:
                report = read_report(stored.data, stored.host)
            except FleetError as error:
                self.notes.append(str(error))
                continue
            if (false_time := describe_false_time(stored.at, now)) is not None:
                self.notes.append(f"the host {stored.host}: {false_time}")
            elif report.health != LEFT:
                reports[stored.host] = ReceivedReport(report, stored.at)
        return reports

    async def bundle(self, manifest: Manifest) -> Bundle:
        """Return the bundle of a version."""
        data = await self.engine.bundle(manifest.bundle)
        if data is None:
            raise FleetError(
                f"the engine does not have the bundle of version {manifest.version}; put it back from a machine that"
                " has it (hooklatch fleet restore), or push its folder again, as it was"
            )
        bundle = read_bundle(data, manifest)
        if self._memory is not None:
            self._memory.keep_bundle(manifest.bundle, data)
        return bundle

    async def put(self, data: bytes) -> str:
        """Store a bundle and return its digest."""
        digest = hashlib.sha256(data).hexdigest()
        await self.engine.put_bundle(digest, data)
        if await self.engine.bundle(digest) != data:
            raise FleetError(
                f"the engine has other bytes as the bundle {digest}: no host would take it. Find out who wrote it,"
                " delete it there, and push again"
            )
        if self._memory is not None:
            self._memory.keep_bundle(digest, data)
        return digest

    async def commit(self, plan: VersionDraft, key: PrivateKey, *, publisher: str, message: str) -> Manifest:
        """Add the version that follows the history; return it once the engine has it.

        Where versions are given up, it is written under each of their numbers too, since no number is ever used for
        another version on a host that has read it.

        Raises:
            LostRaceError: another version came first.
            UnknownOutcomeError: the engine was lost in the meantime, and may have it.
        """
        created = datetime.now(UTC).isoformat(timespec="seconds")
        lost = self.history.gives_up
        while True:
            manifest, envelope = sign_version(
                self.history, plan, key, created=created, publisher=publisher, message=message
            )
            self.check_key(key, manifest.policy)
            await self.write(manifest.version, encode_envelope(envelope))
            entries = (*self.history.entries, StoredVersion(manifest, envelope, is_read=True, is_believed=True))
            self.history = VersionHistory(self.fleet, entries, lost)
            if lost is None or manifest.version > lost.version:
                break
        if lost is not None:
            self.history, self._gives_up = VersionHistory(self.fleet, entries), None
            self.notes.append(
                f"all hosts give up version {lost.version} ({lost.digest[:12]}), and those before it that the engine"
                " has lost; they keep what they have in force until a newer version is for them"
            )
        try:
            if self._memory is not None:
                self._memory.keep(self.history)
        except FleetError as error:
            self.notes.append(str(error))  # the version is out all the same
        await self.try_to_stamp(key)
        return manifest

    def check_key(self, key: PrivateKey, policy: str) -> None:
        """Raise FleetError if the fleet's key set does not let a key sign a policy."""
        if self.key_set is not None and not self.key_set.may_sign(key.public.text, policy):
            raise FleetError(
                f"your key {key.public.id} may not sign the policy {policy!r} by the fleet's key set"
                f" {self.key_set.version}; see: hooklatch fleet keys show"
            )

    async def try_to_stamp(self, key: PrivateKey) -> None:
        """Sign a timestamp with a publisher's key; without one what was published is out all the same."""
        try:
            await self.stamp(key)
        except (EngineError, FleetError) as error:
            self.notes.append(
                f"there is no new timestamp, so hosts take version {self.history.head.version} and are not in contact:"
                f" {error}; mend that, and run: hooklatch fleet timestamp --key FILE"
            )

    async def stamp(self, key: PrivateKey, lasts: float = LONGEST) -> Timestamp:
        """Sign that the history's head is the newest version now, and store it; return it once that is still so.

        Raises:
            FleetError: nothing was ever pushed, or others push all the time.
        """
        role = RoleKeys((key.public.text,))
        if self.key_set is not None and key.public.text not in self.key_set.timestamp.keys:
            raise FleetError(
                f"your key {key.public.id} may not sign timestamps by the fleet's key set {self.key_set.version}"
            )
        for _ in range(ATTEMPTS):
            head = self.history.head
            if not head.version:
                raise NoVersionError("nothing was ever pushed, so there is no newest version")
            at = await self._find_next_moment()
            data = sign_timestamp(self.fleet, head, key, at=at, lasts=lasts)
            stamp = read_timestamp(data, self.fleet, role, None, at)  # as every host will do it
            await self.engine.put_timestamp(data)
            # Another publisher may have pushed since, and signed its timestamp before this one took its place.
            if (await self.read({})).head == head:
                if self._memory is not None:
                    self._memory.keep_timestamp(data)
                return stamp
        raise FleetError("other publishers push all the time, so no timestamp stays true")

    async def _find_next_moment(self) -> float:
        """Return now, or a moment after that of the engine's timestamp, whose signer's clock may be ahead."""
        now, stored = time.time(), await self.engine.timestamp()
        if stored is None:
            return now
        try:
            before = read_timestamp(stored[1], self.fleet, self.timestamp_role, None, now)
        except FleetError:  # no host takes it either
            return now
        return max(now, before.at + 0.001)

    async def write(self, version: int, data: bytes) -> None:
        """Have the engine take a version; one with the same bytes may be there already."""
        failure: EngineError | None = None
        for pause in (*PAUSES, None):
            try:
                await self.engine.commit(version, data)
                return
            except ConflictError:
                failure = None
            except UnreachableError as error:
                failure = error
            # After a lost reply and after a conflict alike: the bytes that are there now tell who won.
            try:
                stored = await self._read_version(version)
            except UnreachableError as error:
                failure, stored = error, None
            if stored == data:
                return
            if stored is not None:
                raise LostRaceError(read_payload(read_envelope(stored)))
            if pause is not None:
                await trio.sleep(pause)
        raise UnknownOutcomeError(
            f"version {version} may have been written or not: {failure or 'the engine refuses it, but has none'};"
            " look at `hooklatch fleet history` when the engine is back, before you run it again"
        )

    async def _read_version(self, version: int) -> bytes | None:
        for number, data in await self.engine.versions(version - 1, limit=1):
            if number == version:
                return data
        return None


async def read_history(
    engine: Engine, history: VersionHistory, keys: Mapping[str, PublicKey], trusted: Mapping[str, PublicKey]
) -> VersionHistory:
    """Return a history with all versions that follow it in the engine."""
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
    if (signer := envelopes[-1].key) not in {**keys, **trusted}:
        raise HistoryError(
            f"version {last} is signed by the key {signer}, which is not known here; if it was yours, as after a key"
            " was changed or stolen, give its public key with --trust: the history is then read on past it, and what"
            " it signed is still not believed"
        )
    return history.followed_by(envelopes, keys, trusted)

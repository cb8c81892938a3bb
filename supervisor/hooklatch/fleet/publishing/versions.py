"""The drafts of the next version of a policy: a push, a wider rollout, a rollback.  Pure; knows versions and keys.

A version that no host would take, and one that an operator cannot mean, is a FleetError.

VersionHistory   all versions of a fleet, from 1 on, with every link of the chain checked
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hooklatch.core.text import is_unicode
from hooklatch.fleet.manifests import (
    DEFAULT_POLICY,
    MAX_ENVELOPE,
    NAME,
    START,
    FleetError,
    Manifest,
    PolicyHead,
    RolloutTarget,
    SignedManifest,
    VerifiedManifests,
    encode_signed_text,
    read_payload,
    verify_manifests,
)
from hooklatch.fleet.reports import HostReport
from hooklatch.fleet.signing import PrivateKey, PublicKey, Purpose

__all__ = [
    "HistoryReport", "StoredVersion", "VersionHistory", "HistoryError", "NoVersionError", "VersionDraft",
    "check_labels", "describe_lost_versions", "encode_envelope", "plan_push", "plan_rollback", "format_percent",
    "sign_version", "find_standing_version", "plan_wider_rollout",
]  # fmt: skip

MAX_MESSAGE = 2000  # characters: every host reads all versions, so they stay small


class HistoryError(FleetError):
    """The engine's versions are not those that it had, or that hosts have read."""


class NoVersionError(FleetError):
    """There is no such version, or none to which a rollback could lead."""


class StoredVersion(msgspec.Struct, frozen=True):
    """A version as it was stored; `is_trusted`: a key that the reader lists has signed it."""

    manifest: Manifest
    envelope: SignedManifest
    is_trusted: bool

    @property
    def head(self) -> PolicyHead:
        return PolicyHead(self.manifest.version, self.envelope.digest)

    def describe(self) -> VersionFacts:
        facts = msgspec.structs.asdict(self.manifest)
        return VersionFacts(**facts, digest=self.envelope.digest, key=self.envelope.key, believed=self.is_trusted)


class VersionFacts(Manifest, frozen=True, kw_only=True):
    """A version: its manifest, its envelope's digest, the key that signed it, and whether that key is believed here."""

    digest: str
    key: str
    believed: bool


class HistoryReport(msgspec.Struct, frozen=True):
    """`fleet history`: the oldest version first."""

    versions: list[VersionFacts]
    findings: list[str]


class VersionHistory(msgspec.Struct, frozen=True):
    """All versions of a fleet, in order from 1."""

    fleet: str
    entries: tuple[StoredVersion, ...] = ()

    @property
    def head(self) -> PolicyHead:
        return self.entries[-1].head if self.entries else START

    @property
    def newest(self) -> Manifest | None:
        return self.entries[-1].manifest if self.entries else None

    def signer(self, version: int) -> str:
        """Return the id of the key that has signed a version of this history."""
        return self.entries[version - 1].envelope.key

    def find(self, version: int) -> Manifest:
        """Return a version that a trusted key has signed.

        Raises:
            NoVersionError: there is none of this number, or no trusted key has signed it.
        """
        if not 1 <= version <= len(self.entries):
            raise NoVersionError(f"there is no version {version}; the newest is {self.head.version}")
        entry = self.entries[version - 1]
        if not entry.is_trusted:
            raise NoVersionError(
                f"version {version} is signed by the key {entry.envelope.key}, which is not trusted here; if it should"
                " be, give its public key with --trust"
            )
        return entry.manifest

    def followed_by(self, envelopes: Sequence[SignedManifest], keys: Mapping[str, PublicKey]) -> VersionHistory:
        """Return the history with these versions at its end."""
        verified: VerifiedManifests = verify_manifests(self.fleet, self.head, envelopes, keys)
        trusted_versions = {manifest.version for manifest in verified.manifests}
        pairs = [(read_payload(envelope), envelope) for envelope in envelopes]
        added = [StoredVersion(read, envelope, read.version in trusted_versions) for read, envelope in pairs]
        return VersionHistory(self.fleet, (*self.entries, *added))

    def find_contradiction(self, seen: PolicyHead, *, by: str) -> str | None:
        """Return how the history contradicts a head that a host or this machine has read; `by` names it."""
        if seen.version > self.head.version:
            return (
                f"the engine's newest version is {self.head.version}, but {by} has read version {seen.version}:"
                " versions were lost, as when an engine is restored from an old backup. Restore them: every host that"
                " has read more would refuse a version that is pushed now"
            )
        if seen.version and self.entries[seen.version - 1].head != seen:
            return (
                f"version {seen.version} in the engine is not the one that {by} has read: the history was rewritten."
                " Find out who wrote it, and restore the versions; hosts refuse to follow it"
            )
        return None

    def list_host_contradictions(self, reports: Iterable[HostReport]) -> list[str]:
        """Return how the history contradicts the heads of hosts, whose reports were read before this history was."""
        ordered = sorted(reports, key=lambda report: (-report.head.version, report.host))
        by_host = (self.find_contradiction(report.head, by=f"the host {report.host}") for report in ordered)
        return [text for text in by_host if text is not None]


def describe_lost_versions(contradictions: Sequence[str]) -> str:
    """Return the text of what several hosts say that the engine has lost."""
    return (
        f"{contradictions[0]} (and {len(contradictions) - 1} more hosts). If they cannot be restored: push with"
        " --despite-hosts, and run `hooklatch fleet reset` on each host"
    )


class VersionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a new version."""

    bundle: str
    size: int
    rollout: RolloutTarget
    same_as: int | None = None
    policy: str = DEFAULT_POLICY


def find_standing_version(history: VersionHistory, bundle: str, labels: Collection[str]) -> Manifest | None:
    """Return the newest version of a bundle for these labels, None if there is none or another has replaced it.

    A newer version replaces it if it has another bundle, and is for all hosts that have these labels.
    """
    for entry in reversed(history.entries):
        manifest, wanted = entry.manifest, set(entry.manifest.rollout.labels)
        if manifest.bundle == bundle and wanted == set(labels) and entry.is_trusted:
            return manifest
        if manifest.bundle != bundle and wanted <= set(labels):
            return None
    return None


def plan_push(
    history: VersionHistory, bundle: str, size: int, rollout: RolloutTarget, *, key: str
) -> VersionDraft | Manifest:
    """Return the draft of a push, or the version with the same content: to push twice is to push once.

    A push after a version of another key than `key`, an id, makes a new version: hosts may not trust that key any more.
    So does a push after a version that some of its hosts left for a newer one with another bundle.

    Raises:
        FleetError: this bundle is out for more of these hosts.
    """
    standing = find_standing_version(history, bundle, rollout.labels)
    if standing is not None and standing.rollout.percent >= rollout.percent:
        if standing.rollout.percent > rollout.percent:
            raise make_too_wide_error(standing)
        if history.signer(standing.version) == key and not is_narrowed(history, standing):
            return standing
    earlier_versions = [entry.manifest.version for entry in history.entries if entry.manifest.bundle == bundle]
    return VersionDraft(
        bundle=bundle, size=size, rollout=rollout, same_as=earlier_versions[-1] if earlier_versions else None
    )


def is_narrowed(history: VersionHistory, manifest: Manifest) -> bool:
    """Return whether a newer version with another bundle is for some of the hosts that this one is for, by labels."""
    labels = set(manifest.rollout.labels)
    newer = (entry.manifest for entry in history.entries[manifest.version :])
    return any(other.bundle != manifest.bundle and labels < set(other.rollout.labels) for other in newer)


def plan_wider_rollout(history: VersionHistory, version: int, percent: float) -> VersionDraft:
    """Return the draft of a wider rollout of a version.

    Raises:
        NoVersionError: there is no such version.
        FleetError: a newer version has replaced it, or it is that wide already.
    """
    manifest = history.find(version)
    standing = find_standing_version(history, manifest.bundle, manifest.rollout.labels)
    if standing is None:
        raise FleetError(
            f"a newer version with another bundle has replaced version {version} (see: hooklatch fleet history);"
            f" to go back to it, run: hooklatch fleet rollback {version}"
        )
    if percent <= standing.rollout.percent:
        raise make_too_wide_error(standing)
    rollout = RolloutTarget(standing.rollout.labels, percent)
    return VersionDraft(bundle=standing.bundle, size=standing.size, rollout=rollout, same_as=standing.version)


def make_too_wide_error(standing: Manifest) -> FleetError:
    what = f"version {standing.version} has this bundle at {format_percent(standing.rollout.percent)} already"
    why = "a narrower rollout takes it from no host"
    return FleetError(f"{what}, and {why}; to take it back, run: hooklatch fleet rollback")


def plan_rollback(
    history: VersionHistory, version: int | None, labels: Collection[str] | None = None, *, key: str
) -> VersionDraft | Manifest:
    """Return the draft of a rollback to an earlier bundle, or the newest version if that has the same content.

    The rollback is for all hosts that the newest version could be for, or for those with `labels`.  Without a version
    it leads to the newest one that was for all of them, of those before the newest one's bundle first went out: so a
    second rollback goes further back, and never forward to the bundle that the first has taken away.

    Raises:
        NoVersionError: there is nothing to go back to.
        FleetError: the version was never for all of these hosts.
    """
    newest = history.newest
    if newest is None:
        raise NoVersionError("nothing was ever pushed, so there is nothing to go back to")
    labels_wanted = check_labels(newest.rollout.labels if labels is None else labels)
    if version is None:
        first = next(entry.manifest.version for entry in history.entries if entry.manifest.bundle == newest.bundle)
        earlier = (entry.manifest for entry in reversed(history.entries[: first - 1]) if entry.is_trusted)
        whole = (old for old in earlier if old.rollout.percent == 100 and set(old.rollout.labels) <= set(labels_wanted))
        source = next(whole, None)
        if source is None:
            raise NoVersionError(
                f"no version before {first} with another bundle was for all hosts{format_labels(labels_wanted)};"
                " name one, or take all hooks away by pushing an empty folder with --allow-empty"
            )
    else:
        source = history.find(version)
        if not set(source.rollout.labels) <= set(labels_wanted):
            raise FleetError(
                f"version {version} was for hosts{format_labels(source.rollout.labels)}, and this would give it to all"
                f" hosts{format_labels(labels_wanted)}; say which are meant with --label"
            )
    is_current = source.bundle == newest.bundle and newest.rollout == RolloutTarget(labels_wanted)
    if is_current and history.signer(newest.version) == key:
        return newest
    return VersionDraft(
        bundle=source.bundle, size=source.size, rollout=RolloutTarget(labels_wanted), same_as=source.version
    )


def format_labels(labels: Collection[str]) -> str:
    return f" labelled {' and '.join(labels)}" if labels else ""


def format_percent(percent: float) -> str:
    """Return a percentage for people."""
    return f"{percent:g} %"


def check_labels(labels: Collection[str]) -> tuple[str, ...]:
    """Return labels in order, each once."""
    for label in labels:
        if NAME.fullmatch(label) is None:
            raise FleetError(f"{label!r} cannot be a label: letters, digits, '.', '_' and '-', at most 63")
    return tuple(sorted(set(labels)))


def sign_version(
    history: VersionHistory, plan: VersionDraft, key: PrivateKey, *, created: str, publisher: str, message: str
) -> tuple[Manifest, SignedManifest]:
    """Return the version that follows a history, and its signed form."""
    if len(message) > MAX_MESSAGE:
        raise FleetError(f"the message has {len(message)} characters; the most is {MAX_MESSAGE}")
    if not is_unicode(message):
        raise FleetError("the message is not UTF-8; write another --message")
    manifest = Manifest(
        fleet=history.fleet, version=history.head.version + 1, previous=history.head.digest, created=created,
        publisher=publisher, message=message, **msgspec.structs.asdict(plan),
    )  # fmt: skip
    payload = encode_signed_text(manifest)
    envelope = SignedManifest(payload, key.public.id, key.sign(payload.encode(), Purpose.MANIFEST))
    # As every host will do it: a version that does not verify with this key must not go out.
    verify_manifests(history.fleet, history.head, [envelope], {key.public.id: key.public})
    return manifest, envelope


def encode_envelope(envelope: SignedManifest) -> bytes:
    """Return an envelope as it is stored."""
    data = msgspec.json.encode(envelope)
    if len(data) > MAX_ENVELOPE:
        raise FleetError(f"the version has {len(data)} bytes; the most is {MAX_ENVELOPE}: give it a shorter --message")
    return data

"""What the next version of a policy says: a push, a wider rollout, a rollback.  Pure; knows versions and keys.

History   all versions of a fleet, from 1 on, of which every link of the chain was checked
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from hooklatch.core.text import is_unicode
from hooklatch.fleet.policy.manifests import (
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
from hooklatch.fleet.policy.reports import HostReport
from hooklatch.fleet.policy.signing import PrivateKey, PublicKey

__all__ = [
    "StoredVersion",
    "VersionHistory",
    "HistoryError",
    "NoVersionError",
    "VersionDraft",
    "check_labels",
    "encode_envelope",
    "plan_push",
    "plan_rollback",
    "format_percent",
    "sign_version",
    "find_standing_version",
    "plan_wider_rollout",
]

MAX_MESSAGE = 2000  # characters; a version is no place for an essay


class HistoryError(FleetError):
    """The versions that the engine has are not those that it had, or that hosts have."""


class NoVersionError(FleetError):
    """There is no such version, or none that could be meant."""


class StoredVersion(msgspec.Struct, frozen=True):
    """A version as it was stored; `is_believed`: a key that the reader lists has signed it."""

    manifest: Manifest
    envelope: SignedManifest
    is_believed: bool

    @property
    def head(self) -> PolicyHead:
        return PolicyHead(self.manifest.version, self.envelope.digest)


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
        """Return the id of the key that has signed a version that there is."""
        return self.entries[version - 1].envelope.key

    def find(self, version: int) -> Manifest:
        """Return a version that a believed key has signed.

        Raises:
            NoVersionError: there is none of this number, or nobody who is believed has signed it.
        """
        if not 1 <= version <= len(self.entries):
            raise NoVersionError(f"there is no version {version}; the newest is {self.head.version}")
        entry = self.entries[version - 1]
        if not entry.is_believed:
            raise NoVersionError(
                f"version {version} is signed by the key {entry.envelope.key}, which is not believed here; if it should"
                " be, give its public key with --trust"
            )
        return entry.manifest

    def followed_by(self, envelopes: Sequence[SignedManifest], keys: Mapping[str, PublicKey]) -> VersionHistory:
        """Return the history with these versions at its end.

        Raises:
            FleetError: they do not follow it, or the last one is not signed by a key of `keys`.
        """
        walked: VerifiedManifests = verify_manifests(self.fleet, self.head, envelopes, keys)
        believed = {manifest.version for manifest in walked.manifests}
        manifests = [read_payload(envelope) for envelope in envelopes]
        added = [
            StoredVersion(manifest, envelope, manifest.version in believed)
            for manifest, envelope in zip(manifests, envelopes, strict=True)
        ]
        return VersionHistory(self.fleet, (*self.entries, *added))

    def check_seen(self, seen: PolicyHead, *, by: str) -> None:
        """Compare with a head that somebody had before.

        Raises:
            HistoryError: versions are missing now, or are others.
        """
        if seen.version > self.head.version:
            raise HistoryError(
                f"the engine's newest version is {self.head.version}, but {by} has read version {seen.version}:"
                " versions were lost, as when an engine is restored from an old backup. Restore them: what is pushed"
                " now would be refused by every host that has read more"
            )
        if seen.version and self.entries[seen.version - 1].head != seen:
            raise HistoryError(
                f"version {seen.version} in the engine is not the one that {by} has read: the history was rewritten."
                " Find out who wrote it, and restore the versions; hosts refuse to follow it"
            )

    def check_reports(self, reports: Collection[HostReport]) -> None:
        """Compare with the heads of hosts, whose reports were read before this history was.

        Raises:
            HistoryError: a host has read what the engine does not have.
        """
        wrong: dict[str, HistoryError] = {}
        for report in reports:
            try:
                self.check_seen(report.head, by=f"the host {report.host}")
            except HistoryError as error:
                wrong[report.host] = error
        if wrong:
            first = next(iter(wrong.values()))
            others = f" (and {len(wrong) - 1} more hosts)" if len(wrong) > 1 else ""
            raise HistoryError(
                f"{first}{others}. If they cannot be restored: push with --despite-hosts, and run `hooklatch fleet"
                " reset` on each host"
            )


class VersionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What a new version is to say."""

    bundle: str
    size: int
    rollout: RolloutTarget
    same_as: int | None = None


def find_standing_version(history: VersionHistory, bundle: str, labels: Collection[str]) -> Manifest | None:
    """Return the newest version of a bundle for these labels, None if there is none or another has taken its place.

    A newer one takes its place if it is of another bundle, and for all hosts that have these labels.
    """
    for entry in reversed(history.entries):
        manifest, wanted = entry.manifest, set(entry.manifest.rollout.labels)
        if manifest.bundle == bundle and wanted == set(labels) and entry.is_believed:
            return manifest
        if manifest.bundle != bundle and wanted <= set(labels):
            return None
    return None


def plan_push(
    history: VersionHistory, bundle: str, size: int, rollout: RolloutTarget, *, key: str
) -> VersionDraft | Manifest:
    """Return what a push says, or the version that says so already: to push twice is to push once.

    One that another key than `key`, by its id, has signed says it again: hosts may not believe that one any more.  So
    does one that some of its hosts do not follow any more, since a newer one with another bundle is for them.

    Raises:
        FleetError: this bundle is out for more of these hosts.
    """
    stands = find_standing_version(history, bundle, rollout.labels)
    if stands is not None and stands.rollout.percent >= rollout.percent:
        if stands.rollout.percent > rollout.percent:
            raise make_too_wide_error(stands)
        if history.signer(stands.version) == key and not is_narrowed(history, stands):
            return stands
    same = [entry.manifest.version for entry in history.entries if entry.manifest.bundle == bundle]
    return VersionDraft(bundle=bundle, size=size, rollout=rollout, same_as=same[-1] if same else None)


def is_narrowed(history: VersionHistory, manifest: Manifest) -> bool:
    """Return whether a newer version with another bundle is for some of the hosts that this one is for, by labels."""
    labels = set(manifest.rollout.labels)
    newer = (entry.manifest for entry in history.entries[manifest.version :])
    return any(one.bundle != manifest.bundle and labels < set(one.rollout.labels) for one in newer)


def plan_wider_rollout(history: VersionHistory, version: int, percent: float) -> VersionDraft:
    """Return what a wider rollout of a version says.

    Raises:
        NoVersionError: there is no such version.
        FleetError: a newer one is in its place, or it is that wide already.
    """
    manifest = history.find(version)
    stands = find_standing_version(history, manifest.bundle, manifest.rollout.labels)
    if stands is None:
        raise FleetError(
            f"a newer version with another bundle is in the place of version {version} (see: hooklatch fleet history);"
            f" to go back to it, run: hooklatch fleet rollback {version}"
        )
    if percent <= stands.rollout.percent:
        raise make_too_wide_error(stands)
    rollout = RolloutTarget(stands.rollout.labels, percent)
    return VersionDraft(bundle=stands.bundle, size=stands.size, rollout=rollout, same_as=stands.version)


def make_too_wide_error(stands: Manifest) -> FleetError:
    return FleetError(
        f"version {stands.version} has this bundle at {format_percent(stands.rollout.percent)} already, and a "
        f"narrower rollout"
        " takes it from no host; to take it back, run: hooklatch fleet rollback"
    )


def plan_rollback(
    history: VersionHistory, version: int | None, labels: Collection[str] | None = None, *, key: str
) -> VersionDraft | Manifest:
    """Return what a rollback says: an earlier bundle, for all hosts; or the newest version if that says so already.

    The hosts are those that the newest version could be for, or those with `labels`.  Without a version the bundle is
    that of the newest one which was for all of them, of those before the newest one's bundle first went out: so a
    second rollback goes further back, and never forth to what the first one has taken away.

    Raises:
        NoVersionError: there is nothing to go back to.
        FleetError: the version was never for all of these hosts.
    """
    newest = history.newest
    if newest is None:
        raise NoVersionError("nothing was ever pushed, so there is nothing to go back to")
    wanted = check_labels(newest.rollout.labels if labels is None else labels)
    if version is None:
        first = find_first_version(history, newest)
        found = next((one for one in list_versions_before(history, first) if covers_labels(one, wanted)), None)
        if found is None:
            raise NoVersionError(
                f"no version before {first} with another bundle was for all hosts{format_labels(wanted)}; name one, or"
                " take all hooks away by pushing an empty folder with --allow-empty"
            )
    else:
        found = history.find(version)
        if not set(found.rollout.labels) <= set(wanted):
            raise FleetError(
                f"version {version} was for hosts{format_labels(found.rollout.labels)}, and this would give it to all"
                f" hosts{format_labels(wanted)}; say which are meant with --label"
            )
    says_so = found.bundle == newest.bundle and newest.rollout == RolloutTarget(wanted)
    if says_so and history.signer(newest.version) == key:
        return newest
    return VersionDraft(bundle=found.bundle, size=found.size, rollout=RolloutTarget(wanted), same_as=found.version)


def find_first_version(history: VersionHistory, manifest: Manifest) -> int:
    """Return the version with which a bundle first went out."""
    return next(entry.manifest.version for entry in history.entries if entry.manifest.bundle == manifest.bundle)


def list_versions_before(history: VersionHistory, version: int) -> list[Manifest]:
    """Return what is believed of the versions before one, newest first."""
    return [entry.manifest for entry in reversed(history.entries[: version - 1]) if entry.is_believed]


def covers_labels(manifest: Manifest, labels: Collection[str]) -> bool:
    return manifest.rollout.percent == 100 and set(manifest.rollout.labels) <= set(labels)


def format_labels(labels: Collection[str]) -> str:
    return f" labelled {' and '.join(labels)}" if labels else ""


def format_percent(percent: float) -> str:
    """Return a percentage for people."""
    return f"{percent:g} %"


def check_labels(labels: Collection[str]) -> tuple[str, ...]:
    """Return labels in order, each once.

    Raises:
        FleetError: one cannot be a label.
    """
    for label in labels:
        if NAME.fullmatch(label) is None:
            raise FleetError(f"{label!r} cannot be a label: letters, digits, '.', '_' and '-', at most 63")
    return tuple(sorted(set(labels)))


def sign_version(
    history: VersionHistory, plan: VersionDraft, key: PrivateKey, *, created: str, publisher: str, message: str
) -> tuple[Manifest, SignedManifest]:
    """Return the version that follows a history, and its signed form.

    Raises:
        FleetError: it would be too long.
    """
    if len(message) > MAX_MESSAGE:
        raise FleetError(f"the message has {len(message)} characters; the most is {MAX_MESSAGE}")
    if not is_unicode(message):
        raise FleetError("the message is not UTF-8; write another --message")
    manifest = Manifest(
        fleet=history.fleet,
        version=history.head.version + 1,
        previous=history.head.digest,
        bundle=plan.bundle,
        size=plan.size,
        rollout=plan.rollout,
        created=created,
        publisher=publisher,
        message=message,
        same_as=plan.same_as,
    )
    payload = encode_signed_text(manifest)
    envelope = SignedManifest(payload, key.public.id, key.sign(payload.encode()))
    # As every host will: what the own key does not vouch for must not go out.
    verify_manifests(history.fleet, history.head, [envelope], {key.public.id: key.public})
    return manifest, envelope


def encode_envelope(envelope: SignedManifest) -> bytes:
    """Return an envelope as it is stored.

    Raises:
        FleetError: it is too long.
    """
    data = msgspec.json.encode(envelope)
    if len(data) > MAX_ENVELOPE:
        raise FleetError(f"a version of {len(data)} bytes; the most is {MAX_ENVELOPE}: give it a shorter --message")
    return data

"""The drafts of the next version of a policy: a push, a wider rollout, a rollback.  Pure; knows versions and keys.

A version that no host would take, and one that an operator cannot mean, is a FleetError.

    VersionHistory     all versions of a fleet, from 1 on, with every link of the chain checked
    BelievedVersion   a version that hosts believe, or that the publisher vouches for by its number

What a stolen key has signed can be read and is not believed: a draft that repeats a version takes a BelievedVersion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from hooklatch.core.text import is_unicode
from hooklatch.fleet.manifests import (
    DEFAULT_POLICY,
    MAX_ENVELOPE,
    NAME,
    RESTORE,
    START,
    FleetError,
    Manifest,
    PolicyHead,
    RolloutTarget,
    SignedManifest,
    encode_signed_text,
    read_payload,
    verify_manifests,
)
from hooklatch.fleet.reports import HostReport
from hooklatch.fleet.roles import format_moment
from hooklatch.fleet.signing import PrivateKey, PublicKey, Purpose

__all__ = [
    "BelievedVersion", "HistoryReport", "StoredVersion", "VersionHistory", "HistoryError", "NoVersionError",
    "LOST", "VersionDraft", "check_labels", "describe_unbelieved", "encode_envelope",
    "find_observe_end", "find_standing_version", "format_labels", "format_observing", "format_percent",
    "format_policy", "format_rollback", "format_rollout", "list_in_force", "list_passed_over", "plan_observing",
    "plan_push", "plan_rollback", "plan_wider_rollout", "sign_version",
]  # fmt: skip

SHOWN = 5  # versions that a message names
LOST = (  # for all hosts at once; an engine never gets another version under a number that it has
    f"Hosts refuse what is pushed now. Find out how that came; {RESTORE}. Where no machine has them any more, or what"
    " the engine has now is to stay, all hosts give up the lost ones by: hooklatch fleet push … --give-up VERSION, that"
    " is the newest that was read"
)
MAX_GIVEN_UP = 10_000  # versions that may be given up at once: each is a version to write, and to read by all hosts
MAX_MESSAGE = 2000  # characters: every host reads all versions, so they stay small


class HistoryError(FleetError):
    """The engine's versions are not those that it had, or that hosts have read."""


class NoVersionError(FleetError):
    """There is no such version, or none to which a rollback could lead."""


class BelievedVersion(NamedTuple):
    """A version whose bundle may be signed again: hosts believe it, or the publisher has named it by its number."""

    manifest: Manifest


class StoredVersion(msgspec.Struct, frozen=True):
    """A version as it was stored.

    `is_read`: its signature was checked with a key that the reader knows.  `is_believed`: hosts list that key, or it is
    the publisher's own.
    """

    manifest: Manifest
    envelope: SignedManifest
    is_read: bool
    is_believed: bool

    @property
    def head(self) -> PolicyHead:
        return PolicyHead(self.manifest.version, self.envelope.digest)

    def describe(self) -> VersionFacts:
        facts = msgspec.structs.asdict(self.manifest)
        return VersionFacts(**facts, digest=self.envelope.digest, key=self.envelope.key, believed=self.is_believed)


class VersionFacts(Manifest, frozen=True, kw_only=True):
    """A version: its manifest, its envelope's digest, the key that signed it, and whether hosts believe that key."""

    digest: str
    key: str
    believed: bool


class HistoryReport(msgspec.Struct, frozen=True):
    """`fleet history`: the oldest version first."""

    versions: list[VersionFacts]
    findings: list[str]


class VersionHistory(msgspec.Struct, frozen=True):
    """All versions of a fleet, in order from 1.

    `gives_up` is the head of the lost history that the next versions give up.
    """

    fleet: str
    entries: tuple[StoredVersion, ...] = ()
    gives_up: PolicyHead | None = None

    @property
    def head(self) -> PolicyHead:
        return self.entries[-1].head if self.entries else START

    @property
    def policies(self) -> list[str]:
        """Return the names of the policies that have versions."""
        return sorted({entry.manifest.policy for entry in self.entries})

    def choose_policy(self, name: str | None) -> str:
        """Return the policy of this name, or without a name the only one.

        Raises:
            NoVersionError: there is none of this name, or it is not clear which one is meant.
        """
        if name is None and len(self.policies) <= 1:
            return self.policies[0] if self.policies else DEFAULT_POLICY
        if name is None or name not in self.policies:
            missing = "say which policy with --policy" if name is None else f"the policy {name!r} has no version"
            raise NoVersionError(f"{missing}; there are {', '.join(self.policies) or 'none'}")
        return name

    def list_versions(self, policy: str) -> list[StoredVersion]:
        """Return the versions of a policy, the oldest first."""
        return [entry for entry in self.entries if entry.manifest.policy == policy]

    def list_believed(self, policy: str) -> list[BelievedVersion]:
        """Return the versions of a policy that are believed, the oldest first."""
        return [BelievedVersion(entry.manifest) for entry in self.list_versions(policy) if entry.is_believed]

    def find_newest(self, policy: str) -> BelievedVersion | None:
        """Return the newest version of a policy that is believed."""
        return next(reversed(self.list_believed(policy)), None)

    def signer(self, version: int) -> str:
        """Return the id of the key that has signed a version of this history."""
        return self.entries[version - 1].envelope.key

    def find_read(self, version: int) -> StoredVersion:
        """Return a version to look at: its signature was checked, and its key may be one that no host lists.

        Raises:
            NoVersionError: there is none of this number, or its key is unknown here.
        """
        if not 1 <= version <= len(self.entries):
            raise NoVersionError(f"there is no version {version}; the newest is {self.head.version}")
        entry = self.entries[version - 1]
        if not entry.is_read:
            raise NoVersionError(
                f"version {version} is signed by the key {entry.envelope.key}, which is not known here; to look at the"
                " version, give its public key with --trust"
            )
        return entry

    def find_believed(self, version: int) -> BelievedVersion:
        """Return a version that is believed.

        Raises:
            NoVersionError: there is none of this number, or it is not believed.
        """
        entry = self.find_read(version)
        if not entry.is_believed:
            raise NoVersionError(f"not believed: {describe_unbelieved([entry])}")
        return BelievedVersion(entry.manifest)

    def vouch_for(self, version: int) -> BelievedVersion:
        """Return a version that the publisher has named by its number, looked at, and wants to sign."""
        return BelievedVersion(self.find_read(version).manifest)

    def followed_by(
        self,
        envelopes: Sequence[SignedManifest],
        believed: Mapping[str, PublicKey],
        trusted: Mapping[str, PublicKey],
    ) -> VersionHistory:
        """Return the history with these versions at its end; what only `trusted` keys signed is read, not believed."""
        verified = verify_manifests(self.fleet, self.head, envelopes, {**trusted, **believed})
        read = {manifest.version for manifest in verified.manifests}
        added: list[StoredVersion] = []
        for envelope in envelopes:
            manifest = read_payload(envelope)
            is_read = manifest.version in read
            added.append(StoredVersion(manifest, envelope, is_read, is_read and envelope.key in believed))
        return VersionHistory(self.fleet, (*self.entries, *added))

    def find_contradiction(self, seen: PolicyHead, *, by: str) -> str | None:
        """Return how the history contradicts a head that a host or this machine has read; `by` names it."""
        if self._has(seen) or self._releases(seen):
            return None
        if seen.version > self.head.version:
            return (
                f"the engine's newest version is {self.head.version}, but {by} has read version {seen.version}:"
                " versions were lost, as when an engine is emptied or restored from an old backup"
            )
        return f"version {seen.version} in the engine is not the one that {by} has read: the history was rewritten"

    def _has(self, seen: PolicyHead) -> bool:
        is_there = 0 < seen.version <= self.head.version
        return seen == START or (is_there and self.entries[seen.version - 1].head == seen)

    def _releases(self, seen: PolicyHead) -> bool:
        """Return whether a version, or the next one to be written, gives up one that was read."""
        if self.gives_up is not None and (seen.version < self.gives_up.version or seen == self.gives_up):
            return True
        believed = (entry.manifest for entry in self.entries if entry.is_believed)
        return any(manifest.releases(seen, self.head.version) for manifest in believed)

    def give_up(self, version: int, seen: PolicyHead, of_hosts: Iterable[PolicyHead]) -> VersionHistory:
        """Return the history whose next versions give up a lost one, by the head that this machine or a host has seen.

        Raises:
            HistoryError: nothing was lost, or it is unknown what.
        """
        known = [seen] if seen.version == version else of_hosts
        lost = {head for head in known if head.version == version and self.find_contradiction(head, by="") is not None}
        if len(lost) != 1:
            what = "hosts name several" if lost else "neither this machine nor a host has read"
            raise HistoryError(f"{what} versions {version} that the engine lacks, so there is nothing to give up")
        if version - self.head.version > MAX_GIVEN_UP:
            count = version - self.head.version
            raise HistoryError(
                f"{count} versions would be given up, and the most is {MAX_GIVEN_UP}: who says {version}?"
            )
        return VersionHistory(self.fleet, self.entries, lost.pop())

    def list_host_contradictions(self, reports: Iterable[HostReport]) -> list[str]:
        """Return how the history contradicts the heads of hosts, whose reports were read before this history was."""
        ordered = sorted(reports, key=lambda report: (-report.head.version, report.host))
        by_host = (self.find_contradiction(report.head, by=f"the host {report.host}") for report in ordered)
        return [text for text in by_host if text is not None]


class VersionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a new version."""

    bundle: str
    size: int
    rollout: RolloutTarget
    same_as: int | None = None
    policy: str = DEFAULT_POLICY
    observe_until: datetime | UnsetType = UNSET

    @property
    def content(self) -> tuple[str, float]:
        return self.bundle, self.observe_until.timestamp() if isinstance(self.observe_until, datetime) else 0.0


def draft_again(
    source: BelievedVersion, rollout: RolloutTarget, observe_until: datetime | UnsetType = UNSET
) -> VersionDraft:
    """Return the draft of a version with the bundle of an earlier one of its policy, by default an enforced one."""
    of = source.manifest
    return VersionDraft(
        bundle=of.bundle, size=of.size, rollout=rollout, same_as=of.version, policy=of.policy,
        observe_until=observe_until,
    )  # fmt: skip


def find_standing_version(
    history: VersionHistory, draft: VersionDraft | Manifest, labels: Collection[str]
) -> BelievedVersion | None:
    """Return the newest version of this content for these labels, None if there is none or another has replaced it.

    A newer version of the policy replaces it if it has another content, and is for all hosts that have these labels.
    What is not believed neither stands nor replaces: no host takes it.
    """
    for believed in reversed(history.list_believed(draft.policy)):
        manifest = believed.manifest
        wanted = set(manifest.rollout.labels)
        if manifest.content == draft.content and wanted == set(labels):
            return believed
        if manifest.content != draft.content and wanted <= set(labels):
            return None
    return None


def list_in_force(
    history: VersionHistory, policy: str, target: RolloutTarget
) -> tuple[list[BelievedVersion], list[StoredVersion]]:
    """Return the versions of a policy that hosts of a target may have, and those of keys that are not believed.

    A version is left out if newer ones that are believed are for all of its hosts in the target.
    """
    in_force, doubted, newer = list[BelievedVersion](), list[StoredVersion](), list[RolloutTarget]()
    for entry in reversed(history.list_versions(policy)):
        rollout = entry.manifest.rollout
        labels = {*rollout.labels, *target.labels}
        # The share of a label's hosts is always the same ones, so the widest version covers what narrower ones do.
        covered = max((wide.percent for wide in newer if labels.issuperset(wide.labels)), default=0.0)
        is_covered = covered >= min(rollout.percent, target.percent)
        if entry.is_believed:
            newer.append(rollout)
        if not is_covered and entry.is_believed:
            in_force.append(BelievedVersion(entry.manifest))
        elif not is_covered:
            doubted.append(entry)
    return in_force, doubted


def plan_push(history: VersionHistory, draft: VersionDraft, *, key: str) -> VersionDraft | Manifest:
    """Return the draft of a push, or the version with the same content: to push twice is to push once.

    A push after a version of another key than `key`, an id, makes a new version: hosts may not trust that key any more.
    So does a push after a version that some of its hosts left for a newer one with another bundle.

    Raises:
        FleetError: this bundle is out for more of these hosts.
    """
    bundle, rollout = draft.bundle, draft.rollout
    found = find_standing_version(history, draft, rollout.labels)
    standing = found.manifest if found is not None else None
    if standing is not None and standing.rollout.percent >= rollout.percent:
        if standing.rollout.percent > rollout.percent:
            raise make_too_wide_error(standing)
        if history.gives_up is None and history.signer(standing.version) == key and not is_narrowed(history, standing):
            return standing
    earlier = (of.manifest for of in reversed(history.list_believed(draft.policy)) if of.manifest.bundle == bundle)
    return msgspec.structs.replace(draft, same_as=next((manifest.version for manifest in earlier), None))


def is_narrowed(history: VersionHistory, manifest: Manifest) -> bool:
    """Return whether a newer version of another content is for some of the hosts that this one is for, by labels."""
    labels = set(manifest.rollout.labels)
    others = (of.manifest for of in history.list_believed(manifest.policy) if of.manifest.version > manifest.version)
    return any(other.content != manifest.content and labels < set(other.rollout.labels) for other in others)


def plan_wider_rollout(history: VersionHistory, version: int, percent: float) -> VersionDraft:
    """Return the draft of a wider rollout of a version, which observes for as long as that does.

    Raises:
        NoVersionError: there is no such version, or it is not believed.
        FleetError: a newer version has replaced it, or it is that wide already.
    """
    manifest = history.find_believed(version).manifest
    standing = find_standing_version(history, manifest, manifest.rollout.labels)
    if standing is None:
        raise FleetError(
            f"a newer version of another content has replaced version {version} (see: hooklatch fleet history);"
            f" to go back to it, run: hooklatch fleet rollback {version}"
        )
    rollout = standing.manifest.rollout
    if percent <= rollout.percent:
        raise make_too_wide_error(standing.manifest)
    return draft_again(standing, RolloutTarget(rollout.labels, percent), standing.manifest.observe_until)


def find_observe_end(lasts: float | None, now: float) -> datetime | UnsetType:
    """Return until when a version only observes that does for so many seconds from now; it never does for none."""
    return datetime.fromtimestamp(int(now + lasts), UTC) if lasts else UNSET


def plan_observing(history: VersionHistory, policy: str, lasts: float, now: float) -> list[VersionDraft]:
    """Return drafts by which hosts only observe a policy for so many seconds, or with 0 enforce it, the oldest first.

    Each host keeps the bundle that it has.  None: that is so already, or no host has the policy.
    """
    until = find_observe_end(lasts, now)
    in_force, _ = list_in_force(history, policy, RolloutTarget())
    if not lasts and not any(of.manifest.observe_end for of in in_force):
        return []
    return [draft_again(of, of.manifest.rollout, until) for of in reversed(in_force)]


def make_too_wide_error(standing: Manifest) -> FleetError:
    what = f"version {standing.version} has this bundle at {format_percent(standing.rollout.percent)} already"
    why = "a narrower rollout takes it from no host"
    return FleetError(f"{what}, and {why}; to take it back, run: {format_rollback(standing.policy)}")


def find_rollback_source(history: VersionHistory, newest: Manifest, labels: Collection[str]) -> BelievedVersion:
    """Return the newest version before the first with the newest one's bundle that was for all hosts with labels.

    So a second rollback goes further back, and never forward to the bundle that the first has taken away.  Versions
    that are not believed are passed over.

    Raises:
        NoVersionError: there is none.
    """
    believed = history.list_believed(newest.policy)
    first = next(of.manifest.version for of in believed if of.manifest.bundle == newest.bundle)
    for of in reversed(believed):
        old = of.manifest
        if old.version < first and old.rollout.percent == 100 and set(old.rollout.labels) <= set(labels):
            return of
    passed_over = list_passed_over(history, newest.policy, 0, first)
    raise NoVersionError(
        f"no version{format_policy(newest.policy)} before {first} with another bundle was for all"
        f" hosts{format_labels(labels)}{''.join(f' ({text})' for text in passed_over)}; name one, or push a"
        " folder as it should be"
    )


def list_passed_over(history: VersionHistory, policy: str, after: int, before: int) -> list[str]:
    """Return which versions of a policy between two numbers are not believed, and whose they are."""
    by_key: dict[str, list[StoredVersion]] = {}
    for entry in history.list_versions(policy):
        if not entry.is_believed and after < entry.manifest.version < before:
            by_key.setdefault(entry.envelope.key, []).append(entry)
    return [f"passed over {describe_unbelieved(entries)}" for entries in by_key.values()]


def describe_unbelieved(entries: Sequence[StoredVersion]) -> str:
    """Return which versions these are, and that their key is not believed."""
    numbers = [str(entry.manifest.version) for entry in entries]
    shown = ", ".join(numbers[:SHOWN]) + (f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else "")
    which = f"version{'s' * (len(numbers) > 1)} {shown} of the key {entries[0].envelope.key}"
    return f"{which}, which hosts do not believe, by the fleet's key set, or else by [fleet] keys here and your own key"


def plan_rollback(
    history: VersionHistory,
    source: BelievedVersion | None,
    labels: Collection[str] | None = None,
    *,
    policy: str = DEFAULT_POLICY,
    key: str,
) -> VersionDraft | Manifest:
    """Return the draft of a rollback to an earlier bundle, or the newest version if that has the same content.

    The rollback is for all hosts that the newest version of the policy could be for, or for those with `labels`.
    Without a source it leads to that of `find_rollback_source`.

    Raises:
        NoVersionError: there is nothing to go back to.
        FleetError: the version was never for all of these hosts.
    """
    found = history.find_newest(policy) or source
    if found is None:
        passed_over = list_passed_over(history, policy, 0, history.head.version + 1)
        what = "; ".join(("no version is believed", *passed_over)) if passed_over else "nothing was ever pushed"
        raise NoVersionError(f"{what}, so there is nothing to go back to")
    newest = found.manifest
    labels_wanted = check_labels(newest.rollout.labels if labels is None else labels)
    if source is None:
        source = find_rollback_source(history, newest, labels_wanted)
    of = source.manifest
    if not set(of.rollout.labels) <= set(labels_wanted):
        raise FleetError(
            f"version {of.version} was for hosts{format_labels(of.rollout.labels)}, and this would give it to"
            f" all hosts{format_labels(labels_wanted)}; say which are meant with --label"
        )
    is_current = newest.content == (of.bundle, 0.0) and newest.rollout == RolloutTarget(labels_wanted)
    if is_current and history.gives_up is None and history.signer(newest.version) == key:
        return newest
    return draft_again(source, RolloutTarget(labels_wanted))


def format_policy(policy: str) -> str:
    """Return " of the policy NAME" for people; the default one needs no name."""
    return f" of the policy {policy}" if policy != DEFAULT_POLICY else ""


def format_rollback(policy: str) -> str:
    """Return the command that takes the newest version of a policy back."""
    return "hooklatch fleet rollback" + (f" --policy {policy}" if policy != DEFAULT_POLICY else "")


def format_labels(labels: Collection[str]) -> str:
    return f" labelled {' and '.join(labels)}" if labels else ""


def format_rollout(manifest: Manifest) -> str:
    """Return a version and the hosts that it is for, for people."""
    rollout = manifest.rollout
    hosts = f"hosts{format_labels(rollout.labels)}" if rollout.labels else "all hosts"
    share = f"{format_percent(rollout.percent)} of {hosts}{format_observing(manifest)}"
    return f"version {manifest.version}{format_policy(manifest.policy)}: {share}"


def format_observing(manifest: Manifest) -> str:
    """Return until when a version only observes, for people; empty if it never does."""
    end = manifest.observe_end
    return f" only observe until {format_moment(end)}" if end else ""


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
        publisher=publisher, message=message, gives_up=history.gives_up, **msgspec.structs.asdict(plan),
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

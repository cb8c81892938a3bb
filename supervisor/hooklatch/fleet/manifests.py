"""The versions of a fleet's policies: a hash chain of signed manifests.

A manifest names a policy, a bundle, the hosts that it is for, and the manifest before it.  Every host reads all of them
in order, from version 1 or from the one that it read last, so none can be left out, repeated or exchanged.  Of each
policy a host has the newest version that is for it, and all of these hold together.  Readers raise FleetError for bytes
that are not what they read, or of another fleet.

    bytes (as stored)  ─▶  read_envelope  ─▶  verify_manifests(fleet, head, envelopes, keys)  ─▶  VerifiedManifests
                                                              select_newest(manifests, host, labels)  ◀─┘

A bundle are the files of a version, as one document named by its sha256: JSON, `{"files": {"guards.py": "<base64>", …},
"suspendable": false}`, compact and with sorted names, so equal folders give equal bundles.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hooklatch.fleet.signing import KeyFormatError, PublicKey, Purpose, read_public

__all__ = [
    "BUCKETS", "BundleVersion", "DEFAULT_POLICY", "LONGEST_OBSERVING", "MAX_ENVELOPE", "Moment", "RESTORE", "REWRITTEN",
    "SKEW", "START", "SignedManifest", "FleetError", "PolicyHead", "PolicyVersions", "Manifest", "RolloutTarget",
    "VerifiedManifests", "find_bucket", "select_newest", "decode_document", "decode_signature", "encode_signed_text",
    "read_envelope", "read_payload", "read_manifest", "find_signer", "index_keys", "verify_manifests", "MAX_BUNDLE",
    "Bundle", "encode_bundle", "is_bundle_name", "read_bundle",
]  # fmt: skip

T = TypeVar("T")
BUCKETS = 10_000  # a percentage has two decimals
DEFAULT_POLICY = "default"  # of a version that names no policy
LONGEST_OBSERVING = 30 * 24 * 3600.0  # seconds: a mode that its publisher has forgotten, or a thief begun, must end
SKEW = 300.0  # seconds by which a signer's clock may be ahead of a host's
MAX_ENVELOPE = 64 * 1024  # bytes of a manifest as stored
# For all hosts at once, on one machine: a text never sends an operator from host to host.
RESTORE = (
    "put them back by one command, on the publisher's machine or on any host that has them: hooklatch fleet restore"
)
REWRITTEN = (
    "the history was rewritten, and nothing of it is applied; find out who did it. The publisher's machine says what"
    " was lost, and how to go on for all hosts at once: hooklatch fleet history"
)
# The name of a fleet, policy, host or label: safe in keys, paths and patterns.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Name = Annotated[str, Meta(pattern=rf"^{NAME.pattern}\Z")]
Moment = Annotated[datetime, Meta(tz=True)]


class FleetError(Exception):
    """Data that was read from the engine, or is about to be written there, is not valid.  The text says what to do."""


class PolicyHead(msgspec.Struct, frozen=True):
    """The newest manifest that was read: its version (0: none) and the sha256 of its envelope."""

    version: int = 0
    digest: str = ""


START = PolicyHead()


class BundleVersion(msgspec.Struct, frozen=True):
    """A version by its number and the sha256 of its bundle."""

    version: int
    bundle: str


class PolicyVersions(msgspec.Struct, frozen=True):
    """The version of a policy that a host should have, and the active one; this only observes until `observes`."""

    wanted: BundleVersion | None = None
    applied: BundleVersion | None = None
    observes: str = ""


class RolloutTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hosts that a version is for: those that have all `labels`, and of these a share of `percent`."""

    labels: tuple[Name, ...] = ()
    percent: Annotated[float, Meta(gt=0, le=100)] = 100.0

    def includes(self, host: str, labels: Collection[str]) -> bool:
        """Return whether the version is for a host with these labels."""
        return set(self.labels) <= set(labels) and find_bucket(host) < self.percent * (BUCKETS / 100)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One version of one of a fleet's policies; the numbers are those of all policies together.

    `previous` is the sha256 of the envelope of the version before, empty for version 1.  `bundle` is the sha256 of the
    bundle's bytes and `size` how many they are.  `created` is a moment in UTC.  `same_as` is the version whose bundle
    this is, if it is not a new one: a rollback, or a wider rollout.  `gives_up` is the head of a history that was lost.
    Numbers are never used again, so all versions that take the place of lost ones say so, and the one after them: from
    that one on, hosts accept a history without the lost versions.  Until `observe_until`, and for `LONGEST_OBSERVING`
    after `created` at most, hosts only observe: hooks run, and nothing that they say is enforced.
    """

    fleet: Name
    version: Annotated[int, Meta(ge=1)]
    previous: str
    bundle: Sha256
    size: Annotated[int, Meta(ge=0)]
    rollout: RolloutTarget = RolloutTarget()
    created: str = ""
    publisher: str = ""
    message: str = ""
    same_as: int | None = None
    policy: Name = DEFAULT_POLICY
    gives_up: PolicyHead | None = None
    observe_until: Moment | UnsetType = (
        UNSET  # left out where unset: hosts of before refuse a field that they do not know
    )

    @property
    def observe_end(self) -> float:
        """Return when the hooks begin to be enforced, in seconds since the epoch; 0: from the first moment.

        A version that does not say when it was made is enforced: a window that nothing bounds would have no end.
        """
        if not isinstance(self.observe_until, datetime) or (created := self.created_at) is None:
            return 0.0
        return min(self.observe_until.timestamp(), created + LONGEST_OBSERVING)

    @property
    def created_at(self) -> float | None:
        """Return `created` in seconds since the epoch; None if it is not a moment of a known zone."""
        try:
            created = datetime.fromisoformat(self.created)
        except ValueError:
            return None
        return created.timestamp() if created.tzinfo is not None else None

    def may_observe(self, now: float) -> bool:
        """Return whether hosts only observe at this moment: never before it was made, or windows could lie ahead."""
        created = self.created_at
        return created is not None and created - SKEW <= now < self.observe_end

    @property
    def content(self) -> tuple[str, float]:
        """Return what hosts of this version have: two versions with the same differ in nothing that a host does."""
        return self.bundle, self.observe_end

    def releases(self, known: PolicyHead, newest: int) -> bool:
        """Return whether a history with this version, and up to `newest`, may lack a version that is known."""
        lost = self.gives_up
        return lost is not None and lost.version < newest and (known.version < lost.version or known == lost)


class SignedManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A manifest as stored: the text that was signed, the id of the key, and the signature in base64."""

    payload: str
    key: str
    signature: str

    @property
    def digest(self) -> str:
        """Return the sha256 of the whole envelope, by which the next version names this one.

        The payload alone is not enough: a writer to the engine could then exchange the id of an older version's key
        for an unknown one, and a new host would pass over that version.
        """
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class VerifiedManifests(msgspec.Struct, frozen=True):
    """The result of a run of manifests: the new head, and the manifests that a listed key has signed, in order."""

    head: PolicyHead
    manifests: tuple[Manifest, ...]


def find_bucket(host: str) -> int:
    """Return the place of a host among 10,000.

    It depends on the name alone and never changes, so a wider rollout has all hosts of a narrower one.
    """
    return int.from_bytes(hashlib.sha256(host.encode()).digest()[:8]) % BUCKETS


def encode_signed_text(manifest: Manifest) -> str:
    """Return the text to sign: compact JSON in the order of the fields."""
    return msgspec.json.encode(manifest).decode()


def decode_document(data: bytes | str, shape: type[T], what: str, error: type[FleetError] = FleetError) -> T:
    """Return the JSON of a document; `what` names it.

    Raises:
        FleetError: it is not of the shape; of the class `error`.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
        raise error(f"{what} cannot be read: {fault}") from None


def read_envelope(data: bytes) -> SignedManifest:
    """Read a stored manifest."""
    if len(data) > MAX_ENVELOPE:
        raise FleetError(f"a manifest has {len(data)} bytes; the most is {MAX_ENVELOPE}")
    return decode_document(data, SignedManifest, "a manifest")


def read_payload(envelope: SignedManifest) -> Manifest:
    """Read the manifest in an envelope without looking at its signature."""
    return decode_document(envelope.payload, Manifest, "a manifest's payload")


def read_manifest(fleet: str, envelope: SignedManifest) -> Manifest:
    """Read the manifest in an envelope, which must be one of this fleet."""
    manifest = read_payload(envelope)
    if manifest.fleet != fleet:
        raise FleetError(f"version {manifest.version} is of the fleet {manifest.fleet!r}, not of {fleet!r}")
    return manifest


def index_keys(texts: Iterable[str]) -> dict[str, PublicKey]:
    """Return public keys by their id."""
    keys = dict[str, PublicKey]()
    for text in texts:
        try:
            key = read_public(text)
        except KeyFormatError as error:
            raise FleetError(f"{text!r} is not a public key: {error}") from None
        keys[key.id] = key
    return keys


def find_signer(manifest: Manifest, envelope: SignedManifest, keys: Mapping[str, PublicKey]) -> PublicKey | None:
    """Return the key, of these, that has signed a manifest; None if its envelope names another, or one that may not
    sign this policy.

    Raises:
        FleetError: the signature is not that of the key that it names.
    """
    key = keys.get(envelope.key)
    payload, signature = envelope.payload.encode(), decode_signature(envelope.signature)
    if key is not None and not key.verifies(payload, signature, Purpose.MANIFEST):
        raise FleetError(f"version {manifest.version}: the signature is not that of the key {envelope.key}")
    return key if key is not None and key.may_sign(manifest.policy) else None  # 5.6.3


def verify_manifests(
    fleet: str,
    head: PolicyHead,
    envelopes: Sequence[SignedManifest],
    keys: Mapping[str, PublicKey],
    known: Collection[PolicyHead] = (),
) -> VerifiedManifests:
    """Verify the manifests that follow `head`; `keys` are the trusted ones, by id.

    A listed key must have signed the last manifest.  The hash chain vouches for those before it, so a manifest of a key
    that was revoked since is passed over: it is in the history and is never applied.  Each version of `known` whose
    number they have must be among them, or one that a listed key has signed must give it up.

    Raises:
        FleetError: they do not follow `head`, lack a known version, or no listed key has signed the last.  None of them
            may be used.
    """
    signed: list[Manifest] = []
    digests: dict[int, str] = {}
    is_vouched = True
    for envelope in envelopes:
        manifest = read_manifest(fleet, envelope)
        if manifest.version != head.version + 1:
            raise FleetError(f"version {manifest.version} cannot follow version {head.version}")
        if manifest.previous != head.digest:
            raise FleetError(f"version {manifest.version} does not follow the version {head.version} read: {REWRITTEN}")
        is_vouched = find_signer(manifest, envelope, keys) is not None
        if is_vouched:
            signed.append(manifest)
        head = PolicyHead(manifest.version, envelope.digest)
        digests[head.version] = head.digest
    for seen in known:
        is_there = digests.get(seen.version, seen.digest) == seen.digest
        if not is_there and not any(manifest.releases(seen, head.version) for manifest in signed):
            raise FleetError(f"version {seen.version} is another one than was read or in force before: {REWRITTEN}")
    if not is_vouched:
        raise FleetError(
            f"version {head.version} is signed by the key {envelopes[-1].key}, which [fleet] keys does not list"
        )
    return VerifiedManifests(head, tuple(signed))


def select_newest(manifests: Iterable[Manifest], host: str, labels: Collection[str]) -> dict[str, Manifest]:
    """Return the newest of these versions that is for a host, of each policy that has one, by the policy's name."""
    return {manifest.policy: manifest for manifest in manifests if manifest.rollout.includes(host, labels)}


def decode_signature(signature: str) -> bytes:
    """Return the bytes of a signature; none if the text is not base64, which no key verifies."""
    try:
        return base64.b64decode(signature, validate=True)
    except ValueError:
        return b""


MAX_BUNDLE = 4 * 2**20  # bytes of the document
MAX_FILES = 500
MAX_NAME = 200  # bytes of a path in it
DECLARING = (".toml", ".py", ".json")  # files that declare hooks at the top, as in hooks.d; below, all kinds may be


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a version by their path.  `suspendable`: a host's user may suspend these hooks."""

    files: dict[str, bytes]
    suspendable: bool = False


def encode_bundle(bundle: Bundle) -> bytes:
    """Return the document of a bundle."""
    validate_bundle(bundle.files)
    sorted_files = dict(sorted(bundle.files.items()))
    data = msgspec.json.encode(Bundle(sorted_files, bundle.suspendable))
    if len(data) > MAX_BUNDLE:
        raise FleetError(f"the bundle has {len(data)} bytes; the most is {MAX_BUNDLE}: leave out what no hook needs")
    return data


def read_bundle(data: bytes, manifest: Manifest) -> Bundle:
    """Read the bundle that a manifest names."""
    # The digest comes first: only signed bytes are parsed.
    digest = hashlib.sha256(data).hexdigest()
    if digest != manifest.bundle or len(data) != manifest.size:
        raise FleetError(
            f"the bundle of version {manifest.version} is cut off or another one: its sha256 is {digest},"
            f" and the manifest names {manifest.bundle}"
        )
    if len(data) > MAX_BUNDLE:
        raise FleetError(f"the bundle of version {manifest.version} has {len(data)} bytes; the most is {MAX_BUNDLE}")
    bundle = decode_document(data, Bundle, f"the bundle of version {manifest.version}")
    validate_bundle(bundle.files)
    return bundle


def validate_bundle(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise FleetError(f"the bundle has {len(files)} files; the most is {MAX_FILES}")
    for name in files:
        if not is_bundle_name(name):
            raise FleetError(
                f"{name!r} cannot be in a bundle: a path has no '..', no hidden part and at most {MAX_NAME} bytes"
            )
    for name in files:
        folder = os.path.dirname(name)
        while folder:
            if folder in files:
                raise FleetError(f"{folder!r} is both a file and a folder of the bundle")
            folder = os.path.dirname(folder)


def is_bundle_name(name: str) -> bool:
    """Return whether a path may be in a bundle: relative, plain, without hidden parts or control characters."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    parts = name.split("/")
    return (
        0 < size <= MAX_NAME
        and name.isprintable()
        and all(part and part[0] != "." for part in parts)
        and "\\" not in name
    )

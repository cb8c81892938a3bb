"""Documents that several keys may sign, and key sets, which say what each key may sign.

A key set is what The Update Framework calls root.  The first is signed by a key that the host lists, each later one by
the one before and by itself, so that no host's file is edited when a key is changed.  The rules are those of that
framework; comments name the sections of its specification (1.0).  Pure: bytes in, documents out.  What is not valid is
a FleetError.

A timestamp is a publisher's signed word of which version was the newest at a moment: the role of that name in the
framework.  Without it an engine that stands still looks like one where nothing happens.  Times are seconds since the
epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Protocol, TypeVar

import msgspec
from msgspec import Meta

from hooklatch.fleet.manifests import (
    NAME,
    SKEW,
    FleetError,
    Moment,
    Name,
    PolicyHead,
    Sha256,
    decode_document,
    decode_signature,
    index_keys,
)
from hooklatch.fleet.signing import KeyFormatError, PrivateKey, PublicKey, Purpose, read_public

__all__ = [
    "BIG", "KeySet", "MAX_DOCUMENT", "OTHERS", "RoleKeys", "SignedDocument", "follow_key_set", "read_key_set",
    "read_number", "read_signed", "sign_document", "LONGEST", "Timestamp", "format_moment", "read_timestamp",
    "sign_timestamp",
]  # fmt: skip

MAX_DOCUMENT = 64 * 1024  # bytes as stored
MAX_KEYS = 64
MAX_POLICIES = 200
BIG = 2**53  # versions are below, so that what a thief fast-forwards can be passed
OTHERS = "*"  # stands for the policies that a key set does not name


class _OfFleet(Protocol):
    @property
    def fleet(self) -> str: ...


D = TypeVar("D", bound=_OfFleet)


class SignedDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document as stored: the text that was signed, and signatures in base64 by the id of their key."""

    payload: str
    signatures: Annotated[dict[str, str], Meta(max_length=MAX_KEYS)]

    def count_signers(self, keys: Iterable[PublicKey], purpose: Purpose) -> int:
        """Return how many of these keys have signed."""
        signed = 0
        for key in keys:
            signature = self.signatures.get(key.id)
            if signature is not None:
                signed += key.verifies(self.payload.encode(), decode_signature(signature), purpose)
        return signed


def read_signed(data: bytes, shape: type[D], fleet: str, what: str) -> tuple[D, SignedDocument]:
    """Read a stored document of a fleet, without looking at its signatures.

    It must be written as `sign_document` writes it: a name given twice, or a field outside of what is signed, would
    be other bytes with the same signature.
    """
    if len(data) > MAX_DOCUMENT:  # before anything is parsed  (5.3.3, 5.4.1: endless data)
        raise FleetError(f"{what} has {len(data)} bytes; the most is {MAX_DOCUMENT}")
    envelope = decode_document(data, SignedDocument, what)
    document = decode_document(envelope.payload, shape, what)
    if msgspec.json.encode(envelope) != data or msgspec.json.encode(document) != envelope.payload.encode():
        raise FleetError(f"{what} is not in the one form in which it may be written")
    if document.fleet != fleet:
        raise FleetError(f"{what} is of the fleet {document.fleet!r}, not of {fleet!r}")
    return document, envelope


def sign_document(document: object, purpose: Purpose, *keys: PrivateKey) -> bytes:
    """Return a document as it is stored, signed by these keys."""
    payload = msgspec.json.encode(document)
    signatures = {key.public.id: key.sign(payload, purpose) for key in keys}
    return msgspec.json.encode(SignedDocument(payload.decode(), signatures))


class RoleKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public keys of a role, and how many of them must sign."""

    keys: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_KEYS)]
    threshold: Annotated[int, Meta(ge=1)] = 1

    def check(self, document: SignedDocument, purpose: Purpose, what: str) -> None:
        """Raise FleetError unless enough of the keys have signed.  (5.3.4, 5.4.2: arbitrary software)"""
        signed = document.count_signers(index_keys(self.keys).values(), purpose)
        if signed < self.threshold:
            by = ", ".join(document.signatures) or "no key"
            raise FleetError(
                f"{what} is signed by {signed} of the keys that may sign it here, and {self.threshold} must;"
                f" its signatures are of: {by}"
            )


class KeySet(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    tag_field="kind",
    tag="keys",
):
    """The keys of each role: `root` sign the next key set, `timestamp` timestamps, `policies` the versions of a policy.

    `policies` are by name, and `OTHERS` are those without a name there.  `previous` is the `digest` of the key set
    before, empty in the first.
    """

    fleet: Name
    version: Annotated[int, Meta(ge=1, lt=BIG)]
    previous: str = ""
    expires: Moment
    root: RoleKeys
    timestamp: RoleKeys
    policies: Annotated[
        dict[Annotated[str, Meta(pattern=rf"^(\*|{NAME.pattern})\Z")], RoleKeys], Meta(max_length=MAX_POLICIES)
    ]

    @property
    def digest(self) -> str:
        """Return the sha256 of what is signed; who signs it besides changes nothing of it."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    @property
    def ends(self) -> float:
        """Return when it expires, in seconds since the epoch."""
        return self.expires.timestamp()

    def may_sign(self, key: str, policy: str) -> bool:
        """Return whether the key of this text may sign the versions of a policy."""
        role = self.policies.get(policy) or self.policies.get(OTHERS)
        return role is not None and key in role.keys

    def index_policy_keys(self) -> dict[str, PublicKey]:
        """Return the keys that may sign versions of some policy, by id; each knows of which."""
        texts = {text for role in self.policies.values() for text in role.keys}
        keys = [read_public(text, partial(self.may_sign, text)) for text in sorted(texts)]
        return {key.id: key for key in keys}

    def check(self) -> None:
        """Raise FleetError for a key set by which nothing could be signed, or one key would count as two."""
        policies = ((f"policy {name}", role) for name, role in self.policies.items())
        for name, role in (("root", self.root), ("timestamp", self.timestamp), *policies):
            try:
                keys = [read_public(text) for text in role.keys]
            except KeyFormatError as error:
                raise FleetError(f"the key set {self.version} has a key of {name} that is none: {error}") from None
            # By their bytes: one key as two texts, or twice, would count twice.  (python-tuf's issue 1429)
            if tuple(key.text for key in keys) != role.keys or len({key.id for key in keys}) != len(keys):
                raise FleetError(f"the key set {self.version} has a key of {name} twice, or not as keygen writes it")
            if role.threshold > len(keys):
                raise FleetError(f"the key set {self.version} has fewer keys of {name} than must sign")
            if role.threshold > 1 and role is not self.root:
                what = f"the key set {self.version} wants {role.threshold} signatures of {name}"
                raise FleetError(f"{what}: only root may have more than one")


def read_key_set(data: bytes, fleet: str) -> KeySet:
    """Read a stored key set that was verified before."""
    return read_signed(data, KeySet, fleet, "the key set")[0]


def read_number(data: bytes, fleet: str) -> int:
    """Return the number of a key set in a copy; 0 if it cannot be read, as one that a crash has torn."""
    try:
        return read_key_set(data, fleet).version
    except FleetError:
        return 0


def follow_key_set(data: bytes, fleet: str, before: KeySet | None, anchors: Iterable[PublicKey]) -> KeySet:
    """Return the key set that follows one; the first must be signed by one of the `anchors`.

    One that has expired is taken, since a newer one may follow.  (5.3.6)

    Raises:
        FleetError: it does not follow, or not enough keys have signed it.
    """
    found, envelope = read_signed(data, KeySet, fleet, "the key set")
    what = f"the key set {found.version}"
    expected = (before.version + 1, before.digest) if before is not None else (1, "")
    if (found.version, found.previous) != expected:  # 5.3.5: rollback, and beyond it: two of one number
        raise FleetError(f"{what} does not follow {f'the key set {before.version}' if before else 'no key set'}")
    found.check()
    root = before.root if before is not None else RoleKeys(tuple(key.text for key in anchors))
    root.check(envelope, Purpose.KEYS, what)  # 5.3.4
    found.root.check(envelope, Purpose.KEYS, what)  # 5.3.4: by itself, too
    return found


LATEST = datetime.max.replace(tzinfo=UTC).timestamp() - 1  # in zones behind UTC a document may name a later moment
LONGEST = 8 * 24 * 3600.0  # seconds that a timestamp may last: who stole its key must go on signing


class Timestamp(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="timestamp"
):
    """At `issued`, `version` was the newest one, with this digest of its envelope; it may not be relied upon after
    `expires`.
    """

    fleet: Name
    version: Annotated[int, Meta(ge=1, lt=BIG)]
    digest: Sha256
    issued: Moment
    expires: Moment

    @property
    def head(self) -> PolicyHead:
        return PolicyHead(self.version, self.digest)

    @property
    def at(self) -> float:
        return self.issued.timestamp()

    @property
    def lasts(self) -> float:
        """Return for how many seconds it may be relied upon."""
        return (self.expires - self.issued).total_seconds()  # of two numbers one more than the longest may come out


def sign_timestamp(fleet: str, head: PolicyHead, key: PrivateKey, *, at: float, lasts: float) -> bytes:
    """Return a timestamp as it is stored."""
    issued = datetime.fromtimestamp(at, UTC)
    stamp = Timestamp(
        fleet=fleet, version=head.version, digest=head.digest, issued=issued, expires=issued + timedelta(seconds=lasts)
    )
    return sign_document(stamp, Purpose.TIMESTAMP, key)


def read_timestamp(data: bytes, fleet: str, role: RoleKeys, seen: Timestamp | None, now: float) -> Timestamp:
    """Return a timestamp that may follow the newest one that was seen, which may be the same one again.

    One that has expired is taken, and does not count as contact: see `lasts`.

    Raises:
        FleetError: it is not one of this role, not after `seen`, or not of a time that can be.
    """
    stamp, envelope = read_signed(data, Timestamp, fleet, "the engine's timestamp")
    role.check(envelope, Purpose.TIMESTAMP, "the engine's timestamp")
    when = format_moment(stamp.at)
    if not 0 < stamp.lasts <= LONGEST:
        raise FleetError(
            f"the timestamp of {when} lasts until {format_moment(stamp.expires.timestamp())}: 8 days at most"
        )
    if stamp.at > now + SKEW:
        raise FleetError(f"the timestamp of {when} is of a time that is yet to come here: check both clocks")
    if seen is not None and stamp.at < seen.at:  # 5.4.3.1: rollback; `issued` is its version
        raise FleetError(f"the timestamp of {when} is older than that of {format_moment(seen.at)}, which was seen here")
    if seen is not None and stamp.at == seen.at and stamp != seen:
        raise FleetError(f"there are two different timestamps of {when}")
    return stamp


def format_moment(at: float) -> str:
    """Return a moment for people."""
    return datetime.fromtimestamp(min(at, LATEST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Key sets and timestamps beside python-tuf, an oracle: what it refuses of the same keys, numbers and times, ours must.

Ours may refuse more: sizes, odd bytes, and times of more than 8 days.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.roles import KeySet, RoleKeys, Timestamp, follow_key_set, read_timestamp, sign_document
from hooklatch.fleet.signing import PrivateKey, Purpose, make_key, read_private

pytest.importorskip("tuf", reason="python-tuf is of the extra dev")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner, SSlibKey
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, MetaFile, Role, Root
from tuf.api.metadata import Timestamp as TufTimestamp
from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
from tuf.ngclient.config import EnvelopeType

POOL = [make_key() for _ in range(5)]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def tuf_key(key: PrivateKey) -> SSlibKey:
    raw = msgspec.convert(key.public.text.removeprefix("ed25519:"), bytes)
    return SSlibKey(key.public.id, "ed25519", "ed25519", {"public": raw.hex()})


def tuf_bytes(document: Any, signers: Sequence[PrivateKey]) -> bytes:
    metadata = Metadata(document)
    for key in signers:
        raw = msgspec.convert(read_private(key.text).text.removeprefix("ed25519-private:"), bytes)
        metadata.sign(CryptoSigner(Ed25519PrivateKey.from_private_bytes(raw), tuf_key(key)), append=True)
    return metadata.to_bytes()


def tuf_root(key_set: KeySet) -> Root:
    by_text = {key.public.text: key for key in POOL}
    roles = {"root": key_set.root, "timestamp": key_set.timestamp}
    roles |= {"snapshot": key_set.policies["*"], "targets": key_set.policies["*"]}
    keys = {by_text[text].public.id: tuf_key(by_text[text]) for role in roles.values() for text in role.keys}
    named = {
        name: Role([by_text[text].public.id for text in role.keys], role.threshold) for name, role in roles.items()
    }
    return Root(version=key_set.version, expires=key_set.expires, keys=keys, roles=named)


class Pair:
    """One fleet as both see it."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        roots = self._some()
        self.key_set = KeySet(
            fleet="acme", version=1, expires=NOW + timedelta(days=9),
            root=RoleKeys(texts(roots), chance.randint(1, len(roots))), timestamp=RoleKeys(texts(self._some())),
            policies={"*": RoleKeys(texts(self._some()))},
        )  # fmt: skip
        self.tuf = TrustedMetadataSet(tuf_bytes(tuf_root(self.key_set), roots), EnvelopeType.METADATA)
        self.tuf.reference_time = NOW
        self.seen: Timestamp | None = None
        self.newest = 1

    def _some(self) -> list[PrivateKey]:
        return self._chance.sample(POOL, self._chance.randint(1, 3))

    def rotate(self) -> tuple[bool, bool]:
        """Offer both a next key set; return who takes it."""
        chance, before = self._chance, self.key_set
        roots, signers = self._some(), chance.sample(POOL, chance.randint(1, 5))
        offered = KeySet(
            fleet="acme", version=before.version + chance.choice((0, 1, 1, 1, 1, 2)), previous=before.digest,
            expires=NOW + timedelta(days=9), root=RoleKeys(texts(roots), chance.randint(1, len(roots))),
            timestamp=RoleKeys(texts(self._some())), policies=before.policies,
        )  # fmt: skip
        by_tuf = taken(lambda: self.tuf.update_root(tuf_bytes(tuf_root(offered), signers)), RepositoryError)
        data = sign_document(offered, Purpose.KEYS, *signers)
        ours = taken(lambda: follow_key_set(data, "acme", before, []), FleetError)
        if ours:
            if offered.timestamp != before.timestamp:
                self.seen = None
            self.key_set = offered
        return by_tuf, ours

    def stamp(self) -> tuple[bool, bool]:
        """Offer both a timestamp of a version; return for whom it is news that holds now."""
        chance = self._chance
        issued = NOW - timedelta(hours=chance.randint(1, 60))
        version = max(1, self.newest + chance.choice((-1, 0, 0, 1)))
        expires = issued + timedelta(days=chance.randint(1, 4))
        signers = chance.sample(POOL, chance.randint(1, 2))
        number = int(issued.timestamp())
        of_tuf = TufTimestamp(version=number, expires=expires, snapshot_meta=MetaFile(version))
        by_tuf = taken(lambda: self.tuf.update_timestamp(tuf_bytes(of_tuf, signers)), RepositoryError)
        stamp = Timestamp(fleet="acme", version=version, digest="0" * 64, issued=issued, expires=expires)
        data = sign_document(stamp, Purpose.TIMESTAMP, *signers)
        role, seen = self.key_set.timestamp, self.seen
        ours = taken(lambda: read_timestamp(data, "acme", role, seen, NOW.timestamp()), FleetError)
        if ours:
            self.seen = stamp
        # Contact is what names the version that this host has, which never goes back.
        holds = ours and stamp != seen and stamp.expires > NOW and version >= self.newest
        self.newest = max(self.newest, version if ours else 1)
        return by_tuf, holds


def texts(keys: Sequence[PrivateKey]) -> tuple[str, ...]:
    return tuple(key.public.text for key in keys)


def taken(offer: Any, refusal: type[Exception]) -> bool:
    try:
        offer()
    except refusal:
        return False
    return True


def test_what_the_oracle_refuses_ours_refuses() -> None:
    agreed = {True: 0, False: 0}
    for seed in range(60):
        pair = Pair(random.Random(seed))
        for _ in range(3):
            by_tuf, ours = pair.rotate()
            assert by_tuf or not ours, f"seed {seed}: python-tuf refuses a root that ours takes"
            assert ours or not by_tuf, f"seed {seed}: ours refuses a root that python-tuf takes"
            agreed[ours] += 1
        for _ in range(6):  # from here on no root may follow there
            by_tuf, ours = pair.stamp()
            assert by_tuf or not ours, f"seed {seed}: python-tuf refuses a timestamp that is contact here"
            agreed[ours] += 1

    assert min(agreed.values()) > 50  # else nothing was compared

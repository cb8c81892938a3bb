"""Key sets: which follow, by the attacks of The Update Framework's list, and what each of their keys may sign."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from hooklatch.fleet.manifests import FleetError
from hooklatch.fleet.roles import KeySet, RoleKeys, SignedDocument, follow_key_set, sign_document
from hooklatch.fleet.signing import PrivateKey, Purpose, make_key
from support.tables import table

ANCHOR, ROOT2, ROOT3, TIMER, CI, THIEF = (make_key() for _ in range(6))
ANCHORS = [ANCHOR.public]


def role(*keys: PrivateKey, threshold: int = 1) -> RoleKeys:
    return RoleKeys(tuple(key.public.text for key in keys), threshold)


ROOT = role(ANCHOR, ROOT2, ROOT3, threshold=2)
FIRST = KeySet(
    fleet="acme",
    version=1,
    expires=datetime(2040, 1, 1, tzinfo=UTC),
    root=ROOT,
    timestamp=role(TIMER),
    policies={"*": role(ANCHOR), "ci": role(CI)},
)


def after(before: KeySet, **changes: Any) -> KeySet:
    return msgspec.structs.replace(before, version=before.version + 1, previous=before.digest, **changes)


def signed(key_set: KeySet, *keys: PrivateKey) -> bytes:
    return sign_document(key_set, Purpose.KEYS, *keys)


def refusal(data: bytes, before: KeySet | None) -> str:
    with pytest.raises(FleetError) as caught:
        follow_key_set(data, "acme", before, ANCHORS)
    return str(caught.value)


def test_the_first_is_signed_by_a_listed_key_and_the_next_by_the_one_before_and_by_itself() -> None:
    first = follow_key_set(signed(FIRST, ANCHOR, ROOT2), "acme", None, ANCHORS)
    moved = after(first, root=role(ROOT2, ROOT3))
    second = follow_key_set(signed(moved, ROOT2, ROOT3), "acme", first, [])  # by then no listed key is asked

    assert (first, second) == (FIRST, moved)
    assert after(second).previous == second.digest != first.digest


@table(
    ("what", "keys", "why"),
    [
        (FIRST, (ROOT2, ROOT3), "signed by 0 of the keys that may sign it here, and 1 must"),  # no listed key
        (FIRST, (ANCHOR,), "signed by 1 of the keys that may sign it here, and 2 must"),  # not its own threshold
        (after(FIRST), (ANCHOR, ROOT2), "does not follow no key set"),
        (msgspec.structs.replace(FIRST, previous="0" * 64), (ANCHOR, ROOT2), "does not follow no key set"),
        (msgspec.structs.replace(FIRST, fleet="other"), (ANCHOR, ROOT2), "of the fleet 'other'"),
    ],
)
def test_a_first_one_that_binds_nobody(what: KeySet, keys: Sequence[PrivateKey], why: str) -> None:
    assert why in refusal(signed(what, *keys), None)


@table(
    ("what", "keys", "why"),
    [
        (after(FIRST, root=role(THIEF)), (THIEF,), "signed by 0 of the keys that may sign it here, and 2 must"),
        # One of three root keys, which lowers the threshold for itself.
        (after(FIRST, root=role(ANCHOR)), (ANCHOR,), "signed by 1 of the keys that may sign it here, and 2 must"),
        (after(FIRST, root=role(ANCHOR, THIEF)), (ANCHOR, THIEF), "signed by 1 of the keys"),
        (after(FIRST, root=role(THIEF)), (ANCHOR, ROOT2), "signed by 0 of the keys"),  # not by itself
        (after(FIRST), (TIMER, CI), "signed by 0 of the keys"),  # a key of another role
        (FIRST, (ANCHOR, ROOT2), "does not follow the key set 1"),  # rollback
        (after(after(FIRST)), (ANCHOR, ROOT2), "does not follow the key set 1"),  # fast-forward
        (msgspec.structs.replace(after(FIRST), version=2**52), (ANCHOR, ROOT2), "does not follow the key set 1"),
        (msgspec.structs.replace(after(FIRST), version=2**53), (ANCHOR, ROOT2), "cannot be read"),
        # Another key set 1 was read than the one that this follows.
        (after(msgspec.structs.replace(FIRST, policies={})), (ANCHOR, ROOT2), "does not follow the key set 1"),
        (after(FIRST, timestamp=role(TIMER, TIMER)), (ANCHOR, ROOT2), "has a key of timestamp twice"),
        (after(FIRST, root=role(ANCHOR, ANCHOR, threshold=2)), (ANCHOR, ROOT2), "has a key of root twice"),
        (after(FIRST, root=role(ANCHOR, threshold=2)), (ANCHOR, ROOT2), "fewer keys of root than must sign"),
        (after(FIRST, policies={"ci": role(CI, ANCHOR, threshold=2)}), (ANCHOR, ROOT2), "only root may"),
        (after(FIRST, timestamp=role(CI, TIMER, threshold=2)), (ANCHOR, ROOT2), "only root may"),
        (after(FIRST, timestamp=RoleKeys(("ed25519:AAAA",))), (ANCHOR, ROOT2), "a key of timestamp that is none"),
        (after(FIRST, policies={"../x": role(CI)}), (ANCHOR, ROOT2), "cannot be read"),
        (after(FIRST, root=RoleKeys((), 0)), (ANCHOR, ROOT2), "cannot be read"),
    ],
)
def test_a_next_one_that_does_not_follow(what: KeySet, keys: Sequence[PrivateKey], why: str) -> None:
    assert why in refusal(signed(what, *keys), FIRST)


def test_one_key_as_two_texts_does_not_count_twice() -> None:
    """The last digits of base64 may have bits that say nothing: another text, and the same key."""
    text = ANCHOR.public.text
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    twin = f"{text[:-2]}{digits[digits.index(text[-2]) + 1]}="
    doubled = after(FIRST, root=RoleKeys((text, twin), 2))

    assert "has a key of root twice, or not as keygen writes it" in refusal(signed(doubled, ANCHOR, ROOT2), FIRST)


def test_one_signature_under_two_ids_counts_once() -> None:
    envelope = msgspec.json.decode(signed(after(FIRST), ANCHOR), type=SignedDocument)
    (signature,) = envelope.signatures.values()
    forged = SignedDocument(envelope.payload, {**envelope.signatures, ROOT2.public.id: signature})

    assert "signed by 1 of the keys" in refusal(msgspec.json.encode(forged), FIRST)


@table(
    ("old", "new"),
    [
        (b'{"payload":', b'{"payload":"","payload":'),  # a name twice
        (b'{"payload":', b'{"more":1,"payload":'),  # a field outside of what is signed
        (b'\\"version\\":2', b'\\"version\\":2.0'),
        (b'{"payload":', b" " * 2**17 + b'{"payload":'),
        (b'{"payload":', b"[" * 2**15 + b'{"payload":'),
        (b"acme", b"\xff\xff"),
    ],
)
def test_other_bytes_of_a_good_one(old: bytes, new: bytes) -> None:
    assert refusal(signed(after(FIRST), ANCHOR, ROOT2).replace(old, new, 1), FIRST)


def test_a_signature_of_another_kind_counts_for_nothing() -> None:
    assert "signed by 0" in refusal(sign_document(after(FIRST), Purpose.TIMESTAMP, ANCHOR, ROOT2), FIRST)


def test_a_key_signs_its_own_policies_alone() -> None:
    """`*` is for those that have no name there: not one more key for `ci`."""
    keys = FIRST.index_policy_keys()

    assert {key.id for key in (ANCHOR.public, CI.public)} == set(keys)
    assert [keys[CI.public.id].may_sign(policy) for policy in ("ci", "base")] == [True, False]
    assert [keys[ANCHOR.public.id].may_sign(policy) for policy in ("ci", "base")] == [False, True]
    assert not FIRST.may_sign(TIMER.public.text, "base")

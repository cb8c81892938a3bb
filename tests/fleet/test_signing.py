"""Keys as texts: a public one is never taken for a private one, nor the other way round."""

from __future__ import annotations

import base64

import pytest

from hooklatch.fleet.signing import KeyFormatError, Purpose, decode_key, make_key, read_private, read_public
from support.tables import table


def test_a_pair_reads_back_and_its_signatures_hold() -> None:
    key = make_key()
    public, again = read_public(key.public.text), read_private(key.text)

    assert (public.id, again.text) == (key.public.id, key.text)
    signature = base64.b64decode(key.sign(b"x", Purpose.MANIFEST))
    assert public.verifies(b"x", signature, Purpose.MANIFEST) is True
    assert make_key().public.verifies(b"x", signature, Purpose.MANIFEST) is False
    assert read_public(make_key().public.text).id != public.id


def test_the_halves_of_a_pair_are_not_taken_for_each_other() -> None:
    key = make_key()
    with pytest.raises(KeyFormatError, match="it is a private key; write the public one here"):
        decode_key(key.text)
    with pytest.raises(KeyFormatError, match="it is a public key; the private key signs"):
        read_private(key.public.text)


@table("text", ["", "ed25519:", "ed25519:AAAA", "rsa:AAAA", "ed25519:" + "A" * 43, "ed25519:" + "é" * 44])
def test_anything_else_is_no_key(text: str) -> None:
    with pytest.raises(KeyFormatError, match="make a pair with: hooklatch fleet keygen"):
        decode_key(text)

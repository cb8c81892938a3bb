"""Keys and signatures: ed25519 of the package `cryptography`.

A public key is written as `ed25519:BASE64`, a private key as `ed25519-private:BASE64`.  The id of both is the first 16
hexadecimal digits of the public key's sha256.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from hooklatch.errors import format_install_command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = [
    "KeyFormatError", "NoLibraryError", "PrivateKey", "PublicKey", "Purpose", "make_key", "decode_key",
    "read_private", "read_public",
]  # fmt: skip

PUBLIC, PRIVATE = "ed25519:", "ed25519-private:"
SIZE = 32


class Purpose(enum.Enum):
    """The kind of a document, signed in front of its text: no signature of one kind counts for another."""

    MANIFEST = b"hooklatch fleet manifest 1\n"
    REPORT = b"hooklatch fleet report 1\n"
    BATCH = b"hooklatch fleet batch 1\n"
    TIMESTAMP = b"hooklatch fleet timestamp 1\n"
    KEYS = b"hooklatch fleet keys 1\n"


class KeyFormatError(ValueError):
    """A text is not a key."""


class NoLibraryError(Exception):
    """The package that checks signatures is not installed."""

    def __init__(self) -> None:
        super().__init__(f"the package cryptography is not installed: {format_install_command('hooklatch[fleet]')}")


class PublicKey:
    """A key that signatures are checked with; `may_sign` says of which policies it may sign versions: else of all."""

    def __init__(self, raw: bytes, key: Ed25519PublicKey, may_sign: Callable[[str], bool] | None = None) -> None:
        self.may_sign: Callable[[str], bool] = may_sign or (lambda policy: True)
        self._raw = raw
        self._key = key

    @property
    def id(self) -> str:
        return hashlib.sha256(self._raw).hexdigest()[:16]

    @property
    def text(self) -> str:
        return PUBLIC + base64.b64encode(self._raw).decode()

    def verifies(self, payload: bytes, signature: bytes, purpose: Purpose) -> bool:
        """Return whether the signature is this key's over this payload, for this purpose."""
        # Here and below: the daemon imports this module on every start, and most hosts have no `cryptography`.
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, purpose.value + payload)
        except InvalidSignature:
            return False
        return True


class PrivateKey:
    """A key that a publisher signs with."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public(self) -> PublicKey:
        key = self._key.public_key()
        return PublicKey(key.public_bytes_raw(), key)

    @property
    def text(self) -> str:
        """Return the secret, to be kept in a file of mode 600."""
        return PRIVATE + base64.b64encode(self._key.private_bytes_raw()).decode()

    def sign(self, payload: bytes, purpose: Purpose) -> str:
        """Return the signature of a payload, in base64."""
        return base64.b64encode(self._key.sign(purpose.value + payload)).decode()


def load_library() -> ModuleType:
    """Return the module of the keys, which the daemon does not load at its start.

    Raises:
        NoLibraryError: `cryptography` is not installed.
    """
    try:
        return importlib.import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    except ImportError:
        raise NoLibraryError from None


def make_key() -> PrivateKey:
    """Return a new key; the errors of this and of the readers are those of `load_library` and `decode_key`."""
    return PrivateKey(load_library().Ed25519PrivateKey.generate())


def read_public(text: str, may_sign: Callable[[str], bool] | None = None) -> PublicKey:
    raw = decode_key(text)
    return PublicKey(raw, load_library().Ed25519PublicKey.from_public_bytes(raw), may_sign)


def read_private(text: str) -> PrivateKey:
    raw = decode_key(text, PRIVATE)
    return PrivateKey(load_library().Ed25519PrivateKey.from_private_bytes(raw))


def decode_key(text: str, prefix: str = PUBLIC) -> bytes:
    """Return the bytes of a key without needing the library: for checking a configuration.

    Raises:
        KeyFormatError: the text is not a key, or the other half of a pair.
    """
    text = text.strip()
    if prefix == PUBLIC and text.startswith(PRIVATE):
        raise KeyFormatError(
            "it is a private key; write the public one here, and make a new pair if others could read this file:"
            " a private key can publish"
        )
    if prefix == PRIVATE and text.startswith(PUBLIC):
        raise KeyFormatError("it is a public key; the private key signs, in the file that keygen wrote")
    try:
        raw = base64.b64decode(text.removeprefix(prefix), validate=True)
    except ValueError:
        raw = b""
    if not text.startswith(prefix) or len(raw) != SIZE:
        raise KeyFormatError(f"it is not {prefix} and 32 bytes in base64; make a pair with: hooklatch fleet keygen")
    return raw

"""A host's own key, by which it signs its reports and its log, and what readers find of it.

The link makes the key at its first start, in the state folder, and no part of it leaves the machine but the public key
in each report.  A report is signed as the bytes that are stored, a batch by its numbers, its last entry's hash and its
data, each with the fleet's and the host's name, so that neither counts under another name.

A disk that is copied has the same key.  So each process of a link has an instance of its own: two that take turns are
two machines under one name.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets

import msgspec

from hooklatch.directories import replace_file
from hooklatch.errors import explain_error
from hooklatch.files import open_regular_file
from hooklatch.fleet.batches import BatchError, find_newest_place
from hooklatch.fleet.engine.engine import RecordBatch
from hooklatch.fleet.manifests import FleetError, decode_signature
from hooklatch.fleet.reports import HostReport, encode_report
from hooklatch.fleet.signing import KeyFormatError, PrivateKey, PublicKey, Purpose, make_key, read_private, read_public

__all__ = ["HOST_KEY", "HostIdentity", "find_report_fault", "is_batch_signed", "load_host_key", "read_host_key"]

HOST_KEY = "host.key"  # in the state folder
MAX_KEY = 4096
SIGNED = re.compile(rb'(\{.*),"signature":"([A-Za-z0-9+/=]{1,128})"\}', re.DOTALL)


class HostIdentity:
    """The signer of one process of a link; `number` is that of its last report."""

    def __init__(self, key: PrivateKey, fleet: str, host: str) -> None:
        self.instance = secrets.token_hex(8)
        self.key = key.public.text
        self._key = key
        self._context = make_context(fleet, host)
        self.number = 0

    def sign_report(self, report: HostReport) -> bytes:
        """Return a report as it is stored: with this host's key, its instance and its number there, and a signature."""
        self.number += 1
        data = encode_report(msgspec.structs.replace(report, key=self.key, instance=self.instance, number=self.number))
        signature = self._key.sign(self._context + data, Purpose.REPORT)
        return data[:-1] + f',"signature":"{signature}"}}'.encode()

    def sign_batch(self, epoch: int, batch: RecordBatch) -> RecordBatch:
        """Return a batch with its signature."""
        text = self._context + make_batch_text(epoch, batch)
        return msgspec.structs.replace(batch, signature=self._key.sign(text, Purpose.BATCH))


def make_context(fleet: str, host: str) -> bytes:
    return f"{fleet}\n{host}\n".encode()


def make_batch_text(epoch: int, batch: RecordBatch) -> bytes:
    hash_ = find_newest_place(batch.data, batch.last).hash
    return f"{epoch} {batch.first} {batch.last} {hash_} {hashlib.sha256(batch.data).hexdigest()}".encode()


def find_report_fault(fleet: str, report: HostReport, data: bytes, key: PublicKey | None) -> str | None:
    """Return what is wrong with the signature of a report as it was stored; None if it is good, or if there is none.

    `key` is the one that the host has enrolled with: then none is wrong too.  Else it is the one that the report names.
    """
    if key is None and not report.key:
        return None
    match = SIGNED.fullmatch(data)
    if match is None:
        return "its report is not signed by the key of this host"
    try:
        signer = key or read_public(report.key)
    except KeyFormatError as error:
        return f"its report names a key that is none: {error}"
    text = make_context(fleet, report.host) + match[1] + b"}"
    if not signer.verifies(text, decode_signature(match[2].decode()), Purpose.REPORT):
        return f"its report is not signed by the key {signer.id} of this host: another process has written it"
    return None


def is_batch_signed(fleet: str, host: str, epoch: int, batch: RecordBatch, key: PublicKey) -> bool:
    """Return whether a key has signed a batch."""
    try:
        text = make_context(fleet, host) + make_batch_text(epoch, batch)
    except BatchError:
        return False
    return key.verifies(text, decode_signature(batch.signature), Purpose.BATCH)


def load_host_key(state: str) -> PrivateKey:
    """Return this host's key, and make it if there is none; the errors are those of `read_host_key`, and OSError."""
    key = read_host_key(state)
    if key is None:
        key = make_key()
        replace_file(os.path.join(state, HOST_KEY), f"{key.text}\n".encode())
    return key


def read_host_key(state: str) -> PrivateKey | None:
    """Return this host's key; None if it has none yet.

    Raises:
        FleetError: the file cannot be read.  Another key in its place would be another host's.
        NoLibraryError: the package that signs is not installed.
    """
    path = os.path.join(state, HOST_KEY)
    try:
        with open_regular_file(path) as file:
            return read_private(file.read(MAX_KEY).decode("ascii", "replace"))
    except FileNotFoundError:
        return None
    except (OSError, KeyFormatError) as error:
        why = explain_error(error) if isinstance(error, OSError) else error
        raise FleetError(f"{path}, the key of this host, cannot be read: {why}; restore it, or enroll again") from None

"""A machine's copy of a fleet's versions, by which those that an engine loses can be put back.

    FOLDER/versions.jsonl   signed manifests, one a line: added, and never changed or removed
    FOLDER/key-sets.jsonl   key sets, the same
    FOLDER/timestamp.json   the newest timestamp
    FOLDER/SHA256.json      bundles, byte for byte

Each host has one in STATE/fleet, with the bundles that are active or wanted there; each publisher's machine has one
with the bundles that it has pushed or read.  A fleet's folder in an archive is read too.  Nothing in a copy is
believed: who reads it verifies it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import FileIO

import msgspec

from hooklatch.directories import replace_file, sync_folder
from hooklatch.files import open_regular, open_regular_file
from hooklatch.fleet.manifests import MAX_BUNDLE, FleetError, PolicyHead, SignedManifest, read_envelope, read_payload
from hooklatch_worker.systems.disks import sync_all

__all__ = [
    "COPIES", "VERSIONS", "find_following", "keep_bundle", "keep_key_sets", "keep_timestamp", "keep_versions",
    "read_kept_bundle", "read_kept_key_sets", "read_kept_timestamp", "read_kept_versions",
]  # fmt: skip

VERSIONS, KEY_SETS, TIMESTAMP = COPIES = "versions.jsonl", "key-sets.jsonl", "timestamp.json"
IN_ARCHIVE = {VERSIONS: "policy", KEY_SETS: "keys"}  # folders of the same, one in each file
MOST_BUNDLES = 200  # that a publisher's machine keeps, the newest ones


def keep_versions(folder: str, envelopes: Iterable[SignedManifest]) -> None:
    """Add the versions that the copy lacks.

    Raises:
        OSError: they may not be on the disk.
    """
    add_lines(folder, VERSIONS, map(msgspec.json.encode, envelopes))


def keep_key_sets(folder: str, stored: Iterable[bytes]) -> None:
    """Add the key sets that the copy lacks; the errors are those of `keep_versions`."""
    add_lines(folder, KEY_SETS, (data for data in stored if b"\n" not in data))


def keep_timestamp(folder: str, stored: bytes) -> None:
    """Keep the newest timestamp; the errors are those of `keep_versions`."""
    make_folder(folder)
    replace_file(
        os.path.join(folder, TIMESTAMP), stored, temporary=f"{os.path.join(folder, TIMESTAMP)}.{os.getpid()}.new"
    )


def add_lines(folder: str, name: str, new: Iterable[bytes]) -> None:
    path = os.path.join(folder, name)
    make_folder(folder)
    is_new = not os.path.lexists(path)
    with os.fdopen(
        open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW), "rb+", buffering=0
    ) as file:
        data = file.readall()
        known = set(data.splitlines())
        lines = [line for line in new if line not in known]
        if lines:
            torn = b"\n" if data and not data.endswith(b"\n") else b""  # by a crash; its version is added again
            try:
                write_whole(file, torn + b"\n".join(lines) + b"\n")
            except OSError:
                os.ftruncate(file.fileno(), len(data))  # what a full disk took of it would be in the way of others
                raise
            sync_all(file.fileno())
    if is_new:
        sync_folder(folder)


def write_whole(file: FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def make_folder(folder: str) -> None:
    for path in (os.path.dirname(folder), folder):  # `makedirs` gives the mode to the last one alone
        os.makedirs(path, mode=0o700, exist_ok=True)


def read_kept_versions(folder: str) -> list[SignedManifest]:
    """Return the versions of a copy, those of which the manifest can be read; none if there is no copy.

    Raises:
        OSError: the copy cannot be read.
    """
    kept: list[SignedManifest] = []
    for line in read_lines(folder, VERSIONS):
        with suppress(FleetError):  # torn by a crash: what is missing is told by what does not follow
            read_payload(envelope := read_envelope(line))
            kept.append(envelope)
    return kept


def read_kept_key_sets(folder: str) -> list[bytes]:
    """Return the key sets of a copy as they were stored; the errors are those of `read_kept_versions`."""
    return read_lines(folder, KEY_SETS)


def read_kept_timestamp(folder: str) -> list[bytes]:
    """Return the timestamp of a copy as it was stored, if it has one; the errors are those of `read_kept_versions`."""
    return read_lines(folder, TIMESTAMP)


def read_lines(folder: str, name: str) -> list[bytes]:
    lines: list[bytes] = []
    archived = os.path.join(folder, IN_ARCHIVE.get(name, name))
    names = sorted(os.listdir(archived)) if os.path.isdir(archived) else []
    for path in (os.path.join(folder, name), *(os.path.join(archived, each) for each in names)):
        with suppress(FileNotFoundError), open_regular_file(path) as file:
            lines += file.read().splitlines()
    return lines


def find_following(head: PolicyHead, kept: Iterable[SignedManifest]) -> list[SignedManifest]:
    """Return the longest history that follows a head, each version naming the one before it."""
    lengths: dict[PolicyHead, int] = {}  # of what follows each version
    following: dict[PolicyHead, SignedManifest] = {}
    read = [(read_payload(envelope), envelope) for envelope in kept]
    for manifest, envelope in sorted(read, key=lambda pair: -pair[0].version):
        before = PolicyHead(manifest.version - 1, manifest.previous)
        length = 1 + lengths.get(PolicyHead(manifest.version, envelope.digest), 0)
        if length > lengths.get(before, 0):
            lengths[before], following[before] = length, envelope
    found: list[SignedManifest] = []
    while head in following:
        found.append(following[head])
        head = PolicyHead(head.version + 1, following[head].digest)
    return found


def keep_bundle(folder: str, digest: str, data: bytes) -> None:
    """Add a bundle to a publisher's copy, and remove the oldest ones of too many.

    Raises:
        OSError: it may not be on the disk.
    """
    path = os.path.join(folder, f"{digest}.json")
    if not os.path.lexists(path):
        make_folder(folder)
        replace_file(path, data, temporary=f"{path}.{os.getpid()}.new")
        bundles = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
        for entry in sorted(bundles, key=lambda entry: -entry.stat().st_mtime)[MOST_BUNDLES:]:
            os.unlink(entry.path)


def read_kept_bundle(folders: Sequence[str], digest: str) -> bytes | None:
    """Return a bundle from the first of these copies that has it."""
    for path in (os.path.join(folder, name) for folder in folders for name in (f"{digest}.json", f"bundles/{digest}")):
        with suppress(OSError), open_regular_file(path) as file:
            return file.read(MAX_BUNDLE + 1)
    return None

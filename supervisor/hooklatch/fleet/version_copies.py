"""A machine's copy of a fleet's versions, by which those that an engine loses can be put back.

    FOLDER/versions.jsonl   signed manifests, one a line: added, and never changed or removed
    FOLDER/SHA256.json      bundles, byte for byte

Each host has one in STATE/fleet, with the bundles that are active or wanted there; each publisher's machine has one
with the bundles that it has pushed or read.  Nothing in a copy is believed: who reads it verifies it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from hooklatch.directories import replace_file, sync_folder
from hooklatch.files import open_regular, open_regular_file
from hooklatch.fleet.bundles import MAX_BUNDLE
from hooklatch.fleet.manifests import FleetError, PolicyHead, SignedManifest, read_envelope, read_payload

__all__ = ["VERSIONS", "find_following", "keep_bundle", "keep_versions", "read_kept_bundle", "read_kept_versions"]

VERSIONS = "versions.jsonl"
MOST_BUNDLES = 200  # that a publisher's machine keeps, the newest ones


def keep_versions(folder: str, envelopes: Iterable[SignedManifest]) -> None:
    """Add the versions that the copy lacks.

    Raises:
        OSError: they may not be on the disk.
    """
    path = os.path.join(folder, VERSIONS)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    is_new = not os.path.lexists(path)
    with os.fdopen(
        open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW), "rb+", buffering=0
    ) as file:
        data = file.readall()
        known = set(data.splitlines())
        lines = [line for line in map(msgspec.json.encode, envelopes) if line not in known]
        if lines:
            torn = b"\n" if data and not data.endswith(b"\n") else b""  # by a crash; its version is added again
            file.write(torn + b"\n".join(lines) + b"\n")
            os.fsync(file.fileno())
    if is_new:
        sync_folder(folder)


def read_kept_versions(folder: str) -> list[SignedManifest]:
    """Return the versions of a copy, those of which the manifest can be read; none if there is no copy.

    Raises:
        OSError: the copy cannot be read.
    """
    try:
        with open_regular_file(os.path.join(folder, VERSIONS)) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    kept: list[SignedManifest] = []
    for line in lines:
        with suppress(FleetError):  # torn by a crash: what is missing is told by what does not follow
            read_payload(envelope := read_envelope(line))
            kept.append(envelope)
    return kept


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
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace_file(path, data, temporary=f"{path}.{os.getpid()}.new")
        bundles = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
        for entry in sorted(bundles, key=lambda entry: -entry.stat().st_mtime)[MOST_BUNDLES:]:
            os.unlink(entry.path)


def read_kept_bundle(folders: Sequence[str], digest: str) -> bytes | None:
    """Return a bundle from the first of these copies that has it."""
    for folder in folders:
        with suppress(OSError), open_regular_file(os.path.join(folder, f"{digest}.json")) as file:
            return file.read(MAX_BUNDLE + 1)
    return None

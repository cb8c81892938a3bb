"""The return of lost versions and bundles to an engine, from the copies that machines keep of them.

Each byte is verified by the chain and by the listed keys, as hosts do it; nothing is signed, and nothing that the
engine has is replaced.  So it takes no private key, only the right to write there, and to do it twice is harmless.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from hooklatch.errors import explain_error
from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.manifests import FleetError, Manifest, PolicyHead, SignedManifest, read_payload
from hooklatch.fleet.publishing.publisher import Publisher
from hooklatch.fleet.publishing.versions import VersionHistory, encode_envelope
from hooklatch.fleet.roles import read_number, read_timestamp
from hooklatch.fleet.signing import PublicKey
from hooklatch.fleet.version_copies import (
    find_following,
    read_kept_bundle,
    read_kept_key_sets,
    read_kept_timestamp,
    read_kept_versions,
)

__all__ = ["NoCopyError", "RestoreReport", "restore_versions"]


class NoCopyError(FleetError):
    """No folder that was named has a copy of this fleet's versions."""


class RestoreReport(msgspec.Struct, frozen=True):
    """`fleet restore`: the engine's newest version now, what was put back, and what is missing or contradicts."""

    version: int
    versions: list[int]
    bundles: int
    key_sets: list[int]
    findings: list[str]


async def restore_versions(
    engine: Engine, fleet: str, keys: Mapping[str, PublicKey], anchors: Mapping[str, PublicKey], folders: Sequence[str]
) -> RestoreReport:
    """Put back what an engine has lost and a copy in one of these folders has.

    `keys` are those by which the versions are verified, but for a fleet with key sets, whose first one of `anchors` has
    signed.
    """
    kept = read_copies(fleet, folders)
    publisher = Publisher(engine, fleet, keys, anchors=anchors, heeds_hosts=False)
    await publisher.read_key_sets()
    key_sets_added, findings = await restore_key_sets(publisher, folders)
    before = await publisher.read()
    history = continue_history(before, kept, publisher.keys)
    count, missing = await restore_bundles(engine, history, folders)
    added = history.entries[before.head.version :]
    for entry in added:
        await publisher.write(entry.manifest.version, encode_envelope(entry.envelope))
    await restore_timestamp(publisher, history, folders)
    findings += [*missing, *list_other_versions(history, kept)]
    versions = [entry.manifest.version for entry in added]
    return RestoreReport(history.head.version, versions, count, key_sets_added, findings)


async def restore_key_sets(publisher: Publisher, folders: Sequence[str]) -> tuple[list[int], list[str]]:
    """Put back the key sets that follow the engine's; return the numbers of these, and what contradicts."""
    added, findings = list[int](), list[str]()
    kept = {data for folder in folders for data in read_kept_key_sets(folder)}.difference(publisher.stored_key_sets)
    for number, data in sorted((read_number(data, publisher.fleet), data) for data in kept):
        try:
            added.append((await publisher.put_key_set(data)).version)
        except FleetError as error:
            findings.append(f"the key set {number} of the copies is not put back: {error}")
    return added, findings


async def restore_timestamp(publisher: Publisher, history: VersionHistory, folders: Sequence[str]) -> None:
    """Put back the newest timestamp: hosts do not believe an older one than they have seen."""
    stored, newest = await publisher.engine.timestamp(), None
    heads = {entry.head for entry in history.entries}
    kept = [data for folder in folders for data in read_kept_timestamp(folder)]
    for data in kept if stored is None else (stored[1], *kept):
        with suppress(FleetError):  # an older one, or one that hosts do not take either
            before = newest[0] if newest is not None else None
            stamp = read_timestamp(data, publisher.fleet, publisher.timestamp_role, before, time.time())
            newest = (stamp, data) if stamp.head in heads else newest
    if newest is not None and (stored is None or newest[1] != stored[1]):
        await publisher.engine.put_timestamp(newest[1])


def read_copies(fleet: str, folders: Sequence[str]) -> list[SignedManifest]:
    kept: dict[str, SignedManifest] = {}
    for folder in folders:
        try:
            found = (of for of in read_kept_versions(folder) if read_payload(of).fleet == fleet)
            kept |= {envelope.digest: envelope for envelope in found}
        except OSError as error:
            raise FleetError(f"the copy in {folder} cannot be read: {explain_error(error)}") from None
    if not kept:
        raise NoCopyError(
            f"there is no copy of the versions of the fleet {fleet!r} in {' or '.join(folders)}; run it on the machine"
            " of a publisher, or with --from DIR: a copy of any host's folder ~/.local/state/hooklatch/fleet, or the"
            " fleet's in an archive"
        )
    return list(kept.values())


def continue_history(
    history: VersionHistory, kept: Sequence[SignedManifest], keys: Mapping[str, PublicKey]
) -> VersionHistory:
    """Return the history with what follows it in the copies, up to the last version that one of the keys has signed."""
    following = find_following(history.head, kept)
    while following and following[-1].key not in keys:
        following.pop()
    return history.followed_by(following, keys, {}) if following else history


async def restore_bundles(engine: Engine, history: VersionHistory, folders: Sequence[str]) -> tuple[int, list[str]]:
    """Put back the bundles that the history names; return how many, and which are nowhere.

    Before the versions that name them: a host may read those at once.
    """
    named = {entry.manifest.bundle: entry.manifest for entry in history.entries}
    count, missing = 0, list[Manifest]()
    for digest, manifest in named.items():
        if await engine.bundle(digest) is not None:
            continue
        data = read_kept_bundle(folders, digest)
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            missing.append(manifest)
            continue
        await engine.put_bundle(digest, data)
        count += 1
    return count, [
        f"the bundle {manifest.bundle[:12]} of version {manifest.version} is in no copy here; hosts that have it in"
        " force keep it, and others cannot have it: restore from a machine that has it, or push its folder again"
        for manifest in missing
    ]  # fmt: skip


def list_other_versions(history: VersionHistory, kept: Sequence[SignedManifest]) -> list[str]:
    """Return that the engine has another version than the copies, or that versions between are missing in these."""
    heads = [PolicyHead(read_payload(envelope).version, envelope.digest) for envelope in kept]
    others = sorted(head.version for head in heads if history.find_contradiction(head, by="") is not None)
    if not others:
        return []
    if others[0] > history.head.version:
        return [f"the copies have version {others[0]}, and not all from {history.head.version + 1} on that it follows"]
    return [
        f"version {others[0]} in the engine is another one than in the copies, and is left as it is: hosts that have"
        " read that of the copies refuse the engine's. If the engine's should not be there, have an administrator of"
        " the engine remove it, and run this again; if it should, give up the other ones (fleet push --give-up)"
    ]

"""Proves that a policy on the disk is what the fleet's publisher signed.  Knows keys, manifests and files.

What cannot be proven has a `fault`, and denies at every gate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from hooklatch.errors import where_and_why
from hooklatch.fleet.policy.bundles import Bundle, read_bundle
from hooklatch.fleet.policy.manifests import Envelope, FleetError, Manifest, read_payload, read_payload_of, signer
from hooklatch.fleet.policy.signing import KeyFormatError, NoLibraryError, PublicKey, read_public
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.path_lookup import is_passing, stamp
from hooklatch.service.fleet.policy_file import Policy, document_of, root_of, unpack
from hooklatch.service.reading.declared_files import FleetFiles, read_fleet

__all__ = ["files_of", "keys_of", "prove", "proven_files"]


def keys_of(texts: Iterable[str]) -> dict[str, PublicKey]:
    """Return public keys by their id.

    Raises:
        FleetError: one of them is none.
        NoLibraryError: signatures cannot be checked here.
    """
    try:
        return {key.id: key for key in map(read_public, texts)}
    except KeyFormatError as error:
        raise FleetError(f"a key in [fleet] keys: {error}") from None


def prove(fleet: str, envelope: Envelope, keys: Iterable[str]) -> tuple[Manifest, str]:
    """Return the manifest of an envelope, and the text of the key that has signed it.

    Raises:
        FleetError: none of these keys has, or it is of another fleet.
        NoLibraryError: signatures cannot be checked here.
    """
    manifest = read_payload_of(fleet, envelope)
    key = signer(manifest, envelope, keys_of(keys))
    if key is None:
        raise FleetError(f"version {manifest.version} is signed by the key {envelope.key}, which is not listed")
    return manifest, key.text


def proven_files(
    folder: str,
    policy: Policy,
    listed: Iterable[str],
    before: FleetFiles | None,
    *,
    mends: bool,
) -> FleetFiles:
    """Read the policy in force; `listed` are the keys of [fleet].

    A key that was revoked since counts too, by which the policy was believed when it was applied: it stays in force.
    """
    assert policy.applied is not None
    try:
        bundle = read_payload(policy.applied).bundle
        path = document_of(folder, bundle)
        proof = (policy.applied, bundle, stamp(path))
        if before is not None and before.is_sound and before.proof == proof:  # it need not be read to be compared
            return read_fleet(before, before)
        return newly_proven(folder, policy.applied, {*listed, *filter(None, (policy.key,))}, proof, mends=mends)
    except (FleetError, NoLibraryError, UnsafeFileError, OSError) as error:
        fault = f"what is in force cannot be proven: {where_and_why(error)}"
        return FleetFiles(fault=fault, is_to_retry=is_passing(error))


def newly_proven(
    folder: str, applied: Envelope, keys: Iterable[str], proof: tuple[object, ...], *, mends: bool
) -> FleetFiles:
    manifest, _ = prove(read_payload(applied).fleet, applied, keys)
    data = read_safely(document_of(folder, manifest.bundle))
    bundle = read_bundle(data, manifest)
    files = msgspec.structs.replace(files_of(folder, manifest, bundle), proof=proof)
    seen = read_fleet(files, None)
    if seen.fault is None or not mends:
        return seen
    unpack(folder, manifest.bundle, data, bundle.files)
    return read_fleet(files, None)


def files_of(folder: str, manifest: Manifest, bundle: Bundle) -> FleetFiles:
    """Return what a bundle's files must be, before any of them is read."""
    pins = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(bundle.files.items())}
    return FleetFiles(root_of(folder, manifest.bundle), manifest.version, pins, bundle.suspendable)

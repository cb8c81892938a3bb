"""The proof that a policy on the disk is what the fleet's publisher signed.  Knows keys, manifests and files.

A policy that cannot be proven has a `fault`, and denies on every gate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from hooklatch.errors import locate_error
from hooklatch.fleet.bundles import Bundle, read_bundle
from hooklatch.fleet.host.policy_file import PolicyFile, policy_document_path, policy_root, unpack_bundle
from hooklatch.fleet.manifests import (
    FleetError,
    Manifest,
    SignedManifest,
    find_signer,
    read_manifest,
    read_payload,
)
from hooklatch.fleet.signing import KeyFormatError, NoLibraryError, PublicKey, read_public
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.path_lookup import is_passing, stamp_path
from hooklatch.service.loading.see import FleetFiles, read_fleet

__all__ = ["list_bundle_files", "index_keys", "prove_envelope", "read_proven_files"]


def index_keys(texts: Iterable[str]) -> dict[str, PublicKey]:
    """Return public keys by their id.

    Raises:
        FleetError: one of the texts is not a key.
        NoLibraryError: signatures cannot be checked here.
    """
    try:
        return {key.id: key for key in map(read_public, texts)}
    except KeyFormatError as error:
        raise FleetError(f"a key in [fleet] keys: {error}") from None


def prove_envelope(fleet: str, envelope: SignedManifest, keys: Iterable[str]) -> tuple[Manifest, str]:
    """Return the manifest of an envelope, and the text of the key that has signed it.

    Raises:
        FleetError: none of these keys has signed it, or it is of another fleet.
        NoLibraryError: signatures cannot be checked here.
    """
    manifest = read_manifest(fleet, envelope)
    key = find_signer(manifest, envelope, index_keys(keys))
    if key is None:
        raise FleetError(
            f"version {manifest.version} is signed by the key {envelope.key}, which [fleet] keys does not list"
        )
    return manifest, key.text


def read_proven_files(
    folder: str,
    policy: PolicyFile,
    listed: Iterable[str],
    before: FleetFiles | None,
    *,
    mends: bool,
) -> FleetFiles:
    """Read the active policy; `listed` are the keys of [fleet].

    The key by which the policy was believed when it was applied counts too, even if it was revoked since: to revoke a
    key must not deactivate guards.
    """
    assert policy.applied is not None
    try:
        bundle = read_payload(policy.applied).bundle
        path = policy_document_path(folder, bundle)
        proof = (policy.applied, bundle, stamp_path(path))
        if before is not None and before.is_sound and before.proof == proof:  # it need not be read to be compared
            return read_fleet(before, before)
        return prove_new_files(folder, policy.applied, {*listed, *filter(None, (policy.key,))}, proof, mends=mends)
    except (FleetError, NoLibraryError, UnsafeFileError, OSError) as error:
        fault = f"the active policy cannot be proven: {locate_error(error)}"
        return FleetFiles(fault=fault, is_to_retry=is_passing(error))


def prove_new_files(
    folder: str, applied: SignedManifest, keys: Iterable[str], proof: tuple[object, ...], *, mends: bool
) -> FleetFiles:
    manifest, _ = prove_envelope(read_payload(applied).fleet, applied, keys)
    data = read_safely(policy_document_path(folder, manifest.bundle))
    bundle = read_bundle(data, manifest)
    files = msgspec.structs.replace(list_bundle_files(folder, manifest, bundle), proof=proof)
    fleet_files = read_fleet(files, None)
    if fleet_files.fault is None or not mends:
        return fleet_files
    unpack_bundle(folder, manifest.bundle, data, bundle.files)
    return read_fleet(files, None)


def list_bundle_files(folder: str, manifest: Manifest, bundle: Bundle) -> FleetFiles:
    """Return the pins of a bundle's files, before any of them is read."""
    pins = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(bundle.files.items())}
    return FleetFiles(policy_root(folder, manifest.bundle), manifest.version, pins, bundle.suspendable)

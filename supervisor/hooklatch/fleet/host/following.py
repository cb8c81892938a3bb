"""The versions of the fleet's policy that were read, the one that this host wants, and the proof of the active one.

A policy on the disk that is not what the fleet's publisher signed has a `fault`, and denies on every gate.  Versions
that listed keys do not vouch for are a FleetError; a NoLibraryError says that signatures cannot be checked here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from hooklatch.errors import locate_error
from hooklatch.fleet.bundles import Bundle, read_bundle
from hooklatch.fleet.host.policy_file import PolicyFile, policy_document_path, policy_root, unpack_bundle
from hooklatch.fleet.manifests import (
    DEFAULT_POLICY,
    START,
    BundleVersion,
    FleetError,
    Manifest,
    SignedManifest,
    find_signer,
    read_envelope,
    read_manifest,
    read_payload,
    select_newest,
    verify_manifests,
)
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import KeyFormatError, NoLibraryError, PublicKey, read_public
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.path_lookup import is_passing, stamp_path
from hooklatch.service.loading.see import FleetFiles, read_fleet

__all__ = [
    "list_bundle_files", "index_keys", "prove_envelope", "read_proven_files", "advance_policy",
    "find_applied_version", "read_followed_policy", "describe_foreign_policy", "read_version",
]  # fmt: skip


def index_keys(texts: Iterable[str]) -> dict[str, PublicKey]:
    """Return public keys by their id."""
    try:
        return {key.id: key for key in map(read_public, texts)}
    except KeyFormatError as error:
        raise FleetError(f"a key in [fleet] keys: {error}") from None


def prove_envelope(fleet: str, envelope: SignedManifest, keys: Iterable[str]) -> tuple[Manifest, str]:
    """Return the manifest of an envelope, and the text of the key that has signed it."""
    manifest = read_manifest(fleet, envelope)
    key = find_signer(manifest, envelope, index_keys(keys))
    if key is None:
        raise FleetError(
            f"version {manifest.version} is signed by the key {envelope.key}, which [fleet] keys does not list"
        )
    return manifest, key.text


def read_proven_files(
    folder: str, policy: PolicyFile, listed: Iterable[str], before: FleetFiles | None, *, mends: bool
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


def read_followed_policy(settings: FleetSettings | None, policy: PolicyFile) -> PolicyFile:
    """Return the policy file of the fleet that is followed now.

    If [fleet] names another fleet, host or labels than before, nothing was read for them yet.  Then following begins at
    version 1, and the active policy stays until there is a newer version, or one of the other fleet.
    """
    if settings is None:
        return policy
    now = (settings.name, settings.host, settings.labels)
    if now == (policy.fleet, policy.host, policy.labels):
        return policy
    is_same = policy.fleet == settings.name
    return msgspec.structs.replace(
        policy, fleet=settings.name, host=settings.host, labels=settings.labels, head=START,
        wanted=policy.applied if is_same else None, may_go_back=policy.may_go_back or not is_same,
    )  # fmt: skip


def advance_policy(settings: FleetSettings, policy: PolicyFile, texts: Sequence[str]) -> PolicyFile:
    """Return the policy file once these manifests are read too; runs in a thread, since signatures take time."""
    envelopes = [read_envelope(text.encode("utf-8", "surrogatepass")) for text in texts]
    walked = verify_manifests(settings.name, policy.head, envelopes, index_keys(settings.keys))
    newest = select_newest(walked.manifests, settings.host, settings.labels).get(DEFAULT_POLICY)
    wanted = policy.wanted
    if newest is not None and (policy.may_go_back or newest.version > read_version(policy.applied)):
        wanted = envelopes[newest.version - policy.head.version - 1]
    # At the engine's head with nothing to apply: the operator's leave to go back was for this walk alone.
    is_done = not texts and wanted is not None and wanted == policy.applied
    may_go_back = policy.may_go_back and not is_done
    return msgspec.structs.replace(policy, head=walked.head, wanted=wanted, may_go_back=may_go_back)


def describe_foreign_policy(settings: FleetSettings | None, policy: PolicyFile) -> str | None:
    """Return how the active policy differs from what [fleet] says now, if it does."""
    applied = policy.applied
    if applied is None:
        return None
    if settings is None:
        return "[fleet] is gone from hooks.toml, and its policy stays active; to remove it: hooklatch reload"
    payload = read_payload(applied)
    if payload.fleet != settings.name:
        return f"the active policy is that of the fleet {payload.fleet!r}, until one of {settings.name!r} is applied"
    if policy.key not in settings.keys:
        return (
            f"the active version {payload.version} is signed by the key {applied.key}, which [fleet] keys does not list"
            " any more; it stays active until a newer version is applied"
        )
    return None


def find_applied_version(envelope: SignedManifest | None) -> BundleVersion | None:
    if envelope is None:
        return None
    manifest = read_payload(envelope)
    return BundleVersion(manifest.version, manifest.bundle)


def read_version(envelope: SignedManifest | None) -> int:
    return read_payload(envelope).version if envelope is not None else 0

"""The versions of the fleet's policies that were read, those that this host wants, and the proof of the active ones.

A policy on the disk that is not what the fleet's publisher signed has a `fault`, and denies on every gate.  Versions
that listed keys do not vouch for are a FleetError; a NoLibraryError says that signatures cannot be checked here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from hooklatch.core.hooks.builtin_sources import SHELL
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.errors import describe_error, locate_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.fleet.host.policy_file import (
    KeptPolicy,
    ObservingEnd,
    PolicyFile,
    policy_document_path,
    policy_root,
    unpack_bundle,
)
from hooklatch.fleet.manifests import (
    RESTORE,
    START,
    Bundle,
    BundleVersion,
    FleetError,
    Manifest,
    PolicyHead,
    SignedManifest,
    find_signer,
    index_keys,
    read_bundle,
    read_envelope,
    read_manifest,
    read_payload,
    select_newest,
    verify_manifests,
)
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.path_lookup import is_passing, stamp_path
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.loading import trust
from hooklatch.service.loading.see import (
    BundleFiles,
    find_outside_code,
    find_unpinned_python,
    is_declaring,
    mark_tampered,
    read_pinned_file,
)
from hooklatch.service.loading.sources import find_definition_target

__all__ = [
    "list_bundle_files", "prove_envelope", "read_proven_files", "advance_policy", "describe_lost_floor",
    "find_applied_policy", "find_applied_version", "list_anew", "list_foreign_policies", "read_followed_policy",
    "may_sign", "read_version", "find_fleet_misfit", "read_bundle_files", "add_known_ends",
]  # fmt: skip


def read_bundle_files(bundle: BundleFiles, before: BundleFiles | None) -> BundleFiles:
    """Read the files of a bundle if they are those that were signed. Unchanged ones are not read again."""
    stamps = trust.stamp_tree(bundle.root)
    if before is not None and before.is_sound and (before.pins, before.stamps) == (bundle.pins, stamps):
        return msgspec.structs.replace(bundle, stamps=stamps, files=before.files)
    try:
        fault = trust.compare_pinned_files(bundle.pins, trust.pin_below(bundle.root))
    except (UnsafeFileError, OSError) as error:
        fault = describe_error(error)
    if fault is None and stamps is None:
        fault = "it cannot be accessed"
    if fault is not None:
        return mark_tampered(bundle, fault)
    names = sorted(name for name in bundle.pins if "/" not in name and is_declaring(name))
    files = [read_pinned_file(bundle.root, name, bundle.pins[name], find_fleet_misfit) for name in names]
    return msgspec.structs.replace(bundle, stamps=stamps, files=files)


def find_fleet_misfit(root: str, config: FileConfig) -> Diagnostic | None:
    """Return the diagnostic of a bundle's file whose code may differ on a host, or which a host could hide."""
    standard = Catalogue.standard()
    for table in config.sources:
        if table.source.kind != "file":
            text = f"[[source]] names the module {table.source.location!r}, which no signature covers: use path"
            return Diagnostic(config.path, 0, text)
    for hook in config.hooks:
        source, _ = find_definition_target(hook, root)
        if source.kind != "file" and source != SHELL.source:
            text = (
                f"hook {hook.id!r}: its code is the module {source.location!r}, which no signature covers: use a file"
            )
            return Diagnostic(config.path, hook.line, text)
        if hook.plugin is not None:
            text = f"hook {hook.id!r}: a fleet's hook belongs to no plugin; remove plugin"
            return Diagnostic(config.path, hook.line, text)
        if hook.event not in standard:
            from hooklatch.dialects.find import describe_undefined_event  # only a mistake needs it

            text = f"hook {hook.id!r}: {describe_undefined_event(standard, hook.event)}"
            return Diagnostic(config.path, hook.line, text)
    return find_unpinned_python(config) or find_outside_code(root, config)


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
    folder: str, name: str, kept: KeptPolicy, listed: Iterable[str], before: BundleFiles | None, *, mends: bool
) -> BundleFiles:
    """Read the active version of a policy; `listed` are the keys of [fleet].

    The key by which it was believed when it was applied counts too, even if it was revoked since: to revoke a key must
    not deactivate guards.
    """
    assert kept.applied is not None
    try:
        bundle = read_payload(kept.applied).bundle
        path = policy_document_path(folder, bundle)
        proof = (kept.applied, bundle, stamp_path(path))
        if before is not None and before.is_sound and before.proof == proof:  # it need not be read to be compared
            return read_bundle_files(before, before)
        return prove_new_files(folder, kept.applied, {*listed, *filter(None, (kept.key,))}, proof, mends=mends)
    except (FleetError, NoLibraryError, UnsafeFileError, OSError) as error:
        fault = f"the active policy {name!r} cannot be proven: {locate_error(error)}"
        return BundleFiles(name, fault=fault, is_to_retry=is_passing(error))


def prove_new_files(
    folder: str, applied: SignedManifest, keys: Iterable[str], proof: tuple[object, ...], *, mends: bool
) -> BundleFiles:
    manifest, _ = prove_envelope(read_payload(applied).fleet, applied, keys)
    data = read_safely(policy_document_path(folder, manifest.bundle))
    bundle = read_bundle(data, manifest)
    files = msgspec.structs.replace(list_bundle_files(folder, manifest, bundle), proof=proof)
    read_files = read_bundle_files(files, None)
    if read_files.fault is None or not mends:
        return read_files
    unpack_bundle(folder, manifest.bundle, data, bundle.files)
    return read_bundle_files(files, None)


def list_bundle_files(folder: str, manifest: Manifest, bundle: Bundle) -> BundleFiles:
    """Return the pins of a bundle's files, before any of them is read."""
    pins = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(bundle.files.items())}
    root, until = policy_root(folder, manifest.bundle), manifest.observe_end
    return BundleFiles(manifest.policy, root, pins, bundle.suspendable, observe_until=until)


def read_followed_policy(settings: FleetSettings | None, policy: PolicyFile) -> PolicyFile:
    """Return the policy file of the fleet that is followed now.

    If [fleet] names another fleet, host or labels than before, nothing was read for them yet.  Then following begins at
    version 1, and the active policies stay until there are newer versions, or those of the other fleet.
    """
    if settings is None:
        return policy
    now = (settings.name, settings.host, settings.labels)
    if now == (policy.fleet, policy.host, policy.labels):
        return policy
    is_same = policy.fleet == settings.name
    return msgspec.structs.replace(
        policy, fleet=settings.name, host=settings.host, labels=settings.labels, head=START,
        policies=list_anew(settings, policy), floor=policy.floor if is_same else START,
        ends=policy.ends if is_same else {},
    )  # fmt: skip


def advance_policy(settings: FleetSettings, policy: PolicyFile, texts: Sequence[str]) -> PolicyFile:
    """Return the policy file once these manifests are read too; runs in a thread, since signatures take time.

    They follow the head, or begin with version 1 again and go further: so a history that gives up lost versions is
    read.  A head in a history that ends below the floor does not bind.
    """
    envelopes = [read_envelope(text.encode("utf-8", "surrogatepass")) for text in texts]
    head, policies, known, passed = policy.head, dict(policy.policies), [policy.floor], policy.passed
    if head.version > policy.floor.version:
        known.append(head)
    if len(envelopes) > head.version > 0 and read_payload(envelopes[0]).version == 1:
        head, policies = START, list_anew(settings, policy)
    if head == START:
        passed = {}
    # Those of the fleet's key set may sign versions, or without one those listed.
    keys = settings.key_set.index_policy_keys() if settings.key_set is not None else index_keys(settings.keys)
    walked = verify_manifests(settings.name, head, envelopes, keys, known)
    selected = select_newest(walked.manifests, settings.host, settings.labels)
    for name, manifest in selected.items():
        kept = policies.get(name, KeptPolicy())
        if manifest.version > (read_version(kept.applied) if is_own(settings, kept) else 0):
            envelope = envelopes[manifest.version - head.version - 1]
            policies[name] = msgspec.structs.replace(kept, wanted=envelope)
    ends = join_ends(policy.ends, list_ends(selected.values()))
    vouched = {manifest.version for manifest in walked.manifests}
    others = (manifest for manifest in map(read_payload, envelopes) if manifest.version not in vouched)
    newest = {name: of.version for name, of in select_newest(others, settings.host, settings.labels).items()}
    wanted = {name: read_version(kept.wanted) for name, kept in policies.items()}
    passed = {name: version for name, version in (passed | newest).items() if version > wanted.get(name, 0)}
    return msgspec.structs.replace(policy, head=walked.head, policies=policies, ends=ends, passed=passed)


def add_known_ends(policy: PolicyFile, witnessed: Mapping[str, ObservingEnd]) -> PolicyFile:
    """Return the policy file with the ends that it lacks: it may be an older copy, or of an older hooklatch."""
    wanted = [read_payload(kept.wanted) for kept in policy.policies.values() if kept.wanted is not None]
    return msgspec.structs.replace(policy, ends=join_ends(policy.ends, list_ends(wanted), witnessed))


def list_ends(versions: Iterable[Manifest]) -> dict[str, ObservingEnd]:
    return {manifest.policy: ObservingEnd(manifest.version, manifest.observe_end) for manifest in versions}


def join_ends(*several: Mapping[str, ObservingEnd]) -> dict[str, ObservingEnd]:
    """Return the end of the newest version of each policy."""
    joined: dict[str, ObservingEnd] = {}
    for name, end in (item for ends in several for item in ends.items()):
        if name not in joined or end.version > joined[name].version:
            joined[name] = end
    return joined


def list_anew(settings: FleetSettings, policy: PolicyFile) -> dict[str, KeptPolicy]:
    """Return what is kept of each policy when all is read anew: what is active, and wanted if it is this fleet's."""
    return {
        name: msgspec.structs.replace(kept, wanted=kept.applied if is_own(settings, kept) else None)
        for name, kept in policy.policies.items()
    }


def is_own(settings: FleetSettings, kept: KeptPolicy) -> bool:
    """Return whether an active version is one of this fleet; the numbers of another one say nothing here."""
    return kept.applied is not None and read_payload(kept.applied).fleet == settings.name


def describe_lost_floor(policy: PolicyFile) -> str | None:
    """Return why nothing is applied while the versions that were read end before one that was active."""
    if not 0 < policy.head.version < policy.floor.version:
        return None
    return (
        f"the engine's versions end at {policy.head.version}, and version {policy.floor.version} was in force here:"
        f" versions were lost, and nothing older is applied; {RESTORE}"
    )


def list_foreign_policies(settings: FleetSettings | None, policy: PolicyFile) -> Iterator[str]:
    """Yield how the active policies differ from what [fleet] says now."""
    if settings is None and policy.applied:
        yield "[fleet] is gone from hooks.toml, and its policy stays active; to remove it: hooklatch reload"
        return
    for name, kept in policy.policies.items():
        if settings is None or kept.applied is None:
            continue
        payload = read_payload(kept.applied)
        if payload.fleet != settings.name:
            until = f"until one of {settings.name!r} is applied"
            yield f"the active policy {name!r} is that of the fleet {payload.fleet!r}, {until}"
        elif not may_sign(settings, kept.key, name):
            yield (
                f"the active version {payload.version} is signed by the key {kept.applied.key}, which may not sign the"
                f" policy {name!r} any more, by [fleet] keys or the key set; it stays active until a newer version is"
                " applied"
            )
        elif not payload.rollout.includes(settings.host, settings.labels):
            yield (
                f"the active version {payload.version} of the policy {name!r} is not for this host any more, by labels;"
                " it stays active until a newer one is for it, or the host leaves the fleet"
            )

    for name, version in policy.passed.items() if settings is not None and settings.name == policy.fleet else ():
        yield (
            f"version {version} of the policy {name!r} is for this host, and the key that signed it may not sign it: it"
            " is passed over until a newer version of that policy is pushed"
        )


def may_sign(settings: FleetSettings, key: str, policy: str) -> bool:
    """Return whether a key may sign a policy now."""
    return key in settings.keys and (settings.key_set is None or settings.key_set.may_sign(key, policy))


def find_applied_version(envelope: SignedManifest | None) -> BundleVersion | None:
    if envelope is None:
        return None
    manifest = read_payload(envelope)
    return BundleVersion(manifest.version, manifest.bundle)


def read_version(envelope: SignedManifest | None) -> int:
    return read_payload(envelope).version if envelope is not None else 0


def find_applied_policy(settings: FleetSettings, policy: PolicyFile, name: str, kept: KeptPolicy) -> PolicyFile:
    """Return the policy file once a version of the policy `name` is applied, which may raise the floor.

    With the last wanted version all is known again, and another fleet's policies end.
    """
    assert kept.applied is not None
    applied = PolicyHead(read_version(kept.applied), kept.applied.digest)
    floor = max(policy.floor, applied, key=lambda head: head.version)
    policy = msgspec.structs.replace(policy, policies={**policy.policies, name: kept}, floor=floor)
    if not policy.is_complete:
        return policy
    ours = {name: kept for name, kept in policy.policies.items() if is_own(settings, kept)}
    return msgspec.structs.replace(policy, policies=ours, lost="")

"""The versions of the fleet's policy that were read, and the one that this host wants.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hooklatch.fleet.host.policy_file import PolicyFile
from hooklatch.fleet.host.proving import index_keys
from hooklatch.fleet.manifests import (
    START,
    SignedManifest,
    read_envelope,
    read_payload,
    select_newest,
    verify_manifests,
)
from hooklatch.fleet.settings import FleetSettings

if TYPE_CHECKING:
    from hooklatch.core.status_answers import AppliedBundle

__all__ = [
    "AppliedVersion", "advance_policy", "find_applied_version", "read_followed_policy",
    "describe_foreign_policy", "read_version",
]  # fmt: skip


class AppliedVersion(msgspec.Struct, frozen=True):
    """A version by its number and the sha256 of its bundle."""

    version: int
    bundle: str

    def describe(self) -> AppliedBundle:
        """Return it as answers report it."""
        return {"version": self.version, "bundle": self.bundle}


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
    """Return the policy file once the manifests of `texts` are read too; runs in a thread, since signatures take time.

    Raises:
        FleetError: they do not follow the head, or no listed key has signed them.
    """
    envelopes = [read_envelope(text.encode("utf-8", "surrogatepass")) for text in texts]
    walked = verify_manifests(settings.name, policy.head, envelopes, index_keys(settings.keys))
    newest = select_newest(walked.manifests, settings.host, settings.labels)
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


def find_applied_version(envelope: SignedManifest | None) -> AppliedVersion | None:
    if envelope is None:
        return None
    manifest = read_payload(envelope)
    return AppliedVersion(manifest.version, manifest.bundle)


def read_version(envelope: SignedManifest | None) -> int:
    return read_payload(envelope).version if envelope is not None else 0

"""The files of a fleet's policies on a host.  Knows paths and bytes, and verifies no signature.

    STATE/fleet/policy.json     the newest version that was read; of each policy the wanted one, the active one
    STATE/fleet/versions.jsonl  all versions that were read: see `fleet/version_copies.py`
    STATE/fleet/SHA256.json     a bundle, byte for byte as it was published
    STATE/fleet/SHA256/         its files, from which workers load

Each is written under a temporary name, synced and renamed: after a crash there is the old file or the new one.
Writers raise OSError if a change is not on the disk, and UnsafeFileError where another user could write too.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Literal

import msgspec

from hooklatch.directories import replace_file, sync_folder
from hooklatch.errors import explain_error
from hooklatch.file_safety import UnsafeFileError, make_private, read_safely
from hooklatch.files import create_anew
from hooklatch.fleet.manifests import START, FleetError, PolicyHead, SignedManifest, read_payload
from hooklatch.fleet.version_copies import COPIES
from hooklatch.path_lookup import PathAbsent, PathFault, is_passing, look_up_path
from hooklatch_worker.systems.disks import sync_all

__all__ = [
    "KeptPolicy", "ObservingEnd", "PolicyFile", "PolicyFloor", "UnreadablePolicyError", "clean_bundles",
    "policy_document_path", "policy_root", "read_policy", "remove_policy", "unpack_bundle", "write_policy",
]  # fmt: skip

NAME = "policy.json"
BUNDLE = re.compile(r"([0-9a-f]{64})(?:\.json)?(?:\.new|\.old)?")


class UnreadablePolicyError(Exception):
    """It is unknown which policy was active.  The text says why, and `is_passing` that a later try may succeed."""

    def __init__(self, text: str, *, is_passing: bool) -> None:
        super().__init__(text)
        self.is_passing = is_passing


class KeptPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy's wanted and active version, as they were signed, and the key by which `applied` was believed."""

    wanted: SignedManifest | None = None
    applied: SignedManifest | None = None
    key: str = ""


class ObservingEnd(msgspec.Struct, frozen=True):
    """The newest version of a policy that was ever wanted here, and the moment until which it observes at most."""

    version: int
    until: float


class PolicyFloor(PolicyHead, frozen=True):
    """The part of `PolicyFile` that the state file keeps: its `floor`, and its `ends`."""

    ends: dict[str, ObservingEnd] = msgspec.field(default_factory=dict[str, ObservingEnd])


class PolicyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of policy.json.

    `policies` are those that were read, by name, and `host` and `labels` those for which their `wanted` were found.
    `lost` says why it is unknown what was applied; then every gate denies.  `floor` is the newest version that was ever
    active: a history without it is not followed.  `ends` are a floor too, by policy: no older version observes longer.
    `passed` are the newest versions, by policy, that are for this host and that no key which may sign them has signed.
    """

    version: Literal[2] = 2  # of this file's form
    fleet: str = ""
    host: str = ""
    labels: tuple[str, ...] = ()
    head: PolicyHead = START
    policies: dict[str, KeptPolicy] = {}
    lost: str = ""
    floor: PolicyHead = START
    ends: dict[str, ObservingEnd] = {}
    passed: dict[str, int] = {}

    @property
    def applied(self) -> list[SignedManifest]:
        """Return the active version of each policy that has one."""
        return [kept.applied for kept in self.policies.values() if kept.applied is not None]

    @property
    def is_complete(self) -> bool:
        """Return whether each wanted version was applied."""
        return all(kept.wanted in (None, kept.applied) for kept in self.policies.values())

    def reach(self, fleet: str) -> int:
        """Return the newest version of a fleet that was ever active, by this file."""
        active = [payload.version for payload in map(read_payload, self.applied) if payload.fleet == fleet]
        return max(self.floor.version if self.fleet == fleet else 0, *active, 0)

    def envelopes(self) -> Iterator[SignedManifest]:
        """Yield the wanted and the active version of each policy."""
        for kept in self.policies.values():
            yield from (envelope for envelope in (kept.wanted, kept.applied) if envelope is not None)


def read_policy(folder: str) -> PolicyFile | None:
    """Read policy.json; None if it does not exist.

    Raises:
        UnreadablePolicyError: it may exist, and cannot be read.
    """
    path = os.path.join(folder, NAME)
    entry = look_up_path(path)
    if isinstance(entry, PathAbsent):
        return None
    if isinstance(entry, PathFault):
        raise UnreadablePolicyError(entry.reason, is_passing=entry.is_passing)
    try:
        policy = msgspec.json.decode(read_safely(path), type=PolicyFile)
        for name, kept in policy.policies.items():
            for envelope in filter(None, (kept.wanted, kept.applied)):
                # Also to see that it can be read: later code reads it without a handler.
                if read_payload(envelope).policy != name:
                    raise FleetError(f"a version of another policy is kept as one of {name!r}")
        return policy
    except (UnsafeFileError, OSError, msgspec.MsgspecError, UnicodeError, RecursionError, FleetError) as error:
        raise UnreadablePolicyError(f"{path}: {explain_error(error)}", is_passing=is_passing(error)) from None


def write_policy(folder: str, policy: PolicyFile) -> None:
    """Write policy.json."""
    make_private(folder)
    replace_file(os.path.join(folder, NAME), msgspec.json.encode(policy))


def remove_policy(folder: str) -> None:
    """Remove policy.json, and the copies of versions and key sets."""
    for name in (NAME, *COPIES):
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            os.unlink(path)
            sync_folder(folder)


def policy_document_path(folder: str, digest: str) -> str:
    return os.path.join(folder, f"{digest}.json")


def policy_root(folder: str, digest: str) -> str:
    return os.path.join(folder, digest)


def unpack_bundle(folder: str, digest: str, data: bytes, files: Mapping[str, bytes]) -> None:
    """Write a bundle's document and its files; `digest` is the document's sha256."""
    make_private(folder)
    root, document = policy_root(folder, digest), policy_document_path(folder, digest)
    new, old = f"{root}.new", f"{root}.old"
    try:
        replace_file(document, data)
        write_files(new, files)
        remove_tree(old)
        if os.path.lexists(root):
            os.rename(root, old)
        os.rename(new, root)
        sync_folder(folder)
        remove_tree(old)
    except OSError:  # most likely a full disk: give back the room
        for path in (new, document) if not os.path.lexists(root) else (new,):
            with suppress(OSError):
                remove_tree(path)
        raise


def write_files(root: str, files: Mapping[str, bytes]) -> None:
    remove_tree(root)
    os.mkdir(root, 0o700)
    folders = {root}
    for name, content in files.items():
        below = root
        for part in name.split("/")[:-1]:
            below = os.path.join(below, part)
            if below not in folders:
                os.mkdir(below, 0o700)
                folders.add(below)
        with os.fdopen(create_anew(os.path.join(root, name)), "wb") as file:
            os.fchmod(file.fileno(), 0o400)  # a bundle is never edited, only replaced as a whole
            file.write(content)
            file.flush()
            sync_all(file.fileno())
    for folder in folders:
        sync_folder(folder)


def clean_bundles(folder: str, keep: Collection[str], is_used: Callable[[str], bool]) -> None:
    """Remove half-written files of a crash, and the bundles whose digest is not in `keep` and whose root is unused."""
    try:
        names = os.listdir(folder)
    except OSError:
        return  # there is no folder, or it cannot be listed: then nothing can be removed
    for name in names:
        match = BUNDLE.fullmatch(name)
        is_half = name.endswith((".new", ".old"))
        if match is not None and (is_half or (match[1] not in keep and not is_used(policy_root(folder, match[1])))):
            remove_tree(os.path.join(folder, name))


def remove_tree(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)

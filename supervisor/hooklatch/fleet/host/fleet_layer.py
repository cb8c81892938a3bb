"""The fleet's policies on this host: the active version of each, and how a newer one becomes active.

Knows manifests, bundles and their files; does not know who brings them, nor how hooks are made.  The active policy was
signed by a key of [fleet] when it was applied, and is verified again at each start:

    follow(manifests) ─▶ verified ─▶ kept ─▶ wanted      apply(bundle) ─▶ unpacked, built ─▶ kept ─▶ active
         └─ does not follow the head: refused                  └─ anything wrong in it: refused, the last one stays

    at a start: kept ─▶ signature ─▶ bundle's sha256 ─▶ each file's sha256 ─▶ active
                  └────────┴────────────┴────────────────┴─ unknown: every gate denies

All policies hold together.  Unknown is never "no policy".  The name of the fleet whose policies are active is in the
state file too, so that the loss of the folder is noticed.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.errors import explain_error
from hooklatch.file_safety import UnsafeFileError
from hooklatch.fleet.host.following import (
    add_known_ends,
    advance_policy,
    describe_lost_floor,
    find_applied_policy,
    find_applied_version,
    list_anew,
    list_bundle_files,
    list_foreign_policies,
    may_sign,
    prove_envelope,
    read_bundle_files,
    read_followed_policy,
    read_proven_files,
    read_version,
)
from hooklatch.fleet.host.policy_file import (
    KeptPolicy,
    PolicyFile,
    PolicyFloor,
    UnreadablePolicyError,
    clean_bundles,
    read_policy,
    remove_policy,
    unpack_bundle,
    write_policy,
)
from hooklatch.fleet.manifests import (
    START,
    BundleVersion,
    FleetError,
    Manifest,
    PolicyHead,
    PolicyVersions,
    read_bundle,
    read_envelope,
    read_payload,
)
from hooklatch.fleet.roles import format_moment
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.fleet.version_copies import keep_versions
from hooklatch.service.api.methods import PolicyRejectedError
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.loading.bundle import BundleCandidate, BundleError
from hooklatch.service.loading.see import BundleFiles, FleetFiles
from hooklatch.threads import in_thread

__all__ = ["FleetLayer"]

logger = logging.getLogger("hooklatch.fleet")
RESET = "run: hooklatch fleet reset, so that the link brings the policy again"
Note = Callable[[str, dict[str, Any]], None]
FindDenial = Callable[[], str | None]  # why a host denies every gate, if it does
FindTime = Callable[[], float | None]  # the time that it is at least, if a signed moment vouches for that


class FleetLayer:
    """The fleet's policies: the active and the wanted version of each, and those that were read."""

    def __init__(
        self, state: StateFile, note: Note, faults: ActiveFaults, find_denial: FindDenial, find_time: FindTime
    ) -> None:
        self.folder = os.path.join(os.path.dirname(state.path), "fleet")
        self.settings: FleetSettings | None = None
        self.policy = PolicyFile()
        self._fault: str | None = None  # the reason why it is unknown which policy was active
        self._is_to_retry = False  # the fault may end by itself
        self._refused: dict[str, str] = {}  # the reasons why the last manifests, and the last bundle, were rejected
        self._state = state
        self._note = note
        self._faults = faults
        self._find_denial = find_denial
        self._find_time = find_time
        self._active_files: FleetFiles | None = None  # from which the present hooks were made
        self._lock = trio.Lock()

    # -- the active policy --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read policy.json, without verifying it yet."""
        self._fault, self._is_to_retry = None, False
        try:
            stored = read_policy(self.folder)
        except UnreadablePolicyError as error:
            self._is_to_retry = error.is_passing
            self._fault = f"{error}; fix it, then: hooklatch reload; or {RESET}"
        else:
            known, policy, witnessed = self._state.state.fleet, stored or PolicyFile(), self._witnessed_floor()
            # Not only a missing file: one restored from a copy may be from before the first version was applied.
            if known and not policy.applied and not policy.lost:
                what = f"{self.folder} has no policy any more, and one of the fleet {known!r} was active"
                self._fault = f"{what}; {RESET}"
            elif known and policy.reach(known) < (newest := witnessed.version):
                what = f"{self.folder} is an older copy: it is from before version {newest}, which was active"
                self._fault = f"{what}; {RESET}"
            else:
                self.policy = add_known_ends(policy, witnessed.ends if known == policy.fleet else {})
        self._report()

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        """Return a function that reads the active policies, for a thread; `mends`: it writes changed files again."""
        if self._fault is not None:
            self.load()
        fault = self._fault or self.policy.lost
        unknown = [BundleFiles(fault=fault, is_to_retry=self._is_to_retry)] if fault else []
        known = {bundle.policy: bundle for bundle in before.bundles} if before is not None else {}
        # Bound now: the thread must not see a later policy, nor later keys.
        proofs = [
            partial(read_proven_files, self.folder, name, kept, self._list_keys(kept), known.get(name), mends=mends)
            for name, kept in sorted(self.policy.policies.items())
            if kept.applied is not None and self._fault is None
        ]
        return lambda: FleetFiles((*unknown, *(prove() for prove in proofs)))

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        """Return the files of which hooks are to be made: with the denial of every gate, and what only observes now."""
        files = files or FleetFiles()
        bundles = tuple(msgspec.structs.replace(each, observes=self._find_end(each)) for each in files.bundles)
        return msgspec.structs.replace(files, bundles=bundles, denies=self._find_denial())

    def _find_end(self, bundle: BundleFiles) -> float:
        """Return until when the hooks of a bundle only observe; 0 if they do not now.

        To observe takes a signed word of its version and of the one that is wanted, since that may be another one that
        could not be applied; none of a newer version that was ever wanted; a key that may still sign it; and a signed
        moment, so that a clock cannot prolong it.
        """
        now, settings, followed = self._find_time(), self.settings, self.followed
        kept, newest = followed.policies.get(bundle.policy), followed.ends.get(bundle.policy)
        if now is None or settings is None or kept is None or kept.wanted is None:
            return 0.0
        wanted, is_listed = read_payload(kept.wanted), may_sign(settings, kept.key, bundle.policy)
        end = min(bundle.observe_until, wanted.observe_end, newest.until if newest is not None else math.inf)
        may_observe = wanted.may_observe(now) and now < end
        return end if wanted.fleet == settings.name and may_observe and (is_listed or kept.applied is None) else 0.0

    def find_observing(self) -> dict[str, float]:
        """Return the policies that are to observe only, and until when, by the time that it is now."""
        bundles = self._active_files.bundles if self._active_files is not None else ()
        return {each.policy: end for each in bundles if each.is_sound and (end := self._find_end(each))}

    @property
    def observing(self) -> dict[str, float]:
        """Return the policies that only observe, and until when, by the hooks that are active."""
        bundles = self._active_files.bundles if self._active_files is not None else ()
        return {each.policy: each.observes for each in bundles if each.is_sound and each.observes}

    def record_active(self, files: FleetFiles | None) -> None:
        """Note the files of which the present hooks are made."""
        self._active_files = files
        self._witness()

    def _witness(self) -> None:
        """Have the state file know the fleet and the floor, too."""
        if self._fault is None and self.policy.applied:
            self._state.state.fleet = read_payload(self.policy.applied[0]).fleet
            floor = PolicyFloor(self.policy.floor.version, self.policy.floor.digest, self.policy.ends)
            self._state.state.fleet_floor = msgspec.to_builtins(floor)

    def _witnessed_floor(self) -> PolicyFloor:
        """Return the floor that the state file has; it is not replaced by an older one unnoticed."""
        try:
            return msgspec.convert(self._state.state.fleet_floor or {}, PolicyFloor)
        except msgspec.ValidationError:  # in a state that was edited, and that the operator has accepted as it is
            return PolicyFloor()

    def _list_keys(self, kept: KeptPolicy) -> tuple[str, ...]:
        """Return the trusted keys.  Without [fleet] that is the last one, which was not revoked."""
        return self.settings.keys if self.settings is not None else (kept.key,)

    @property
    def versions(self) -> dict[str, PolicyVersions]:
        """Return the wanted and the active version of each policy.

        One whose files cannot be read, or are not those that were signed, denies, and is not active.
        """
        bundles = self._active_files.bundles if self._active_files is not None else ()
        unsound = {bundle.policy for bundle in bundles if not bundle.is_sound}
        found: dict[str, PolicyVersions] = {}
        ends = self.observing
        for name, kept in sorted(self.followed.policies.items()):
            is_active = self._fault is None and name not in unsound
            found[name] = PolicyVersions(
                find_applied_version(kept.wanted), find_applied_version(kept.applied) if is_active else None,
                format_moment(ends[name]) if name in ends else "",
            )  # fmt: skip
        return found

    @property
    def denies(self) -> str | None:
        """Return why this host denies every gate now, if it does, besides what its policy says."""
        return self._active_files.denies if self._active_files is not None else None

    @property
    def is_current(self) -> bool:
        """Return whether the version that this host should have, by all that it has read, is active.

        False if no version was read, or not all up to the floor: an engine that lost some says nothing of the policy.
        """
        is_whole = self.followed.head.version >= max(self.followed.floor.version, 1)
        return is_whole and all(of.wanted in (None, of.applied) for of in self.versions.values())

    @property
    def has_policy(self) -> bool:
        """Return whether a version was proven here, be it that it cannot be proven any more, which denies by itself."""
        return self._fault is not None or self.policy.lost != "" or self.policy.applied != []

    @property
    def has_missing_policy(self) -> bool:
        """Return whether a policy is meant for this host of which it never had a version."""
        return any(kept.wanted is not None and kept.applied is None for kept in self.followed.policies.values())

    @property
    def problems(self) -> list[str]:
        """Return all problems of the policy, with their remedies."""
        lost = (self._fault or self.policy.lost, describe_lost_floor(self.followed))
        foreign = list_foreign_policies(self.settings, self.policy)
        return [text for text in (*lost, *self._refused.values(), *foreign) if text]

    # -- following ---------------------------------------------------------------------------------------------------

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table."""
        self.settings = settings
        self._report()

    async def follow(self, texts: Sequence[str]) -> None:
        """Read manifests that follow the head.

        Raises:
            PolicyRejectedError: they do not follow it, or no listed key has signed them; the head stays the same.
        """
        async with self._lock:
            with self._refusing("manifests", "", {"head": self.followed.head.version}):
                settings, policy = self._configured(), self.followed
                policy = await in_thread(advance_policy, settings, policy, texts)
                if policy != self.policy:
                    await in_thread(keep_versions, self.folder, map(read_envelope, map(str.encode, texts)))
                    has_new_ends = policy.ends != self.policy.ends
                    await self._keep(policy)
                    if has_new_ends:
                        self._witness()
                        await self._state.store()

    @contextmanager
    def _refusing(self, subject: str, prefix: str, fields: dict[str, Any]) -> Generator[None]:
        """Record what is refused in the block, and raise it as PolicyRejectedError."""
        try:
            yield
        except (FleetError, NoLibraryError, BundleError, UnsafeFileError, OSError) as error:
            text = self._format_error(error)
            problem = f"{prefix}{text}"
            if self._refused.get(subject) != problem:  # once, although the link tries again and again
                self._refused[subject] = problem
                self._report()
                self._note_action("refused", {"problem": problem, **fields})
            raise PolicyRejectedError(text) from None
        self._refused.pop(subject, None)
        self._report()

    @property
    def followed(self) -> PolicyFile:
        """Return what was read, is wanted and is active of the fleet that is followed now."""
        return read_followed_policy(self.settings, self.policy)

    def _configured(self) -> FleetSettings:
        if self.settings is None:
            raise FleetError("this host is in no fleet: its hooks.toml has no [fleet]")
        if self._fault is not None:
            raise FleetError(self._fault)
        return self.settings

    # -- applying ----------------------------------------------------------------------------------------------------

    async def apply(
        self, version: int, data: bytes, swap: Callable[[BundleCandidate], Awaitable[object]]
    ) -> BundleVersion:
        """Activate the wanted version: `swap` builds it and commits it as a whole.

        Raises:
            PolicyRejectedError: it is not the wanted version, or something in it is wrong; the active one stays.
        """
        async with self._lock:
            with self._refusing("bundle", f"version {version} is not applied: ", {"version": version}):
                return await self._apply(version, data, swap)

    async def _apply(
        self, version: int, data: bytes, swap: Callable[[BundleCandidate], Awaitable[object]]
    ) -> BundleVersion:
        settings, policy = self._configured(), self.followed
        wants = {read_version(kept.wanted): kept.wanted for kept in policy.policies.values()}
        envelope = wants.get(version)
        if envelope is None:
            choice = " and ".join(f"version {number}" for number in sorted(wants) if number) or "none"
            raise FleetError(f"this host wants {choice}, not version {version}: follow the manifests first")
        if (problem := describe_lost_floor(policy)) is not None:
            raise FleetError(problem)
        manifest, key = prove_envelope(settings.name, envelope, settings.keys)
        if not may_sign(settings, key, manifest.policy):
            raise FleetError(f"the key {envelope.key} may not sign the policy {manifest.policy!r} any more")
        name, wanted = manifest.policy, BundleVersion(version, manifest.bundle)
        if self.versions[name].applied == wanted and policy.policies[name].applied == envelope:
            return wanted
        files = await in_thread(self._unpack, manifest, data)
        applied = find_applied_policy(settings, policy, name, KeptPolicy(envelope, envelope, key))
        before = self.policy.policies.get(name, KeptPolicy())
        fields = {
            "version": version, "bundle": manifest.bundle, "policy": name, "previous": read_version(before.applied)
        }  # fmt: skip

        def join(seen: FleetFiles | None) -> FleetFiles:
            others = [bundle for bundle in (seen.bundles if seen is not None else ()) if bundle.policy != name]
            kept = [bundle for bundle in others if bundle.policy in applied.policies]
            unknown = [BundleFiles(fault=applied.lost)] if applied.lost else []
            return FleetFiles((*unknown, *sorted([*kept, files], key=lambda bundle: bundle.policy)))

        async def keep() -> None:
            if self.settings != settings:  # a key may have been revoked while it was built
                raise FleetError("[fleet] has changed while it was built; it is tried again")
            await self._keep(applied)
            self._note_action("applied", fields)  # not earlier: from here on nothing can reject it

        await swap(BundleCandidate(files.root, join, keep))
        return wanted

    def _unpack(self, manifest: Manifest, data: bytes) -> BundleFiles:
        bundle = read_bundle(data, manifest)
        unpack_bundle(self.folder, manifest.bundle, data, bundle.files)
        return read_bundle_files(list_bundle_files(self.folder, manifest, bundle), None)

    async def clean(self, is_used: Callable[[str], bool]) -> None:
        """Remove the bundles that are not active, not wanted, and not used by workers of fires that still run."""
        async with self._lock:
            if self._fault is not None:  # it is unknown which of them was active
                return
            envelopes = [*self.policy.envelopes(), *self.followed.envelopes()]
            needed = {read_payload(envelope).bundle for envelope in envelopes}
            await in_thread(clean_bundles, self.folder, needed, is_used)

    # -- operations ---------------------------------------------------------------------------------------------------

    async def reset(self, reason: str) -> None:
        """Forget which versions were read, so that the host follows from version 1 again.

        The active policy stays, and the floor: no history without the newest version that was active is followed.

        Raises:
            PolicyRejectedError: policy.json could not be written.
        """
        async with self._lock:
            settings, policy = self.settings, self.policy
            if settings is None:
                raise PolicyRejectedError("this host is in no fleet: its hooks.toml has no [fleet]")
            if self._fault is not None:
                why = f"the active policy is unknown since a reset ({reason})"
                lost = f"{why}: every gate denies until the link brings it"
                floor = self._witnessed_floor() if self._state.state.fleet == settings.name else PolicyFloor()
                policy = PolicyFile(
                    fleet=settings.name, host=settings.host, labels=settings.labels, lost=lost, ends=floor.ends,
                    floor=PolicyHead(floor.version, floor.digest),
                )  # fmt: skip
            policy = msgspec.structs.replace(policy, head=START, policies=list_anew(settings, policy))
            try:
                await self._keep(policy)
            except (UnsafeFileError, OSError) as error:
                raise PolicyRejectedError(self._format_error(error)) from None
            self._fault = None
            self._refused.clear()
            self._report()
            self._note_action("reset", {"reason": reason})

    async def leave(self) -> bool:
        """Drop the policy if [fleet] is gone, which the operator has just accepted; return whether there was a policy.

        Raises:
            PolicyRejectedError: the policy could not be removed, and stays active.
        """
        async with self._lock:
            is_kept = self._fault is not None or self.policy != PolicyFile()
            if self.settings is not None or not is_kept:
                return False
            fleet = self.policy.fleet or self._state.state.fleet
            with trio.CancelScope(shield=True):
                # Before the first checkpoint: a reload during it would record that the policy is active.
                self.policy, self._fault = PolicyFile(), None
                self._state.state.fleet, self._state.state.fleet_floor = "", None
                await self._state.store()
                try:
                    await in_thread(remove_policy, self.folder)
                except OSError as error:
                    self.load()
                    raise PolicyRejectedError(
                        f"the policy of the fleet {fleet!r} could not be removed: {explain_error(error)}"
                    ) from None
            self._refused.clear()
            self._report()
            self._note_action("left", {"fleet": fleet})
            return True

    def record_attempt(self, operation: str, hook: str) -> None:
        """Record that an operation was tried on a hook of the fleet, which does not allow it."""
        self._note_action("attempt", {"why": operation, "hook": hook})

    # -- the file and the notes ---------------------------------------------------------------------------------------

    async def _keep(self, policy: PolicyFile) -> None:
        with trio.CancelScope(shield=True):  # a cancelled client must not leave the disk and this object different
            await in_thread(write_policy, self.folder, policy)
            self.policy = policy

    def _format_error(self, error: Exception) -> str:
        if not isinstance(error, OSError):
            return str(error)
        where = f"it cannot be written to {error.filename or self.folder}"
        return f"{where}: {explain_error(error)}; fix that, and it is tried again"

    def _report(self) -> None:
        self._faults.report("fleet", *self.problems)

    def _note_action(self, action: str, fields: dict[str, Any]) -> None:
        name = self.settings.name if self.settings is not None else self.policy.fleet
        note = {"action": action, "fleet": name, **fields}
        logger.warning("fleet: %s", action, extra={key: value for key, value in note.items() if key != "action"})
        self._note("fleet", note)

"""The fleet's policy on this host: takes what is newer, and says what is in force (`following` says what is wanted).

Knows manifests, bundles and where they are kept; does not know who brings them, nor how hooks are made.  What is in
force was signed by a key of [fleet] when it was applied, and is checked again at each start:

    follow(manifests) ─▶ walk ─▶ kept ─▶ wanted          apply(bundle) ─▶ unpacked, built ─▶ kept ─▶ in force
         └─ not what follows the head: refused                 └─ anything wrong in it: refused, the last one stays

    at a start: kept ─▶ signature ─▶ bundle's sha256 ─▶ each file's sha256 ─▶ in force
                  └────────┴────────────┴────────────────┴─ unknown: every gate denies

Unknown is never "no policy".  The name of the fleet whose policy is in force is in the state file too, so that a folder
that is gone is noticed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.errors import explain_error
from hooklatch.fleet.policy.bundles import read_bundle
from hooklatch.fleet.policy.manifests import (
    START,
    FleetError,
    Manifest,
    PolicyHead,
    read_payload,
)
from hooklatch.fleet.policy.settings import FleetSettings
from hooklatch.fleet.policy.signing import NoLibraryError
from hooklatch.service.config.file_safety import UnsafeFileError
from hooklatch.service.config.state_file import StateFile
from hooklatch.service.fleet.following import (
    AppliedVersion,
    advance_policy,
    describe_foreign_policy,
    find_applied_version,
    read_followed_policy,
    read_version,
)
from hooklatch.service.fleet.policy_file import (
    PolicyFile,
    UnreadablePolicyError,
    clean_bundles,
    read_policy,
    remove_policy,
    unpack_bundle,
    write_policy,
)
from hooklatch.service.fleet.proving import list_bundle_files, prove_envelope, read_proven_files
from hooklatch.service.loading.bundle import BundleCandidate, BundleError
from hooklatch.service.reading.declared_files import FleetFiles, read_fleet

__all__ = ["FleetLayer", "PolicyRejectedError"]

logger = logging.getLogger("hooklatch.fleet")
RESET = "run: hooklatch fleet reset, so that the link brings the policy again"
Note = Callable[[str, dict[str, Any]], None]


class PolicyRejectedError(Exception):
    """What was brought is not taken, and what was in force still is; the text says why."""


class FleetLayer:
    """Says what of the fleet's policy is in force, and takes what is newer."""

    def __init__(self, state: StateFile, note: Note, faults: ActiveFaults, denial: Callable[[], str | None]) -> None:
        self.folder = os.path.join(os.path.dirname(state.path), "fleet")
        self.settings: FleetSettings | None = state.state.settings.fleet
        self.policy = PolicyFile()
        self._fault: str | None = None  # why it is unknown what was in force
        self._is_to_retry = False  # that may go away by itself
        self._refused: dict[str, str] = {}  # why the last manifests, and the last bundle, were not taken
        self._state = state
        self._note = note
        self._faults = faults
        self._denial = denial  # why every gate is to be denied besides what the policy says, if it is
        self._seen: FleetFiles | None = None  # what was read last
        self._lock = trio.Lock()

    # -- what is in force --------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read what is kept, without believing it yet."""
        self._fault, self._is_to_retry = None, False
        try:
            found = read_policy(self.folder)
        except UnreadablePolicyError as error:
            self._is_to_retry = error.is_passing
            self._fault = f"{error}; fix it, then: hooklatch reload; or {RESET}"
        else:
            known, policy = self._state.state.fleet, found or PolicyFile()
            # An older copy of the file may be of before anything was applied.
            if known and policy.applied is None and not policy.lost:
                self._fault = (
                    f"{self.folder} has no policy any more, and one of the fleet {known!r} was in force; {RESET}"
                )
            else:
                self.policy = policy
        self._report()

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        """Return how to read what is in force, in a thread; `mends`: what is not what was signed is written anew."""
        if self._fault is not None:
            self.load()
        policy = self.policy
        if (fault := self._fault or policy.lost or None) is not None:
            unknown = FleetFiles(fault=fault, is_to_retry=self._is_to_retry)
            return lambda: unknown
        if policy.applied is None:
            return lambda: None
        return partial(read_proven_files, self.folder, policy, self._keys(), before, mends=mends)

    def denied(self, files: FleetFiles | None) -> FleetFiles | None:
        """Return what hooks are to be made of as of now: with or without the denial of every gate."""
        denies = self._denial()
        if files is None:
            return FleetFiles(denies=denies) if denies is not None else None
        return msgspec.structs.replace(files, denies=denies)

    def took(self, files: FleetFiles | None) -> None:
        """Note what hooks are made of from now on."""
        self._seen = files
        if self._fault is None and self.policy.applied is not None:
            self._state.state.fleet = read_payload(self.policy.applied).fleet

    def _keys(self) -> tuple[str, ...]:
        """Return the keys that are believed.  Without [fleet] nobody has revoked the one that was."""
        return self.settings.keys if self.settings is not None else (self.policy.key,)

    @property
    def applied(self) -> AppliedVersion | None:
        """Return which version is in force; None if there is none, or if that is unknown."""
        return find_applied_version(self.policy.applied) if self._fault is None and not self.policy.lost else None

    @property
    def in_force(self) -> AppliedVersion | None:
        """Return `applied`, unless it denies because its files cannot be read, or are not what was signed."""
        has_fault = self._seen is not None and not self._seen.is_sound
        return None if has_fault else self.applied

    @property
    def denies(self) -> str | None:
        """Return why every gate is denied now besides what the policy says, if it is."""
        return self._seen.denies if self._seen is not None else None

    @property
    def is_current(self) -> bool:
        """Return whether what this host should have, as far as it has read, is in force.

        Not where no version was read: an engine that lost them all, or was never given one, says nothing of the policy.
        """
        return self.head.version > 0 and (self.wanted is None or self.in_force == self.wanted)

    @property
    def wanted(self) -> AppliedVersion | None:
        """Return which version this host should have."""
        return find_applied_version(self._followed().wanted)

    @property
    def head(self) -> PolicyHead:
        """Return the newest version that was read."""
        return self._followed().head

    @property
    def problems(self) -> list[str]:
        """Return all that is wrong with it, and what to do."""
        found = [
            self._fault or self.policy.lost,
            *self._refused.values(),
            describe_foreign_policy(self.settings, self.policy),
        ]
        return [text for text in found if text]

    # -- following ---------------------------------------------------------------------------------------------------

    def take(self, settings: FleetSettings | None) -> None:
        """Take what [fleet] says now."""
        self.settings = settings
        self._report()

    async def follow(self, texts: Sequence[str]) -> None:
        """Read manifests that follow the head.

        Raises:
            RefusedError: they do not, or a listed key has not signed them; the head stays where it is.
        """
        async with self._lock:
            try:
                await self._follow(texts)
            except (FleetError, NoLibraryError, UnsafeFileError, OSError) as error:
                text = self._text_of(error)
                self._refuse("manifests", text, {"head": self.head.version})
                raise PolicyRejectedError(text) from None
            self._refused.pop("manifests", None)
            self._report()

    async def _follow(self, texts: Sequence[str]) -> None:
        settings, policy = self._configured(), self._followed()
        policy = await trio.to_thread.run_sync(advance_policy, settings, policy, texts)
        if policy != self.policy:
            await self._keep(policy)

    def _followed(self) -> PolicyFile:
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
    ) -> AppliedVersion:
        """Put the wanted version in force: `swap` builds it and commits it as a whole.

        Raises:
            RefusedError: it is another one, or something is wrong in it; what was in force still is.
        """
        async with self._lock:
            try:
                applied = await self._apply(version, data, swap)
            except (FleetError, NoLibraryError, BundleError, UnsafeFileError, OSError) as error:
                text = self._text_of(error)
                self._refuse("bundle", f"version {version} is not applied: {text}", {"version": version})
                raise PolicyRejectedError(text) from None
            self._refused.pop("bundle", None)
            self._report()
            return applied

    async def _apply(
        self, version: int, data: bytes, swap: Callable[[BundleCandidate], Awaitable[object]]
    ) -> AppliedVersion:
        settings, policy = self._configured(), self._followed()
        envelope = policy.wanted
        if envelope is None or read_version(envelope) != version:
            what = f"version {read_version(envelope)}" if envelope is not None else "none"
            raise FleetError(f"this host wants {what}, not version {version}: follow the manifests first")
        manifest, key = prove_envelope(settings.name, envelope, settings.keys)
        wanted = AppliedVersion(version, manifest.bundle)
        if self.in_force == wanted and policy.applied == envelope:
            return wanted
        files = await trio.to_thread.run_sync(self._unpacked, manifest, data)
        kept = msgspec.structs.replace(policy, applied=envelope, key=key, lost="", may_go_back=False)
        told = {"version": version, "bundle": manifest.bundle, "previous": read_version(self.policy.applied)}

        async def keep() -> None:
            if self.settings != settings:  # a key may have been revoked while it was built
                raise FleetError("[fleet] has changed meanwhile; it is tried again")
            await self._keep(kept)
            self._tell("applied", told)  # nothing can refuse it any more

        await swap(BundleCandidate(files, keep))
        return wanted

    def _unpacked(self, manifest: Manifest, data: bytes) -> FleetFiles:
        bundle = read_bundle(data, manifest)
        unpack_bundle(self.folder, manifest.bundle, data, bundle.files)
        return read_fleet(list_bundle_files(self.folder, manifest, bundle), None)

    async def clean(self, is_used: Callable[[str], bool]) -> None:
        """Remove the bundles that are neither in force nor wanted, nor used by workers of fires that still run."""
        async with self._lock:
            if self._fault is not None:  # nobody knows which of them was in force
                return
            kept = {one.bundle for one in (find_applied_version(self.policy.applied), self.wanted) if one is not None}
            await trio.to_thread.run_sync(clean_bundles, self.folder, kept, is_used)

    # -- by an operator ----------------------------------------------------------------------------------------------

    async def reset(self, reason: str) -> None:
        """Forget which versions were read, so that the host follows from version 1 again; what is in force stays.

        Raises:
            RefusedError: that could not be kept.
        """
        async with self._lock:
            settings, policy = self.settings, self.policy
            if settings is None:
                raise PolicyRejectedError("this host is in no fleet: its hooks.toml has no [fleet]")
            if self._fault is not None:
                lost = (
                    f"what was in force is unknown since a reset ({reason}): every gate denies until a link brings it"
                )
                policy = PolicyFile(fleet=settings.name, lost=lost)
            policy = msgspec.structs.replace(policy, head=START, wanted=None, may_go_back=True)
            try:
                await self._keep(policy)
            except (UnsafeFileError, OSError) as error:
                raise PolicyRejectedError(self._text_of(error)) from None
            self._fault = None
            self._refused.clear()
            self._report()
            self._tell("reset", {"reason": reason})

    async def leave(self) -> bool:
        """Drop the policy if [fleet] is gone, which the operator has just accepted; return whether there was one.

        Raises:
            RefusedError: it could not be removed, and stays.
        """
        async with self._lock:
            is_kept = self._fault is not None or self.policy != PolicyFile()
            if self.settings is not None or not is_kept:
                return False
            left = self.policy.fleet or self._state.state.fleet
            with trio.CancelScope(shield=True):
                # Before the first wait: a reload meanwhile would note that it is in force.
                self.policy, self._fault, self._state.state.fleet = PolicyFile(), None, ""
                await self._state.store()
                try:
                    await trio.to_thread.run_sync(remove_policy, self.folder)
                except OSError as error:
                    self.load()
                    raise PolicyRejectedError(
                        f"the policy of the fleet {left!r} could not be removed: {explain_error(error)}"
                    ) from None
            self._refused.clear()
            self._report()
            self._tell("left", {"fleet": left})
            return True

    def attempted(self, what: str, hook: str) -> None:
        """Record that somebody tried to take something from a hook of the fleet."""
        self._tell("attempt", {"why": what, "hook": hook})

    # -- what is kept and told ---------------------------------------------------------------------------------------

    async def _keep(self, policy: PolicyFile) -> None:
        with trio.CancelScope(shield=True):  # what is on the disk is what is in force, whoever waits for it
            await trio.to_thread.run_sync(write_policy, self.folder, policy)
            self.policy = policy

    def _text_of(self, error: Exception) -> str:
        if not isinstance(error, OSError):
            return str(error)
        return (
            f"it cannot be kept in {error.filename or self.folder}: {explain_error(error)}; mend that, and it "
            "is tried again"
        )

    def _refuse(self, what: str, text: str, fields: dict[str, Any]) -> None:
        if self._refused.get(what) != text:  # a link tries again and again
            self._refused[what] = text
            self._report()
            self._tell("refused", {"problem": text, **fields})

    def _report(self) -> None:
        self._faults.report("fleet", *self.problems)

    def _tell(self, action: str, fields: dict[str, Any]) -> None:
        name = self.settings.name if self.settings is not None else self.policy.fleet
        note = {"action": action, "fleet": name, **fields}
        logger.warning("fleet: %s", action, extra={key: value for key, value in note.items() if key != "action"})
        self._note("fleet", note)

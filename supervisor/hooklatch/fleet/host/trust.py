"""The keys that this host believes: those of its fleet's key set, kept in the state file, or without one those listed.

The first key set is signed by a key of [fleet] and binds from then on; each later one follows by its own signatures.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import trio

from hooklatch.fleet.manifests import FleetError, index_keys
from hooklatch.fleet.roles import KeySet, Role, follow_key_set, read_key_set
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.fleet.version_copies import keep_key_sets
from hooklatch.service.config.state_file import StateFile
from hooklatch.threads import in_thread

__all__ = ["FleetTrust"]

logger = logging.getLogger("hooklatch.fleet")


class FleetTrust:
    """The trust of one host.  A key set that cannot be read leaves no key that is believed."""

    def __init__(self, state: StateFile, note: Callable[[str, dict[str, Any]], None]) -> None:
        self.key_set: KeySet | None = None
        self.fault: str | None = None  # why the last key sets were refused, or the kept one is not readable
        self._state = state
        self._note = note
        self._settings: FleetSettings | None = None
        self._is_broken = False

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table.  The key set of another fleet does not count; leaving drops it."""
        if settings is None and self._settings is not None:
            self._state.state.key_set = ""
        if settings is None or self._settings is None or settings.name != self._settings.name:
            self.key_set, self.fault, self._is_broken = None, None, False
            if settings is not None and self._state.state.key_set:
                self._load(settings)
        self._settings = settings

    def _load(self, settings: FleetSettings) -> None:
        try:
            kept = msgspec.json.decode(self._state.state.key_set, type=KeptKeySet)
            if kept.fleet == settings.name:
                self.key_set = read_key_set(kept.stored.encode(), settings.name)
        except (FleetError, msgspec.MsgspecError) as error:
            self._is_broken = True
            self.fault = f"the fleet's key set in the state file cannot be read, so no signature is believed: {error}"

    @property
    def settings(self) -> FleetSettings | None:
        """Return the settings with the keys that may sign versions now."""
        if self._settings is None or (self.key_set is None and not self._is_broken):
            return self._settings
        policies = self.key_set.policies.values() if self.key_set is not None else ()
        keys = dict.fromkeys(key for role in policies for key in role.keys)
        return msgspec.structs.replace(self._settings, keys=tuple(keys), key_set=self.key_set)

    @property
    def timestamp_role(self) -> Role:
        """Return whose timestamps are believed."""
        if self.key_set is not None:
            return self.key_set.timestamp.open()
        settings = self.settings
        return Role(tuple(index_keys(settings.keys if settings is not None else ()).values()))

    @property
    def ends(self) -> float:
        """Return when the key set expires, in seconds since the epoch."""
        return self.key_set.ends if self.key_set is not None else math.inf

    async def follow(self, texts: Sequence[str]) -> bool:
        """Take key sets that follow; return whether the keys of timestamps are others now."""
        settings, before = self._settings, self.key_set
        if settings is None or self._is_broken:
            return False
        fault, stored, taken = None, "", list[bytes]()
        for text in texts:
            try:
                data = text.encode("utf-8", "surrogatepass")
                anchors = index_keys(settings.keys).values()
                self.key_set, stored = follow_key_set(data, settings.name, self.key_set, anchors), text
                taken.append(data)
            except (FleetError, NoLibraryError) as error:
                fault = str(error)
                break
        if fault is not None and fault != self.fault:  # once, although the link tries again and again
            self._note("fleet", {"action": "refused", "problem": fault})
        self.fault = fault
        if self.key_set is None or self.key_set == before:
            return False
        kept = KeptKeySet(settings.name, stored)
        self._state.state.key_set = msgspec.json.encode(kept).decode()
        with trio.CancelScope(shield=True):
            await self._state.store()  # 5.3.8
        with suppress(OSError):  # only a copy, by which an engine could be mended
            await in_thread(keep_key_sets, os.path.join(os.path.dirname(self._state.path), "fleet"), taken)
        logger.warning("the fleet's key set is %s now", self.key_set.version)
        self._note("fleet", {"action": "keys", "version": self.key_set.version, "digest": self.key_set.digest})
        return before is None or before.timestamp != self.key_set.timestamp


class KeptKeySet(msgspec.Struct, frozen=True):
    """The fleet, and its newest key set as it was stored."""

    fleet: str
    stored: str

"""Whom this host believes: the keys of its fleet's publishers, and the link that shows a token.

The keys are those of the fleet's key set, kept in the state file, or without one those listed.  The first key set is
signed by a key of [fleet] and binds from then on; each later one follows by its own signatures.

A link applies the fleet's layer and reports what was shipped.  It is not an administrator, so its connection has no
rights at first: its first request is a hello with its role and its token.  The token is in one file beside the admin
socket.  There is a new one at each start of the daemon and whenever [fleet] changes, and none without [fleet].
"""

from __future__ import annotations

import hmac
import logging
import math
import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import trio

from hooklatch.core.health import ActiveFaults
from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.directories import replace_file
from hooklatch.errors import locate_error
from hooklatch.fleet.manifests import FleetError, index_keys
from hooklatch.fleet.roles import KeySet, RoleKeys, follow_key_set, read_key_set, read_number
from hooklatch.fleet.settings import FleetSettings
from hooklatch.fleet.signing import NoLibraryError
from hooklatch.fleet.version_copies import keep_key_sets, read_kept_key_sets
from hooklatch.paths import FLEET_TOKEN
from hooklatch.service.api.methods import AS_LINK
from hooklatch.service.config.state_file import StateFile
from hooklatch.threads import in_thread

__all__ = ["FleetTrust", "LinkToken"]

logger = logging.getLogger("hooklatch.fleet")


class FleetTrust:
    """The trust of one host.  A key set that cannot be read leaves no key that is believed."""

    def __init__(self, state: StateFile, note: Callable[[str, dict[str, Any]], None]) -> None:
        self.key_set: KeySet | None = None
        self.fault: str | None = None  # why the last key sets were refused, or the kept one is not readable
        self._state = state
        self._copy = os.path.join(os.path.dirname(state.path), "fleet")
        self._note = note
        self._settings: FleetSettings | None = None
        self._is_broken = False

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table.  The key set of another fleet does not count; leaving drops it."""
        if settings is None and self._settings is not None:
            self._state.state.key_set = ""
        is_another = settings is None or self._settings is None or settings.name != self._settings.name
        self._settings = settings
        if is_another:
            self.load()

    def load(self) -> None:
        """Read the newest key set that was taken: what the state file has lost, the copy of all of them still has."""
        self.key_set, self.fault, self._is_broken = None, None, False
        settings = self._settings
        if settings is None:
            return
        try:
            if stored := self._state.state.key_set:
                kept = msgspec.json.decode(stored, type=KeptKeySet)
                self.key_set = read_key_set(kept.stored.encode(), kept.fleet) if kept.fleet == settings.name else None
            for data in sorted(read_kept_key_sets(self._copy), key=lambda data: read_number(data, settings.name)):
                if read_number(data, settings.name) > (self.key_set.version if self.key_set is not None else 0):
                    self.key_set = self._follow(data, settings)
        except (FleetError, NoLibraryError, msgspec.MsgspecError, OSError) as error:
            self._is_broken = True
            self.fault = (
                f"the fleet's key set cannot be read, so no signature is believed: {locate_error(error)}; if that"
                " cannot be repaired, leave the fleet ([fleet] out of hooks.toml, hooklatch reload), and join it again"
            )

    def _follow(self, data: bytes, settings: FleetSettings) -> KeySet:
        return follow_key_set(data, settings.name, self.key_set, index_keys(settings.keys).values())

    @property
    def settings(self) -> FleetSettings | None:
        """Return the settings with the keys that may sign versions now."""
        if self._settings is None or (self.key_set is None and not self._is_broken):
            return self._settings
        policies = self.key_set.policies.values() if self.key_set is not None else ()
        keys = dict.fromkeys(key for role in policies for key in role.keys)
        return msgspec.structs.replace(self._settings, keys=tuple(keys), key_set=self.key_set)

    @property
    def timestamp_role(self) -> RoleKeys:
        """Return whose timestamps are believed."""
        settings = self.settings
        listed = RoleKeys(settings.keys if settings is not None else ())
        return self.key_set.timestamp if self.key_set is not None else listed

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
                self.key_set, stored = self._follow(data, settings), text
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
            await in_thread(keep_key_sets, self._copy, taken)
        logger.warning("the fleet's key set is %s now", self.key_set.version)
        self._note("fleet", {"action": "keys", "version": self.key_set.version, "digest": self.key_set.digest})
        return before is None or before.timestamp != self.key_set.timestamp


class KeptKeySet(msgspec.Struct, frozen=True):
    """The fleet, and its newest key set as it was stored."""

    fleet: str
    stored: str


BYTES = 32


class LinkToken:
    """The valid token.  `on_renewed` is called when one ends: a client that has shown it must show the next."""

    def __init__(self, folder: str, faults: ActiveFaults, on_renewed: Callable[[], None]) -> None:
        self.path = os.path.join(folder, FLEET_TOKEN)
        self._faults = faults
        self._on_renewed = on_renewed
        self._settings: FleetSettings | None = None
        self._token: bytes | None = None
        self.remove()  # a killed daemon may have left its own, which is not valid

    def take(self, settings: FleetSettings | None) -> None:
        """Apply the [fleet] table: if it has changed, or the file is gone, write a new token."""
        is_there = self._token is not None and os.path.exists(self.path)
        if settings == self._settings and is_there is (settings is not None):
            return
        self._settings = settings
        self.remove()
        self._on_renewed()
        if settings is not None:
            self._write(secrets.token_hex(BYTES).encode())

    def find_refusal(self, shown: str | None, *, is_admin: bool) -> RpcError | None:
        """Return why a connection that shows a token may not be a link; None if it may."""
        if not is_admin:
            return RpcError(ErrorCode.NOT_ADMIN, "the role link needs the admin socket")
        if shown is None:
            return RpcError(ErrorCode.NOT_PERMITTED, f"the role link needs its token: {AS_LINK}")
        if self._token is None:
            text = "there is no token: hooks.toml has no [fleet] table, or `hooklatch status` says what is wrong"
            return RpcError(ErrorCode.NOT_PERMITTED, text)
        if not hmac.compare_digest(self._token, shown.encode()):  # its time reveals nothing about the token
            text = (
                f"the token is not valid; read it again from {self.path}: it changes with each start of the daemon, and"
                " with [fleet]"
            )
            return RpcError(ErrorCode.NOT_PERMITTED, text)
        return None

    def remove(self) -> None:
        """Invalidate the token, and remove its file."""
        self._token = None
        self._faults.report("fleet token")
        with suppress(OSError):  # the token in a file that stays is not valid
            os.unlink(self.path)

    def _write(self, token: bytes) -> None:
        """Write a new token, as a whole and readable by this user alone; if that fails, it is not valid."""
        try:
            replace_file(self.path, token + b"\n")
        except OSError as error:
            text = f"{self.path}: {error.strerror}, so the fleet's link cannot connect; fix it, then: hooklatch reload"
            logger.error("%s", text)
            self._faults.report("fleet token", text)
            return
        self._token = token

"""What outlives the daemon: hooks registered over the admin socket, switches, manifests.  Knows one JSON file.

A manifest says which hooks a file declared when it was last good (ids, events, matchers, conditions, digest; never the
code), so that after a restart a file that is now broken still denies at its gates.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import msgspec
import trio

from hooklatch.core.hooks.names import is_name
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.directories import sync_folder
from hooklatch.errors import why
from hooklatch.files import create_anew
from hooklatch.fleet.policy.staleness import Contact
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.main_tables import Override
from hooklatch.service.config.path_lookup import Absent, Fault, look
from hooklatch.service.config.settings import Settings

__all__ = ["ManifestHook", "State", "StateFile"]

logger = logging.getLogger("hooklatch.state")
VERSION = 1
MAX_STATE = 64 * 2**20  # bytes of the whole file

LOST = "the change is lost when the daemon ends, unless it is made again once that is mended"


class ManifestHook(msgspec.Struct, frozen=True):
    """One hook of a file, from when the file was last good."""

    id: str
    event: str
    match: Any = None
    priority: int = 100
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False
    where: Any = None


class State(msgspec.Struct):
    """The content of the state file.  `hooks` are definitions as received; `switches` map hook names to enabled.

    `trusted` maps a project's directory to the sha256 of each file below its .hooklatch directory.
    `settings` and `overrides` are those of the last good main file.  A manifest without hooks records that its file, or
    the directory hooks.d, was active.  `fleet` is the fleet whose policy was in force: that is kept elsewhere, and must
    not be taken for none if it is gone.  `contact` is a contact with it, not necessarily the last one.
    """

    version: int = VERSION
    hooks: list[dict[str, Any]] = []
    switches: dict[str, bool] = {}
    manifests: dict[str, list[ManifestHook]] = {}
    trusted: dict[str, dict[str, str]] = {}
    settings: Settings = Settings()
    overrides: list[Override] = []
    suspensions: list[Suspension] = []
    fleet: str = ""
    contact: Contact | None = None


class StateFile:
    """Reads and writes the state, atomically; disk writes wait in a thread.

    A change is made in `state` and then stored, without a checkpoint in between.  Changes made during a write are
    written together by the next one, so the file never goes back to an older state.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.json")
        self.state = State()
        self.is_readable = True
        self.dropped: list[str] = []  # entries that were not used, since they are ambiguous
        self.of_the_fleet: list[str] = []  # hooks of the fleet that were switched here, which no switch reaches
        self.unwritten: str | None = None  # why the current state is not on the disk, if it is not
        self._wanted = self._taken = 0  # how many stores were requested, and how many of them a write has covered
        self._writing = trio.Lock()

    def read(self) -> str | None:
        """Read the file; return what is wrong with it, if anything: then the state stays empty, the file untouched."""
        fault = self._read()
        self.is_readable = fault is None
        return fault

    def _read(self) -> str | None:
        seen = look(self.path)
        if isinstance(seen, Absent):
            return None
        if isinstance(seen, Fault):
            return f"{seen.reason}, then restart"
        try:
            state = msgspec.json.decode(read_safely(self.path, most=MAX_STATE), type=State)
        except (UnsafeFileError, OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return f"{self.path}: {why(error)}; fix it, or delete it and register its hooks again, then restart"
        if state.version != VERSION:
            return f"{self.path}: it has version {state.version}, but this hooklatch reads {VERSION}; update hooklatch"
        self.state = state
        self._drop_what_names_nothing()
        return None

    def _drop_what_names_nothing(self) -> None:
        """Drop switches and suspensions that are not of one hook of this host: what they disabled is active again."""
        state = self.state
        self.of_the_fleet = [name for name in state.switches if name.startswith("fleet/")]
        for name in self.of_the_fleet:
            del state.switches[name]
        for name in [name for name in state.switches if not is_name(name)]:
            what = "enabled" if state.switches.pop(name) else "disabled"
            self.dropped.append(f"{name!r} was {what}, which may mean several hooks; it no longer applies; do it again")
        for one in [one for one in state.suspensions if one.hook is not None and not is_name(one.hook)]:
            state.suspensions.remove(one)
            self.dropped.append(f"{one.hook!r} was suspended, which may mean several hooks; it no longer applies")

    async def store(self) -> None:
        """Write the current state to the disk; if that fails, `unwritten` is set when this returns.

        The write finishes even if the caller is cancelled or the daemon is ending.
        """
        self._wanted += 1
        number = self._wanted
        with trio.CancelScope(shield=True):
            async with self._writing:
                if self._taken < number:
                    self._taken = self._wanted
                    await self._store(msgspec.json.encode(self.state))

    async def _store(self, data: bytes) -> None:
        try:
            await trio.to_thread.run_sync(self._write, data)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread could be started
            reason = why(error)
            self.unwritten = f"{self.path}: {reason}; {LOST}"
            logger.error("state not stored: %s", reason, extra={"path": self.path})
        else:
            self.unwritten = None

    def _write(self, data: bytes) -> None:
        if not self.is_readable:
            raise OSError("the existing file could not be read and is not overwritten")
        temporary = f"{self.path}.new"
        fd = create_anew(temporary)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.format(data, indent=1))
            file.flush()
            os.fsync(fd)
        os.replace(temporary, self.path)
        sync_folder(os.path.dirname(self.path))

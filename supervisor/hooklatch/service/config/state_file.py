"""What outlives the daemon: hooks registered over the admin socket, switches, manifests.  Knows one JSON file.

Only what was written last is believed (`state_witness`).  Anything else is left alone, and every gate denies, until
somebody accepts what is there; then it is moved aside, and never overwritten.

A manifest says which hooks a file declared when it was last good (ids, events, matchers, conditions, digest; never the
code), so that after a restart a file that is now broken still denies at its gates.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import trio

from hooklatch.core.hooks.names import is_name
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.directories import sync_folder
from hooklatch.errors import explain_error
from hooklatch.files import create_anew
from hooklatch.fleet.policy.staleness import EngineContact
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.main_tables import Override
from hooklatch.service.config.path_lookup import PathAbsent, PathFault, look_up_path
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_witness import BEGIN, NOTHING, StateWitness

__all__ = ["StateFileContent", "ManifestHook", "SavedState", "StateFile"]

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


class SavedState(msgspec.Struct):
    """The content of the state file.  `hooks` are definitions as received; `switches` map hook names to enabled.

    `trusted` maps a project's directory to the sha256 of each file below its .hooklatch directory.
    `settings` and `overrides` are those of the last good main file.  A manifest without hooks records that its file, or
    the directory hooks.d, was active.  `builds` maps each source's location to the sha256 of each file that it was last
    loaded from.  `fleet` is the fleet whose policy was in force: that is kept elsewhere, and must
    not be taken for none if it is gone.  `contact` is a contact with it, not necessarily the last one.
    """

    version: int = VERSION
    hooks: list[dict[str, Any]] = []
    switches: dict[str, bool] = {}
    manifests: dict[str, list[ManifestHook]] = {}
    builds: dict[str, dict[str, str]] = {}
    trusted: dict[str, dict[str, str]] = {}
    settings: Settings = Settings()
    overrides: list[Override] = []
    suspensions: list[Suspension] = []
    fleet: str = ""
    contact: EngineContact | None = None


class StateFileContent(msgspec.Struct, frozen=True):
    """What is at the state file's place: its content if it can be read, its digest, and what is wrong, if anything."""

    state: SavedState | None
    digest: str
    fault: str | None


class StateFile:
    """Reads and writes the state, atomically; disk writes wait in a thread.

    A change is made in `state` and then stored, without a checkpoint in between.  Changes made during a write are
    written together by the next one, so the file never goes back to an older state.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.json")
        self.state = SavedState()
        self.fault: str | None = None  # why the file is not believed, and so not overwritten either
        self.dropped: list[str] = []  # entries that were not used, since they are ambiguous
        self.of_the_fleet: list[str] = []  # hooks of the fleet that were switched here, which no switch reaches
        self.unwritten: str | None = None  # why the current state is not on the disk, if it is not
        self._wanted = self._taken = 0  # how many stores were requested, and how many of them a write has covered
        self._writing = trio.Lock()
        self._witness = StateWitness(folder)
        self._digest = NOTHING  # of the file as it is
        self._aside: str | None = None  # where the next write moves the file that it replaces

    def read(self) -> str | None:
        """Read the file; return why it is not believed, if it is not: then the state stays empty."""
        found = self.look()
        self._digest = found.digest
        self.fault = found.fault or self._witness.doubt(self.path, found.digest)
        if self.fault is None and found.state is not None:
            self.state = found.state
            self._drop_what_names_nothing(self.state)
        return self.fault

    def look(self) -> StateFileContent:
        """Read what is there, whether or not it is to be believed."""
        seen = look_up_path(self.path)
        if isinstance(seen, PathAbsent):
            return StateFileContent(None, NOTHING, None)
        if isinstance(seen, PathFault):
            return StateFileContent(None, NOTHING, f"{seen.reason}; {BEGIN}")
        try:
            data = read_safely(self.path, maximum=MAX_STATE)
        except (UnsafeFileError, OSError) as error:
            return StateFileContent(None, NOTHING, f"{self.path}: {explain_error(error)}; {BEGIN}")
        digest = hashlib.sha256(data).hexdigest()
        try:
            state = msgspec.json.decode(data, type=SavedState)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return StateFileContent(None, digest, f"{self.path}: {explain_error(error)}; {BEGIN}")
        if state.version != VERSION:
            text = f"it has version {state.version}, but this hooklatch reads {VERSION}; update hooklatch"
            return StateFileContent(None, digest, f"{self.path}: {text}; {BEGIN}")
        return StateFileContent(state, digest, None)

    def accept(self, found: StateFileContent) -> str | None:
        """Believe what is there from now on, below what was changed meanwhile; return where the next write moves it.

        What suspended hooks is not taken over: nobody knows whether it was ended since.
        """
        self.fault, self._digest, own = None, found.digest, self.state
        if found.state is not None:
            known = found.state
            self._drop_what_names_nothing(known)
            own.hooks = [*{table.get("id"): table for table in (*known.hooks, *own.hooks)}.values()]
            own.switches = known.switches | own.switches
            own.manifests = known.manifests | own.manifests
            own.builds = known.builds | own.builds
            own.trusted.update({folder: pins for folder, pins in known.trusted.items() if folder not in own.trusted})
            own.fleet, own.contact = own.fleet or known.fleet, own.contact or known.contact
        self._aside = None if isinstance(look_up_path(self.path), PathAbsent) else free_name(self.path)
        return self._aside

    def _drop_what_names_nothing(self, state: SavedState) -> None:
        """Drop switches and suspensions that are not of one hook of this host: what they disabled is active again."""
        self.of_the_fleet = [name for name in state.switches if name.startswith("fleet/")]
        for name in self.of_the_fleet:
            del state.switches[name]
        for name in [name for name in state.switches if not is_name(name)]:
            what = "enabled" if state.switches.pop(name) else "disabled"
            self.dropped.append(f"{name!r} was {what}, which may mean several hooks; it no longer applies; do it again")
        for suspension in [
            suspension
            for suspension in state.suspensions
            if suspension.hook is not None and not is_name(suspension.hook)
        ]:
            state.suspensions.remove(suspension)
            self.dropped.append(
                f"{suspension.hook!r} was suspended, which may mean several hooks; it no longer applies"
            )

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
            reason = explain_error(error)
            self.unwritten = f"{self.path}: {reason}; {LOST}"
            logger.error("state not stored: %s", reason, extra={"path": self.path})
        else:
            self.unwritten = None

    def _write(self, data: bytes) -> None:
        if self.fault is not None:
            raise OSError("the existing file is not believed, and is not overwritten")
        text, temporary = msgspec.json.format(data, indent=1), f"{self.path}.new"
        digest = hashlib.sha256(text).hexdigest()
        fd = create_anew(temporary)
        with os.fdopen(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        self._witness.expect(self._digest, digest)
        if self._aside is not None:
            with suppress(FileNotFoundError):
                os.rename(self.path, self._aside)
            self._aside = None
        os.replace(temporary, self.path)
        self._digest = digest
        sync_folder(os.path.dirname(self.path))
        self._witness.settle(digest)


def free_name(path: str) -> str:
    """Return a name for what is moved aside that nothing has yet."""
    return next(name for number in count(1) if not os.path.lexists(name := f"{path}.refused-{number}"))

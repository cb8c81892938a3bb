"""The state file: hooks registered over the admin socket, switches, manifests, all that outlives the daemon.

Only the content that was written last is believed (`state_witness`).  Any other is left alone, and every gate denies,
until the operator accepts it.  Then it is moved aside, and never overwritten.

A manifest has the hooks that a file declared when it was last good (ids, events, matchers, conditions; never the code),
so that after a restart a file that is now broken still denies on its gates.
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
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.main_tables import Override
from hooklatch.service.config.path_lookup import PathAbsent, PathFault, look_up_path
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_witness import BEGIN, NOTHING, StateWitness
from hooklatch.threads import in_thread

__all__ = ["StateFileContent", "ManifestHook", "SavedState", "StateFile"]

logger = logging.getLogger("hooklatch.state")
VERSION = 1
MAX_STATE = 64 * 2**20  # bytes of the whole file

LOST = "the change is lost when the daemon ends; fix that, then make the change again"


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
    loaded from.  `fleet` is the fleet whose policy was active.  The policy has a file of its own, which must not count
    as no policy if it is gone.  `contact` is a contact with the fleet, not necessarily the last one.
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
    contact: dict[str, Any] | None = None


class StateFileContent(msgspec.Struct, frozen=True):
    """The content of the state file if it can be read, its digest, and the fault if there is one."""

    state: SavedState | None
    digest: str
    fault: str | None


class StateFile:
    """The state, read and written as a whole; disk writes run in a thread.

    A change is made in `state` and then stored, without a checkpoint in between.  Changes made during a write are
    written together by the next one, so the file never goes back to an older state.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.json")
        self.state = SavedState()
        self.fault: str | None = None  # the reason why the file is not believed, and so not overwritten either
        self.dropped: list[str] = []  # warnings about entries that have no effect any more, since they are ambiguous
        self.fleet_switches: list[str] = []  # names of the fleet's hooks in `switches`, which have no effect
        self.unwritten: str | None = None  # the reason why the current state is not on the disk
        self._requested = self._covered = 0  # the numbers of stores that were requested, and that a write has covered
        self._writing = trio.Lock()
        self._witness = StateWitness(folder)
        self._digest = NOTHING  # of the file as it is
        self._moved_to: str | None = None  # the path to which the next write moves the file that it replaces

    def read(self) -> str | None:
        """Read the file.  Return the reason if it is not believed; then the state stays empty."""
        content = self.read_content()
        self._digest = content.digest
        self.fault = content.fault or self._witness.find_fault(self.path, content.digest)
        if self.fault is None and content.state is not None:
            self.state = content.state
            self._drop_ambiguous(self.state)
        return self.fault

    def read_content(self) -> StateFileContent:
        """Read the file without believing it."""
        entry = look_up_path(self.path)
        if isinstance(entry, PathAbsent):
            return StateFileContent(None, NOTHING, None)
        if isinstance(entry, PathFault):
            return StateFileContent(None, NOTHING, f"{entry.reason}; {BEGIN}")
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

    def accept(self, content: StateFileContent) -> str | None:
        """Believe this content; changes since the start prevail.  Return the path to which the next write moves it.

        Its suspensions are not taken over: they may have been resumed since, and that would be unknown.
        """
        self.fault, self._digest, own = None, content.digest, self.state
        if content.state is not None:
            known = content.state
            self._drop_ambiguous(known)
            own.hooks = [*{table.get("id"): table for table in (*known.hooks, *own.hooks)}.values()]
            own.switches = known.switches | own.switches
            own.manifests = known.manifests | own.manifests
            own.builds = known.builds | own.builds
            own.trusted.update({folder: pins for folder, pins in known.trusted.items() if folder not in own.trusted})
            own.fleet, own.contact = own.fleet or known.fleet, own.contact or known.contact
        self._moved_to = None if isinstance(look_up_path(self.path), PathAbsent) else free_name(self.path)
        return self._moved_to

    def _drop_ambiguous(self, state: SavedState) -> None:
        """Drop switches and suspensions that do not name one hook of this host: what they disabled is active again."""
        self.fleet_switches = [name for name in state.switches if name.startswith("fleet/")]
        for name in self.fleet_switches:
            del state.switches[name]
        for name in [name for name in state.switches if not is_name(name)]:
            change = "enabled" if state.switches.pop(name) else "disabled"
            self.dropped.append(
                f"{name!r} was {change}, which may mean several hooks; it no longer applies; do it again"
            )
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
        self._requested += 1
        number = self._requested
        with trio.CancelScope(shield=True):
            async with self._writing:
                if self._covered < number:
                    self._covered = self._requested
                    await self._store(msgspec.json.encode(self.state))

    async def _store(self, data: bytes) -> None:
        try:
            await in_thread(self._write, data)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
            reason = explain_error(error)
            self.unwritten = f"{self.path}: {reason}; {LOST}"
            logger.error("state not stored: %s", reason, extra={"path": self.path})
        else:
            self.unwritten = None

    def _write(self, data: bytes) -> None:
        if self.fault is not None:
            raise OSError("the existing file is not believed, so it is not overwritten")
        text, temporary = msgspec.json.format(data, indent=1), f"{self.path}.new"
        digest = hashlib.sha256(text).hexdigest()
        fd = create_anew(temporary)
        with os.fdopen(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        # The witness before the file: a daemon that is killed from here on finds either content believed.
        self._witness.allow_both(self._digest, digest)
        if self._moved_to is not None:
            with suppress(FileNotFoundError):
                os.rename(self.path, self._moved_to)
            self._moved_to = None
        os.replace(temporary, self.path)
        self._digest = digest
        sync_folder(os.path.dirname(self.path))
        self._witness.allow_only(digest)


def free_name(path: str) -> str:
    """Return an unused path for a file that is moved aside."""
    return next(name for number in count(1) if not os.path.lexists(name := f"{path}.refused-{number}"))

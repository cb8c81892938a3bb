"""The state file: hooks registered over the admin socket, switches, manifests, all that outlives the daemon.

Only the content that was written last is believed.  Any other is left alone, and every gate denies, until the operator
accepts it.  Then it is moved aside, and never overwritten.

A small file beside the record is the witness, with the digests that the state file may have:

    the new content is on the disk, under another name ─▶ witness: before and next, synced
        ─▶ the state file is replaced ─▶ witness: next alone

A daemon that is killed in between leaves the one or the other, and both are believed.  Any other content is that of a
copy or of another program, or the file is gone: then it is unknown which trust and which switches are missing.

A manifest has the hooks that a file declared when it was last good (ids, events, matchers, conditions; never the code),
so that after a restart a file that is now broken still denies on its gates.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from itertools import count
from typing import Any

import msgspec
import trio

from hooklatch.core.hooks.names import is_name
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.directories import sync_folder
from hooklatch.errors import explain_error, locate_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.files import create_anew
from hooklatch.path_lookup import DirectoryNames, PathAbsent, PathFault, list_directory, look_up_path
from hooklatch.record.storage.mark import mark_path
from hooklatch.record.storage.slots import SlotError, SlotFile, read_form
from hooklatch.service.config.settings import Override, Settings
from hooklatch.threads import in_thread
from hooklatch_worker.systems.disks import sync_all, sync_data

__all__ = ["BEGIN", "GO_ON", "NO_FILE", "StateWitness", "ManifestHook", "SavedState", "StateFile"]

COMMAND = "hooklatch state accept"
NO_FILE = "0" * 64  # the digest that stands for no state file
FORM = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64})")
GO_ON = f"restore the last one and restart, or continue with what is there: {COMMAND}"
BEGIN = f"restore the last one and restart, or begin without it: {COMMAND}"


class StateWitness:
    """The file in which the digests of the state are; `record` is the folder of the record beside it."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.witness")
        self._record = os.path.join(folder, "record")

    def find_fault(self, path: str, digest: str) -> str | None:
        """Return why a state file with this content must not be believed; None if it may.

        At a first start, before anything was recorded, there is no witness yet, and this makes it.
        """
        try:
            match = read_form(self.path, FORM, "the digests of a state")
            if match is None and self._is_first():
                self.allow_only(digest)
                return None
        except (SlotError, OSError) as error:
            return f"{locate_error(error)}, so it is unknown whether {path} is the version written last; {GO_ON}"
        if match is None:
            return f"{self.path} is gone, so it is unknown whether {path} is the version written last; {GO_ON}"
        if digest in (match[1].decode(), match[2].decode()):
            return None
        if digest == NO_FILE:
            return f"{path} is gone, with its trust, switches and hooks; {BEGIN}"
        return f"{path} is not the version written last, but an older copy or another program's; {GO_ON}"

    def _is_first(self) -> bool:
        """Return whether nothing was recorded here yet; a path that cannot be looked up may be a record."""
        names = list_directory(self._record)
        is_empty = isinstance(names, PathAbsent) or (isinstance(names, DirectoryNames) and not names.names)
        return is_empty and isinstance(look_up_path(mark_path(self._record)), PathAbsent)

    @contextmanager
    def replacing(self, before: str, after: str) -> Generator[None]:
        """Allow two contents while the block puts the one in place of the other, and then that alone.

        The witness of both is on the disk when the block begins.  Its end is not synced: if a power cut loses that, the
        content before is believed too.

        Raises:
            OSError: the witness cannot be written, so the state must not be either.
        """
        with closing(SlotFile(self.path, f"{before} {after}".encode())) as slot:
            sync_data(slot.fd)
            yield
            slot.write(f"{after} {after}".encode())

    def allow_only(self, digest: str) -> None:
        """Allow one content alone.

        Raises:
            OSError: the witness cannot be written.
        """
        SlotFile(self.path, f"{digest} {digest}".encode()).close()


logger = logging.getLogger("hooklatch.state")
VERSION = 1
MAX_STATE = 64 * 2**20  # bytes of the whole file

LOST = "the change is lost when the daemon ends, unless that is fixed before: it is tried again by itself"
RETRY = 5.0  # seconds after a write that failed


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
    loaded from.  `fleet` is the fleet whose policy was active, and `fleet_floor` its newest version that ever was.  The
    policy has a file of its own, which must not count as no policy if it is gone.  `contact` is a contact with the
    fleet, not necessarily the last one, and `key_set` its newest key set as stored.
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
    fleet_floor: dict[str, Any] | None = None
    contact: dict[str, Any] | None = None
    key_set: str = ""


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
        self._failed = trio.Event()  # a write that may succeed when it is tried again
        self._witness = StateWitness(folder)
        self._digest = NO_FILE  # of the file as it is
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
            return StateFileContent(None, NO_FILE, None)
        if isinstance(entry, PathFault):
            return StateFileContent(None, NO_FILE, f"{entry.reason}; {BEGIN}")
        try:
            data = read_safely(self.path, maximum=MAX_STATE)
        except (UnsafeFileError, OSError) as error:
            return StateFileContent(None, NO_FILE, f"{self.path}: {explain_error(error)}; {BEGIN}")
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
            # A fleet's part takes nothing while the state is not believed, so what it has now is from before.
            own.fleet, own.fleet_floor = known.fleet or own.fleet, known.fleet_floor or own.fleet_floor
            own.contact, own.key_set = known.contact or own.contact, known.key_set or own.key_set
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

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write again what could not be written, until cancelled, and a last time then."""
        task_status.started()
        try:
            while True:
                await self._failed.wait()
                await trio.sleep(RETRY)
                await self.store()
        finally:
            if self._failed.is_set():
                await self.store()

    async def _store(self, data: bytes) -> None:
        try:
            await in_thread(self._write, data)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
            reason = explain_error(error)
            before, self.unwritten = self.unwritten, f"{self.path}: {reason}; {LOST}"
            if self.unwritten != before:
                logger.error("state not stored: %s", reason, extra={"path": self.path})
            if self.fault is None:  # else nothing is written before the file is accepted, which writes it
                self._failed.set()
        else:
            self.unwritten = None
            if self._failed.is_set():  # `run` may be waiting for one that is not
                self._failed = trio.Event()

    def _write(self, data: bytes) -> None:
        if self.fault is not None:
            raise OSError("the existing file is not believed, so it is not overwritten")
        text, temporary = msgspec.json.format(data, indent=1), f"{self.path}.new"
        digest = hashlib.sha256(text).hexdigest()
        fd = create_anew(temporary)
        with os.fdopen(fd, "wb") as file:
            file.write(text)
            file.flush()
            sync_all(fd)
        # The witness before the file: a daemon that is killed from here on finds either content believed.
        with self._witness.replacing(self._digest, digest):
            if self._moved_to is not None:
                with suppress(FileNotFoundError):
                    os.rename(self.path, self._moved_to)
                self._moved_to = None
            os.replace(temporary, self.path)
            self._digest = digest
            sync_folder(os.path.dirname(self.path))


def free_name(path: str) -> str:
    """Return an unused path for a file that is moved aside."""
    return next(name for number in count(1) if not os.path.lexists(name := f"{path}.refused-{number}"))

"""What outlives the daemon: hooks registered over the admin socket, switches, manifests.  Knows one JSON file.

A manifest says which hooks a file declared when it was last good (ids, events, matchers, digest; never the code), so
that after a restart a broken file still denies where its gates stood.
"""

from __future__ import annotations

import fcntl
import logging
import os
from typing import Any

import msgspec
import trio

from hooklatch.core.hooks.names import is_name
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.main_tables import Override
from hooklatch.service.config.path_lookup import Absent, Fault, look
from hooklatch.service.config.settings import Settings

__all__ = ["LockedError", "ManifestHook", "State", "StateFile", "lock"]

logger = logging.getLogger("hooklatch.state")
VERSION = 1
MAX_STATE = 64 * 2**20  # bytes of it


class LockedError(Exception):
    """Another daemon holds this folder."""


class ManifestHook(msgspec.Struct, frozen=True):
    """One hook of a file as it was when the file was last good."""

    id: str
    event: str
    match: Any = None
    priority: int = 100
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False


class State(msgspec.Struct):
    """All of it.  `hooks` are definitions as they came over the API; `switches` map the names of hooks to enabled.

    `trusted` maps a project's folder to the sha256 of each file below its .hooklatch folder.
    `settings` and `overrides` are those of the last sound main file.  A manifest without hooks says that its file, or
    the folder hooks.d, was in force.
    """

    version: int = VERSION
    hooks: list[dict[str, Any]] = []
    switches: dict[str, bool] = {}
    manifests: dict[str, list[ManifestHook]] = {}
    trusted: dict[str, dict[str, str]] = {}
    settings: Settings = Settings()
    overrides: list[Override] = []
    suspensions: list[Suspension] = []


class StateFile:
    """Reads and writes the state, atomically; the disk is waited for in a thread.

    A change is made in `state` and then stored, without a checkpoint in between.  Changes that are made while an
    earlier one is written are written together, so the file never goes back.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.json")
        self.state = State()
        self.is_readable = True
        self.dropped: list[str] = []  # what of it was not taken, since nobody can tell what it is about
        self.unwritten: str | None = None  # why what is in force is not on the disk, if it is not
        self._wanted = self._taken = 0  # how often storing was asked for, and how many of these a write has had
        self._writing = trio.Lock()

    def read(self) -> str | None:
        """Read it; give what is wrong with it, if anything is (then it stays empty, and the file as it is)."""
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
            return f"{self.path}: {error}; mend it, or delete it and register its hooks again, then restart"
        if state.version != VERSION:
            return f"{self.path}: it is of version {state.version}, and this hooklatch knows {VERSION}; update it"
        self.state = state
        self._drop_what_names_nothing()
        return None

    def _drop_what_names_nothing(self) -> None:
        """Let go of switches and suspensions that name no one hook: what they left out is in force again."""
        state = self.state
        for name in [name for name in state.switches if not is_name(name)]:
            what = "enabled" if state.switches.pop(name) else "disabled"
            self.dropped.append(f"{name!r} was {what}, which may mean several hooks; it holds no more, do it again")
        for one in [one for one in state.suspensions if one.hook is not None and not is_name(one.hook)]:
            state.suspensions.remove(one)
            self.dropped.append(f"{one.hook!r} was suspended, which may mean several hooks; it holds no more")

    async def store(self) -> None:
        """Have the state on the disk as it is now; if that fails, `unwritten` says so when this returns.

        Whoever asked may be gone meanwhile, and the daemon may be ending: it is written all the same.
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
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no thread to be had
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.unwritten = f"{self.path}: {why}; what was changed holds only until the daemon ends"
            logger.error("state not stored: %s", why, extra={"path": self.path})
        else:
            self.unwritten = None

    def _write(self, data: bytes) -> None:
        if not self.is_readable:
            raise OSError("what is there could not be read and is not written over")
        temporary = f"{self.path}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.format(data, indent=1))
            file.flush()
            os.fsync(fd)
        os.replace(temporary, self.path)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def lock(folder: str, name: str) -> int:
    """Lock a folder for this process's life; gives the descriptor to keep open.

    Raises:
        LockedError: another process holds it; its pid is in the text.
    """
    fd = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise LockedError(f"another hooklatch daemon (pid {holder}) already uses {folder}") from None
    os.ftruncate(fd, 0)
    os.write(fd, f"{os.getpid()}\n".encode())
    return fd

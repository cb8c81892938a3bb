"""The shared state of hooks, `event.state`, as the daemon serves it to their workers.  Runs no hook.

A worker sends requests during a call, over its own socket.  One operation is done at once and completely, in the task
of that call, so no lock is needed and a worker that dies leaves nothing half done.  With `[state] kept = true` a change
counts only once it is in the journal.
"""

from __future__ import annotations

import logging
import math
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from hooklatch.core.call import Call
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.keyspace import (
    GarbageStepError,
    Keyspace,
    Namespace,
    RefusedStepError,
    StateScope,
    StoredValue,
    name_session_scope,
)
from hooklatch.errors import JournalError
from hooklatch.service.config.settings import Settings
from hooklatch.service.dispatch.fires import Fire
from hooklatch.service.registry.sessions import AgentSession, Sessions
from hooklatch.threads import in_thread
from hooklatch_worker import wire
from hooklatch_worker.author.state import StateRequest
from hooklatch_worker.systems.disks import read_boot_time

if TYPE_CHECKING:
    from hooklatch.core.status_answers import SharedStateStatus
    from hooklatch.service.dispatch.state_journal import StateChange, StateJournal

__all__ = ["SharedState"]

logger = logging.getLogger("hooklatch.state")
LINGER = 24 * 3600.0  # seconds for which values outlast their last use, of a session whose end the daemon does not see
SYNC_INTERVAL = 0.05  # seconds between a change and its sync; a power cut may lose what was not synced
SLACK = 4 * 2**20  # bytes that the journal may have beyond four times the size of its content
SLICE = 200  # values written between two checkpoints, so that fires do not wait for a rewrite
SESSION = "session"


class SharedState:
    """The values of all sources, and the journal, if it is configured."""

    def __init__(self, folder: str) -> None:
        self.keyspace = Keyspace()
        self.unreadable: str | None = None  # the fault; then no value is known, and every operation is refused
        self.unwritten: str | None = None
        self._folder = folder
        self._journal: StateJournal | None = None
        self._is_changed = trio.Event()

    @property
    def faults(self) -> list[str]:
        """Return the present faults."""
        return [fault for fault in (self.unreadable, self.unwritten) if fault is not None]

    def open(self) -> None:
        """Load the kept values, and keep later changes; called before the first fire."""
        from hooklatch.service.dispatch.state_journal import StateJournal  # only a daemon that keeps state has one

        self._journal = StateJournal(self._folder)
        try:
            for change in self._journal.open():
                self._restore(change)
        except JournalError as error:
            self.unreadable = f"the shared state of hooks cannot be read: {error}"
            logger.error("%s", self.unreadable)
            self.keyspace.clear()

    def _restore(self, change: StateChange) -> None:
        scope = StateScope(Namespace(change.layer, change.owner, change.source), change.scope)
        scope = msgspec.structs.replace(scope, idle_ttl=LINGER if scope.scope else None)
        if not change.key:
            self.keyspace.end_scope(scope)
            return
        # Not below 0: if the clock was set back since, the value must not live longer than its ttl.
        passed = max(time.time() - change.changed_at, 0.0)
        ttl = change.ttl - passed if change.ttl is not None else math.inf
        entry = StoredValue(change.value.encode(), read_boot_time() + ttl) if change.value and ttl > 0 else None
        self.keyspace.take(scope, change.key, entry, read_boot_time())

    def answer(self, fire: Fire, call: Call, request: StateRequest) -> wire.StateResponse:
        """Perform one operation for a hook's call.

        Raises:
            FrameError: our own code in the worker never sends such a request.
        """
        try:
            value = self._perform(request, call.hook, fire)
            return wire.StateResponse(request.generation, request.call_id, request.number, value)
        except RefusedStepError as error:
            return wire.StateResponse(request.generation, request.call_id, request.number, error=str(error))
        except GarbageStepError as error:
            raise wire.FrameError(f"about state: {error}") from None

    def _perform(self, request: StateRequest, hook: Hook, fire: Fire) -> bytes:
        if self.unreadable is not None:
            raise RefusedStepError(self.unreadable)
        scope, now = self._find_scope(request, hook, fire.session, fire.params.envelope.session_id), read_boot_time()
        counted_key = hook, scope.scope, request.key
        is_once = request.once and request.operation == "increment"
        if is_once and counted_key in fire.counted:  # the hook is called again, in a later phase of the same fire
            stored = self.keyspace.find(scope, request.key, now)
            return stored.value if stored is not None else b"0"
        planned = self.keyspace.plan(scope, request, now)
        if planned.is_change:  # the journal first: if it fails, the value must not have changed either
            self._write(scope, request.key, planned.entry, now)
            self.keyspace.take(scope, request.key, planned.entry, now)
        if is_once:
            fire.counted.add(counted_key)
        return planned.result

    def _find_scope(
        self, request: StateRequest, hook: Hook, session: AgentSession | None, claimed: str | None
    ) -> StateScope:
        namespace = find_namespace(hook)
        session_id = session.id if session is not None else claimed
        if not request.is_session:
            return StateScope(namespace)
        if not session_id:
            raise RefusedStepError("this fire has no session, so it has no session state; name one: --session ID")
        if len(session_id.encode()) > MAX_SESSION:
            raise RefusedStepError(f"the session's id has more than {MAX_SESSION} bytes")
        is_live = session is not None and not session.has_ended
        return StateScope(
            namespace, name_session_scope(session_id, is_claimed=session is None), None if is_live else LINGER
        )

    def _write(self, scope: StateScope, key: str, entry: StoredValue | None, now: float) -> None:
        """Write a change to the journal, if the value is kept.

        Raises:
            RefusedStepError: the change could not be written, so it must not count.
        """
        # those of a session's hooks end with it, and it with the daemon
        if self._journal is None or scope.namespace.layer == SESSION:
            return
        try:
            self._journal.append(self._journal.seal(scope, key, entry, now))
        except JournalError as error:
            if self.unwritten is None:
                logger.error("%s", error)
            self.unwritten = str(error)
            raise RefusedStepError(str(error)) from None
        self._is_changed.set()

    def end_session(self, session_id: str, live: Sessions) -> None:
        """Forget the values of a session, and those of its hooks unless another session has inherited them."""
        for scope in self.keyspace.list_scopes(name_session_scope(session_id, is_claimed=False)):
            # the values end all the same; after a restart they are back until they expire
            with suppress(RefusedStepError):
                self._write(scope, "", None, read_boot_time())
            self.keyspace.end_scope(scope)
        unowned = [key for key in self.keyspace.usage() if key.layer == SESSION and live.get(key.within) is None]
        inherited_from = {hook.owner for session in live for hook in session.inherited} if unowned else set[str]()
        for namespace in unowned:
            if namespace.within not in inherited_from:
                self.keyspace.end_namespace(namespace)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sync the journal to the disk, and keep it short."""
        task_status.started()
        while True:
            await self._is_changed.wait()
            await trio.sleep(SYNC_INTERVAL)
            self._is_changed = trio.Event()  # before the sync: a change during it needs another one
            journal = self._journal
            if journal is None:
                continue
            try:
                if not journal.is_in_place() or journal.size > 4 * self.keyspace.total.bytes + SLACK:
                    await self._rewrite(journal)
                await in_thread(journal.sync)
                self.unwritten = None
            except JournalError as error:
                self.unwritten = str(error)
                logger.error("%s", error)
                self._is_changed.set()  # try again

    async def _rewrite(self, journal: StateJournal) -> None:
        lines: list[bytes] = []
        journal.begin_rewriting()
        try:
            for number, (scope, key, entry) in enumerate(self.keyspace.live(read_boot_time())):
                if scope.namespace.layer != SESSION:
                    lines.append(journal.seal(scope, key, entry, read_boot_time()))
                if number % SLICE == 0:
                    await trio.lowlevel.checkpoint()
            fd = await in_thread(journal.write_beside, b"".join(lines))
            journal.replace_by(fd)
        finally:
            journal.give_up_rewriting()
        await in_thread(journal.sync_folder)

    def warnings(self, settings: Settings) -> list[str]:
        """Return a warning if [state] has changed and the daemon does not apply that yet."""
        if settings.keeps_state == (self._journal is not None):
            return []
        return [f"[state] kept = {str(settings.keeps_state).lower()} takes effect at the next start of the daemon"]

    def clear(self) -> None:
        """Forget everything; for testing hooks, not for a daemon that keeps state."""
        self.keyspace.clear()

    def close(self) -> None:
        """Sync the last changes to the disk."""
        journal, self._journal = self._journal, None
        if journal is None:
            return
        try:
            if self.unreadable is None:
                journal.sync()
        except JournalError as error:
            logger.error("%s", error)
        finally:
            journal.close()

    def status(self) -> SharedStateStatus:
        """Return the size of all values; expired ones count until their room is needed."""
        usage = self.keyspace.usage()
        return {
            "keys": self.keyspace.total.keys,
            "bytes": self.keyspace.total.bytes,
            "kept_in": self._journal.path if self._journal is not None else None,
            "sources": [
                {"layer": key.layer, "within": key.within, "source": key.source, "keys": size.keys, "bytes": size.bytes}
                for key, size in usage.items()
            ],
        }


IN_BUNDLE = re.compile(r".*/[0-9a-f]{64}/", re.DOTALL)  # the path of a version's folder
MAX_SESSION = 512  # bytes of a session's id that a one-shot client claims; a live session's has at most 200 characters


def find_namespace(hook: Hook) -> Namespace:
    """Return the namespace of a hook's values; a file that two layers name is two sources.

    A file of the fleet's bundle is one source in all versions, so that a new version does not reset a limit.
    """
    location = hook.target.source.location if isinstance(hook.target, PythonTarget) else ""
    if hook.layer is Layer.FLEET:
        location = IN_BUNDLE.sub("", location)
    if hook.owner:
        return Namespace(SESSION, hook.owner, location)
    if hook.project:
        return Namespace("project", hook.project, location)
    return Namespace(hook.layer.label, hook.plugin or "", location)

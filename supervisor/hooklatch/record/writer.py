"""Writes the decision record: what is recorded when, and what happens where it cannot be.  Decides nothing else.

decided() ─▶ entry ─▶ Journal.put ─▶ Head                 in the caller's task, before its answer leaves
                         │
run() ─▶ group sync ─▶ anchor ─▶ durable() returns;    rotation, retention, the look at the disk

Whoever calls `decided` gets a record that stands whole in the file, or an error.  A sync that failed is never tried
again on the same file: the kernel may have dropped what it could not write, and say nothing of it the next time
(fsync(2)).  Then a new segment begins, and until one has been synced, gates are denied.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import trio

from hooklatch.core.messages import Decision, Head
from hooklatch.record.content.entries import Fact, entry_of_abandoned, entry_of_decision, scrubbed
from hooklatch.record.content.redaction import Redactor
from hooklatch.record.files.anchor import Anchor
from hooklatch.record.files.mark import MarkFile
from hooklatch.record.files.segments import NO_SPACE
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.disk import Stage
from hooklatch.record.storage.disk_space import DiskSpace
from hooklatch.record.storage.journal import Journal
from hooklatch.record.storage.recovery import Found, RecordError, facts_of_host, lock, take_over
from hooklatch.record.storage.removal import Retiring
from hooklatch.record.storage.retention import sizes
from hooklatch.record.storage.syncing import Syncs

__all__ = ["Fact", "Record", "RecordError"]

logger = logging.getLogger("hooklatch.record")
RESERVE = 2**20  # bytes for denials on a full disk: some 1500
GROUP = 0.025  # seconds that records are gathered before a sync, where no answer waits for it
LOOK = 1.0  # seconds between two looks at the disk
RETENTION = 60.0  # seconds between two looks at what is too old
MEND = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)  # seconds before the next segment, where each one fails
MAX_FAULTS = 20
MENDED = 86400.0  # seconds that the status tells of an error that mended itself
UNTIL = (
    "these faults of the record stay until somebody says that they are known: hooklatch log acknowledge --reason TEXT"
)


class Record:
    """The one writer of a folder of records."""

    def __init__(
        self,
        folder: str,
        settings: RecordSettings,
        *,
        clock: Callable[[], float] = time.time,
        reserve: int = RESERVE,
        fdatasync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        """Open a record, mend its torn end, and write that this daemon has started.

        Raises:
            RecordError: another process writes it, or it cannot be written.
        """
        self.folder = folder
        self._settings = settings
        self._clock = clock
        self._redactor = Redactor(settings)
        self._space = DiskSpace(folder, settings, self._put)
        self._faults: list[str] = []  # they stay, over restarts too, until somebody acknowledges them
        self._mended: list[tuple[float, str]] = []  # errors that are over and lost nothing, by time.monotonic
        self._broken: str | None = None  # why nothing can be written
        self._unsynced: str | None = None  # why nothing is known to reach the disk
        self._attempts = 0  # new segments in a row that did not help
        self._mend_at = 0.0  # the moment of the next one, by time.monotonic
        self._retention_at = 0.0
        self._dirty = trio.Event()
        self._is_closed = False
        self._lock = lock(folder)
        try:
            self._open(reserve, fdatasync)
        except (OSError, RecordError) as error:
            os.close(self._lock)
            reason = error.strerror if isinstance(error, OSError) else error
            raise RecordError(f"the record in {folder} cannot be written: {reason}") from None

    def _open(self, reserve: int, fdatasync: Callable[[int], None]) -> None:
        found = take_over(self.folder)
        with ExitStack() as stack:
            # First of all: no number is used before it is reserved, and no fault is told before it is sure to be kept.
            self._mark = MarkFile(self.folder, found.mark)
            stack.callback(self._mark.close)
            self._anchor = Anchor(self.folder, *found.anchored)
            stack.callback(self._anchor.close)
            self._journal = Journal(self.folder, found, self._mark, clock=self._clock, reserve=reserve)
            stack.callback(self._journal.close)
            self._syncs = Syncs(self._journal, self._anchor, self._mark, fdatasync)
            self._retiring = Retiring(self._journal, self._mark, self._syncs, append=self.append, note=self._note)
            self._introduce(found)
            self._files = stack.pop_all()

    def _introduce(self, found: Found) -> None:
        self._space.look()
        self._faults += found.unacknowledged[-MAX_FAULTS:]
        for recovered in found.recovered:
            logger.warning("recovered segment=%s bytes=%d", recovered["segment"], recovered["bytes"])
            self.append("recovered", **recovered)
        for fault in found.faults:
            self._note(fault)
        self.append(
            "started",
            **facts_of_host(),
            durability=self._settings.durability,
            after="nothing" if found.last is None else "stop" if found.last.kind == "stopped" else "crash",
        )

    # -- what is recorded --------------------------------------------------------------------------------------------

    @property
    def is_sound(self) -> bool:
        """Whether what is recorded can be written, and reaches the disk where that is wanted."""
        return self._broken is None and self._unsynced is None

    @property
    def faults(self) -> list[str]:
        """What makes a daemon's health red: what is wrong now, and what was found in what is written."""
        current = [text for text in (self._broken, self._unsynced, self._syncs.trouble) if text is not None]
        if self._space.stage >= Stage.CRITICAL and (shortage := self._space.explain()) is not None:
            current.append(shortage)
        if self._faults:
            current += [*self._faults, UNTIL]
        return current

    @property
    def head(self) -> Head | None:
        """The newest record."""
        return self._journal.head

    def decided(self, decision: Decision, fact: Fact) -> Head | None:
        """Record a decision, right before its answer leaves.

        What is no gate's is counted where it cannot be recorded, and gives None.

        Raises:
            RecordError: a gate's decision is not in the file.
        """
        if self._space.stage is Stage.FULL:
            self._space.look()
        stage = self._space.stage
        if not fact.is_gate and (stage >= Stage.CRITICAL or self._unsynced is not None):
            self._space.count(decision.event)
            return None
        if stage is Stage.FULL:
            raise RecordError(self._space.explain())
        excerpt_bytes = self._settings.excerpt_bytes if stage < Stage.CRITICAL else 0
        try:
            return self._write("decision", entry_of_decision(decision, fact, excerpt_bytes, self._redactor))
        except RecordError:
            if fact.is_gate:
                raise
            self._space.count(decision.event)
            return None

    def refused(self, decision: Decision, fact: Fact) -> Head | None:
        """Record that a gate is denied because its decision could not be recorded: from the reserve, if any is left."""
        try:
            body = entry_of_decision(decision, fact, 0, self._redactor)
            if self._unsynced is not None and not self._is_closed:
                return self._put("decision", body, from_reserve=True)  # nobody is promised that it reaches the disk
            return self._write("decision", body, from_reserve=True)
        except (OSError, RecordError):
            self._space.count(decision.event)
            return None

    def abandoned(self, event: str, decision_id: str, revision: int | None, fact: Fact) -> Head | None:
        """Record that a gate's client left before it was decided."""
        try:
            return self._write("abandoned", entry_of_abandoned(event, decision_id, revision, fact))
        except RecordError:
            self._space.count(event)
            return None

    def append(self, kind: str, **fields: Any) -> Head:
        """Record something that is no decision.  Such records are few: on a full disk they use the reserve.

        Raises:
            RecordError: it is not in the file.
        """
        return self._write(kind, scrubbed(fields, self._redactor), from_reserve=self._space.stage is Stage.FULL)

    async def acknowledge(self, reason: str) -> list[str]:
        """Take that somebody knows of the faults so far, and give them; what is wrong still stays.

        Raises:
            RecordError: it could not be recorded, or not be kept.
        """
        faults = list(self._faults)
        if not faults:
            return []
        head = self.append("acknowledged", reason=reason, faults=faults, fault_seq=self._mark.mark.fault_seq)
        self._faults = []  # those that come from here on are others
        try:
            await self._syncs.wait_for(head)
            self._mark.save(fault_seq=head.seq + 1 if self._faults else 0)
        except (OSError, RecordError) as error:
            self._faults = [*faults, *self._faults][-MAX_FAULTS:]
            raise RecordError(f"it is not sure that this stays on record: {error}") from None
        return faults

    async def durable(self, head: Head | None) -> None:
        """Wait until a record is as safe as the settings promise: with `written` it is already, and nothing waits.

        Raises:
            RecordError: it may not be on the disk.
        """
        if head is not None and self._settings.durability == "sync":
            await self._syncs.wait_for(head)

    def _write(self, kind: str, body: bytes, *, from_reserve: bool = False) -> Head:
        if self._is_closed:
            raise RecordError("the record is closed: the daemon is about to end")
        if self._unsynced is not None:
            raise RecordError(self._unsynced)
        if self._broken is not None:
            self._mend()
        try:
            return self._put(kind, body, from_reserve=from_reserve)
        except OSError as error:
            self._fail(error)
        # Another file may work where this one does not: it has reached a limit of its size, or lost its blocks.
        self._mend()
        try:
            return self._put(kind, body, from_reserve=from_reserve)
        except OSError as error:
            self._fail(error)
        raise RecordError(self._broken)

    def _put(self, kind: str, body: bytes, *, from_reserve: bool = False) -> Head:
        head = self._journal.put(kind, body, from_reserve=from_reserve)
        self._dirty.set()
        return head

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        """Take that an append failed; returns only where another segment may help."""
        if error.errno in NO_SPACE and self._journal.segment.is_whole:
            self._space.ran_out()
            raise RecordError(self._space.explain()) from None
        self._broken = (
            f"the record in {self.folder} cannot be written: {error.strerror or error}; mend its disk, or start the"
            " daemon with another XDG_STATE_HOME"
        )

    def _mend(self) -> None:
        """Begin a new segment in the place of one that cannot be written.

        Raises:
            RecordError: that failed too, or did a moment ago.
        """
        assert self._broken is not None
        now = time.monotonic()
        if now < self._mend_at:
            raise RecordError(self._broken)
        was_fresh = self._journal.is_fresh
        try:
            self._journal.begin_segment(reason=self._broken)
        except OSError:
            was_fresh = True
            logger.error("%s", self._broken)
            raise RecordError(self._broken) from None
        finally:
            if was_fresh:  # a new one does not help either; else each gate would leave a segment behind
                self._attempts += 1
                self._mend_at = now + MEND[min(self._attempts, len(MEND) - 1)]
        self._tell_mended(self._broken)
        self._broken = None
        self._dirty.set()

    def _tell_mended(self, error: str) -> None:
        """Tell of an error that is over: nothing is lost that was answered, so nobody has to acknowledge it."""
        logger.warning("over, and nothing is lost: %s", error)
        self._mended = [*self._mended, (time.monotonic(), error)][-MAX_FAULTS:]
        self._tell("mended", error)

    def _note(self, fault: str) -> None:
        """Keep a fault of the record itself, in the record too."""
        self._remember(fault)
        self._tell("fault", fault)

    def _tell(self, kind: str, text: str) -> None:
        with suppress(OSError):
            self._put(kind, scrubbed({"text": text}, self._redactor), from_reserve=True)

    def _remember(self, fault: str) -> None:
        logger.error("%s", fault)
        self._faults = [*self._faults, fault][-MAX_FAULTS:]
        if not self._mark.mark.fault_seq:
            with suppress(OSError):
                self._mark.save(fault_seq=self._journal.seq + 1)

    # -- the background ----------------------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sync, rotate, retire and watch the disk, for as long as it is not cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            task_status.started()
            try:
                while True:
                    await self._dirty.wait()
                    if self._settings.durability == "written":
                        await trio.sleep(GROUP)
                    await self._bring_to_disk()
            finally:
                self._syncs.end()

    async def _bring_to_disk(self) -> None:
        self._dirty = trio.Event()
        self._rotate()
        before = self._syncs.trouble
        fault = await self._syncs.once()
        for theft in self._syncs.take_thefts():
            self._note(theft)
        if before is not None and self._syncs.trouble is None:
            self._tell_mended(before)
        if fault is None:
            self._attempts, self._unsynced = 0, None
            return
        self._unsynced = f"{fault}; mend its disk, or start the daemon with another XDG_STATE_HOME"
        self._remember(fault)
        while not self._begin_anew(fault):
            await self._wait_longer()
        await self._wait_longer()
        self._dirty.set()

    def _begin_anew(self, fault: str) -> bool:
        """Begin a segment in the place of one whose sync failed, which is never synced again."""
        try:
            self._journal.begin_segment(reason=fault)
        except OSError as error:
            logger.error("%s, and no segment can be begun: %s", fault, error.strerror)
            return False
        self._journal.give_up_closing()
        self._tell("fault", fault)
        return True

    async def _wait_longer(self) -> None:
        await trio.sleep(MEND[min(self._attempts, len(MEND) - 1)])
        self._attempts += 1

    def _rotate(self) -> None:
        book, settings = self._journal, self._settings
        age = self._clock() - book.began_at
        if book.is_fresh or (book.segment.end < settings.segment_bytes and age < settings.segment_age):
            return
        try:
            book.begin_segment()
        except OSError as error:
            logger.warning("no new segment could be begun in %s: %s", self.folder, error.strerror)
        self._retention_at = 0.0

    async def _watch(self) -> None:
        while True:
            self._space.look()
            if self._broken is not None:
                with suppress(RecordError):
                    self._mend()
            if self._space.stage < Stage.CRITICAL and not (self._broken or self._unsynced):
                with suppress(OSError):
                    self._space.tell_unrecorded()
            if time.monotonic() >= self._retention_at:
                self._retention_at = time.monotonic() + RETENTION
                await self._retire()
            await trio.sleep(LOOK)

    async def _retire(self) -> None:
        try:
            await self._retiring.look(self._settings, self._clock())
        except (OSError, RecordError) as error:
            logger.warning("old segments in %s could not be removed: %s", self.folder, error)

    # -- settings, status, end ---------------------------------------------------------------------------------------

    def apply(self, settings: RecordSettings) -> None:
        """Take other settings at once."""
        if settings == self._settings:
            return
        before, self._settings = self._settings, settings
        self._redactor = Redactor(settings)
        self._space.apply(settings)
        names = [name for name in settings.__struct_fields__ if getattr(before, name) != getattr(settings, name)]
        with suppress(RecordError):
            self.append("settings", changed={name: getattr(settings, name) for name in names})
        self._retention_at = 0.0
        self._space.look()

    def status(self) -> dict[str, Any]:
        """Return how the record is."""
        book = self._journal
        warnings = [f"over, and nothing is lost: {text}" for at, text in self._mended if time.monotonic() - at < MENDED]
        if self._space.stage < Stage.CRITICAL and (shortage := self._space.explain()) is not None:
            warnings.append(shortage)
        try:
            known = sizes(self.folder)
        except OSError:
            known = {}
        return {
            "folder": self.folder,
            "durability": self._settings.durability,
            "head": self.head,
            "segment": book.segment.place.name,
            "segments": len(known),
            "bytes": sum(size for size, _ in known.values()),
            "stage": self._space.stage.label,
            "free_bytes": self._space.free_bytes,
            "reserve_bytes": book.segment.reserve,
            "unrecorded": dict(self._space.unrecorded),
            "faults": self.faults,
            "warnings": warnings,
            "synced_seq": self._syncs.synced_seq,
            "sync_age_s": round(time.monotonic() - self._syncs.synced_at, 3),
            "syncs": self._syncs.count,
        }

    def close(self, failure: str | None = None) -> None:
        """Write that this daemon ends, and of what, if it failed; bring all to the disk, and let go of the folder."""
        if self._is_closed:
            return
        with suppress(OSError):
            self._space.tell_unrecorded(from_reserve=True)
            told = {"failure": failure} if failure is not None else {}
            self._put("stopped", scrubbed(told, self._redactor), from_reserve=True)
        self._is_closed = True
        self._syncs.end()
        fault = self._syncs.once_blocking()
        if fault is not None:
            logger.error("%s", fault)
        else:
            with suppress(OSError):  # then the next start takes it for a crash
                self._mark.save(is_shut=True, seq=self._journal.seq, hash=self._journal.hash)
        self._files.close()
        os.close(self._lock)

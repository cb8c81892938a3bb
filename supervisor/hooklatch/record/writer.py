"""The writer of the decision record, which also handles failures to write it.

append_decision() ─▶ entry ─▶ ChainWriter.put ─▶ ChainHead    in the caller's task, before its answer leaves
                                  │
run() ─▶ group sync ─▶ anchor ─▶ durable() returns;    rotation, retention, checks of the disk

    record_writer = RecordWriter(folder, RecordSettings())
    head = record_writer.append_decision(decision, facts)

`append_decision` returns once the entry is completely in the file, or raises.  A sync that failed is never retried on
the same file: the kernel may have dropped the pages that it could not write, and report success the next time
(fsync(2)).  Instead a new segment begins, and until that segment is synced, gates are denied.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import trio

from hooklatch.core.messages import ChainHead, FireDecision
from hooklatch.errors import locate_error
from hooklatch.record.entries import (
    FireFacts,
    encode_abandoned_entry,
    encode_decision_entry,
    encode_fields,
    hide_payload,
)
from hooklatch.record.redaction import Redactor, excerpt_payload
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.disk_space import DiskSpace, DiskStage
from hooklatch.record.storage.faults import RecordFaults
from hooklatch.record.storage.journal import Appender, ChainWriter, Clock
from hooklatch.record.storage.mark import Anchor, MarkFile
from hooklatch.record.storage.recovery import RecordError, Recovery, collect_host_facts, lock_record, recover_record
from hooklatch.record.storage.removal import SegmentRemover
from hooklatch.record.storage.retention import measure_segments
from hooklatch.record.storage.syncing import RecordSync
from hooklatch_worker.systems.disks import sync_data

if TYPE_CHECKING:
    from hooklatch.core.status_answers import PayloadStatus, RecordStatus
    from hooklatch.record.payload_keeping import Payloads, UnsyncedPayloads

__all__ = ["FireFacts", "RecordWriter", "RecordError"]

logger = logging.getLogger("hooklatch.record")
CRITICAL = DiskStage.CRITICAL
RESERVE = 2**20  # bytes for denials on a full disk, enough for about 1500
GROUP = 0.025  # seconds to gather records before a sync, if no answer waits for it
LOOK = 1.0  # seconds between checks of the disk
RETENTION = 60.0  # seconds between checks for old segments

NO_PAYLOADS: PayloadStatus = {"kept": 0, "unkept": 0, "fault": None}


class RecordWriter:
    """The only writer to a record's directory."""

    def __init__(
        self,
        folder: str,
        settings: RecordSettings,
        *,
        clock: Clock = lambda: time.time(),
        now: Clock = time.monotonic,
        reserve: int = RESERVE,
        fdatasync: Callable[[int], None] = sync_data,
        is_settled: bool = True,
        on_fault: Callable[[str, str], None] = lambda kind, text: None,
    ) -> None:
        """Open a record, repair its torn end, and record that this daemon has started.

        Without `is_settled` the settings are those of an earlier time: nothing is removed by them until `apply`.
        `on_fault` is called with `fault`, `mended` or `acknowledged`.  `now` is the clock of waits and ages.

        Raises:
            RecordError: another process writes it, or it cannot be written.
        """
        self.folder = folder
        self._on_fault = on_fault
        self.is_synced_first = settings.durability == "sync"  # whether answers wait until their records are on disk
        self._settings = settings
        self._is_settled = is_settled
        self._clock, self._now = clock, now
        self.redactor = Redactor(settings)
        self._space = DiskSpace(folder, settings, self._put)
        self._payloads: Payloads | None = None
        self._open_payloads()
        self._retention_at = 0.0
        self._lock = lock_record(folder)
        try:
            self._open(reserve, fdatasync)
        except (OSError, RecordError) as error:
            os.close(self._lock)
            raise RecordError(f"the record in {folder} cannot be written: {locate_error(error)}") from None

    def _open(self, reserve: int, fdatasync: Callable[[int], None]) -> None:
        recovered = recover_record(self.folder)
        with ExitStack() as stack:
            # The mark first: numbers must be reserved before they are used, and faults kept before they are reported.
            self._mark = MarkFile(self.folder, recovered.mark)
            stack.callback(self._mark.close)
            self._anchor = Anchor(self.folder, *recovered.anchored)
            stack.callback(self._anchor.close)
            self._journal = ChainWriter(
                self.folder, recovered, self._mark, clock=self._clock, now=self._now, reserve=reserve
            )
            stack.callback(self._journal.close)
            stack.callback(self._close_payloads)
            self._syncs = RecordSync(self._journal, self._anchor, self._mark, fdatasync, self._take_unsynced_payloads)
            self._faults = RecordFaults(self._journal, self._mark, self._syncs, self._put_text, self._on_fault)
            self._appender = Appender(self._journal, self._space, self._faults.note_mended)
            self._remover = SegmentRemover(
                self._journal, self._mark, self._syncs, append=self.append, note=self._faults.note
            )
            self._record_start(recovered)
            self._files = stack.pop_all()

    def _record_start(self, recovered: Recovery) -> None:
        self._space.look()
        self._faults.take_over(recovered.unacknowledged)
        for moved in recovered.recovered:
            logger.warning("recovered segment=%s bytes=%d", moved["segment"], moved["bytes"])
            self.append("recovered", **moved)
        for fault in recovered.faults:
            self._faults.note(fault)
        after = "nothing" if recovered.last is None else "stop" if recovered.last.kind == "stopped" else "crash"
        self.append("started", **collect_host_facts(), durability=self._settings.durability, after=after)

    # -- what is recorded --------------------------------------------------------------------------------------------

    @property
    def is_sound(self) -> bool:
        """Return whether entries can be written, and reach the disk where the settings require it."""
        return self._appender.is_sound

    @property
    def faults(self) -> list[str]:
        """Return the texts that make the daemon's health red: errors, a full disk, and unacknowledged faults."""
        texts = (self._appender.broken, self._appender.unsynced, self._syncs.trouble)
        current = [text for text in texts if text is not None]
        if self._space.stage >= DiskStage.CRITICAL and (shortage := self._space.explain()) is not None:
            current.append(shortage)
        return current + self._faults.unacknowledged

    @property
    def mismatches(self) -> list[str]:
        """Return the texts about calls that did not run as judged, until they are acknowledged."""
        return self._faults.mismatches

    @property
    def overruled(self) -> Mapping[tuple[str, str], str]:
        """Return, by host and session, the text about a call that ran although it was refused."""
        return self._faults.overruled

    @property
    def head(self) -> ChainHead | None:
        """Return the head of the chain."""
        return self._journal.head

    def choose_excerpt(self, facts: FireFacts) -> None:
        """Choose the excerpt of a payload; called before the decision, so that the answer need not wait for it."""
        facts.redactor, facts.limit = self.redactor, self._settings.excerpt_bytes
        facts.excerpt, facts.excerpt_cut = excerpt_payload(facts.payload, facts.limit, facts.redactor)
        if self._payloads is not None and self._payloads.are_kept:
            self._payloads.make_line(facts, facts.redactor)

    def _open_payloads(self) -> None:
        """Load what keeps whole payloads, if the settings ask for it, or payloads that were kept may be due to go."""
        is_wanted = self._settings.payloads == "full" or os.path.lexists(os.path.join(self.folder, "payloads"))
        if self._payloads is None and is_wanted:
            from hooklatch.record.payload_keeping import Payloads

            self._payloads = Payloads(self.folder, self._settings, clock=self._clock, now=self._now)

    def _take_unsynced_payloads(self) -> UnsyncedPayloads | None:
        return self._payloads.take_unsynced() if self._payloads is not None else None

    def _close_payloads(self) -> None:
        if self._payloads is not None:
            self._payloads.close()

    def append_decision(self, decision: FireDecision, facts: FireFacts) -> ChainHead | None:
        """Record a decision, right before its answer leaves.

        A decision of another event than a gate is counted if it cannot be recorded, and returns None.

        Raises:
            RecordError: the decision of a gate is not in the file.
        """
        try:
            if self._space.stage >= CRITICAL:
                self._choose_excerpt_on_full_disk(facts)
            elif facts.redactor is not self.redactor:  # not chosen yet, or the settings have changed since
                self.choose_excerpt(facts)
            if facts.line is not None and self._payloads is not None:
                self._payloads.keep(facts, seq=self._journal.seq + 1, stage=self._space.stage)
            return self._appender.append("decision", encode_decision_entry(decision, facts, self.redactor))
        except RecordError:
            if facts.is_gate:
                raise
            self._space.count(decision.event)
            return None

    def _choose_excerpt_on_full_disk(self, facts: FireFacts) -> None:
        """Choose the part of a payload that is recorded on a nearly full disk.

        Raises:
            RecordError: there is no room for the decision at all.
        """
        if self._space.stage is DiskStage.FULL:
            self._space.look()
        if self._space.stage is DiskStage.FULL or (self._space.stage >= CRITICAL and not facts.is_gate):
            raise RecordError(self._space.explain())
        if self._space.stage >= CRITICAL:
            hide_payload(facts)
        elif facts.redactor is not self.redactor:
            self.choose_excerpt(facts)

    def append_refusal(self, decision: FireDecision, facts: FireFacts) -> ChainHead | None:
        """Record that a gate is denied because its decision could not be recorded; use the reserve if needed."""
        try:
            hide_payload(facts)
            body = encode_decision_entry(decision, facts, self.redactor)
            if self._appender.unsynced is not None and not self._appender.is_closed:
                return self._put("decision", body, from_reserve=True)  # not promised to reach the disk
            return self._appender.append("decision", body, from_reserve=True)
        except (OSError, RecordError):
            self._space.count(decision.event)
            return None

    def append_abandoned(
        self, event: str, decision_id: str, revision: int | None, facts: FireFacts
    ) -> ChainHead | None:
        """Record that a gate's client left before the decision."""
        try:
            return self._appender.append("abandoned", encode_abandoned_entry(event, decision_id, revision, facts))
        except RecordError:
            self._space.count(event)
            return None

    def append(self, kind: str, **fields: Any) -> ChainHead:
        """Record something other than a decision.  These are few, so on a full disk they use the reserve.

        Raises:
            RecordError: it is not in the file.
        """
        return self._appender.append(
            kind, encode_fields(fields, self.redactor), from_reserve=self._space.stage is DiskStage.FULL
        )

    def append_skipped(self, events: Mapping[str, int], **fields: Any) -> None:
        """Record how many events clients did not fire, as no hook listens; counted where no such event is recorded."""
        if self._space.stage < DiskStage.CRITICAL and self._appender.unsynced is None:
            with suppress(RecordError):
                self._appender.append("skipped", encode_fields({"events": events, **fields}, self.redactor))
                return
        self._space.unrecorded.update(events)

    def note_mismatch(self, text: str, **fields: Any) -> None:
        """Record a call that did not run as it was judged; it is reported until it is acknowledged."""
        self._faults.remember(text, **fields)
        with suppress(OSError):
            self._put("fault", encode_fields({"text": text, **fields}, self.redactor), from_reserve=True)

    async def acknowledge(self, reason: str) -> list[str]:
        """Acknowledge the faults so far and return them; errors that persist stay red.

        Raises:
            RecordError: the acknowledgement could not be recorded.
        """
        return await self._faults.acknowledge(reason, self.append)

    async def durable(self, head: ChainHead | None) -> None:
        """Wait until a record is as durable as configured; with `written` it already is.

        Raises:
            RecordError: it may not be on disk.
        """
        if head is not None and self.is_synced_first:
            await self._syncs.wait_for(head)

    def _put(self, kind: str, body: bytes, *, from_reserve: bool = False) -> ChainHead:
        return self._appender.put(kind, body, from_reserve=from_reserve)

    def _put_text(self, kind: str, text: str) -> None:
        with suppress(OSError):
            self._put(kind, encode_fields({"text": text}, self.redactor), from_reserve=True)

    # -- the background ----------------------------------------------------------------------------------------------

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sync, rotate, retire and watch the disk, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            task_status.started()
            try:
                while True:
                    await self._appender.dirty.wait()
                    if not self.is_synced_first:
                        await trio.sleep(GROUP)
                    await self._sync_entries()
            finally:
                self._syncs.end()

    async def _sync_entries(self) -> None:
        self._appender.dirty = trio.Event()
        self._rotate()
        before = self._syncs.trouble
        fault = await self._syncs.once()
        for tampering in self._syncs.take_tampering():
            self._faults.note(tampering)
        if before is not None and self._syncs.trouble is None:
            self._faults.note_mended(before)
        if fault is None:
            self._appender.synced()
            return
        self._appender.unsynced = f"{fault}; repair its disk, or start the daemon with another XDG_STATE_HOME"
        self._faults.remember(fault)
        while not self._replace_segment(fault):
            await self._appender.back_off()
        await self._appender.back_off()
        self._appender.dirty.set()

    def _replace_segment(self, fault: str) -> bool:
        """Begin a segment in place of one whose sync failed, which is never synced again."""
        self._journal.segment.is_lost = True
        try:
            self._journal.begin_segment(reason=fault)
        except OSError as error:
            logger.error("%s, and no segment can be begun: %s", fault, error.strerror)
            return False
        self._journal.give_up_closing()
        self._put_text("fault", fault)
        return True

    def _rotate(self) -> None:
        journal, settings = self._journal, self._settings
        age = self._clock() - journal.began_at
        if journal.is_fresh or (journal.segment.end < settings.segment_bytes and age < settings.segment_age):
            return
        try:
            journal.begin_segment()
        except OSError as error:
            logger.warning("no new segment could be begun in %s: %s", self.folder, error.strerror)
        self._retention_at = 0.0

    async def _watch(self) -> None:
        while True:
            self._space.look()
            with suppress(RecordError):
                self._appender.mend()
            if self._space.stage < DiskStage.CRITICAL and self._appender.is_sound:
                with suppress(OSError):
                    self._space.record_unrecorded()
            if self._is_settled and self._now() >= self._retention_at:
                self._retention_at = self._now() + RETENTION
                await self._retire()
            await trio.sleep(LOOK)

    async def _retire(self) -> None:
        try:
            await self._remover.look(self._settings, self._clock())
            if self._payloads is not None:
                await self._payloads.retire(self._journal.seq, self.append, self._syncs.wait_for)
        except (OSError, RecordError) as error:
            logger.warning("old segments in %s could not be removed: %s", self.folder, error)

    # -- shipping ----------------------------------------------------------------------------------------------------

    def set_shipped(self, seq: int | None) -> None:
        """Set the entry up to which a fleet's engine has acknowledged all; None: that is not known any more.

        Raises:
            ValueError: there is no such entry.
        """
        if seq is not None and seq > self._journal.seq:
            raise ValueError(f"record {seq} cannot be acknowledged: the newest one is {self._journal.seq}")
        self._remover.shipped = seq

    # -- settings, status, end ---------------------------------------------------------------------------------------

    def apply(self, settings: RecordSettings) -> None:
        """Change to new settings at once."""
        self._is_settled = True
        if settings == self._settings:
            return
        before, self._settings = self._settings, settings
        self.is_synced_first = settings.durability == "sync"
        self.redactor = Redactor(settings)
        self._space.apply(settings)
        self._open_payloads()
        if self._payloads is not None:
            self._payloads.apply(settings)
        names = [name for name in settings.__struct_fields__ if getattr(before, name) != getattr(settings, name)]
        with suppress(RecordError):
            self.append("settings", changed={name: getattr(settings, name) for name in names})
        self._retention_at = 0.0
        self._space.look()

    def status(self) -> RecordStatus:
        """Return the state of the record for `status`."""
        journal, head = self._journal, self.head
        warnings = self._faults.over
        if self._space.stage < DiskStage.CRITICAL and (shortage := self._space.explain()) is not None:
            warnings.append(shortage)
        if self._payloads is not None and self._payloads.fault is not None:
            warnings.append(self._payloads.fault)
        try:
            sizes = measure_segments(self.folder)
        except OSError:
            sizes = {}
        return {
            "folder": self.folder,
            "durability": self._settings.durability,
            "head": {"seq": head.seq, "hash": head.hash} if head is not None else None,
            "segment": journal.segment.place.name,
            "segments": len(sizes),
            "bytes": sum(size for size, _ in sizes.values()),
            "stage": self._space.stage.label,
            "free_bytes": self._space.free_bytes,
            "reserve_bytes": journal.segment.reserve,
            "unrecorded": dict(self._space.unrecorded),
            "faults": self.faults,
            "warnings": warnings,
            "synced_seq": self._syncs.synced_seq,
            "sync_age_s": round(self._now() - self._syncs.synced_at, 3),
            "syncs": self._syncs.count,
            "payloads": self._payloads.status() if self._payloads is not None else NO_PAYLOADS,
            "shipping": self._remover.shipping(sizes) if self._settings.keep_unshipped_bytes is not None else None,
        }

    def close(self, failure: str | None = None) -> None:
        """Record the end of this daemon, and its failure if any; sync, and release the directory."""
        if self._appender.is_closed:
            return
        with suppress(OSError):
            self._space.record_unrecorded(from_reserve=True)
            fields = {"failure": failure} if failure is not None else {}
            self._put("stopped", encode_fields(fields, self.redactor), from_reserve=True)
        self._appender.is_closed = True
        self._syncs.end()
        fault = self._appender.unsynced if self._journal.segment.is_lost else self._syncs.once_blocking()
        if fault is not None:
            logger.error("%s", fault)
        else:
            with suppress(OSError):  # otherwise the next start assumes a crash
                self._mark.save(is_closed=True, seq=self._journal.seq, hash=self._journal.hash)
        self._files.close()
        os.close(self._lock)

"""The shipping of the record: one batch at a time, in order, each after the one before was acknowledged.

The engine's newest batch of this host is the only state, so a kill at any point loses and doubles no entry: a batch
that was sent twice is refused by its number.

Small batches cost the engine most, so entries that keep coming are gathered, for up to 15 seconds or 64 KiB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import trio

from hooklatch.errors import explain_error
from hooklatch.fleet.batches import BatchError, PackedBatch, find_newest_place
from hooklatch.fleet.engine.engine import ConflictError, Engine, EngineRefusedError, LostError, RecordBatch
from hooklatch.fleet.identity import HostIdentity
from hooklatch.fleet.link.known import RECORD, SHIPPING, LinkState
from hooklatch.fleet.link.outgoing import ENOUGH, RecordBacklog, Resume, ShippedHead, ShippingReader
from hooklatch.fleet.link.waiting import Backoff, await_answer
from hooklatch.record.storage.seeking import RecordChangedError
from hooklatch.threads import in_thread

__all__ = ["RecordShipper"]

LOOK = 0.5  # seconds between two looks for new records
CHECK = 10.0  # seconds between two looks whether the record still has what was shipped last
LOOK_AGAIN = 30.0  # seconds without a batch after which the engine may have lost what it had: its end is read again
GATHER, LONGEST_GATHER = 0.5, 15.0  # seconds for which entries are gathered: first, and where they keep coming
URGENT = 2.0  # seconds, at least, between two batches for what is urgent
LONGEST = 15.0  # seconds, at maximum, until an engine that refuses, or a record that cannot be read, is tried again
MEASURE = 10.0  # seconds between two questions how full the engine's memory is
FULL = 0.9  # of its memory: the rest is for versions and reports, which must find room however much hosts ship
NEW_EPOCH = 60.0  # seconds between two new epochs, at least, so that logs do not multiply, even by a fault
MAX_EPOCHS = 8  # before the newest that are read: enough for two machines that share a name


class Schedule:
    """The moments of shipping: soon after a quiet time, later where more keeps coming, at once if it is urgent."""

    def __init__(self) -> None:
        self._gather = GATHER
        self._shipped_at = -math.inf
        self._since = math.inf  # when something began to wait

    def is_due(self, waiting: RecordBacklog, now: float) -> bool:
        """Return whether to ship now."""
        if not waiting.size:
            return False
        if self._since > now:
            self._since = now
            if now - self._shipped_at >= self._gather:  # it was quiet for as long
                self._gather = GATHER
        is_pressing = waiting.is_urgent and now >= self._shipped_at + URGENT
        return waiting.size >= ENOUGH or is_pressing or now >= self._since + self._gather

    def note_shipped(self, now: float) -> None:
        """Take note that a batch was shipped."""
        self._shipped_at, self._since = now, math.inf
        self._gather = min(LONGEST_GATHER, 2 * self._gather)


class RecordShipper:
    """The shipper of one host's record; it outlives connections to the engine."""

    def __init__(
        self, host: str, reader: ShippingReader, state: LinkState, *, identity: HostIdentity | None,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._host = host
        self._identity = identity
        self._reader = reader
        self._state = state
        self._clock = now
        self._pauses = Backoff(LONGEST)
        self._acknowledged: ShippedHead | None = None  # to this process
        self._may_begin_epoch_at = 0.0
        self._measure_at = 0.0
        self._conflicts = 0  # since a batch was acknowledged

    async def run(self, engine: Engine) -> None:
        """Ship until the connection ends; begin anew where the engine may have lost something."""
        while True:
            try:
                resume = await self._resume(engine)
                if resume is None:
                    await trio.sleep(LOOK)
                    continue
                await self._ship(engine, resume)
            except ConflictError as error:
                self._conflicts += 1
                self._state.set_fault(SHIPPING, f"another process ships as this host, or a batch came late: {error}")
            except LostError:
                pass  # nothing was taken, and the next look says what is missing
            except EngineRefusedError as error:
                self._state.set_fault(SHIPPING, f"the engine does not say what it has of this host: {error}")
            except RecordChangedError as error:
                self._state.add_finding(str(error))
            except OSError as error:
                self._state.set_fault(
                    RECORD, f"the record in {self._reader.folder} cannot be read: {explain_error(error)}"
                )
            await trio.sleep(self._pauses.next())

    async def _resume(self, engine: Engine) -> Resume | None:
        """Return where shipping continues; None if there is no record yet."""
        newest = await in_thread(self._reader.newest)
        self._state.newest = newest
        if newest is None:
            self._state.set_fault(RECORD, f"there is no record in {self._reader.folder} yet: is the daemon running?")
            return None
        shipped, problem = await self._newest_shipped(engine)
        self._note_loss(shipped)
        if problem is not None and shipped is not None:
            resume = Resume(shipped.epoch + 1, is_rewritten=True, finding=problem)
        else:
            resume = await in_thread(self._reader.compare, shipped)
        if resume.is_rewritten and shipped is not None:
            resume = await self._find_earlier_epoch(engine, shipped.epoch, newest.seq) or resume
        # The engine refuses numbers that it does not show: its log was emptied, and the stream remembers its last id.
        if self._conflicts > 1 and not resume.is_rewritten:
            hole = f"the engine refuses numbers after {resume.after} in epoch {resume.epoch}, which it does not have"
            newest_epoch = max(resume.epoch, shipped.epoch if shipped is not None else 0)
            resume = Resume(newest_epoch + 1, is_rewritten=True, finding=f"{hole}; a new epoch begins")
        if resume.finding is not None:
            self._state.add_finding(resume.finding)
        self._state.shipped = resume.after  # at once: the daemon must keep the entries that have to be shipped again
        if resume.is_rewritten:
            await trio.sleep(max(0.0, self._may_begin_epoch_at - self._clock()))
            self._may_begin_epoch_at = self._clock() + NEW_EPOCH
        self._state.epoch = resume.epoch
        await in_thread(self._reader.seek, resume)
        self._state.set_fault(RECORD, None)
        if not self._conflicts:
            self._state.set_fault(SHIPPING, None)
        return resume

    async def _ship(self, engine: Engine, resume: Resume) -> None:
        reader, loss_count, schedule = self._reader, self._state.loss_count, Schedule()
        check_at, look_at = self._clock() + CHECK, self._clock() + LOOK_AGAIN
        while self._state.loss_count == loss_count:
            began = self._clock()
            waiting = await in_thread(reader.look) if reader.has_more() else RecordBacklog()
            packed = await in_thread(reader.next) if schedule.is_due(waiting, began) else None
            for finding in reader.findings:
                self._state.add_finding(finding)
            reader.findings = []
            if packed is not None:
                if began >= look_at and (await self._newest_shipped(engine))[0] != self._acknowledged:
                    return
                await self._append(engine, resume.epoch, packed)
                self._acknowledge(ShippedHead(resume.epoch, packed.last, packed.hash))
                self._state.lost += reader.lost
                reader.lost = 0
                schedule.note_shipped(self._clock())
                look_at = self._clock() + LOOK_AGAIN
                # A backlog leaves room for others, here and at the engine.
                await trio.sleep(min(LOOK, (self._clock() - began) / 2))
            else:
                await trio.sleep(LOOK)
            if self._clock() >= check_at:
                await in_thread(reader.check)
                check_at = self._clock() + CHECK

    async def _append(self, engine: Engine, epoch: int, packed: PackedBatch) -> None:
        """Append a batch, with retries while the engine refuses; the rest waits in the record."""
        batch = RecordBatch(packed.first, packed.last, packed.data)
        if self._identity is not None:
            batch = self._identity.sign_batch(epoch, batch)
        while True:
            try:
                await self._check_room(engine)
                await await_answer(engine.append(self._host, epoch, batch))
            except EngineRefusedError as error:
                self._state.set_fault(SHIPPING, f"the engine takes no records: {error}")
                await trio.sleep(self._pauses.next())
            else:
                self._pauses.reset()
                self._conflicts = 0
                self._state.set_fault(SHIPPING, None)
                return

    async def _check_room(self, engine: Engine) -> None:
        """Raise EngineRefusedError while the engine's memory is nearly full."""
        if self._clock() >= self._measure_at:
            share = await await_answer(engine.fullness())
            if share is not None and share >= FULL:
                raise EngineRefusedError(
                    f"{share:.0%} of its memory is taken, and what is left is for the policy; trim old logs, or"
                    " raise maxmemory there"
                )
            self._measure_at = self._clock() + MEASURE

    def _acknowledge(self, shipped: ShippedHead) -> None:
        self._acknowledged = shipped
        self._state.shipped = shipped.seq

    async def _newest_shipped(self, engine: Engine) -> tuple[ShippedHead | None, str | None]:
        """Return the newest entry that the engine has, and a text if its batch cannot be read."""
        newest = await await_answer(engine.last_batch(self._host))
        if newest is None:
            return None, None
        epoch, batch = newest
        if not batch.data:
            return ShippedHead(epoch, batch.last, ""), None
        try:
            return ShippedHead(epoch, batch.last, find_newest_place(batch.data, batch.last).hash), None
        except BatchError as error:
            subject = (
                f"the engine's newest batch of this host, up to record {batch.last} in epoch {epoch}, is not valid"
            )
            return ShippedHead(epoch, batch.last, ""), f"{subject}: {error}; the record goes into a new epoch"

    def _note_loss(self, shipped: ShippedHead | None) -> None:
        """Add a finding if the engine no longer has the entries that it had acknowledged."""
        before, self._acknowledged = self._acknowledged, shipped
        if before is None or (shipped is not None and (shipped.epoch, shipped.seq) >= (before.epoch, before.seq)):
            return
        remainder = f"up to {shipped.seq} in epoch {shipped.epoch}" if shipped is not None else "none"
        self._state.add_finding(
            f"the engine lost records that it had acknowledged, up to {before.seq} in epoch {before.epoch}:"
            f" it has {remainder}, and gets again what is still in the record"
        )

    async def _find_earlier_epoch(self, engine: Engine, newest: int, maximum: int) -> Resume | None:
        """Return where shipping continues in an earlier epoch whose last entry the record has, if there is one.

        So two machines that have one name by mistake do not begin one epoch after the other.
        """
        epochs = [epoch for epoch in await await_answer(engine.epochs(self._host)) if epoch < newest]
        for epoch in reversed(epochs[-MAX_EPOCHS:]):
            batch = await self._find_last_batch(engine, epoch, maximum)
            if batch is None:
                continue
            try:
                shipped = ShippedHead(epoch, batch.last, find_newest_place(batch.data, batch.last).hash)
            except BatchError:
                continue
            resume = await in_thread(self._reader.compare, shipped)
            if not resume.is_rewritten and resume.finding is None:
                self._state.add_finding(
                    f"epoch {newest} of this host's log is of another record: another machine has this host's name, or"
                    f" the record was replaced for a while; shipping goes on in epoch {epoch}"
                )
                return resume
        return None

    async def _find_last_batch(self, engine: Engine, epoch: int, maximum: int) -> RecordBatch | None:
        """Return the last batch of an epoch, by halving; None if it is empty or ends beyond entry `maximum`.

        The engine can list an epoch from its beginning only, and an epoch may have gigabytes.
        """
        if await self._next_batch(engine, epoch, maximum) or not (batches := await self._next_batch(engine, epoch, 0)):
            return None
        last_batch, end = batches[0], maximum
        while last_batch.last < end:
            middle = (last_batch.last + end) // 2
            if batches := await self._next_batch(engine, epoch, middle):
                last_batch = batches[0]
            else:
                end = middle
        return last_batch

    async def _next_batch(self, engine: Engine, epoch: int, after: int) -> Sequence[RecordBatch]:
        return await await_answer(engine.batches(self._host, epoch, after, limit=1))

"""Ships the record: one batch at a time, in order, each after the one before was acknowledged.  Decides nothing.

The engine's newest batch of this host is all the memory there is, so a kill at any point loses and doubles nothing that
a reader keeps: a batch that was sent twice is refused by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from hooklatch.errors import explain_error
from hooklatch.fleet.engine.engine import ConflictError, Engine, EngineRefusedError, LostError, RecordBatch
from hooklatch.fleet.link.asking import await_answer
from hooklatch.fleet.link.comparing import Resume, ShippedHead
from hooklatch.fleet.link.known import RECORD, SHIPPING, LinkState
from hooklatch.fleet.link.outgoing import ShippingReader
from hooklatch.fleet.link.pauses import Backoff
from hooklatch.fleet.policy.batches import BatchError, PackedBatch, find_newest_hash
from hooklatch.record.files.seeking import RecordChangedError

__all__ = ["RecordShipper"]

LOOK = 0.5  # seconds between two looks for new records
CHECK = 10.0  # seconds between two looks whether the record still has what was shipped last
LOOK_AGAIN = 60.0  # seconds between two looks whether the engine still has it
LONGEST = 15.0  # seconds, at most, until an engine that refuses, or a record that cannot be read, is tried again
NEW_EPOCH = 60.0  # seconds between two new epochs, at least: whatever goes wrong, logs do not multiply
MAX_EPOCHS = 8  # of those before the newest that are looked at


class RecordShipper:
    """The shipping of one host's record, over the life of any connection to the engine."""

    def __init__(self, host: str, outgoing: ShippingReader, known: LinkState, *, now: Callable[[], float]) -> None:
        self._host = host
        self._outgoing = outgoing
        self._known = known
        self._now = now
        self._pauses = Backoff(LONGEST)
        self._acknowledged: ShippedHead | None = None  # by this process's experience
        self._may_begin_epoch_at = 0.0
        self._conflicts = 0  # since a batch was acknowledged
        self._hole: str | None = None  # how the epoch that is shipped to has lost what nothing can put there again

    async def run(self, engine: Engine) -> None:
        """Ship until the connection ends; begin anew where the engine may have lost something.

        Raises:
            EngineError: it has.
        """
        while True:
            try:
                resume = await self._resume(engine)
                if resume is None:
                    await trio.sleep(LOOK)
                    continue
                await self._ship(engine, resume)
            except ConflictError as error:
                self._conflicts += 1
                self._known.fault(SHIPPING, f"another process ships as this host, or a batch came late: {error}")
            except LostError as error:
                self._hole = str(error)
            except EngineRefusedError as error:
                self._known.fault(SHIPPING, f"the engine does not say what it has of this host: {error}")
            except RecordChangedError as error:
                self._known.find(str(error))
            except OSError as error:
                self._known.fault(
                    RECORD, f"the record in {self._outgoing.folder} cannot be read: {explain_error(error)}"
                )
            await trio.sleep(self._pauses.next())

    async def _resume(self, engine: Engine) -> Resume | None:
        """Return where to go on; None if there is no record yet."""
        newest = await trio.to_thread.run_sync(self._outgoing.newest)
        self._known.newest = newest
        if newest is None:
            self._known.fault(RECORD, f"there is no record in {self._outgoing.folder} yet: is the daemon running?")
            return None
        shipped, problem = await self._newest_shipped(engine)
        self._tell_of_loss(shipped)
        if problem is not None and shipped is not None:
            resume = Resume(shipped.epoch + 1, is_rewritten=True, finding=problem)
        else:
            resume = await trio.to_thread.run_sync(self._outgoing.compare, shipped)
        if resume.is_rewritten and shipped is not None:
            resume = await self._earlier(engine, shipped.epoch, newest.seq) or resume
        if self._conflicts > 1 and not resume.is_rewritten:  # what it refuses it does not show: its log was emptied
            self._hole = (
                f"the engine refuses numbers after {resume.after} in epoch {resume.epoch}, which it does not have"
            )
        if self._hole is not None and not resume.is_rewritten:
            newest_epoch = max(resume.epoch, shipped.epoch if shipped is not None else 0)
            resume = Resume(newest_epoch + 1, is_rewritten=True, finding=f"{self._hole}; a new epoch begins")
        if resume.finding is not None:
            self._known.find(resume.finding)
        self._known.shipped = resume.after  # at once: the daemon must keep what has to be shipped again
        if resume.is_rewritten:
            await trio.sleep(max(0.0, self._may_begin_epoch_at - self._now()))
            self._may_begin_epoch_at = self._now() + NEW_EPOCH
        self._known.epoch = resume.epoch
        await trio.to_thread.run_sync(self._outgoing.go, resume)
        self._known.fault(RECORD, None)
        if not self._conflicts:
            self._known.fault(SHIPPING, None)
        return resume

    async def _ship(self, engine: Engine, resume: Resume) -> None:
        outgoing, doubts = self._outgoing, self._known.doubts
        check_at, look_at = self._now() + CHECK, self._now() + LOOK_AGAIN
        while self._known.doubts == doubts:
            began = self._now()
            packed = await trio.to_thread.run_sync(outgoing.next) if outgoing.has_more() else None
            for finding in outgoing.findings:
                self._known.find(finding)
            outgoing.findings = []
            if packed is not None:
                await self._append(engine, resume.epoch, packed)
                self._acknowledge(ShippedHead(resume.epoch, packed.last, packed.hash))
                self._known.lost += outgoing.lost
                outgoing.lost = 0
                # A backlog leaves room for others, here and at the engine.
                await trio.sleep(min(LOOK, (self._now() - began) / 2))
            else:
                await trio.sleep(LOOK)
            if self._now() >= check_at:
                await trio.to_thread.run_sync(outgoing.check)
                check_at = self._now() + CHECK
            if self._now() >= look_at:
                if (await self._newest_shipped(engine))[0] != self._acknowledged:
                    return
                look_at = self._now() + LOOK_AGAIN

    async def _append(self, engine: Engine, epoch: int, packed: PackedBatch) -> None:
        """Append a batch, as often as it takes: while the engine refuses, the rest waits in the record."""
        while True:
            try:
                await await_answer(
                    engine.append(self._host, epoch, RecordBatch(packed.first, packed.last, packed.data))
                )
            except EngineRefusedError as error:
                self._known.fault(SHIPPING, f"the engine takes no records: {error}")
                await trio.sleep(self._pauses.next())
            else:
                self._pauses.reset()
                self._conflicts, self._hole = 0, None
                self._known.fault(SHIPPING, None)
                return

    def _acknowledge(self, shipped: ShippedHead) -> None:
        self._acknowledged = shipped
        self._known.shipped = shipped.seq

    async def _newest_shipped(self, engine: Engine) -> tuple[ShippedHead | None, str | None]:
        """Return the newest record that the engine has, and what is wrong with it."""
        found = await await_answer(engine.last_batch(self._host))
        if found is None:
            return None, None
        epoch, batch = found
        if not batch.data:
            return ShippedHead(epoch, batch.last, ""), None
        try:
            return ShippedHead(epoch, batch.last, find_newest_hash(batch.data, batch.last)), None
        except BatchError as error:
            what = f"the engine's newest batch of this host, up to record {batch.last} in epoch {epoch}, is no batch"
            return ShippedHead(epoch, batch.last, ""), f"{what}: {error}; the record goes into a new epoch"

    def _tell_of_loss(self, shipped: ShippedHead | None) -> None:
        """Tell if the engine no longer has what it had acknowledged."""
        before, self._acknowledged = self._acknowledged, shipped
        if before is None or (shipped is not None and (shipped.epoch, shipped.seq) >= (before.epoch, before.seq)):
            return
        has = f"up to {shipped.seq} in epoch {shipped.epoch}" if shipped is not None else "none"
        self._known.find(
            f"the engine lost records that it had acknowledged, up to {before.seq} in epoch {before.epoch}:"
            f" it has {has}, and gets again what is still in the record"
        )

    async def _earlier(self, engine: Engine, newest: int, most: int) -> Resume | None:
        """Return where to go on in an earlier epoch whose last record the record has, if there is one.

        So two machines that are called the same by mistake do not begin one epoch after the other.
        """
        epochs = [epoch for epoch in await await_answer(engine.epochs(self._host)) if epoch < newest]
        for epoch in reversed(epochs[-MAX_EPOCHS:]):
            batch = await self._last_of(engine, epoch, most)
            if batch is None:
                continue
            try:
                shipped = ShippedHead(epoch, batch.last, find_newest_hash(batch.data, batch.last))
            except BatchError:
                continue
            resume = await trio.to_thread.run_sync(self._outgoing.compare, shipped)
            if not resume.is_rewritten and resume.finding is None:
                self._known.find(
                    f"epoch {newest} of this host's log is of another record: another machine has this host's name, or"
                    f" the record was replaced for a while; shipping goes on in epoch {epoch}"
                )
                return resume
        return None

    async def _last_of(self, engine: Engine, epoch: int, most: int) -> RecordBatch | None:
        """Return the last batch of an epoch, by halving; None if it is empty or ends beyond record `most`."""
        if await self._one_after(engine, epoch, most) or not (batches := await self._one_after(engine, epoch, 0)):
            return None
        found, end = batches[0], most
        while found.last < end:
            middle = (found.last + end) // 2
            if batches := await self._one_after(engine, epoch, middle):
                found = batches[0]
            else:
                end = middle
        return found

    async def _one_after(self, engine: Engine, epoch: int, after: int) -> Sequence[RecordBatch]:
        return await await_answer(engine.batches(self._host, epoch, after, limit=1))

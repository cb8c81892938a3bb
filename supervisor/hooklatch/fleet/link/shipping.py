"""The shipping of the record: one batch at a time, in order, each after the one before was acknowledged.

The engine's newest batch of this host is the only state, so a kill at any point loses and doubles no entry: a batch
that was sent twice is refused by its number.

Small batches cost the engine most, so entries that keep coming are gathered, for up to 15 seconds or 64 KiB.

If the record does not have the engine's newest entry any more, the record was changed: the log in the engine stays as
it is, and the record is shipped anew into a log of the next epoch.  What reads the record blocks on the disk, so it is
called in threads, one call at a time, and has one read and one batch in memory, even if there is much to ship.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator

import msgspec
import trio

from hooklatch.errors import explain_error
from hooklatch.fleet.batches import BatchError, PackedBatch, find_newest_place, pack_batch
from hooklatch.fleet.engine.engine import ConflictError, Engine, EngineRefusedError, LostError, RecordBatch
from hooklatch.fleet.enrolment import HostIdentity
from hooklatch.fleet.link.known import RECORD, SHIPPING, Backoff, LinkState, await_answer
from hooklatch.record.storage.chain import ChainLink, read_link
from hooklatch.record.storage.mark import read_anchor
from hooklatch.record.storage.seeking import RecordChangedError, RecordCursor, find_newest_link, read_seq
from hooklatch.record.storage.slots import SlotError
from hooklatch.threads import in_thread

__all__ = [
    "RecordShipper", "ENOUGH", "ShippingReader", "LocalRecords", "Resume", "ShippedHead", "RecordBacklog",
    "compare_records",
]  # fmt: skip

AFTER_ALL = 2**63  # above each number of an entry
ENOUGH = 64 * 1024  # bytes that are shipped at once
URGENT_NEEDLES = (b'"verdict":"deny"', b'"kind":"fault"')  # as a daemon writes them
SYNC = 2.0  # seconds to wait for a record to be synced before it is shipped all the same


class ShippingReader:
    """A reader of one host's record for shipping.

    An entry that a power cut takes back must not have been shipped: the record would look truncated.  So an entry waits
    until the anchor says that it is on the disk, but `SYNC` seconds at most.
    Nothing after entry `end` is shipped.
    `lost` counts the entries that are missing up to the last batch, and `findings` describe them.  The caller clears
    both, the count once that batch is acknowledged: a batch that is packed again counts them again.  Each method may
    raise OSError: the record cannot be read; `next` and `check` also RecordChangedError: compare again.
    """

    def __init__(
        self, folder: str, host: str, fields: Collection[str], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self.lost = 0
        self.findings: list[str] = []
        self.end = AFTER_ALL
        self._host = host
        self._fields = frozenset(fields)
        self._clock = now
        self._cursor = RecordCursor(folder)
        self._epoch = 1
        self._seq = 0  # of the last record that was packed
        self._hash: str | None = None
        self._lines: list[bytes] = []
        self._taken = 0  # of these lines
        self._unsynced: list[bytes] = []
        self._unsynced_since = 0.0

    def compare(self, shipped: ShippedHead | None) -> Resume:
        """Return where shipping continues after this entry in the engine."""
        return compare_records(shipped, self._read_around(shipped.seq if shipped is not None else 0))

    def newest(self) -> ChainLink | None:
        """Return the newest entry; None if there is none yet."""
        try:
            return find_newest_link(self.folder)
        except FileNotFoundError:
            return None

    def seek(self, resume: Resume) -> None:
        """Go to the place where shipping continues."""
        self._cursor.seek(resume.after)
        self._epoch, self._seq, self._hash = resume.epoch, resume.after, resume.hash
        self._lines, self._taken, self._unsynced = [], 0, []
        self.lost = resume.lost

    def has_more(self) -> bool:
        """Return whether something may wait; it is cheap, since it is called often."""
        return self._taken < len(self._lines) or bool(self._unsynced) or self._cursor.has_more()

    def look(self) -> RecordBacklog:
        """Read what follows, up to some bytes, and return what waits to be shipped."""
        while sum(map(len, self._unsynced)) < ENOUGH and (lines := self._cursor.read()):
            self._unsynced += lines
            self._unsynced_since = self._clock()
        lines = [*self._lines[self._taken :], *self._unsynced]
        is_urgent = self.end < AFTER_ALL or any(needle in line for line in lines for needle in URGENT_NEEDLES)
        return RecordBacklog(sum(map(len, lines)), is_urgent)

    def next(self) -> PackedBatch | None:
        """Return the next batch; None if there is nothing to ship yet."""
        while True:
            begin, missed = self._taken, self._cursor.missed
            packed = pack_batch(self._host, self._epoch, self._take_lines(), self._fields)
            if packed is not None:
                self._note_losses(packed, self._lines[begin : self._taken])
                return packed
            self._lines, self._taken = self._take_synced_lines(), 0
            if not self._lines and self._cursor.missed == missed:
                return None

    def check(self) -> None:
        """Check that the record still has the entry that was read last."""
        self._cursor.check()

    def _take_lines(self) -> Iterator[bytes]:
        while self._taken < len(self._lines):
            line = self._lines[self._taken]
            self._taken += 1
            seq = read_seq(line)
            if seq is None or self._seq < seq <= self.end:  # the engine would refuse a repeated number each time
                yield line

    def _take_synced_lines(self) -> list[bytes]:
        if not self._unsynced:
            self._unsynced, self._unsynced_since = self._cursor.read(), self._clock()
        lines = self._unsynced
        limit = self._read_synced_seq()
        is_late = self._clock() - self._unsynced_since >= SYNC
        cut = len(lines) if limit is None or is_late else sum(1 for line in lines if (read_seq(line) or 0) <= limit)
        self._unsynced = lines[cut:]
        return lines[:cut]

    def _read_synced_seq(self) -> int | None:
        try:
            anchor = read_anchor(self.folder)
        except SlotError:  # the record has a fault, which its daemon reports; its entries are shipped all the same
            return None
        return anchor[0] if anchor is not None else None

    def _note_losses(self, packed: PackedBatch, lines: list[bytes]) -> None:
        """Count the entries that are missing before a batch or in it, and describe them in a finding."""
        links = (read_link(line) for line in lines)
        prev = next(link.prev for link in links if link is not None and link.seq == packed.first)
        if self._hash is not None and prev != self._hash:
            missing = max(1, packed.first - self._seq - 1)
            self.lost += missing
            which = f"{missing} records before record {packed.first}"
            self.findings.append(f"{which} are not in the record any more, or are damaged, and were not shipped")
        elif packed.unreadable:
            self.lost += packed.unreadable
            which = f"{packed.unreadable} lines among records {packed.first} to {packed.last}"
            self.findings.append(f"{which} are damaged, and were not shipped; see: hooklatch log verify")
        self._seq, self._hash = packed.last, packed.hash

    def _read_around(self, seq: int) -> LocalRecords:
        cursor = RecordCursor(self.folder)
        newest = find_newest_link(self.folder)
        same = cursor.seek(seq) if seq else None
        following = find_first_valid(cursor, above=seq)
        cursor.seek(0)
        return LocalRecords(same, following, find_first_valid(cursor, above=0), newest)


class RecordBacklog(msgspec.Struct, frozen=True):
    """The records that wait to be shipped: how many bytes, and whether a denial or a fault is among them."""

    size: int = 0
    is_urgent: bool = False


def find_first_valid(cursor: RecordCursor, *, above: int) -> ChainLink | None:
    """Return the next valid entry with a number above this one."""
    while lines := cursor.read():
        for line in lines:
            link = read_link(line)
            if link is not None and link.seq > above:
                return link
    return None


class ShippedHead(msgspec.Struct, frozen=True):
    """The newest entry of a log in the engine; without a hash only its number is known."""

    epoch: int
    seq: int
    hash: str


class LocalRecords(msgspec.Struct, frozen=True):
    """The entries around a number: the entry with it, the next one, the oldest one and the newest one."""

    same: ChainLink | None
    following: ChainLink | None
    oldest: ChainLink | None
    newest: ChainLink | None


class Resume(msgspec.Struct, frozen=True):
    """The place where shipping continues: after entry `after`, with `hash` if that is known, in the log of `epoch`.

    `is_rewritten`: the record differs from what was shipped.  `finding` is a text for the report, `lost` how many
    entries were removed before they were shipped.
    """

    epoch: int
    after: int = 0
    hash: str | None = None
    is_rewritten: bool = False
    finding: str | None = None
    lost: int = 0


def compare_records(shipped: ShippedHead | None, local: LocalRecords) -> Resume:
    """Return where shipping continues; `local` are the entries around `shipped.seq`."""
    if shipped is None:
        return Resume(1)
    if local.same is not None and local.same.hash == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    if not shipped.hash and local.newest is not None and local.newest.seq >= shipped.seq:
        subject = f"the engine's log of this host, epoch {shipped.epoch}"
        return Resume(shipped.epoch, shipped.seq, finding=f"{subject}, was emptied: it had records up to {shipped.seq}")
    if (contradiction := describe_rewriting(shipped, local)) is not None:
        shipped_text = f"the engine has record {shipped.seq} in epoch {shipped.epoch}"
        finding = f"{contradiction}; {shipped_text}, and what the record has now goes into a new epoch"
        return Resume(shipped.epoch + 1, is_rewritten=True, finding=finding)
    assert local.following is not None
    if local.following.prev == shipped.hash:
        return Resume(shipped.epoch, shipped.seq, shipped.hash)
    lost = local.following.seq - shipped.seq - 1
    finding = f"records {shipped.seq + 1} to {shipped.seq + lost} were removed before they were shipped"
    return Resume(shipped.epoch, shipped.seq, finding=finding, lost=lost)


def describe_rewriting(shipped: ShippedHead, local: LocalRecords) -> str | None:
    """Return how the record contradicts the shipped entry; None if it does not."""
    if local.newest is None:
        return "the record is empty"
    if local.newest.seq < shipped.seq:
        return f"the record was truncated: it ends with {local.newest.seq}"
    if local.same is not None:
        return f"the record was rewritten: record {shipped.seq} has another hash"
    if local.following is None or local.oldest is None:
        return f"record {shipped.seq} is damaged, and no later one can be read"
    begins_later = local.oldest.seq > shipped.seq
    if not begins_later and local.following.prev != shipped.hash:
        return f"record {shipped.seq} is gone from the middle of the record"
    return None


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
            resume = await self._find_earlier_epoch(engine, shipped.epoch) or resume
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

    async def _find_earlier_epoch(self, engine: Engine, newest: int) -> Resume | None:
        """Return where shipping continues in an earlier epoch whose last entry the record has, if there is one.

        So two machines that have one name by mistake do not begin one epoch after the other.
        """
        epochs = [epoch for epoch in await await_answer(engine.epochs(self._host)) if epoch < newest]
        for epoch in reversed(epochs[-MAX_EPOCHS:]):
            for batch in await await_answer(engine.batches_before(self._host, epoch, 2**64, limit=1)):
                try:
                    shipped = ShippedHead(epoch, batch.last, find_newest_place(batch.data, batch.last).hash)
                except BatchError:
                    continue
                resume = await in_thread(self._reader.compare, shipped)
                if not resume.is_rewritten and resume.finding is None:
                    self._state.add_finding(
                        f"epoch {newest} of this host's log is of another record: another machine has this host's name,"
                        f" or the record was replaced for a while; shipping goes on in epoch {epoch}"
                    )
                    return resume
        return None

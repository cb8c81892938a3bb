"""Reads the record of a simulated daemon, as it grows, and holds it against what was answered.  Knows its lines alone.

Written apart from the daemon: the order of numbers, each line's `prev`, and the heads that answers have named.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

__all__ = ["Ledger"]

FIRST_SYNC = 0.5  # seconds after which a new daemon has synced what it found


class Entry(msgspec.Struct):
    """A line of the record."""

    seq: int
    prev: str
    hash: str
    kind: str
    decision_id: str | None = None
    call_id: str | None = None
    session: str | None = None
    event: str | None = None
    verdict: str | None = None
    cause: str | None = None
    hook: str | None = None
    payload_digest: str | None = None
    kept_seq: int = 0
    bytes: int = 0


NAMED = ("event", "verdict", "cause", "hook", "payload_digest")  # what the entry and the answer of a decision both say
DECODE = msgspec.json.Decoder(Entry).decode


class Ledger:
    """The record below `folder`. What is wrong is told by `violate`."""

    def __init__(self, folder: str, digest: hashlib._Hash | None, violate: Callable[[str], None]) -> None:
        self.folder, self._digest, self._violate = folder, digest, violate
        self.hashes: dict[int, str] = {}  # of the lines that were read, by their numbers
        self._decided: dict[str, Entry] = {}
        # By decision: the head that its answer named, when, and from when on it is promised to be on the disk.
        self._told: dict[str, tuple[int, str, float, float]] = {}
        self._torn: dict[str, None] = {}
        self._at: dict[str, int] = {}
        self._last: Entry | None = None
        self._calls: deque[str | None] = deque(maxlen=500)
        self.last_number = self.last_told = 0  # the highest numbers, of an entry and of one that an answer has named
        self.least = 0.0  # bytes that retention leaves, as long as nothing is too old
        self.unsynced_since = math.inf  # from when on the daemon that was killed may have synced nothing

    def open(self, now: float) -> None:
        """Note that a daemon opens the record, and syncs what the one before it has only written."""
        self._told = {key: (*told, min(due, now + FIRST_SYNC)) for key, (*told, due) in self._told.items()}

    def read(self, *, is_torn: bool = False) -> None:
        """Read what was added since the last time: where a loss of power has torn a file, up to there."""
        try:
            names = self._list_segments()
        except FileNotFoundError:
            return
        for name in names:
            self._read_segment(name, is_torn=is_torn)

    def _list_segments(self) -> list[str]:
        return sorted(name for name in os.listdir(self.folder) if name.endswith(".jsonl"))

    def _read_segment(self, name: str, *, is_torn: bool = False) -> None:
        at = self._at.get(name, 0)
        fd = os.open(f"{self.folder}/{name}", os.O_RDONLY)
        data = os.pread(fd, os.fstat(fd).st_size, at)
        os.close(fd)
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            try:
                entry = DECODE(line)
            except msgspec.DecodeError:
                if is_torn or name in self._torn:
                    self._torn[name] = None
                    break  # the next daemon sets aside what follows, if this is the last segment
                if line.strip(b"\0 \n"):
                    self._violate(f"F: the record cannot be read: {name} {line[:200]!r}")
            else:
                self._take(entry, line)
            at += len(line)
        self._at[name] = at

    def _take(self, entry: Entry, line: bytes) -> None:
        seq, decision = entry.seq, entry.decision_id
        if self._last is not None and entry.kind != "lost":
            if seq <= self._last.seq:
                self._violate(f"F: the record's order: {seq} after {self._last.seq}")
            elif seq == self._last.seq + 1 and entry.prev != self._last.hash:
                self._violate(f"F: entry {seq} does not follow entry {self._last.seq}")
        self._last = entry
        self.hashes[seq] = entry.hash
        self.last_number = max(seq, self.last_number)
        if self._digest is not None:
            self._digest.update(line)
            if entry.kind == "retired":
                self._check_retired(entry)
        self._calls.append(entry.call_id)
        if entry.kind == "decision" and decision is not None:
            if decision in self._decided and entry.cause != "audit":  # it did not reach the disk, and is denied
                self._violate(f"F: decision {decision} is recorded twice")
            self._decided[decision] = entry

    def _check_retired(self, entry: Entry) -> None:
        """Check that what was removed is what was too much, by the sizes of now."""
        left = [name for name in self._list_segments() if f"{entry.kept_seq:016}" <= name]
        size = sum(os.stat(f"{self.folder}/{name}").st_size for name in left) + entry.bytes
        if size < self.least:
            self._violate(f"F: retention removes {entry.bytes} of {size} bytes, though {self.least:.0f} may stay")

    def has(self, call: str) -> bool:
        """Return whether a fire with this id of a call is on record."""
        self.read()
        return call in self._calls

    def told(self, answer: Mapping[str, Any], session: str | None, now: float) -> None:
        """Note the head that an answer to a session names: by now its entry is in the record, and says the same."""
        decision, head = answer["decision_id"], answer["record"]
        seq, own = int(head["seq"]), str(head["hash"])
        if seq not in self.hashes and self._at:
            with suppress(FileNotFoundError):
                self._read_segment(max(self._at))  # nearly always it is there, and no other segment has begun
        if seq not in self.hashes:
            self.read()
        self._told[decision] = seq, own, now, now
        self.last_told = max(seq, self.last_told)
        if seq not in self.hashes:
            self._violate(f"F: decision {decision} was answered before entry {seq} was written")
        elif not self.hashes[seq].startswith(own):
            self._violate(f"F: entry {seq} is not what the answer named")
        entry = self._decided.get(decision)
        if entry is None or entry.seq > seq:
            self._violate(f"F: decision {decision} is not recorded up to entry {seq}")
        elif entry.session != session or any(getattr(entry, name) != answer[name] for name in NAMED):
            self._violate(f"F: the record says {entry} of what was answered to {session} as {dict(answer)}")

    def restart(self, promised: float | None, may_have_lost: Callable[[float], bool]) -> None:
        """Read the record from its beginning, as a new daemon has it.

        After a loss of power nothing is missed that was told later than the moment `promised`, or that the disk had no
        chance to keep.  What a daemon wrote right before it was killed, the next one that opens it syncs.
        """
        told, self._told = self._told, {}
        before = self.hashes
        self.hashes, self._decided, self._at, self._last, self.last_number = {}, {}, {}, None, 0
        digest, self._digest = self._digest, None
        self.read(is_torn=promised is not None)
        self._digest = digest
        first = min(self.hashes, default=0)
        for decision, (seq, own, at, due) in told.items():
            if seq < first or (promised is not None and (due > promised or may_have_lost(at))):
                continue
            self._told[decision] = seq, own, at, due if due <= self.unsynced_since else math.inf
            if seq not in self.hashes or not self.hashes[seq].startswith(own):
                self._violate(f"F: entry {seq}, which an answer at {at:.3f} named, is not on record")
            elif (entry := self._decided.get(decision)) is None or entry.seq > seq:
                self._violate(f"F: decision {decision}, answered at {at:.3f}, is not on record")
        if promised is None:
            for seq, own in before.items():
                if seq >= first and self.hashes.get(seq) not in (own, None):
                    self._violate(f"F: entry {seq} is another than before")
        self._told = {key: one for key, one in self._told.items() if one[0] >= self.last_number - 2000}
        self.last_told = max((seq for seq, *_ in self._told.values()), default=0)

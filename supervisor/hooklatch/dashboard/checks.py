"""The last check of the decision record, and the one that runs.  Reads the record's files; changes none.

A check runs in a thread, since a long record takes a while, and one at a time.  The head of the record that the
dashboard saw first is a witness: earlier entries cannot be rewritten unnoticed while the dashboard runs.
"""

from __future__ import annotations

import time

import msgspec
import trio

from hooklatch.errors import describe_error
from hooklatch.record.findings import ChainWitness, VerifyReport
from hooklatch.record.storage.reading import NoRecordError
from hooklatch.record.verify import verify_record
from hooklatch.threads import in_thread

__all__ = ["RecordVerification", "Checks"]


class RecordVerification(msgspec.Struct, frozen=True):
    """A check that has ended: its start, its folder, and its report or the reason why there is none."""

    at: float
    folder: str
    report: VerifyReport | None = None
    fault: str = ""


class Checks:
    """The task that checks the record when a page requests it, while `run` runs."""

    def __init__(self) -> None:
        self.last: RecordVerification | None = None
        self.witness: ChainWitness | None = None
        self.progress: int | None = None  # percent, while one runs
        self._send, self._receive = trio.open_memory_channel[str](1)

    def note_head(self, seq: int, digest: str) -> None:
        """Keep the first head that the daemon showed."""
        if self.witness is None and seq > 0:
            self.witness = ChainWitness(seq, digest)

    def begin(self, folder: str) -> bool:
        """Begin a check of a record, unless one runs already. Return whether it has begun."""
        if self.progress is not None:
            return False
        self.progress = 0
        self._send.send_nowait(folder)
        return True

    async def run(self) -> None:
        """Run the requested checks until cancelled."""
        async for folder in self._receive:
            try:
                self.last = await in_thread(self._check, folder, abandon_on_cancel=True)
            finally:
                self.progress = None

    def _check(self, folder: str) -> RecordVerification:
        began = time.time()
        witnesses = [self.witness] if self.witness is not None else []
        try:
            return RecordVerification(began, folder, verify_record(folder, witnesses, on_progress=self._note_progress))
        except (NoRecordError, OSError) as error:
            return RecordVerification(began, folder, fault=describe_error(error))

    def _note_progress(self, done: int, total: int) -> None:
        self.progress = min(done * 100 // max(total, 1), 99)

"""The keeping of whole payloads beside the record, where the settings say so.

keep() ─▶ one write, before the entry that names its digest      in the caller's task
take_unsynced() ─▶ synced by the thread that syncs the record, just before it
retire() ─▶ a `payloads` record ─▶ synced ─▶ the oldest files removed

A payload that cannot be kept is counted, and its entry and the status say so.  The decision does not depend on it.
After a kill at any byte a line is whole or the last of its file, to which no daemon appends again.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from hooklatch.core.messages import ChainHead
from hooklatch.directories import sync_folder
from hooklatch.files import create_anew
from hooklatch.record import payload_files
from hooklatch.record.entries import FireFacts
from hooklatch.record.redaction import Redactor
from hooklatch.record.settings import RecordSettings
from hooklatch.record.storage.disk_space import DiskStage
from hooklatch.threads import in_thread
from hooklatch_worker.systems.disks import sync_data

if TYPE_CHECKING:
    from hooklatch.core.status_answers import PayloadStatus
    from hooklatch.record.storage.journal import Clock

__all__ = ["Payloads", "UnsyncedPayloads"]

logger = logging.getLogger("hooklatch.record")
FILE_BYTES = 16 * 2**20  # then a new file begins: retention removes whole files
FILE_AGE = 3600.0  # seconds, then too
UNWRITTEN = "it could not be written"  # the status says where and why
BACK_OFF = 5.0  # seconds after a failure in which nothing is tried


class UnsyncedPayloads:
    """Files whose last lines may not be on the disk: copies of their descriptors, owned by the task that took them."""

    def __init__(self, fds: list[int], folder: str | None) -> None:
        self._fds = fds
        self._folder = folder

    def sync(self) -> None:
        """Sync and close them, in any thread.  A failure is not a fault of the record: a crash may lose lines."""
        try:
            for fd in self._fds:
                sync_data(fd)
            if self._folder is not None:
                sync_folder(self._folder)
                sync_folder(os.path.dirname(self._folder))  # which has its entry
        except OSError as error:
            logger.warning("payloads cannot be synced: %s", error.strerror or error)
        finally:
            for fd in self._fds:
                os.close(fd)


class Payloads:
    """The payloads of one record, and the only writer to their folder."""

    def __init__(self, record: str, settings: RecordSettings, *, clock: Clock, now: Clock) -> None:
        self.folder = payload_files.payload_folder(record)
        self.fault: str | None = None
        self.kept = self.unkept = 0
        self.are_kept = settings.payloads == "full"
        self._settings = settings
        self._clock, self._now = clock, now
        self._fd: int | None = None
        self._size = 0
        self._began_at = self._retry_at = 0.0
        self._ended: list[int] = []  # descriptors of ended files that are not synced yet
        self._is_dirty = self._is_folder_dirty = False

    def apply(self, settings: RecordSettings) -> None:
        self._settings, self._retry_at, self.fault = settings, 0.0, None
        self.are_kept = settings.payloads == "full"
        if not self.are_kept:
            self._end()

    def make_line(self, facts: FireFacts, redactor: Redactor) -> None:
        """Make the line of a fire, while its hooks run."""
        if facts.envelope is not None:
            facts.line = payload_files.encode_payload_line(facts.decision_id, facts.envelope, facts.payload, redactor)

    def keep(self, facts: FireFacts, *, seq: int, stage: DiskStage) -> None:
        """Append the line of a fire whose entry has this number or a later one; set the result in its facts."""
        line, facts.line = facts.line, None
        if line is None:
            return
        reason = line if isinstance(line, str) else self._append(line, seq, stage)
        if isinstance(line, bytes) and reason is None:
            self.kept += 1
            facts.payload_kept = payload_files.digest_payload_line(line)
        else:
            self.unkept += 1
            facts.payload_unkept = reason

    def _append(self, line: bytes, seq: int, stage: DiskStage) -> str | None:
        if stage >= DiskStage.LOW:
            return "the disk is getting full"
        now = self._now()
        if self.fault is not None and now < self._retry_at:
            return UNWRITTEN
        try:
            is_full = self._size >= min(FILE_BYTES, self._settings.payloads_bytes // 8)
            if self._fd is None or is_full or now - self._began_at >= FILE_AGE:
                self._begin(seq)
            assert self._fd is not None
            self._is_dirty = True
            if (written := os.write(self._fd, line)) < len(line):
                with suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were written")
        except OSError as error:
            self._end()
            self._retry_at = now + BACK_OFF
            self.fault = f"payloads cannot be kept in {self.folder}: {error.strerror or error}"
            logger.error("%s", self.fault)
            return UNWRITTEN
        self._size += len(line)
        self.fault = None
        return None

    def _begin(self, seq: int) -> None:
        """Begin a file.

        Raises:
            OSError: it cannot be created.
        """
        self._end()
        os.makedirs(self.folder, 0o700, exist_ok=True)
        path = payload_files.PayloadFile.of(self.folder, seq).path
        self._fd = create_anew(path, os.O_APPEND)  # an older file of this number has only lines without an entry
        self._size, self._began_at, self._is_folder_dirty = 0, self._now(), True

    def _end(self) -> None:
        if self._fd is not None:
            self._ended.append(self._fd)
            self._fd = None

    def take_unsynced(self) -> UnsyncedPayloads | None:
        """Return the files to sync; None if there are none."""
        if not (self._is_dirty or self._ended):
            return None
        fds, self._ended = self._ended, []
        if self._fd is not None:
            with suppress(OSError):
                fds = [*fds, os.dup(self._fd)]
        folder = self.folder if self._is_folder_dirty else None
        self._is_dirty = self._is_folder_dirty = False
        return UnsyncedPayloads(fds, folder)

    async def retire(
        self, newest: int, append: Callable[..., ChainHead], durable: Callable[[ChainHead], Awaitable[None]]
    ) -> None:
        """Remove files over the limits, once that is on record; `newest` is the number of the newest record.

        Raises:
            OSError, RecordError: it failed, or could not be recorded.
        """
        files, settings = payload_files.list_files(self.folder), self._settings
        chosen, size = payload_files.select_excess_files(
            files, settings.payloads_bytes, settings.payloads_age, self._clock(), is_written=self._fd is not None
        )
        if not chosen:
            return
        kept_seq = files[len(chosen)].first if len(chosen) < len(files) else newest + 1
        await durable(append("payloads", kept_seq=kept_seq, files=len(chosen), bytes=size))
        await in_thread(remove_payload_files, [file.path for file in chosen])

    def status(self) -> PayloadStatus:
        """Return the fields of `status` for payloads."""
        return {"kept": self.kept, "unkept": self.unkept, "fault": self.fault}

    def close(self) -> None:
        """Sync and close all files."""
        self._end()
        if (unsynced := self.take_unsynced()) is not None:
            unsynced.sync()


def remove_payload_files(paths: list[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)

"""The faults of the record, and calls that did not run as judged, reported until an operator acknowledges them.

A fault may have lost entries, so it is kept across restarts.  An error that is over and lost nothing is mentioned for a
day.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from hooklatch.core.messages import ChainHead
from hooklatch.errors import explain_error
from hooklatch.record.storage.journal import ChainWriter
from hooklatch.record.storage.mark import MarkFile
from hooklatch.record.storage.recovery import RecordError
from hooklatch.record.storage.syncing import RecordSync

__all__ = ["RecordFaults"]

logger = logging.getLogger("hooklatch.record")
MAX_FAULTS = 20
MENDED = 86400.0  # seconds for which the status mentions an error that is over
UNTIL = "these faults of the record stay until they are acknowledged: hooklatch log acknowledge --reason TEXT"


class RecordFaults:
    """The faults of one record; `record` writes a text into it, of one of the kinds `fault` and `mended`.

    `mismatches` are the texts about calls that did not run as judged, and `overruled` those of calls that ran although
    they were refused, by host and session.  Both are of faults that have a cause.

    `notify` is called with each text: a `fault`, what is `mended`, or why the faults are `acknowledged`.
    """

    def __init__(
        self,
        journal: ChainWriter,
        mark: MarkFile,
        syncs: RecordSync,
        record: Callable[[str, str], None],
        notify: Callable[[str, str], None],
    ) -> None:
        self._journal = journal
        self._mark = mark
        self._syncs = syncs
        self._record = record
        self._notify = notify
        self._faults: list[str] = []
        self.mismatches: list[str] = []
        self.overruled: dict[tuple[str, str], str] = {}
        self._mended: list[tuple[float, str]] = []

    @property
    def unacknowledged(self) -> list[str]:
        """Return the faults that no operator has acknowledged, and what to do about them."""
        return [*self._faults, UNTIL] if self._faults else []

    @property
    def over(self) -> list[str]:
        """Return the errors of the last day that are over."""
        now = self._journal.now()
        return [f"over, and nothing is lost: {text}" for at, text in self._mended if now - at < MENDED]

    def take_over(self, unacknowledged: Iterable[Mapping[str, Any]]) -> None:
        """Keep the faults that earlier daemons have recorded, oldest first."""
        for entry in unacknowledged:
            self._keep(str(entry.get("text")), entry)

    def _keep(self, fault: str, fields: Mapping[str, Any]) -> None:
        cause = fields.get("cause")
        if cause is None:
            self._faults = [*self._faults, fault][-MAX_FAULTS:]
            return
        self.mismatches = [*self.mismatches, fault][-MAX_FAULTS:]
        if cause == "overruled":
            self.overruled[fields.get("host") or "", fields.get("session") or ""] = fault

    def remember(self, fault: str, **fields: Any) -> None:
        """Keep a fault, and mark in which record it will be found; one with a `cause` is about a call."""
        logger.error("%s", fault)
        self._keep(fault, fields)
        if not self._mark.mark.fault_seq:
            with suppress(OSError):
                self._mark.save(fault_seq=self._journal.seq + 1)
        self._notify("fault", fault)

    def note(self, fault: str) -> None:
        """Keep a fault, and record it."""
        self.remember(fault)
        self._record("fault", fault)

    def note_mended(self, error: str) -> None:
        """Record an error that is over; no answered decision was lost, so it needs no acknowledgement."""
        logger.warning("over, and nothing is lost: %s", error)
        self._mended = [*self._mended, (self._journal.now(), error)][-MAX_FAULTS:]
        self._record("mended", error)
        self._notify("mended", error)

    async def acknowledge(self, reason: str, append: Callable[..., ChainHead]) -> list[str]:
        """Record by `append` that the faults so far are known, and return them.

        Raises:
            RecordError: that could not be recorded.
        """
        faults, mismatches, overruled = list(self._faults), list(self.mismatches), dict(self.overruled)
        if not faults and not mismatches:
            return []
        head = append("acknowledged", reason=reason, faults=[*faults, *mismatches], fault_seq=self._mark.mark.fault_seq)
        self._faults, self.mismatches, self.overruled = [], [], {}  # what comes while waiting is not acknowledged
        try:
            await self._syncs.wait_for(head)
            self._mark.save(fault_seq=head.seq + 1 if self._faults or self.mismatches else 0)
        except (OSError, RecordError) as error:
            self._faults = [*faults, *self._faults][-MAX_FAULTS:]
            self.mismatches = [*mismatches, *self.mismatches][-MAX_FAULTS:]
            self.overruled = {**overruled, **self.overruled}
            raise RecordError(f"the acknowledgement may not be kept: {explain_error(error)}") from None
        self._notify("acknowledged", reason)
        return [*faults, *mismatches]

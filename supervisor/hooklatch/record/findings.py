"""The findings of a check of a record, and what the check proves and does not.

altered      a record does not match its hash, or its successor's `prev`
missing      numbers are missing: in the middle, where no segment declares them skipped after a crash; at the
             beginning, where no `retired` entry covers them; after the end, according to the anchor or the mark
retired      two `retired` records disagree about the beginning
fault        the record reports a fault of its own that is not acknowledged
anchor, mark cannot be read, or are gone
payload      a payload that was kept whole is missing or changed, and retention did not remove it
duplicated   a number occurs twice; reordered: a record comes after one that should follow it
witness      a record that a witness saw is another one now, or is missing
torn         bytes that are not a record
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

__all__ = ["MAX_FINDINGS", "RecordFinding", "FindingKind", "VerifyReport", "ChainWitness", "format_seq_range"]

FindingKind = Literal[
    "altered", "missing", "duplicated", "reordered", "torn", "retired", "fault", "anchor", "mark", "witness", "payload"
]  # fmt: skip
MAX_FINDINGS = 1000
PROVES = (
    "no record of this chain was changed, left out, moved or duplicated after its hash was taken, unless all records"
    " after it were rewritten too"
)
NOT_PROVED = (
    "prevent anything: it is tamper-evident, not tamper-proof.  Whoever can write to this folder, and to the mark"
    " beside it, can rewrite all of it.  A head that was kept elsewhere reveals that (every reply carries one, as"
    " `record`): --witness SEQ:HASH",
    "show that records newer than the anchor and the mark were cut off or replaced",
    "show that a record is true: it says what the daemon decided, no more",
)


class ChainWitness(msgspec.Struct, frozen=True):
    """An entry's number and the start of its hash, as kept outside of the folder."""

    seq: int
    hash: str


class RecordFinding(msgspec.Struct, frozen=True):
    """A deviation from what was written."""

    what: FindingKind
    seq: int | None
    segment: str | None
    text: str


class VerifyReport(msgspec.Struct):
    """The result of a check.

    `ranges` are unbroken runs of entries.  `payloads` counts those that were kept whole and found.  `told` are the
    problems that the record itself reports.
    """

    ok: bool = True
    records: int = 0
    segments: int = 0
    ranges: list[tuple[int, int]] = []
    payloads: int = 0
    head: ChainWitness | None = None
    anchored_through: int | None = None
    findings: list[RecordFinding] = []
    findings_omitted: int = 0
    witnesses: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    notes: list[str] = []
    proves: str = PROVES
    does_not_prove: Sequence[str] = NOT_PROVED


def format_seq_range(first: int, last: int) -> str:
    """Return the subject of a sentence about these records, with its verb."""
    return f"record {first} is" if first == last else f"records {first} to {last} are"

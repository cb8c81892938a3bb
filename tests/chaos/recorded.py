"""Reads the decision record for the checker, and has it verified by the code of `hooklatch log verify`.

Clients are the witnesses: each head that a reply carried must be in the chain.  Knows the record's files.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from chaos.checker import Recorded, Violation
from chaos.history import Answered, Line, Outcome
from hooklatch.record.findings import ChainWitness
from hooklatch.record.verify import verify_record

__all__ = ["faults_of", "read_records", "side_files"]

DOCUMENTS: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def read_records(folder: Path) -> list[Recorded]:
    """Return all records of a folder in the order in which they stand there."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [recorded(DOCUMENTS.decode(line)) for line in lines]


def recorded(table: dict[str, Any]) -> Recorded:
    return Recorded(
        seq=table["seq"],
        prev=table["prev"],
        hash=table["hash"],
        kind=table["kind"],
        op=table.get("call_id", ""),
        decision_id=table.get("decision_id", ""),
        verdict=table.get("verdict"),
        cause=table.get("cause"),
        digest=table.get("payload_digest"),
        outcomes=[
            Outcome(one["hook"], one["outcome"], one.get("verdict"), one.get("cause"))
            for one in table.get("outcomes", [])
        ],
        skipped=(skipped["first"], skipped["last"]) if (skipped := table.get("skipped")) else None,
    )


def faults_of(folder: Path, history: Iterable[Line]) -> list[Violation]:
    """Have the whole chain checked against itself, its anchor and what clients were told."""
    heads = {line.head for line in history if isinstance(line, Answered) and line.head is not None}
    report = verify_record(str(folder), [ChainWitness(*head) for head in sorted(heads)])
    if report.ok:
        return []
    return [
        Violation("chain", f"log verify: {finding.what} {finding.seq}: {finding.text}") for finding in report.findings
    ]


def side_files(folder: Path) -> int:
    """Count the files that hold what was torn off the record's end."""
    return len(list(folder.glob("*.torn*")))

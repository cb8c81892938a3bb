"""Writes docs/project/conformance.md from what the drivers report.  Run it: python tests/conformance/page.py"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "project" / "conformance.md"
sys.path.insert(0, str(ROOT / "tests"))

from conformance.driven import LANGUAGES, SYSTEMS, cases_of, driven_rows, driving, rows_of  # noqa: E402
from conformance.table import Row  # noqa: E402

HEAD = """# Conformance

For people who know one of them: five hook systems came before this one, and each
has test cases of its own. Every case is a row here, with an id. A
row that is the *same* holds here as it does there. One that *differs* does so on purpose, nearly always because a guard
that fails refuses here; its tests are of our answer. A row is *not applicable* where the case is about the other
system's own surroundings.

There is one column for each way in. *Wire* is a real daemon with real workers, asked in that system's words by lines of
JSON. The others are that system's own functions in its own language, by the client's package and a real daemon: each
driver calls them, and reports what the caller was given. *No* means that a driver reports something else than it
should. A row that only the wire proves says why.

This page is written by `python tests/conformance/page.py` from what the drivers report. All rows are run by
`python -m pytest tests/conformance`, which also holds the page to them.
"""
COLUMNS = {"wire": "Wire", **LANGUAGES}


def driven_well() -> set[str]:
    """Drive every row; return the ids of those that hold."""
    held: set[str] = set()
    for system in SYSTEMS:
        with tempfile.TemporaryDirectory(prefix="hl-") as folder, driving(system, Path(folder)) as driver:
            for row in driven_rows(system):
                fault = driver.fault_of(row.id)
                if fault is None:
                    held.add(row.id)
                else:
                    sys.stderr.write(f"{row.id}: {fault}\n")
    return held


def page(held: Collection[str]) -> str:
    """Return the page, given the ids of the driven rows that hold."""
    features = importlib.import_module("conformance.features").FEATURES
    heads = " | ".join(
        ["system", "rows", "same", "differs", "not applicable", *(f"by {name}" for name in COLUMNS.values())]
    )
    parts = [HEAD, f"| {heads} |", "|---" * (5 + len(COLUMNS)) + "|"]
    totals: Counter[str] = Counter()
    for system, name in SYSTEMS.items():
        counts = counted(system, held)
        totals.update(counts)
        parts.append(line(name, counts))
    parts.append(line("all", totals))
    parts += ["", "## Features, and what shows each", "", "| system | feature | tests and rows |", "|---|---|---|"]
    parts += [f"| {system} | {cell(feature)} | {', '.join(shown)} |" for system, feature, shown in features]
    for system, name in SYSTEMS.items():
        parts += ["", f"## {name}", ""]
        for status, title in (
            ("differs", "Differs on purpose"),
            ("same", "Same"),
            ("not applicable", "Not applicable"),
        ):
            rows = [row for row in rows_of(system) if row.status == status]
            if rows:
                parts += [f"### {title}", "", *table(system, rows, held), ""]
        parts += only_wire(system)
    return "\n".join(parts).rstrip("\n") + "\n"


def table(system: str, rows: list[Row], held: Collection[str]) -> list[str]:
    if rows[0].status == "not applicable":
        return [
            "| row | case | why |",
            "|---|---|---|",
            *(f"| {row.id} | {cell(row.title)} | {cell(row.reason)} |" for row in rows),
        ]
    has_reason = rows[0].status == "differs"
    heads = ["row", "case", *(["why"] if has_reason else []), *COLUMNS.values()]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        why = [cell(row.reason)] if has_reason else []
        marks = [mark(system, row, column, held) for column in COLUMNS]
        lines.append(f"| {' | '.join([row.id, cell(row.title), *why, *marks])} |")
    return lines


def mark(system: str, row: Row, column: str, held: Collection[str]) -> str:
    """Return what a cell says; nothing where the language does not have the system."""
    if row.status == "not applicable":
        return ""
    if column == "wire":
        return "yes"
    cases = cases_of(system)
    if column != cases.LANGUAGE:
        return ""
    if row.id in cases.CASES:
        return "yes" if row.id in held else "no"
    return "only the wire"


def only_wire(system: str) -> list[str]:
    wire = cases_of(system).WIRE
    if not wire:
        return []
    ids: dict[str, list[str]] = {}
    for row_id, reason in sorted(wire.items()):
        ids.setdefault(reason, []).append(row_id)
    lines = [f"| {', '.join(rows)} | {cell(reason)} |" for reason, rows in ids.items()]
    return ["### Only the wire proves", "", "| rows | why |", "|---|---|", *lines, ""]


def counted(system: str, held: Collection[str]) -> Counter[str]:
    counts = Counter(row.status for row in rows_of(system))
    marks = Counter(column for row in rows_of(system) for column in COLUMNS if mark(system, row, column, held) == "yes")
    return Counter({**counts, **marks})


def line(name: str, counts: Counter[str]) -> str:
    rows = counts["same"] + counts["differs"] + counts["not applicable"]
    cells = [
        rows,
        counts["same"],
        counts["differs"],
        counts["not applicable"],
        *(counts[column] or "" for column in COLUMNS),
    ]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page(driven_well()))

"""Writes docs/project/conformance.md from the rows.  Run it: python tests/conformance/page.py"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "project" / "conformance.md"
SYSTEMS = {
    "ethos": "Ethos",
    "exathena": "ExAthena",
    "reasonix": "Reasonix",
    "radium": "Radium",
    "beam": "BeamAgent",
}
HEAD = """# Conformance

Five hook systems came before this one, and each has test cases of its own. Every case is a row here, with an id, and
is run through a real daemon with real workers (`python -m pytest tests/conformance`). A row that is the *same* holds
here as it does there. One that *differs* does so on purpose, nearly always because a guard that fails refuses here;
its test is of our answer. A row is *not applicable* where the case is about the other system's own surroundings.

This page is written by `python tests/conformance/page.py`; a test holds it to the rows.
"""


def page() -> str:
    features = importlib.import_module("conformance.features").FEATURES
    modules = {name: importlib.import_module(f"conformance.rows.{name}") for name in SYSTEMS}
    parts = [HEAD, "| system | rows | same | differs | not applicable |", "|---|---|---|---|---|"]
    totals: Counter[str] = Counter()
    for name, module in modules.items():
        counts = Counter(row.status for row in module.ROWS)
        totals.update(counts)
        parts.append(line(SYSTEMS[name], counts))
    parts.append(line("all", totals))
    parts += ["", "## Features, and what shows each", "", "| system | feature | tests and rows |", "|---|---|---|"]
    parts += [f"| {system} | {cell(feature)} | {', '.join(shown)} |" for system, feature, shown in features]
    for name, module in modules.items():
        parts += ["", f"## {SYSTEMS[name]}", ""]
        for status, title in (("differs", "Differs on purpose"), ("not applicable", "Not applicable")):
            rows = [row for row in module.ROWS if row.status == status]
            if rows:
                parts += [f"### {title}", "", "| row | case | why |", "|---|---|---|"]
                parts += [f"| {row.id} | {cell(row.title)} | {cell(row.reason)} |" for row in rows]
                parts.append("")
        same = [row for row in module.ROWS if row.status == "same"]
        parts += ["### Same", "", "| row | case |", "|---|---|"]
        parts += [f"| {row.id} | {cell(row.title)} |" for row in same]
    return "\n".join(parts) + "\n"


def line(name: str, counts: Counter[str]) -> str:
    return f"| {name} | {counts.total()} | {counts['same']} | {counts['differs']} | {counts['not applicable']} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    PAGE.write_text(page())

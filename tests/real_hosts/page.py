"""Writes the table of docs/reference/hosts.md from real programs: `python tests/real_hosts/page.py [NAME...]`.

A column whose program is not here, or not named, stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from real_hosts.bare import bare_results
from real_hosts.guarded import guarded_results
from real_hosts.hosts.every import HOSTS, STRICT
from real_hosts.rows import TITLES, Result
from real_hosts.theatre import Stage, on_stage, why_there_is_no_namespace
from support.repository import ROOT

__all__ = ["STRICT_TITLE", "Column", "column_of", "main", "read_page"]

PAGE = ROOT / "docs" / "reference" / "hosts.md"
BEGIN, END = "<!-- played by the real programs: make hosts-page -->", "<!-- until here -->"
NOTHING = "-"
STRICT_TITLE = "Claude Code, `onFailure`"
HEAD = "a guard that"

Column = dict[str, str]  # cells by the title of their row


def column_of(bare: Mapping[str, Result], ours: Mapping[str, Result]) -> Column:
    """Return the cells of a program: what it does by itself, and with hooklatch where that was played."""
    return {
        title: f"{_word(bare, row)} → {_word(ours, row)}" if ours else _word(bare, row) for row, title in TITLES.items()
    }


def _word(results: Mapping[str, Result], row: str) -> str:
    return results[row].word if row in results else NOTHING


def read_page() -> dict[str, Column]:
    """Return the columns of the table by their titles; none if there is no table yet."""
    table = [_cells(line) for line in _parts()[1].splitlines() if line.startswith("|")]
    if not table:
        return {}
    head, _, *rows = table
    return {title: {row[0]: row[number] for row in rows} for number, title in enumerate(head) if number}


def _parts() -> tuple[str, str, str]:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    return before, table, after


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _write(columns: Mapping[str, Column]) -> None:
    before, _, after = _parts()
    rows = [[HEAD, *columns], ["---"] * (len(columns) + 1)]
    rows += [[title, *(column.get(title, NOTHING) for column in columns.values())] for title in TITLES.values()]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}")


def _played(name: str, stage: Stage) -> dict[str, Column]:
    host = HOSTS[name]
    columns = {host.program.title: column_of(bare_results(host, stage), guarded_results(host, stage))}
    if name == STRICT.name:
        columns[STRICT_TITLE] = column_of(bare_results(STRICT, stage), {})
    return columns


def main(names: list[str]) -> int:
    """Play the programs that are here, or those named; write their columns; return the exit code."""
    if reason := why_there_is_no_namespace():
        print(reason)
        return 1
    columns = read_page()
    for name in names or HOSTS:
        if reason := HOSTS[name].program.why_not:
            print(reason)
            continue
        print(f"{HOSTS[name].program.title} ...", flush=True)
        with on_stage() as stage:
            columns |= _played(name, stage)
    titles = [title for host in HOSTS.values() for title in _titles(host.name)]
    _write({title: columns[title] for title in titles if title in columns})
    return 0


def _titles(name: str) -> list[str]:
    return [HOSTS[name].program.title, *([STRICT_TITLE] if name == STRICT.name else [])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The table of docs/reference/hosts.md, whether the programs are here or not."""

from __future__ import annotations

from real_hosts.cases import FAILURES, NO_DAEMON, REFUSALS
from real_hosts.hosts.every import HOSTS
from real_hosts.page import STRICT_TITLE, read_page
from real_hosts.rows import RAN, REWRITTEN, TITLES


def test_every_program_has_a_cell_in_every_row() -> None:
    page = read_page()

    assert set(page) == {STRICT_TITLE, *(host.program.title for host in HOSTS.values())}
    assert all(set(column) == set(TITLES.values()) for column in page.values())


def test_no_tool_ran_with_hooklatch_where_a_guard_refused_failed_or_had_no_daemon() -> None:
    cells = {
        (title, row): column[TITLES[row]].partition(" → ")[2]
        for title, column in read_page().items()
        for row in (*FAILURES, *NO_DAEMON, *REFUSALS)
        if title != STRICT_TITLE
    }

    assert cells
    assert not [where for where, word in cells.items() if word in ("", RAN, REWRITTEN)]

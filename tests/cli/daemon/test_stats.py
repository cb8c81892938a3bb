"""stats, and the columns of `hooks`: what each guard decided, over a restart of the daemon.

Slow: the daemon and each command are processes of their own.
"""

from __future__ import annotations

import pytest

from support.commands import Place, serving
from support.described import check

pytestmark = pytest.mark.slow


def test_what_a_guard_decided_is_counted_over_a_restart(place: Place) -> None:
    with serving(place):
        place.fire_tool("Bash", command="rm x")
        place.fire_tool("Bash", command="ls")
    with serving(place):
        place.fire_tool("Bash", command="rm \x1b[31my")
        (listed,) = place.json("hooks")["hooks"]
        table, shown = place.run("hooks").stdout, place.run("hooks", "show", "guards:judge").stdout
        stats = place.json("stats")
        by_tool, never = place.run("stats", "--by", "tool").stdout, place.run("stats", "--since", "2100-01-01").stdout
    without = place.run("stats")

    assert (listed["counts"]["verdicts"], listed["counts"]["calls"], listed["timings"]["count"]) == ({"deny": 2}, 3, 1)
    assert listed["counts"] == stats["guards"][0]
    titles, row = (line.split() for line in table.splitlines()[:2])
    assert row[titles.index("DENIES")] == "2"
    assert "decided     deny 2, in 3 calls on record\n" in shown
    assert r"last refusal rm \x1b[31my: no rm here" in shown
    check("stats", stats)
    assert "Bash  3          2       0     0       1\n" in by_tool
    assert never == "0 decisions\nnever called: global/guards:judge\n"
    assert without.returncode == 0
    assert "which hooks were never called is not known" in without.stderr
    assert r"rm \x1b[31my" in without.stdout


def test_without_a_record_it_says_where_it_looked(place: Place) -> None:
    done = place.run("stats", "--record", str(place.folder / "nothing"))

    assert (done.returncode, "there is no record in" in done.stderr) == (66, True)

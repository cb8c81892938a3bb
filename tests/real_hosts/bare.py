"""What a program does by itself when a plain hook misbehaves: the behaviour that ours is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from real_hosts.hosts.host import Host
from real_hosts.rows import Result, a_place, make, play, result
from real_hosts.theatre import Stage

__all__ = ["bare_results"]

# A question that nobody can answer ends the session of some programs, so it comes last.
ROWS = ("pass", "deny", "rewrite", "raise", "exit_2", "killed", "hang", "rubbish", "half", "noise", "ask")
SHORT = 15  # seconds after which a session that a hook hangs in is ended


def bare_results(host: Host, stage: Stage) -> dict[str, Result]:
    """Play each row against the program with one plain hook; return what came of it."""
    together = [row for row in ROWS if row not in {*host.bare_alone, *host.bare_never}]
    found = _played(host, stage, together)
    for row in (*host.bare_alone, "missing"):
        found |= _played(host, stage, [row])
    return found


def _played(host: Host, stage: Stage, rows: Sequence[str]) -> dict[str, Result]:
    with a_place(host, stage) as place:
        host.add_bare_hook(place, is_there=rows != ["missing"])
        turns = [[make(host, place, row)] for row in rows]
        outcome = play(host, place, stage, {"main": turns}, **({"patience": SHORT} if len(rows) == 1 else {}))
        return {row: result(place, outcome, row, ("main", turn, 0), _reason(row)) for turn, row in enumerate(rows)}


def _reason(row: str) -> str:
    return "no-such-hook" if row == "missing" else f"refused-{row}"

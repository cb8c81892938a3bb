"""What a program does by itself when a plain hook misbehaves: the behaviour that ours is compared with."""

from __future__ import annotations

from real_hosts.hosts.host import Host
from real_hosts.rows import Result, a_place, make, play, play_all, result
from real_hosts.theatre import PATIENCE, Stage

__all__ = ["bare_results"]

ROWS = ("pass", "deny", "rewrite", "raise", "exit_2", "killed", "hang", "rubbish", "half", "noise")
SHORT = 15  # seconds after which a session that a hook hangs in is ended


def bare_results(host: Host, stage: Stage) -> dict[str, Result]:
    """Play each row against the program with one plain hook; return what came of it."""
    rows = [row for row in ROWS if row not in {*host.bare_alone, *host.bare_never}]
    with a_place(host, stage) as place:
        host.add_bare_hook(place, is_there=True)
        found = play_all(host, place, stage, rows, ends="ask" not in host.bare_never, reason=_reason)
    for row in (*host.bare_alone, "missing"):
        found[row] = _alone(host, stage, row)
    return found


def _alone(host: Host, stage: Stage, row: str) -> Result:
    with a_place(host, stage) as place:
        host.add_bare_hook(place, is_there=row != "missing")
        # On a busy machine a program may need longer than that to begin: then nothing hung yet.
        for patience in (SHORT, PATIENCE) if row == "hang" else (PATIENCE,):
            outcome = play(host, place, stage, {"main": [[make(host, place, row)]]}, patience=patience)
            if outcome.called:
                break
        return result(place, outcome, row, ("main", 0, 0), _reason(row))


def _reason(row: str) -> str:
    return "no-such-hook" if row == "missing" else f"refused-{row}"

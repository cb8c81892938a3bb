"""What a program does by itself when a plain hook script misbehaves: the column that ours is compared with."""

from __future__ import annotations

import json
import shlex
import sys

from real_hosts.hosts.host import Host
from real_hosts.rows import Result, a_place, make, play, results
from real_hosts.theatre import Stage
from support.repository import TESTS

__all__ = ["ROWS", "bare_results"]

ROWS = ("pass", "deny", "rewrite", "raise", "exit_2", "killed", "hang", "rubbish", "half", "noise", "ask")


def bare_results(host: Host, stage: Stage) -> dict[str, Result]:
    """Play each row against the program with one plain hook; return what came of it."""
    return {**_with_a_script(host, stage), **_without_its_script(host, stage)}


def _with_a_script(host: Host, stage: Stage) -> dict[str, Result]:
    with a_place(host, stage) as place:
        answers = place.folder / "answers.json"
        answers.write_text(json.dumps(dict(host.native())))
        host.add_bare_hook(
            place, shlex.join([sys.executable, str(TESTS / "real_hosts/hooks/plain_hook.py"), str(answers)])
        )
        outcome = play(host, place, stage, {"main": [[make(host, place, row)] for row in ROWS]})
        return results(place, outcome, ROWS, {row: f"refused-{row}" for row in ROWS})


def _without_its_script(host: Host, stage: Stage) -> dict[str, Result]:
    with a_place(host, stage) as place:
        host.add_bare_hook(place, str(place.folder / "no-such-hook"))
        outcome = play(host, place, stage, {"main": [[make(host, place, "missing")]]})
        return results(place, outcome, ["missing"], {"missing": "no-such-hook"})

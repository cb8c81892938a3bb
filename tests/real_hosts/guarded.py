"""What a program does with hooklatch before its tools, its guards misbehaving and its daemon dying.

The daemon is a real one outside of the program's network namespace, and the program's own settings are written by
hooklatch's installer, as a person would have it done.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hooklatch_worker.sandbox import linux
from real_hosts.hosts.host import Host, Place
from real_hosts.model.conversation import Turn
from real_hosts.rows import Result, a_place, make, play, results
from real_hosts.theatre import PATIENCE, Outcome, Stage
from support.commands import Place as Ground
from support.commands import new_place, serving
from support.repository import TESTS

__all__ = ["ROWS", "Guarded", "guarded", "guarded_results", "kill_whole"]

ROWS = ("pass", "deny", "rewrite", "raise", "exit_2", "killed", "hang", "rubbish", "half", "noise", "ask")
REASONS = {row: f"{row}_guard" for row in ROWS}
CONFIG = '[[source]]\npath = "{source}"\n'


class Guarded:
    """A program that hooklatch was installed into, and the ground on which the daemon runs."""

    def __init__(self, host: Host, stage: Stage, place: Place, ground: Ground) -> None:
        self.host = host
        self.stage = stage
        self.place = place
        self.ground = ground
        self.files: set[str] = set()

    def play(self, *turns: Turn, patience: int = PATIENCE, **others: list[Turn]) -> Outcome:
        """Run the program; keep which rows' tools have run in `files`."""
        outcome = play(self.host, self.place, self.stage, {"main": list(turns), **others}, patience=patience)
        self.files = {path.stem for path in self.place.folder.glob("*.ran")}
        return outcome

    def turn(self, *rows: str) -> Turn:
        """Return a turn of one call for each row, all at once."""
        return [make(self.host, self.place, row) for row in rows]


@contextmanager
def guarded(host: Host, stage: Stage, source: str = "guards.py") -> Iterator[Guarded]:
    """Install hooklatch into a program; no daemon runs yet."""
    files = {"hooks.toml": CONFIG.format(source=source), source: (TESTS / "real_hosts" / "hooks" / source).read_text()}
    with a_place(host, stage) as place, new_place(files) as ground:
        host.install(place, ground)
        yield Guarded(host, stage, place, ground)


def guarded_results(host: Host, stage: Stage) -> dict[str, Result]:
    """Play each row against the program with hooklatch's guards; return what came of it."""
    with guarded(host, stage) as it, serving(it.ground):
        outcome = it.play(*(it.turn(row) for row in ROWS))
        return results(it.place, outcome, ROWS, REASONS)


def kill_whole(pid: int) -> None:
    """Kill a daemon and all below it, it first: nothing of it can answer any more, or start it again."""
    for each in [pid, *linux.descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)

"""The rows of the table: what a guard does, and how it is found out what came of it.  Knows no program by its name.

Each row is a call of the shell tool that makes the file `ROW.ran`; whether it is there says whether the tool ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from real_hosts.hosts.host import Host, Place
from real_hosts.model.conversation import Call, Turn, call_id, opening
from real_hosts.theatre import PATIENCE, Outcome, Stage

__all__ = ["BLOCKED", "REWRITTEN", "RAN", "TOLD", "TITLES", "a_place", "make", "play", "results"]

RAN, REWRITTEN, BLOCKED, TOLD = "ran", "rewritten", "blocked", "blocked, told"

TITLES = {
    "pass": "has no opinion",
    "deny": "refuses",
    "ask": "wants a person asked, and nobody is there",
    "rewrite": "changes the input",
    "raise": "raises an exception",
    "exit_2": "exits with code 2 and says nothing",
    "killed": "is killed",
    "hang": "hangs",
    "rubbish": "answers with something else than a decision",
    "half": "ends in the middle of its answer",
    "noise": "refuses, and a line was printed before",
    "missing": "is not there",
}


@contextmanager
def a_place(host: Host, stage: Stage) -> Iterator[Place]:
    """Make the home and the project of one run; nothing of them is left."""
    with TemporaryDirectory(prefix="hl-") as folder:
        place = Place(Path(folder), stage.port)
        place.home.mkdir()
        place.project.mkdir()
        host.settle(place)
        yield place


def make(host: Host, place: Place, row: str) -> Call:
    """Return the call that makes the row's file."""
    return host.shell(f"touch {place.folder}/{row}.ran")


def play(
    host: Host, place: Place, stage: Stage, plays: Mapping[str, Sequence[Turn]], *, patience: int = PATIENCE
) -> Outcome:
    """Run the program to its end while the model plays these."""
    argv, environment = host.start(place, opening("main"))
    outcome = stage.play(argv, folder=place.folder, cwd=place.project, env=environment, plays=plays, patience=patience)
    assert not outcome.errors, outcome.errors
    return outcome


@dataclass(frozen=True)
class Result:
    """What came of one row, and what the model was told of its call."""

    word: str
    told: str


def results(place: Place, outcome: Outcome, rows: Sequence[str], reasons: Mapping[str, str]) -> dict[str, Result]:
    """Return what came of each row, played as one call a turn in this order; `reasons` is what the model should read.

    A question that nobody can answer ends the session of some programs, so it comes last.
    """
    unplayed = [row for turn, row in enumerate(rows) if call_id("main", turn, 0) not in outcome.called]
    assert not unplayed, f"the session ended before {unplayed}: {outcome.stdout}{outcome.stderr}"
    return {row: _result(place, row, outcome.told_of("main", turn), reasons[row]) for turn, row in enumerate(rows)}


def _result(place: Place, row: str, told: str, reason: str) -> Result:
    if (place.folder / f"{row}.ran").exists():
        return Result(RAN, told)
    if row == "rewrite" and (place.folder / "rewritten.ran").exists():
        return Result(REWRITTEN, told)
    return Result(TOLD if reason in told else BLOCKED, told)

"""The rows of the table: what happens to a guard, and how what came of it is found out.  Knows no program by its name.

Each row is a call of the shell tool that makes the file `ROW.ran`; whether it is there says whether the tool ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from real_hosts.hosts.host import Host, Place
from real_hosts.model.conversation import Call, Turn, call_id, opening
from real_hosts.theatre import PATIENCE, Outcome, Stage

__all__ = [
    "BLOCKED",
    "ENDED",
    "HELD",
    "RAN",
    "REWRITTEN",
    "TITLES",
    "TOLD",
    "Result",
    "a_place",
    "make",
    "play",
    "play_all",
    "result",
]

RAN, REWRITTEN, BLOCKED, TOLD, ENDED, HELD = "ran", "rewritten", "blocked", "blocked, told", "session ends", "hangs"

TITLES = {
    "pass": "has no opinion",
    "deny": "refuses",
    "rewrite": "changes the input",
    "ask": "wants a person asked, and no person is there",
    "raise": "raises an exception",
    "exit_2": "exits with code 2 and says nothing",
    "killed": "is killed",
    "hang": "hangs",
    "rubbish": "answers with something that is not a decision",
    "half": "ends in the middle of its answer",
    "noise": "refuses, and a line was printed before",
    "missing": "is not there",
    "no_daemon": "has no daemon: it is dead before the session",
    "daemon_dies": "is judging when the daemon is killed",
    "afterwards": "would be asked later in that session",
    "one_of_two": "refuses one of three calls made at once",
    "other_of_two": "has no opinion of another one of them",
    "subagent": "refuses a call of a sub-agent",
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


def play_all(
    host: Host, place: Place, stage: Stage, rows: Sequence[str], *, ends: bool, reason: Callable[[str], str]
) -> dict[str, Result]:
    """Play rows in one session, then calls made at once, a sub-agent and, as what `ends` it, a question.

    `reason` is what the model should be told of a row that blocks.  A question that nobody can answer ends the session
    of some programs, so it comes last.
    """
    allowed = place.folder / "subagent_allowed.ran"
    # Some start a sub-agent and go on: the session must not end before it.
    wait = host.shell(f"for each in $(seq 200); do test -e {allowed} && break; sleep 0.1; done")
    several = ("one_of_two", "other_of_two", "third")
    last = ["ask"] if ends else []
    main = [
        *([make(host, place, row)] for row in rows), [make(host, place, row) for row in several],
        [host.subagent("sub")], [wait], *([make(host, place, row)] for row in last),
    ]  # fmt: skip
    sub = [[make(host, place, row)] for row in ("subagent", "subagent_allowed")]
    outcome = play(host, place, stage, {"main": main, "sub": sub})
    assert allowed.exists(), f"the sub-agent did not come to its end: {outcome.stdout}{outcome.stderr}"
    calls = {row: ("main", turn, 0) for turn, row in enumerate(rows)}
    calls |= {row: ("main", len(rows), index) for index, row in enumerate(several)}
    calls |= {"subagent": ("sub", 0, 0), **{row: ("main", len(main) - 1, 0) for row in last}}
    return {row: result(place, outcome, row, call, reason(row)) for row, call in calls.items()}


@dataclass(frozen=True)
class Result:
    """What came of one row, and what the model was told of its call."""

    word: str
    told: str


def result(place: Place, outcome: Outcome, row: str, call: tuple[str, int, int], reason: str) -> Result:
    """Return what came of the row that was played as this call; `reason` is what the model should have read."""
    told = outcome.told_of(*call)
    if (place.folder / f"{row}.ran").exists():
        return Result(RAN, told)
    if row == "rewrite" and (place.folder / "rewritten.ran").exists():
        return Result(REWRITTEN, told)
    # A call that was never made is no call that was blocked.
    assert call_id(*call) in outcome.called, f"the session ended before {row!r}: {outcome.stdout}{outcome.stderr}"
    if call_id(*call) not in outcome.told:
        return Result(HELD if outcome.exit_code is None else ENDED, "")
    return Result(TOLD if reason in told else BLOCKED, told)

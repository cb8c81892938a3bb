"""What a program does with hooklatch before its tools, its guards misbehaving and its daemon dying.

The daemon is a real one outside of the program's network namespace, and the program's own settings are written by
hooklatch's installer, as a person would have it done.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from hooklatch_worker.systems import linux
from real_hosts.hosts.host import HOOKS, Host, Place
from real_hosts.model.conversation import Turn
from real_hosts.rows import BLOCKED, ENDED, TOLD, Result, a_place, make, play, play_all, result
from real_hosts.theatre import PATIENCE, Outcome, Stage
from support.commands import Place as Ground
from support.commands import new_place, serving
from support.repository import TESTS

__all__ = ["DAEMON", "Guarded", "guarded", "guarded_results", "kill_whole"]

ROWS = ("pass", "deny", "rewrite", "raise", "exit_2", "killed", "hang", "rubbish", "half", "noise")
CONFIG = '[[source]]\npath = "{source}"\n'
MISSING = '[[hook]]\nid = "gone"\nevent = "pre_tool_use"\nrun = "gone.py:guard"\n'
PROMPT = "hooklatch refused this prompt: it is not running"
DAEMON = "tell the user to run: hooklatch s"  # serve or status: what a refusal without one ends with


class Guarded:
    """A program that hooklatch was installed into, and the ground on which the daemon runs."""

    def __init__(self, host: Host, stage: Stage, place: Place, ground: Ground) -> None:
        self.host = host
        self.place = place
        self.ground = ground
        self._stage = stage

    def play(self, *turns: Turn, patience: int = PATIENCE, **others: Sequence[Turn]) -> Outcome:
        """Run the program."""
        return play(self.host, self.place, self._stage, {"main": turns, **others}, patience=patience)

    def run_client(self, messages: str, *words: str) -> None:
        """Run a client of the program, which serves its tools by this command."""
        _, environment = self.host.start(self.place, "")
        argv = [sys.executable, str(HOOKS / "client.py"), messages, *self.host.program.argv, *words]
        self._stage.play(argv, folder=self.place.folder, cwd=self.place.project, env=environment, plays={})

    def install(self, *more: str) -> None:
        """Install hooklatch into the program."""
        self.host.install(self.place, self.ground, self._stage, "python", *more)

    def command(self, *words: str) -> Outcome:
        """Run a command of hooklatch."""
        return self.host.command(self.place, self.ground, self._stage, *words)

    def turn(self, *rows: str) -> Turn:
        """Return a turn of one call for each row, all at once."""
        return [make(self.host, self.place, row) for row in rows]

    def result(self, outcome: Outcome, row: str, turn: int, reason: str) -> Result:
        """Return what came of a row that was played in that turn."""
        return result(self.place, outcome, row, ("main", turn, 0), reason)


@contextmanager
def guarded(
    host: Host, stage: Stage, source: str = "guards.py", *more: str, form: str = "python", is_installed: bool = True
) -> Iterator[Guarded]:
    """Install hooklatch into a program, with `more` words of the command; no daemon runs yet."""
    files = {"hooks.toml": CONFIG.format(source=source), source: (TESTS / "real_hosts/hooks" / source).read_text()}
    with a_place(host, stage) as place, new_place(files) as ground:
        if is_installed:
            host.install(place, ground, stage, form, *more)
        yield Guarded(host, stage, place, ground)


def guarded_results(host: Host, stage: Stage) -> dict[str, Result]:
    """Play every row against the program with hooklatch; return what came of it."""
    return {
        **_misbehaviour(host, stage),
        **_missing_guard(host, stage),
        **_no_daemon(host, stage),
        **_dying_daemon(host, stage),
    }


def _misbehaviour(host: Host, stage: Stage) -> dict[str, Result]:
    with guarded(host, stage) as it, serving(it.ground):
        return play_all(host, it.place, stage, ROWS, ends=True, reason=_reason)


def _reason(row: str) -> str:
    return "deny_guard" if row in ("one_of_two", "subagent") else f"{row}_guard"


def _missing_guard(host: Host, stage: Stage) -> dict[str, Result]:
    with guarded(host, stage) as it:
        it.ground.write({"hooks.toml": MISSING})
        with serving(it.ground):
            outcome = it.play(it.turn("missing"))
        return {"missing": it.result(outcome, "missing", 0, "gone")}


def _no_daemon(host: Host, stage: Stage) -> dict[str, Result]:
    with guarded(host, stage) as it:
        outcome = it.play(it.turn("no_daemon"))
        if not outcome.called:  # its prompt is a gate too, so the model was never asked
            shown = outcome.stdout + outcome.stderr
            return {"no_daemon": Result(TOLD if PROMPT in shown else BLOCKED, shown)}
        return {"no_daemon": it.result(outcome, "no_daemon", 0, DAEMON)}


def _dying_daemon(host: Host, stage: Stage) -> dict[str, Result]:
    with guarded(host, stage) as it, serving(it.ground) as daemon:
        busy = it.ground.config.with_name("busy")
        os.mkfifo(busy)

        def kill_it_when_it_is_busy() -> None:
            busy.open().close()
            kill_whole(daemon.pid)

        killer = threading.Thread(target=kill_it_when_it_is_busy, daemon=True)
        killer.start()
        outcome = it.play(it.turn("pass"), it.turn("daemon_dies"), it.turn("afterwards"))
        found = {"daemon_dies": it.result(outcome, "daemon_dies", 1, DAEMON)}
        if found["daemon_dies"].word == ENDED:  # its later prompts are gates too
            return {**found, "afterwards": Result(ENDED, "")}
        return {**found, "afterwards": it.result(outcome, "afterwards", 2, DAEMON)}


def kill_whole(pid: int) -> None:
    """Kill a daemon and all below it, it first: nothing of it can answer any more, or start it again."""
    for each in [pid, *linux.list_descendants(pid)]:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)

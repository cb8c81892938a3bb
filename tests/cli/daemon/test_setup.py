"""setup: a fresh home with agents' folders, by a script and by a person at a terminal.

Slow: daemons of their own, and a canary through the settings of each agent.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.commands import PATIENCE, Place, new_place
from support.compilers import with_kept_programs

pytestmark = pytest.mark.slow
AGENTS = {"claude-code": ".claude", "codex": ".codex", "gemini": ".gemini", "opencode": ".config/opencode"}
CANARY = "a canary was refused by the daemon; if the daemon died now, a tool call would be refused"


@pytest.fixture
def home() -> Iterator[Place]:
    """A home that has seen agents and no hooklatch; the daemon that a test leaves is stopped."""
    with new_place({}) as place:
        place.config.parent.rmdir()
        for name in ("HOOKLATCH_CONFIG", "HOOKLATCH_RUNTIME_DIR"):
            del place.environment[name]
        place.environment["PATH"] = with_kept_programs("/usr/bin:/bin")
        for folder in AGENTS.values():
            (place.folder / folder).mkdir(parents=True)
        (place.folder / ".claude/settings.json").write_text('{"model": "opus"}\n')
        yield place
        place.run("stop")


def list_files(place: Place) -> set[str]:
    return {str(path.relative_to(place.folder)) for path in place.folder.rglob("*") if path.is_file()}


class Person:
    """A person at a terminal, who types when a question stands there."""

    def __init__(self, place: Place, *words: str) -> None:
        self.own, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hooklatch", *words], stdin=other, stdout=other, stderr=other, cwd=place.folder,
            env={**place.environment, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}, start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.seen = ""

    def read_until(self, text: str) -> str:
        """Return what was shown up to a text that was not read before."""
        while text not in self.seen:
            assert select.select([self.own], [], [], PATIENCE)[0], self.seen
            try:
                data = os.read(self.own, 65536)
            except OSError:  # the other side is closed
                data = b""
            assert data, self.seen
            self.seen += data.decode()
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def answer(self, text: str) -> None:
        os.write(self.own, text.encode() + b"\n")

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C once it sleeps in read(2): `input` does not see one that comes between its question and that.

        One that comes later, as a second would, may end the interpreter itself by the signal.
        """
        while psutil.Process(self.process.pid).status() not in (psutil.STATUS_SLEEPING, psutil.STATUS_ZOMBIE):
            os.sched_yield()
        os.killpg(self.process.pid, signal.SIGINT)
        return self.end()

    def end(self) -> tuple[int, str]:
        try:
            while data := os.read(self.own, 65536):
                self.seen += data.decode()
        except OSError:
            pass
        os.close(self.own)
        return self.process.wait(PATIENCE), self.seen


def test_a_script_gets_guards_agents_and_a_daemon_and_each_canary_is_refused(home: Place) -> None:
    before = list_files(home)
    shown = home.run("setup", "--dry-run")
    unasked = home.run("setup")
    untouched = list_files(home)
    done = home.run("setup", "--yes")
    denied = home.fire_tool("Bash", command="rm -rf ~")
    again = home.json("setup", "--yes")

    assert untouched == before
    assert (unasked.returncode, unasked.stdout) == (64, "")
    assert "--yes" in unasked.stderr
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("  ")] == [
        line for line in shown.stdout.splitlines() if line.startswith("  ")
    ], "what is written is what was shown"
    written = {f"{home.folder}/{name}" for name in list_files(home) - before}
    said = set(re.findall(r"^  (\S+)  \(", shown.stdout, re.MULTILINE))
    beside = {path for path in written if "/.local/state/hooklatch/" in path or path.endswith(".hooklatch-backup")}
    assert written - beside == {path for path in said if Path(path).is_file()} - {
        f"{home.folder}/.claude/settings.json"
    }
    assert done.stdout.count(CANARY) == len(AGENTS)
    assert done.stdout.index("done  hooklatch init; hooklatch guards add ") < done.stdout.index("done  hooklatch serve")
    assert denied.returncode == 2
    assert [host["host"] for host in again["hosts"]] == list(AGENTS)
    assert again["files"] == [file for file in again["files"] if "hooks.d" not in file], "what is there is left"


def test_a_person_chooses_and_nothing_is_written_before_the_yes(home: Place) -> None:
    before = list_files(home)
    person = Person(home, "setup")
    guards = person.read_until("numbers switch, Enter goes on:")
    number = re.search(r"(\d+) \[x\] git_rules", guards)
    assert number is not None
    person.answer(number[1])
    assert "[ ] git_rules" in person.read_until("numbers switch, Enter goes on:")
    person.answer("")
    agents = person.read_until("numbers switch, Enter goes on:")
    person.answer("2 3 4")
    person.read_until("numbers switch, Enter goes on:")
    person.answer("")
    person.read_until("[Y/n]")
    person.answer("")
    plan = person.read_until("n: no")
    person.answer("d")
    texts = person.read_until("n: no")
    untouched = list_files(home)
    person.answer("y")
    code, end = person.end()

    assert [name for name in AGENTS if f"[x] {name}" in agents] == list(AGENTS)
    assert "git_rules" not in plan
    assert "~/.claude/settings.json  (+" in plan
    assert "with a backup beside it" in plan
    assert "+++ " in texts
    assert '"PreToolUse"' in texts
    assert untouched == before
    assert code == 0, end
    assert f"Claude Code: {CANARY}" in " ".join(end.split())
    assert "Codex" not in end
    assert json.loads((home.folder / ".claude/settings.json").read_text())["model"] == "opus"


def test_a_person_who_says_no_or_leaves_has_nothing_written(home: Place) -> None:
    before = list_files(home)
    person = Person(home, "setup", "--guard", "git_rules", "--agent", "codex", "--service", "none")
    person.read_until("n: no")
    person.answer("n")
    refused = person.end()
    leaving = Person(home, "setup")
    leaving.read_until("numbers switch, Enter goes on:")
    interrupted = leaving.interrupt()

    assert refused[0] == 0
    assert "nothing was written" in refused[1]
    assert interrupted[0] == 130
    assert list_files(home) == before


def test_what_stops_half_way_is_said_with_what_was_done_and_a_second_run_goes_on(home: Place) -> None:
    (home.folder / ".codex").chmod(0o500)
    (home.folder / ".codex/hooks.json").symlink_to("/proc/nowhere/hooks.json")
    options = ("--agent", "claude-code", "--agent", "codex", "--service", "none")
    dangling = home.run("setup", "--yes", *options)
    (home.folder / ".codex").chmod(0o700)
    (home.folder / ".codex/hooks.json").unlink()
    (home.folder / ".local/state/hooklatch").mkdir(parents=True, mode=0o755)
    (home.folder / ".local/state/hooklatch").chmod(0o777)
    stopped = home.run("setup", "--yes", *options)
    (home.folder / ".local/state/hooklatch").chmod(0o700)
    done = home.run("setup", "--yes", *options)

    assert dangling.returncode == 73
    assert "which does not exist" in dangling.stderr
    assert stopped.returncode == 69, stopped.stderr
    assert "setup stopped at `hooklatch serve --detach`" in stopped.stderr
    assert "done before: hooklatch init; hooklatch guards add" in stopped.stderr
    assert (
        "not done: hooklatch serve --detach, hooklatch install claude-code, hooklatch install codex" in stopped.stderr
    )
    assert done.returncode == 0, done.stderr
    assert "hooklatch guards add" not in done.stdout
    assert done.stdout.count(CANARY) == 2


def test_a_guard_that_would_deny_for_want_of_a_package_is_not_set_up(home: Place) -> None:
    code = (
        "import sys; sys.modules['detect_secrets'] = None; sys.argv[1:] = %r; from hooklatch.cli import main;"
        " sys.exit(main())"
    )
    results = [
        subprocess.run(
            [sys.executable, "-c", code % (words,)], env=home.environment, cwd=home.folder, capture_output=True,
            text=True, check=False, stdin=subprocess.DEVNULL,
        )
        for words in (
            ["setup", "--yes", "--guard", "secrets", "--service", "none"], ["guards", "add", "secrets"],
            ["guards", "add", "secrets", "--yes"],
        )
    ]  # fmt: skip

    assert [done.returncode for done in results] == [66, 1, 0]
    assert "needs a package" in results[0].stderr
    assert "each gate is denied; nothing was written; first: " in results[1].stderr
    assert (home.folder / ".config/hooklatch/hooks.d/secrets.py").exists()

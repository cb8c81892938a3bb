"""What tests of the command line share: a place of its own for each daemon, and commands as real processes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker.systems import linux, system
from support.warm_commands import PROGRAM, start_command

__all__ = [
    "CONFIG", "GUARDS", "PATIENCE", "PROGRAM", "Daemon", "Pause", "Place", "Started", "drop_progress",
    "list_own_problems", "new_place", "payload", "serving",
]  # fmt: skip
PATIENCE = 60  # seconds for what takes a moment; only a failing test waits that long
GUARDS = """
from hooklatch import ask, deny, halt, hook

@hook("pre_tool_use", match=["Bash", "Slow", "Crash", "Ask", "Halt"])
def judge(event):
    match event.tool_name:
        case "Bash" if "rm" in event.tool_input["command"]:
            return deny("no rm here \\u2603 \\x1b[31m")
        case "Ask":
            return ask("may it?", instead="ls --password=hunter2")
        case "Halt":
            return halt("stop all")
        case "Crash":
            raise ValueError("a bug of the guard")
        case "Slow":  # says that it runs, then waits for the word to go on
            open(event.tool_input["started"], "w").close()
            open(event.tool_input["go"]).close()
            return deny("answered after all")
"""
CONFIG = '[[source]]\npath = "guards.py"\n'


def held_to_schema(words: Sequence[str], said: Any) -> Any:
    """Return what a command has printed with `--json`, once it is as its schema says."""
    from hooklatch.cli.schema import list_schema_names
    from support.described import check

    names = {*list_schema_names()}
    name = next((name for count in (3, 2, 1) if (name := " ".join(words[:count])) in names), None)
    if name is not None and name != "log":  # the kinds of records are in docs/reference/record.md
        check(name, said)
    return said


def list_own_problems(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what doctor found but for agents that somebody runs on this machine, which are not of a test."""
    return [one for one in said["problems"] if not re.search(r"process \d+ runs with", one["what"])]


def drop_progress(text: str) -> str:
    """Return what a command wrote to standard error but for what it waits for, which depends on the clock."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.endswith(" …\n"))


class Place:
    """A home, a configuration and a runtime folder that no other daemon uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config" / "hooks.toml"
        self.runtime = folder / "run"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "HOOKLATCH_CONFIG": str(self.config),
            "HOOKLATCH_RUNTIME_DIR": str(self.runtime),
            "PYTHONUTF8": "1",
        }
        self.config.parent.mkdir(mode=0o700)
        self.begun: list[subprocess.Popen[str]] = []

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.config.parent / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_text(text)

    def run(
        self, *words: str, stdin: str = "", umask: int = -1, folder: Path | None = None, etc: str = "",
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command to its end, by default in the home, and with a folder as its /etc if one is given.

        With an `umask`, it leaves no file of bytecode that others could then write to.
        """
        quiet = {} if umask == -1 else {"PYTHONDONTWRITEBYTECODE": "1"}
        with start_command(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder or self.folder,
            env={**self.environment, **quiet, **environment}, umask=umask, etc=etc,
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(stdin, timeout=PATIENCE)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess([*PROGRAM, *words], process.returncode, out, err)

    def json(self, *words: str, stdin: str = "", code: int = 0) -> Any:
        done = self.run(*words, "--json", stdin=stdin)
        assert done.returncode == code, done.stdout + done.stderr
        return held_to_schema(words, json.loads(done.stdout))

    def fire_tool(self, tool: str, *words: str, **tool_input: str) -> subprocess.CompletedProcess[str]:
        return self.run("fire", "pre_tool_use", "--payload", "-", *words, stdin=payload(tool, **tool_input))

    def shell(self, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a line as a person types it."""
        return subprocess.run(
            ["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
            check=False, cwd=folder, env=self.environment,
        )  # fmt: skip

    def begin(self, *words: str) -> Started:
        """Start a command and do not wait for it."""
        process = start_command(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
            env=self.environment,
        )  # fmt: skip
        self.begun.append(process)
        return Started(process)

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Have this process run commands as one of this place: no other test's variable moves a folder of theirs."""
        for name in os.environ:
            if name.startswith(("XDG_", "HOOKLATCH_")) and name not in self.environment:
                patch.delenv(name)
        for name, value in self.environment.items():
            patch.setenv(name, value)
        patch.chdir(self.folder)

    def clear(self) -> None:
        """End what a test that failed left running."""
        for process in self.begun:
            process.kill()
            process.communicate()


def payload(tool: str, **tool_input: str) -> str:
    return json.dumps({"tool_name": tool, "tool_input": tool_input})


class Started:
    """A command that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.seen = ""

    def line(self) -> str:
        """Return the next line of standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def wait_for(self, text: str) -> None:
        """Read standard error until a line holds `text`."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.seen += line
            if text in line:
                return
        raise AssertionError(f"{text!r} was never said, but: {self.seen}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; give exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, self.seen + err


class Daemon(Started):
    """A `hooklatch serve` that has said that it is ready."""

    def __init__(self, process: subprocess.Popen[str], place: Place) -> None:
        super().__init__(process)
        self.place = place
        first = self.line()
        assert first, self.end()
        self.ready: dict[str, Any] = json.loads(first)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Assert that what is done in this block ends the daemon and every process below it."""
        with ExitStack() as stack:
            left: list[int] = []
            for pid in linux.list_descendants(self.pid):
                try:
                    left.append(system.watch_process(pid))
                except ProcessLookupError:
                    continue
                stack.callback(os.close, left[-1])
            yield
            for pidfd in left:
                assert select.select([pidfd], [], [], PATIENCE)[0], "a process outlived its daemon"

    def stop(self) -> None:
        if self.process.poll() is not None:
            self.process.communicate()
            return
        with self.ending():
            self.signal(signal.SIGTERM)
            code, out, err = self.end()
        assert (code, out) == (0, ""), err
        assert "Traceback" not in err
        assert not list(self.place.runtime.glob("*.sock"))


@contextmanager
def new_place(files: Mapping[str, str] | None = None) -> Iterator[Place]:
    # Not tmp_path: a socket's path may have 107 bytes and no more.
    with tempfile.TemporaryDirectory(prefix="hl-") as folder:
        place = Place(Path(folder))
        place.write(files if files is not None else {"hooks.toml": CONFIG, "guards.py": GUARDS})
        try:
            yield place
        finally:
            place.clear()


@contextmanager
def serving(place: Place, *words: str) -> Iterator[Daemon]:
    """Run a daemon; nothing of it is left afterwards.  The file of hooks is named, so it must be there."""
    place.config.touch()
    daemon = Daemon(place.begin("serve", "--json", *words).process, place)
    try:
        yield daemon
    finally:
        daemon.stop()


class Pause:
    """A guard that waits in the middle of its work, told by two FIFOs."""

    def __init__(self, folder: Path) -> None:
        self.started, self.go = folder / "started", folder / "go"
        os.mkfifo(self.started)
        os.mkfifo(self.go)

    def begin_fire(self, place: Place) -> Started:
        """Fire, and come back when the guard runs."""
        (place.folder / "payload.json").write_text(payload("Slow", started=str(self.started), go=str(self.go)))
        fire = place.begin("fire", "pre_tool_use", "--payload", "payload.json")
        self.started.open().close()
        return fire

    def end(self) -> None:
        self.go.open("w").close()

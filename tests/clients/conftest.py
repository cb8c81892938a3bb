"""What tests of the clients share: each client's program, and a real daemon that may be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from clients.adapters import Adapters, adapters_in
from clients.programs import LANGUAGES, Program, command_of
from support.survivors import nobody_survives
from support.warm_commands import start_command

GUARDS = """
import time
from pathlib import Path
from hooklatch import amend, ask, deny, hook

@hook("pre_tool_use", match="Shell", timeout=60)
def guard(event):
    command = event.tool_input["command"]
    if command.startswith("wait "):
        Path(command.removeprefix("wait ")).touch()
        time.sleep(50)
    if "rm -rf" in command:
        return deny("name the files to remove, ☃")
    if "sudo" in command:
        return ask("this runs as root")
    if "mine" in command:
        return amend(tool_input={**event.tool_input, "command": command.replace("mine", "theirs")})
    if "kaputt" in command:
        raise RuntimeError("kaputt")
"""


class RealDaemon:
    """A daemon in a process of its own, with real guards."""

    def __init__(self, folder: Path, guards: str = GUARDS) -> None:
        self.folder = folder
        self.path = str(folder / "run" / "agent.sock")
        (folder / "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')
        (folder / "guards.py").write_text(guards)
        self._environ = {
            # Without what would have an interpreter start anew.
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LANG", "LC_"))},
            "PYTHONUTF8": "1",
            "HOOKLATCH_CONFIG": str(folder / "hooks.toml"),
            "HOOKLATCH_RUNTIME_DIR": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.start()

    def start(self) -> None:
        self._process = start_command(
            ["serve", "--json"], cwd=self.folder, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        assert json.loads(self._process.stdout.readline())["ready"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        with self._process as process:
            process.send_signal(number)


@pytest.fixture(scope="module", params=LANGUAGES)
def program(request: pytest.FixtureRequest) -> Generator[Program]:
    command = command_of(request.param)
    with nobody_survives(), Program(command) as running:
        yield running


@pytest.fixture(scope="module")
def daemon(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    """Run one that every test of a client asks; one that kills it starts it again."""
    running = RealDaemon(tmp_path_factory.mktemp("daemon"))
    yield running
    running.end()


@pytest.fixture
def own_daemon(program: Program, tmp_path: Path) -> Generator[RealDaemon]:
    """Run one that the test may change and kill; that nothing of it is left, `program` asserts."""
    running = RealDaemon(tmp_path)
    yield running
    running.end()


@pytest.fixture(scope="module")
def adapters_of_elixir(tmp_path_factory: pytest.TempPathFactory) -> Generator[Adapters]:
    with nobody_survives(), adapters_in(tmp_path_factory.mktemp("shapes")) as adapters:
        yield adapters


@pytest.fixture
def adapters(adapters_of_elixir: Adapters, tmp_path: Path) -> Adapters:
    adapters_of_elixir.configure(tmp_path)
    return adapters_of_elixir

"""What the suite asks of each real program.  The programs themselves are the other modules of this folder."""

from __future__ import annotations

import json
import os
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from real_hosts.model.conversation import Call
from real_hosts.programs import FOLDER, PROGRAMS, Program, node_folder
from real_hosts.theatre import Outcome, Stage
from support.commands import Place as Ground
from support.repository import TESTS

__all__ = ["BARE_SECONDS", "HOOKS", "Host", "Place"]

HOOKS = TESTS / "real_hosts" / "hooks"
BARE_SECONDS = 1  # after which the host gives up on a bare hook, where its unit is the second


@dataclass(frozen=True)
class Place:
    """Where one run takes place: a home, a project, and the port of the model."""

    folder: Path
    port: int

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def model(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return what every program is started with, and nothing of the tests' own environment."""
        return {
            "HOME": str(self.home),
            "PATH": f"{node_folder()}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
            "SHELL": "/bin/bash",
            "NO_COLOR": "1",
            "NODE_COMPILE_CACHE": str(FOLDER / "compile-cache"),  # half of a start is reading JavaScript
        } | {name: os.environ[name] for name in ("HOOKLATCH_TEST_COOKIE",) if name in os.environ}

    def write(self, name: str, text: str) -> None:
        """Write a file of the person's home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def add(self, name: str, **keys: object) -> None:
        """Put keys into a JSON file of the person's home."""
        path = self.home / name
        self.write(name, json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **keys}, indent=2))


class Host(ABC):
    """A real program: how it is started without an account, how hooks are given to it, what it calls its tools."""

    name: str
    bare_alone: Sequence[str] = ()  # rows that end its session when it is bare
    bare_never: Sequence[str] = ()  # rows that there are not with its kind of hooks
    install_words: Sequence[str] = ()
    rewrites = True  # it runs the input that a hook has changed
    watched: Set[str] = frozenset({"session_start", "post_tool_use", "session_end"})  # told of by a headless session

    @property
    def program(self) -> Program:
        return PROGRAMS[self.name]

    @abstractmethod
    def settle(self, place: Place) -> None:
        """Write what a person's settings hold before there are hooks: the model, and no account."""

    @abstractmethod
    def start(self, place: Place, prompt: str) -> tuple[list[str], dict[str, str]]:
        """Return the command of a headless session, and its environment."""

    def add_bare_hook(self, place: Place, *, is_there: bool) -> None:
        """Add one plain hook before each shell command, with a limit of `BARE_SECONDS`; it may be missing."""
        answers = place.folder / "answers.json"
        answers.write_text(json.dumps(dict(self.native())))
        words = [sys.executable, str(HOOKS / "plain_hook.py"), str(answers)]
        self.add_command(place, shlex.join(words) if is_there else str(place.folder / "no-such-hook"))

    @abstractmethod
    def add_command(self, place: Place, command: str) -> None:
        """Add a command before each shell command to the person's settings."""

    @abstractmethod
    def shell(self, command: str) -> Call:
        """Return the model's call that runs a shell command."""

    @abstractmethod
    def subagent(self, play: str) -> Call:
        """Return the model's call that starts a sub-agent, which follows that play."""

    @abstractmethod
    def native(self) -> Mapping[str, str]:
        """Return the host's own answers: deny and ask (the reason is WHY), and rewrite (the new input is INPUT)."""

    def install(self, place: Place, ground: Ground, stage: Stage, form: str = "python", *more: str) -> None:
        """Have hooklatch write its entries into the person's settings, as a person would."""
        more = more or ("--user", *self.install_words)
        program = ("--program", str(self.program.path))
        done = self.command(place, ground, stage, "install", self.name, "--form", form, *more, *program)
        assert done.exit_code == 0, done.stdout + done.stderr

    def command(self, place: Place, ground: Ground, stage: Stage, *words: str) -> Outcome:
        """Run a command of hooklatch on the stage too, since it may start the program, to ask for its version."""
        environment = {
            **place.environment, "HOOKLATCH_RUNTIME_DIR": str(ground.runtime), "HOOKLATCH_CONFIG": str(ground.config),
        }  # fmt: skip
        argv = [sys.executable, "-m", "hooklatch", *words]
        return stage.play(argv, folder=place.folder, cwd=place.project, env=environment, plays={})

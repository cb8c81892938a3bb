"""Elixir's adapters, driven beside a real daemon with an operator's hooks."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clients.programs import Program, command_of
from conformance.driving import Command, Step, mismatch
from support.daemons import Daemon
from support.shared_daemon import daemon_in_thread

__all__ = ["Adapters", "adapters_in"]

GUARDS = """
import json
from pathlib import Path

from hooklatch import amend, append, deny, hook

@hook("pre_tool_use", match="forbidden")
def guard(event):
    return deny("forbidden is forbidden")

@hook("pre_tool_use", match="rewritten")
def rewrite(event):
    if event.tool_input.get("command") == "mine":
        return amend(tool_input={**event.tool_input, "command": "theirs"})

@hook("post_tool_use", match="noted")
def remark(event):
    return append("the operator's remark")

@hook("post_tool_use")
@hook("stop")
@hook("notification")
@hook("pre_iteration")
def note(event):
    line = {"event": event.event, "session": event.session_id, "cwd": str(event.cwd), "payload": dict(event.payload)}
    with (Path(__file__).parent / "seen.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\\n")
"""
FILES = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


class Adapters:
    """A program whose processes each have a session with one daemon, in a folder that no payload names."""

    def __init__(self, program: Program, daemon: Daemon) -> None:
        self._program = program
        self._daemon = daemon

    def configure(self, folder: Path) -> None:
        """Begin anew, with nothing of the test before."""
        self.do({"do": "native", "call": "configure", "path": self._daemon.agent, "cwd": str(folder), "host": "shapes"})
        self.seen()

    def do(self, command: Command) -> Any:
        answer = self._program.do(**command)
        assert "error" not in answer, answer
        return answer.get("result", answer)

    def holds(self, *steps: Step) -> None:
        for each in steps:
            problem = mismatch(self.do(each.command), each.gives, "")
            assert not problem, f"{each.command}: {problem}"

    def logged(self, report: Any) -> str:
        """Return what a report says was logged, by its call or soon after."""
        return " ".join(report["logged"] or self.do({"do": "native", "call": "logged", "count": 1}))

    def seen(self) -> list[dict[str, Any]]:
        """Return what the operator's hook has been shown since the last time."""
        path = Path(self._daemon.folder) / "seen.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return [json.loads(line) for line in lines]


@contextmanager
def adapters_in(folder: Path) -> Generator[Adapters]:
    with daemon_in_thread(folder, FILES) as daemon, Program(command_of("elixir")) as program:
        yield Adapters(program, daemon)

"""`hooklatch` alone: in at most six lines the state, what is wrong first, and the next step.  It changes nothing."""

from __future__ import annotations

import argparse
import os
from typing import TypedDict

from hooklatch.cli.hooks.status import name_health, shorten_status
from hooklatch.cli.hosts import install_record
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import Exit
from hooklatch.cli.terminal.requests import ask_administrator
from hooklatch.core.status_answers import StatusAnswer
from hooklatch.core.text import format_count
from hooklatch.errors import HooklatchError
from hooklatch.paths import find_config_file
from hooklatch.version import VERSION

__all__ = ["run_overview"]


class Overview(TypedDict):
    """`hooklatch` alone: `health` is null if no daemon answers, `problem` is why, and `next` is what to do."""

    version: str
    health: str | None
    problem: str | None
    guards: int
    agents: list[str]
    next: str


def run_overview(arguments: argparse.Namespace) -> int:
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    agents, guards = list_agents(), count_guards(config)
    status: StatusAnswer | None = None
    problem = None
    try:
        status = ask_administrator(arguments, "status")
    except HooklatchError as error:
        problem = str(error)
    step = find_next_step(status, agents, has_config=guards > 0 or os.path.lexists(config))
    if arguments.json:
        health = status["health"] if status is not None else None
        output.say_json(Overview(
            version=VERSION, health=health, problem=problem, guards=guards, agents=agents, next=step
        ))  # fmt: skip
        return Exit.OK
    if status is not None:
        output.say_lines(*shorten_status(status))
    else:
        result = "so every tool call of theirs is refused" if agents else "and no agent asks it yet"
        output.say_lines(
            ("health", look.paint_text(f"no daemon runs, {result}", "bad")),
            ("because", problem),
            ("guards", f"{format_count(guards, 'file')} in {look.shorten_path(os.path.dirname(config))}/hooks.d"),
            ("agents", ", ".join(agents) or "none asks hooklatch"),
        )
    output.say_lines(("next", step))
    return Exit.OK


def list_agents() -> list[str]:
    """Return the agents that hooklatch is installed for."""
    try:
        return sorted({file.host for file in install_record.list_installed(os.environ).values()})
    except FileError:
        return []  # `doctor`, which reads the agents' own files, says more


def count_guards(config: str) -> int:
    folder = os.path.join(os.path.dirname(config), "hooks.d")
    try:
        return sum(name.endswith((".py", ".toml", ".json")) for name in os.listdir(folder))
    except OSError:
        return 0


def find_next_step(status: StatusAnswer | None, agents: list[str], *, has_config: bool) -> str:
    if not has_config:
        return "hooklatch setup   # guards, agents and a daemon, in a minute; all commands: hooklatch --help"
    if status is None:
        return "hooklatch serve --detach; at each login: hooklatch service install; all commands: hooklatch --help"
    if name_health(status) != "green" or status["asks"]:
        return "do what is said above; all of it: hooklatch status -v, hooklatch doctor"
    if not agents:
        return "hooklatch setup   # no agent asks hooklatch yet; all commands: hooklatch --help"
    return "hooklatch watch   # what is decided, live; all commands: hooklatch --help"

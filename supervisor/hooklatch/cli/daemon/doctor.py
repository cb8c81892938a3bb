"""doctor: what is wrong on this machine, and how to fix it.  Queries the daemon and reads files; changes nothing.

The daemon says what makes it red (`core/health.py`); this looks at the machine around it.  Anything that keeps hooks
from running, or makes gates deny for a reason other than policy, is a problem; everything else is a hint.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from hooklatch import paths
from hooklatch.cli.hooks.status import failing_text
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.text import counted
from hooklatch.errors import HooklatchError

__all__ = ["add_doctor"]

SETTINGS = ("~/.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json")
SIMPLE_PROGRAM = re.compile(r"[\w./+-]+")
SHELL_WORDS = frozenset(
    {
        *("[", ":", ".", "case", "cd", "echo", "eval", "exec", "exit", "export", "false", "for", "if", "printf"),
        *("read", "set", "test", "trap", "true", "umask", "until", "while"),
    }
)


class Diagnosis(msgspec.Struct, frozen=True):
    """What is wrong, and what to do about it."""

    what: str
    do: str
    is_problem: bool = True


def add_doctor(parser: Parser) -> None:
    parser.runs(doctor, example="hooklatch doctor", exits=(Exit.FINDINGS,))


def doctor(arguments: argparse.Namespace) -> int:
    """Check everything, and print what to do."""
    try:
        with administrator(arguments) as link:
            status, hooks = link.ask("status"), link.ask("hooks")["hooks"]
            events = link.ask("events")["events"]
        found = [*of_status(status), *of_project(status), *of_programs(status, hooks), *of_events(status, events)]
    except HooklatchError as error:
        found = [Diagnosis(str(error), "hooklatch serve --detach"), *of_configuration(arguments)]
    found += of_settings()
    problems = [finding for finding in found if finding.is_problem]
    hints = [finding for finding in found if not finding.is_problem]
    if arguments.json:
        output.say_json({"problems": problems, "hints": hints})
    else:
        for label, findings in (("wrong", problems), ("hint", hints)):
            for finding in findings:
                output.say(f"{label:<6} {finding.what}")
                output.say(f"{'do':<6} {finding.do}")
        counts = f"{counted(len(problems), 'problem')}, {counted(len(hints), 'hint')}"
        output.say(counts if found else "all is well")
    return Exit.FINDINGS if problems else Exit.OK


def of_status(status: dict[str, Any]) -> Iterator[Diagnosis]:
    for one in status["wrong"]:
        yield Diagnosis(one["what"], one["do"])
    isolation = status["isolation"]
    for path in isolation["absent"]:
        what = f"[isolation] names {path}, which does not exist: workers that are already running cannot use it"
        yield Diagnosis(what, "create it, then: hooklatch reload", is_problem=False)
    for source in status["sources"]:
        if source["isolation"]["configured"] != isolation["level"]:
            what = f"{source['source']} is isolated as {source['isolation']['configured']}, not as {isolation['level']}"
            yield Diagnosis(
                f"{what} as [isolation] says", "see isolation in its [[source]], or in [lsp]", is_problem=False
            )
    config = status["places"]["config"]
    if not os.path.lexists(config) and not os.path.lexists(os.path.join(os.path.dirname(config), "hooks.d")):
        mend = f"hooklatch init --config {shlex.quote(config)}, or start the daemon with another --config"
        yield Diagnosis(f"there is no {config}, and no hooks.d beside it: none of your own guards is active", mend)
    for one in status["failing"]:
        yield Diagnosis(failing_text(one), f"see why, and fix it: hooklatch hooks show {one['hook']}")
    if status["draining"]:
        yield Diagnosis(
            "the daemon is draining: gates are denied", "start it again once it has ended: hooklatch serve --detach"
        )


def of_project(status: dict[str, Any]) -> Iterator[Diagnosis]:
    """Check the project in whose directory this command was started."""
    try:
        folder = os.path.realpath(os.getcwd())
    except OSError:  # the directory was removed
        return
    below = os.path.join(folder, ".hooklatch")
    if os.path.isdir(below) and folder not in [project["folder"] for project in status["projects"]]:
        yield Diagnosis(f"{below} is not trusted, its hooks are ignored", "look at them, then: hooklatch trust")


def of_programs(status: dict[str, Any], hooks: list[dict[str, Any]]) -> Iterator[Diagnosis]:
    """Check that the programs of shell hooks are on the workers' PATH."""
    for hook in hooks:
        program = program_of(hook["target"]) if hook["kind"] == "shell" and hook["enabled"] else None
        if program is not None and shutil.which(program, path=status["path"]) is None:
            yield Diagnosis(
                f"{hook['name']} runs {program!r}, which is not on the daemon's PATH ({status['path']})",
                f"install it, or write its full path, or: hooklatch hooks disable {shlex.quote(hook['name'])}",
            )


def program_of(command: str) -> str | None:
    """Return the program of a command, if it certainly starts with one and is independent of the directory."""
    try:
        first = shlex.split(command)[0]
    except (ValueError, IndexError):
        return None
    if not SIMPLE_PROGRAM.fullmatch(first) or first in SHELL_WORDS:
        return None
    return first if "/" not in first or os.path.isabs(first) else None


def of_events(status: dict[str, Any], events: list[dict[str, Any]]) -> Iterator[Diagnosis]:
    """Report events that have hooks but are never fired, once anything has been fired."""
    silent = [event["name"] for event in events if event["hooks"] and not event["fired"]]
    if not status["fired"]:
        settings = "check that your agent asks hooklatch; for Claude Code: hooklatch hook claude-code --settings"
        yield Diagnosis("nothing has been fired since the daemon started", settings, is_problem=False)
    elif silent:
        yield Diagnosis(
            f"no host has fired {', '.join(silent)} since the daemon started, but there are hooks on it",
            "check that your host fires it: hooklatch events NAME",
            is_problem=False,
        )


def of_configuration(arguments: argparse.Namespace) -> Iterator[Diagnosis]:
    """Check the main file without a daemon."""
    from hooklatch.service.config.configuration import ConfigError, read_config
    from hooklatch.service.config.file_safety import UnsafeFileError, read_safely

    path = os.path.abspath(paths.config_file(arguments.config, os.environ))
    try:
        read_config(path, read_safely(path))
    except FileNotFoundError:
        yield Diagnosis(f"there is no {path}", "hooklatch init", is_problem=False)
    except (ConfigError, UnsafeFileError, OSError) as error:
        yield Diagnosis(str(error), "fix it before you start the daemon")


def of_settings() -> Iterator[Diagnosis]:
    """Report commands in hosts' settings whose program is gone: the host then goes on without asking."""
    for path in SETTINGS:
        whole = os.path.abspath(os.path.expanduser(path))
        gone = sorted({word for command in commands_in(whole) for word in missing(command)})
        if gone:
            again = "hooklatch hook claude-code --settings"
            yield Diagnosis(f"{whole} starts {', '.join(gone)}, which is gone", f"write its hooks again with: {again}")


def commands_in(path: str) -> Iterator[str]:
    try:
        with open(path, "rb") as file:
            pending: list[object] = [json.load(file)]
    except (OSError, ValueError, RecursionError):
        return
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += cast("list[object]", value)
        elif isinstance(value, dict):
            table = cast("dict[str, object]", value)
            command = table.get("command")
            if isinstance(command, str) and "shim.py" in command and "hooklatch" in command:
                yield command
            pending += table.values()


def missing(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    named = [word for word in words[:1] + [one for one in words if one.endswith("shim.py")] if os.path.isabs(word)]
    return [word for word in named if not os.path.exists(word)]

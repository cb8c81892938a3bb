"""doctor: what is wrong on this machine, and how to mend it.  Asks the daemon and looks at files; changes nothing.

What makes the daemon red is said by the daemon (`core/health.py`); what is looked at here is the machine around it.
What makes hooks not run, or gates deny for another reason than policy, is a problem; the rest are hints.
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
from hooklatch.cli.hooks.reports import failing_text
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.parser import Commands
from hooklatch.cli.terminal.requests import administrator
from hooklatch.core.hooks.names import quoted
from hooklatch.core.text import counted
from hooklatch.errors import HooklatchError

__all__ = ["add_commands"]

SETTINGS = ("~/.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json")
SIMPLE_PROGRAM = re.compile(r"[\w./+-]+")
SHELL_WORDS = frozenset(
    {
        *("[", ":", ".", "case", "cd", "echo", "eval", "exec", "exit", "export", "false", "for", "if", "printf"),
        *("read", "set", "test", "trap", "true", "umask", "until", "while"),
    }
)


class Finding(msgspec.Struct, frozen=True):
    """What is wrong, and what to do."""

    what: str
    do: str
    is_problem: bool = True


def add_commands(commands: Commands) -> None:
    commands.add(
        "doctor",
        doctor,
        help="say what is wrong and how to mend it",
        example="hooklatch doctor",
        exits=(Exit.FINDINGS,),
    )


def doctor(arguments: argparse.Namespace) -> int:
    """Look at everything, and print what there is to do."""
    try:
        with administrator(arguments) as link:
            status, hooks = link.ask("status"), link.ask("hooks")["hooks"]
            events = link.ask("events")["events"]
        found = [*of_status(status), *of_project(status), *of_programs(status, hooks), *of_events(status, events)]
    except HooklatchError as error:
        found = [Finding(str(error), "hooklatch serve --detach"), *of_configuration(arguments)]
    found += of_settings()
    problems = [finding for finding in found if finding.is_problem]
    hints = [finding for finding in found if not finding.is_problem]
    if arguments.json:
        output.say_json({"problems": problems, "hints": hints})
    else:
        for label, findings in (("wrong", problems), ("hint", hints)):
            for finding in findings:
                output.say(f"{label:<6} {output.plain(finding.what)}")
                output.say(f"{'do':<6} {output.plain(finding.do)}")
        counts = f"{counted(len(problems), 'problem')}, {counted(len(hints), 'hint')}"
        output.say(counts if found else "all is well")
    return Exit.FINDINGS if problems else Exit.OK


def of_status(status: dict[str, Any]) -> Iterator[Finding]:
    for one in status["wrong"]:
        yield Finding(one["what"], one["do"])
    isolation = status["isolation"]
    for path in isolation["absent"]:
        what = f"[isolation] names {path}, which is not there: workers that were started cannot use it"
        yield Finding(what, "make it, then: hooklatch reload", is_problem=False)
    for source in status["sources"]:
        if source["isolation"]["configured"] != isolation["level"]:
            what = f"{source['source']} is isolated as {source['isolation']['configured']}, not as {isolation['level']}"
            yield Finding(
                f"{what} as [isolation] says", "see isolation in its [[source]], or in [lsp]", is_problem=False
            )
    config = status["places"]["config"]
    if not os.path.lexists(config) and not os.path.lexists(os.path.join(os.path.dirname(config), "hooks.d")):
        mend = f"hooklatch init --config {shlex.quote(config)}, or start the daemon with another --config"
        yield Finding(f"there is no {config}, and no hooks.d beside it: nothing is guarded by you", mend)
    for one in status["failing"]:
        yield Finding(failing_text(one), f"see why, and mend it: hooklatch hooks show {one['hook']}")
    if status["draining"]:
        yield Finding(
            "the daemon is draining: gates are denied", "start it again when it has left: hooklatch serve --detach"
        )


def of_project(status: dict[str, Any]) -> Iterator[Finding]:
    """Look at the project that this command was started in."""
    try:
        folder = os.path.realpath(os.getcwd())
    except OSError:  # it was removed
        return
    below = os.path.join(folder, ".hooklatch")
    if os.path.isdir(below) and folder not in [project["folder"] for project in status["projects"]]:
        yield Finding(f"{below} is not trusted, its hooks are ignored", "look at them, then: hooklatch trust")


def of_programs(status: dict[str, Any], hooks: list[dict[str, Any]]) -> Iterator[Finding]:
    """Look for the programs of shell hooks where the daemon's workers look."""
    for hook in hooks:
        program = program_of(hook["target"]) if hook["kind"] == "shell" and hook["enabled"] else None
        if program is not None and shutil.which(program, path=status["path"]) is None:
            yield Finding(
                f"{hook['name']} runs {program!r}, which is not on the daemon's PATH ({status['path']})",
                f"install it, or write its whole path, or: hooklatch hooks disable {quoted(hook['name'])}",
            )


def program_of(command: str) -> str | None:
    """Return the program of a command that surely starts with one, and that does not depend on a folder."""
    try:
        first = shlex.split(command)[0]
    except (ValueError, IndexError):
        return None
    if not SIMPLE_PROGRAM.fullmatch(first) or first in SHELL_WORDS:
        return None
    return first if "/" not in first or os.path.isabs(first) else None


def of_events(status: dict[str, Any], events: list[dict[str, Any]]) -> Iterator[Finding]:
    """Name events that have hooks and that nobody fires, once somebody fires anything."""
    silent = [event["name"] for event in events if event["hooks"] and not event["fired"]]
    if not status["fired"]:
        settings = "see that your agent asks, for Claude Code by: hooklatch hook claude-code --settings"
        yield Finding("nothing has been fired since the daemon's start", settings, is_problem=False)
    elif silent:
        yield Finding(
            f"no host has fired {', '.join(silent)} since the daemon's start, and there are hooks on it",
            "see that your host fires it: hooklatch events NAME",
            is_problem=False,
        )


def of_configuration(arguments: argparse.Namespace) -> Iterator[Finding]:
    """Look at the main file without a daemon."""
    from hooklatch.service.config.configuration import ConfigError, read_config
    from hooklatch.service.config.file_safety import UnsafeFileError, read_safely

    path = os.path.abspath(paths.config_file(arguments.config, os.environ))
    try:
        read_config(path, read_safely(path))
    except FileNotFoundError:
        yield Finding(f"there is no {path}", "hooklatch init", is_problem=False)
    except (ConfigError, UnsafeFileError, OSError) as error:
        yield Finding(str(error), "mend it before you start the daemon")


def of_settings() -> Iterator[Finding]:
    """Look for entries in hosts' settings whose program is gone: there a host goes on without asking."""
    for path in SETTINGS:
        whole = os.path.abspath(os.path.expanduser(path))
        gone = sorted({word for command in commands_in(whole) for word in missing(command)})
        if gone:
            again = "hooklatch hook claude-code --settings"
            yield Finding(f"{whole} starts {', '.join(gone)}, which is gone", f"write its hooks anew with: {again}")


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

"""doctor: what is wrong on this machine, and how to fix it.  Queries the daemon and reads files; changes nothing.

The daemon says what makes it red (`core/health.py`); this looks at the machine around it, and has a call that must be
refused sent through the settings of each program that hooklatch is installed for (`cli/hosts/checking.py`).  Anything
that keeps hooks from running, or makes gates deny for a reason other than policy, is a problem; all else is a hint.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from typing import Any

import msgspec

from hooklatch import paths
from hooklatch.cli.hooks.status import format_failing_hook
from hooklatch.cli.hosts.checking import SettingsFileCheck, check_hosts
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.exits import Exit
from hooklatch.cli.terminal.last_signs import NobodyListensError, suggest_waiting
from hooklatch.cli.terminal.parser import Parser
from hooklatch.cli.terminal.requests import connect_administrator
from hooklatch.core.text import format_count
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, describe_error
from hooklatch.hosts.find import find_host, list_hosts
from hooklatch.install.layouts import LAYOUTS

__all__ = ["add_doctor"]

PYTHON = re.compile(r"(?<![\w.-])python3?(?![\w./-])(?! -[A-Za-z]*[IP])")
PYTHON_FILE = re.compile(r"python3\.(\d+)")
SAFE_PATH = 11  # the minor version of the first Python 3 that knows PYTHONSAFEPATH
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
    parser.runs(run_doctor, example="hooklatch doctor", exits=(Exit.FINDINGS,))


def run_doctor(arguments: argparse.Namespace) -> int:
    """Check everything, and print what to do."""
    with look.Spinner("a call that has to be refused goes through each agent's settings"):
        hosts = check_hosts()
    try:
        with connect_administrator(arguments) as link:
            status, hooks = link.ask("status"), link.ask("hooks")["hooks"]
            events = link.ask("events")["events"]
        found = [
            *diagnose_status(status), *diagnose_project(status), *diagnose_programs(status, hooks),
            *diagnose_pythons(status, hooks),
            *diagnose_hooks(hooks, status),
            *diagnose_events(status, events, hosts), *diagnose_hosts(hooks, events, hosts),
        ]  # fmt: skip
    except HooklatchError as error:
        found = [Diagnosis(str(error), suggest_without_daemon(error)), *diagnose_configuration(arguments)]
    found += [Diagnosis(one.what, one.do, one.is_problem) for host in hosts for one in host.findings]
    told = tuple(one.what for one in found if one.is_problem)
    found = [one for one in found if one.is_problem or not one.what.startswith(told)]  # a hint that a problem has said
    problems = [finding for finding in found if finding.is_problem]
    hints = [finding for finding in found if not finding.is_problem]
    if arguments.json:
        output.say_json({"problems": problems, "hints": hints, "hosts": [describe_host(host) for host in hosts]})
    else:
        for label, findings in (("wrong", problems), ("hint", hints)):
            for finding in findings:
                output.say_lines((label, finding.what), ("do", finding.do), width=7)
        for host in output.order_failures_first(hosts, lambda host: any(one.is_problem for one in host.findings)):
            said = f"a canary was {host.canary}; if the daemon died now, a tool call would be {host.without_daemon}"
            output.print_line(f"{host.title}: {said}  ({look.shorten_path(host.file)})")
        counts = f"{format_count(len(problems), 'problem')}, {format_count(len(hints), 'hint')}"
        output.print_line(
            look.paint_text("all is well", "good")
            if not found
            else look.paint_text(counts, "bad" if problems else "title")
        )
    return Exit.FINDINGS if problems else Exit.OK


def suggest_without_daemon(error: HooklatchError) -> str:
    """Return what to do about a daemon that does not answer."""
    match error:
        case NobodyListensError(how="silent", pid=pid):
            return suggest_waiting(pid)
        case NobodyListensError(how="elsewhere"):
            return "name its folder with --runtime-dir, or end it; then: hooklatch serve --detach"
        case NobodyListensError():
            return "hooklatch serve --detach"
        case DaemonUnreachableError(is_denied=True) | RequestFailedError(name="not_permitted"):
            return "become the user whose daemon it is, or name the folder of your own with --runtime-dir"
        case _:
            return "see the daemon's log, and what listens there; hooklatch stop, then: hooklatch serve --detach"


def diagnose_status(status: dict[str, Any]) -> Iterator[Diagnosis]:
    for one in status["wrong"]:
        yield Diagnosis(one["what"], one["do"])
    for one in status.get("warned", []):
        yield Diagnosis(one["what"], one["do"], is_problem=one["reason"] == "configuration")
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
    fleet = status["fleet"]
    if fleet is not None and fleet["name"] is not None and not fleet["links"]:
        what = f"this host is in the fleet {fleet['name']!r}, and no link is connected"
        yield Diagnosis(what, "start it: hooklatch link", is_problem=False)
    for one in status["failing"]:
        yield Diagnosis(format_failing_hook(one), f"see why, and fix it: hooklatch hooks show {one['hook']}")
    if status["draining"]:
        yield Diagnosis(
            "the daemon is draining: gates are denied", "start it again once it has ended: hooklatch serve --detach"
        )


def diagnose_project(status: dict[str, Any]) -> Iterator[Diagnosis]:
    """Check the project in whose directory this command was started."""
    try:
        folder = os.path.realpath(os.getcwd())
    except OSError:  # the directory was removed
        return
    below = os.path.join(folder, ".hooklatch")
    if os.path.isdir(below) and folder not in [project["folder"] for project in status["projects"]]:
        yield Diagnosis(f"{below} is not trusted, its hooks are ignored", "look at them, then: hooklatch trust")


def diagnose_programs(status: dict[str, Any], hooks: list[dict[str, Any]]) -> Iterator[Diagnosis]:
    """Check that the programs of shell hooks are on the workers' PATH."""
    for hook in hooks:
        program = find_certain_program(hook["target"]) if hook["kind"] == "shell" and hook["enabled"] else None
        if program is not None and shutil.which(program, path=status["path"]) is None:
            yield Diagnosis(
                f"{hook['name']} runs {program!r}, which is not on the daemon's PATH ({status['path']})",
                f"install it, or write its full path, or: hooklatch hooks disable {shlex.quote(hook['name'])}",
            )


def diagnose_pythons(status: dict[str, Any], hooks: list[dict[str, Any]]) -> Iterator[Diagnosis]:
    """Warn of commands whose Python does not know PYTHONSAFEPATH; where its name says so, the daemon does."""
    for hook in hooks:
        named = PYTHON.search(str(hook["target"])) if hook["kind"] == "shell" and hook["enabled"] else None
        found = shutil.which(named[0], path=status["path"]) if named is not None else None
        version = PYTHON_FILE.fullmatch(os.path.basename(os.path.realpath(found))) if found is not None else None
        if version is not None and int(version[1]) < SAFE_PATH:
            what = (
                f"{hook['name']} runs {found}, a Python older than 3.{SAFE_PATH}: it imports from where the agent works"
            )
            yield Diagnosis(what, 'write python3 -I, or run_in = "file"', is_problem=False)


def find_certain_program(command: str) -> str | None:
    """Return the program of a command, if it certainly starts with one and is independent of the directory."""
    try:
        first = shlex.split(command)[0]
    except (ValueError, IndexError):
        return None
    if not SIMPLE_PROGRAM.fullmatch(first) or first in SHELL_WORDS:
        return None
    return first if "/" not in first or os.path.isabs(first) else None


def diagnose_hooks(hooks: list[dict[str, Any]], status: dict[str, Any]) -> Iterator[Diagnosis]:
    """Report hooks that do not run, or that run twice for the same."""
    known = [one["what"] for one in status["wrong"]]
    for hook in hooks:
        name = shlex.quote(hook["name"])
        if not hook["enabled"]:
            yield Diagnosis(
                f"{hook['name']} is off", f"if it should run: hooklatch hooks enable {name}", is_problem=False
            )
        elif hook["problem"] and not any(what in hook["problem"] or hook["name"] in what for what in known):
            yield Diagnosis(f"{hook['name']} is inactive: {hook['problem']}", f"see: hooklatch hooks show {name}")
    seen: dict[tuple[str, ...], str] = {}
    for hook in hooks:
        if not hook["enabled"]:
            continue
        key = (hook["event"], hook["kind"], str(hook["target"]), str(hook["match"]))
        first = seen.setdefault(key, hook["name"])
        if first != hook["name"]:
            what = f"{hook['name']} does the same as {first}: {hook['target']} on {hook['event']}"
            yield Diagnosis(what, f"keep one: hooklatch hooks disable {shlex.quote(hook['name'])}", is_problem=False)
    ids: dict[str, list[str]] = {}
    for hook in hooks:
        ids.setdefault(hook["id"], []).append(hook["name"])
    for one, having in ids.items():
        if len(set(having)) > 1:
            what = f"{', '.join(having)} have the same id in several places, and each of them runs"
            yield Diagnosis(
                what, f"see which fires when: hooklatch hooks explain EVENT; rename {one!r}", is_problem=False
            )


def diagnose_hosts(
    hooks: list[dict[str, Any]], events: list[dict[str, Any]], hosts: list[SettingsFileCheck]
) -> Iterator[Diagnosis]:
    """Report hooks on events that no installed program ever fires."""
    fired = {event["name"] for event in events if event["fired"]}
    told = {event for host in hosts for event in host.canonical}
    standard = {spec.event for name in list_hosts() for spec in find_host(name).events.values()}
    if not told:
        return
    for event in sorted({hook["event"] for hook in hooks if hook["enabled"]} - told - fired):
        if event not in standard:
            continue  # somebody's own event, which a client may fire
        titles = ", ".join(sorted({host.title for host in hosts}))
        on_it = ", ".join(hook["name"] for hook in hooks if hook["event"] == event)
        able = [
            find_host(name).title
            for name in list_hosts()
            if event in {spec.event for spec in find_host(name).events.values()}
        ]
        yield Diagnosis(
            f"{event} is never fired by {titles}, and {on_it} waits for it",
            f"these do: {', '.join(able)}",
            is_problem=False,
        )


def describe_host(host: SettingsFileCheck) -> dict[str, Any]:
    return {
        "host": host.host, "file": host.file, "events": host.events, "canary": host.canary,
        "without_daemon": host.without_daemon,
    }  # fmt: skip


def diagnose_events(
    status: dict[str, Any], events: list[dict[str, Any]], hosts: list[SettingsFileCheck]
) -> Iterator[Diagnosis]:
    """Report events that have hooks but are never fired, once anything has been fired."""
    silent = [event["name"] for event in events if event["hooks"] and not event["fired"]]
    if not status["fired"]:
        settings = "use your agent once" if hosts else f"have it asked: hooklatch install HOST ({', '.join(LAYOUTS)})"
        yield Diagnosis("nothing has been fired since the daemon started", settings, is_problem=False)
    elif silent:
        yield Diagnosis(
            f"no host has fired {', '.join(silent)} since the daemon started, but there are hooks on it",
            "check that your host fires it: hooklatch events NAME",
            is_problem=False,
        )


def diagnose_configuration(arguments: argparse.Namespace) -> Iterator[Diagnosis]:
    """Check the main file without a daemon."""
    from hooklatch.service.config.configuration import ConfigError, read_config
    from hooklatch.service.config.file_safety import UnsafeFileError, read_safely

    path = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    try:
        read_config(path, read_safely(path))
    except FileNotFoundError:
        yield Diagnosis(f"there is no {path}", "hooklatch init", is_problem=False)
    except (ConfigError, UnsafeFileError, OSError) as error:
        yield Diagnosis(describe_error(error), "fix it before you start the daemon")

"""The command `doctor`: the faults of this machine, each with its remedy.  It changes nothing.

The daemon reports what makes it red (`core/health.py`).  The command also checks the machine around it, and sends a
call that must be refused through the settings of each installed host (`cli/hosts/checking.py`).  A finding is a problem
if it keeps hooks from running, or makes gates deny for a reason other than policy.  Every other one is a hint.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from typing import Literal, TypedDict

import msgspec

from hooklatch import paths
from hooklatch.cli.daemon.serve import NOTICE
from hooklatch.cli.guard_lock import list_differences, lock_path, read_lock
from hooklatch.cli.hooks.status import format_failing_hook, list_warnings
from hooklatch.cli.hosts.checking import SettingsFileCheck, check_hosts
from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.cli.hosts.machine_files import System, name_system
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.requests import NobodyListensError, connect_administrator, suggest_waiting
from hooklatch.core.text import format_count
from hooklatch.errors import DaemonUnreachableError, HooklatchError, RequestFailedError, describe_error
from hooklatch.hosts.find import find_host, list_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import EventStatus, HookStatus
    from hooklatch.core.status_answers import StatusAnswer

__all__ = ["CheckedHost", "add_doctor", "describe_host", "format_canary"]

# A command that starts a Python without -I or -P, which would keep the agent's folder out of its imports.
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
    """A finding of the command, with its remedy."""

    what: str
    do: str
    is_problem: bool = True


class CheckedHost(TypedDict):
    """An agent that hooklatch is installed for: the canary's result, that without a daemon, and the entry's form."""

    host: str
    file: str
    events: list[str]
    canary: str
    without_daemon: str
    form: Literal["c", "python", "unknown"]


class DoctorReport(TypedDict):
    """`doctor`."""

    problems: list[Diagnosis]
    hints: list[Diagnosis]
    hosts: list[CheckedHost]


def add_doctor(parser: Parser) -> None:
    parser.runs(run_doctor, example="hooklatch doctor", exits=(Exit.FINDINGS,))
    parser.prints("cli.daemon.doctor:DoctorReport")


def run_doctor(arguments: argparse.Namespace, system: System | None = None) -> int:
    if (system or name_system()) == "darwin":
        output.print_error(NOTICE)
    with look.Spinner("a call that has to be refused goes through each agent's settings"):
        hosts = check_hosts()
    config = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    try:
        with connect_administrator(arguments) as link:
            status: StatusAnswer = link.ask("status")
            config = status["start"]["config"] if status["start"] is not None else config
            hooks: list[HookStatus] = link.ask("hooks")["hooks"]
            events: list[EventStatus] = link.ask("events")["events"]
        diagnoses = [
            *diagnose_status(status), *diagnose_project(status), *diagnose_programs(status, hooks),
            *diagnose_pythons(status, hooks),
            *diagnose_hooks(hooks, status),
            *diagnose_events(status, events, hosts), *diagnose_hosts(hooks, events, hosts),
        ]  # fmt: skip
    except HooklatchError as error:
        diagnoses = [Diagnosis(str(error), suggest_without_daemon(error)), *diagnose_configuration(arguments)]
    diagnoses += diagnose_shared_guards(lock_path(config))
    diagnoses += [
        Diagnosis(finding.what, finding.do, finding.is_problem) for host in hosts for finding in host.findings
    ]
    problems = [diagnosis for diagnosis in diagnoses if diagnosis.is_problem]
    problem_texts = tuple(problem.what for problem in problems)
    # A hint that begins with the text of a problem would say it once more.
    hints = [hint for hint in diagnoses if not hint.is_problem and not hint.what.startswith(problem_texts)]
    if arguments.json:
        shown_hosts = [describe_host(host) for host in hosts]
        output.say_json(DoctorReport(problems=problems, hints=hints, hosts=shown_hosts))
    else:
        for label, findings in (("wrong", problems), ("hint", hints)):
            for finding in findings:
                output.say_lines((label, finding.what), ("do", finding.do), width=7)
        for host in output.order_failures_first(hosts, lambda host: any(found.is_problem for found in host.findings)):
            output.print_line(format_canary(host))
        counts = f"{format_count(len(problems), 'problem')}, {format_count(len(hints), 'hint')}"
        output.print_line(
            look.paint_text(counts, "bad" if problems else "title")
            if problems or hints
            else look.paint_text("all is well", "good")
        )
    return Exit.FINDINGS if problems else Exit.OK


def format_canary(host: SettingsFileCheck) -> str:
    """Return what came of the call that has to be refused."""
    result = f"a canary was {host.canary}; if the daemon died now, a tool call would be {host.without_daemon}"
    if host.form == "python":
        result += "; the entry is the Python form, so each event starts an interpreter"
    return f"{host.title}: {result}  ({look.shorten_path(host.file)})"


def suggest_without_daemon(error: HooklatchError) -> str:
    """Return the remedy for a daemon that does not answer."""
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
            return "see the daemon's log, and what listens there; then: hooklatch restart"


def diagnose_status(status: StatusAnswer) -> Iterator[Diagnosis]:
    for fault in status["wrong"]:
        yield Diagnosis(fault["what"], fault["do"])
    for warning in list_warnings(status):
        yield Diagnosis(warning["what"], warning["do"], is_problem=warning["reason"] == "configuration")
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
    for hook in status["failing"]:
        yield Diagnosis(format_failing_hook(hook), f"see why, and fix it: hooklatch hooks show {hook['hook']}")
    if status["draining"]:
        yield Diagnosis(
            "the daemon is draining: gates are denied", "start it again once it has ended: hooklatch serve --detach"
        )


def diagnose_project(status: StatusAnswer) -> Iterator[Diagnosis]:
    """Check the project in whose directory this command was started."""
    try:
        folder = os.path.realpath(os.getcwd())
    except OSError:  # the directory was removed
        return
    below = os.path.join(folder, ".hooklatch")
    if os.path.isdir(below) and folder not in [project["folder"] for project in status["projects"]]:
        yield Diagnosis(f"{below} is not trusted, so its hooks are ignored", "look at them, then: hooklatch trust")


def diagnose_programs(status: StatusAnswer, hooks: list[HookStatus]) -> Iterator[Diagnosis]:
    """Check that the programs of shell hooks are on the workers' PATH."""
    for hook in hooks:
        program = find_certain_program(hook["target"]) if hook["kind"] == "shell" and hook["enabled"] else None
        if program is not None and shutil.which(program, path=status["path"]) is None:
            yield Diagnosis(
                f"{hook['name']} runs {program!r}, which is not on the daemon's PATH ({status['path']})",
                f"install it, or write its full path, or: hooklatch hooks disable {shlex.quote(hook['name'])}",
            )


def diagnose_pythons(status: StatusAnswer, hooks: list[HookStatus]) -> Iterator[Diagnosis]:
    """Warn of commands whose Python does not know PYTHONSAFEPATH.

    Where the name in the command has the version, the daemon warns; here a link such as python3 is followed.
    """
    for hook in hooks:
        named = PYTHON.search(str(hook["target"])) if hook["kind"] == "shell" and hook["enabled"] else None
        program = shutil.which(named[0], path=status["path"]) if named is not None else None
        version = PYTHON_FILE.fullmatch(os.path.basename(os.path.realpath(program))) if program is not None else None
        if version is not None and int(version[1]) < SAFE_PATH:
            what = (
                f"{hook['name']} runs {program}, a Python older than 3.{SAFE_PATH}: "
                "it imports from where the agent works"
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


def diagnose_hooks(hooks: list[HookStatus], status: StatusAnswer) -> Iterator[Diagnosis]:
    """Yield hooks that do not run, that do the same as another one, or that share its id."""
    known = [fault["what"] for fault in status["wrong"]]  # with them the daemon has reported some hooks already
    for hook in hooks:
        name = shlex.quote(hook["name"])
        if not hook["enabled"]:
            yield Diagnosis(
                f"{hook['name']} is off", f"if it should run: hooklatch hooks enable {name}", is_problem=False
            )
        elif hook["problem"] and not any(what in hook["problem"] or hook["name"] in what for what in known):
            yield Diagnosis(f"{hook['name']} is inactive: {hook['problem']}", f"see: hooklatch hooks show {name}")
    first_names: dict[tuple[str, ...], str] = {}
    for hook in hooks:
        if not hook["enabled"]:
            continue
        key = (hook["event"], hook["kind"], str(hook["target"]), str(hook["match"]))
        first = first_names.setdefault(key, hook["name"])
        if first != hook["name"]:
            what = f"{hook['name']} does the same as {first}: {hook['target']} on {hook['event']}"
            yield Diagnosis(what, f"keep one: hooklatch hooks disable {shlex.quote(hook['name'])}", is_problem=False)
    ids: dict[str, list[str]] = {}
    for hook in hooks:
        ids.setdefault(hook["id"], []).append(hook["name"])
    for hook_id, names in ids.items():
        if len(set(names)) > 1:
            what = f"{', '.join(names)} have the same id in several places, and each of them runs"
            yield Diagnosis(
                what, f"see which fires when: hooklatch hooks explain EVENT; rename {hook_id!r}", is_problem=False
            )


def diagnose_hosts(
    hooks: list[HookStatus], events: list[EventStatus], hosts: list[SettingsFileCheck]
) -> Iterator[Diagnosis]:
    """Yield hooks on events that no installed host ever fires."""
    fired = {event["name"] for event in events if event["fired"]}
    installed = {event for host in hosts for event in host.canonical}
    firing = {
        name: frozenset[str]().union(*(spec.fired for spec in find_host(name).events.values())) for name in list_hosts()
    }
    if not installed:
        return
    for event in sorted({hook["event"] for hook in hooks if hook["enabled"]} - installed - fired):
        if not any(event in fires for fires in firing.values()):
            continue  # an event of the configuration, which a client may fire
        titles = ", ".join(sorted({host.title for host in hosts}))
        on_it = ", ".join(hook["name"] for hook in hooks if hook["event"] == event)
        able = [find_host(name).title for name, fires in firing.items() if event in fires]
        yield Diagnosis(
            f"{event} is never fired by {titles}, and {on_it} waits for it",
            f"these do: {', '.join(able)}",
            is_problem=False,
        )


def describe_host(host: SettingsFileCheck) -> CheckedHost:
    return {
        "host": host.host, "file": host.file, "events": host.events, "canary": host.canary,
        "without_daemon": host.without_daemon, "form": host.form,
    }  # fmt: skip


def diagnose_events(
    status: StatusAnswer, events: list[EventStatus], hosts: list[SettingsFileCheck]
) -> Iterator[Diagnosis]:
    """Yield events that have hooks and were never fired; before the first fire that means nothing."""
    silent = [event["name"] for event in events if event["hooks"] and not event["fired"]]
    if not status["fired"]:
        settings = (
            "use your agent once" if hosts else f"have your agent ask it: hooklatch install HOST ({', '.join(LAYOUTS)})"
        )
        yield Diagnosis("nothing has been fired since the daemon started", settings, is_problem=False)
    elif silent:
        yield Diagnosis(
            f"no host has fired {', '.join(silent)} since the daemon started, but hooks wait for it",
            "check that your host fires it: hooklatch events NAME",
            is_problem=False,
        )


def diagnose_shared_guards(path: str) -> Iterator[Diagnosis]:
    """Yield a lock of shared guards that cannot be read, and files that are not as it says."""
    try:
        lock, _ = read_lock(path)
    except CommandError as error:
        what, _, do = str(error).rpartition("; ")
        yield Diagnosis(what, do)
        return
    for difference in list_differences(os.path.join(os.path.dirname(path), "hooks.d"), lock):
        name = difference.name
        edited = f"if that was not you: hooklatch guards show {name}; an edit of yours is kept by an update"
        yield Diagnosis(
            f"{difference.path} {difference.what}",
            edited if difference.is_edit else lock.guards[name].describe_return(name),
            is_problem=not difference.is_edit,
        )


def diagnose_configuration(arguments: argparse.Namespace) -> Iterator[Diagnosis]:
    """Check the main file without a daemon."""
    from hooklatch.file_safety import UnsafeFileError, read_safely
    from hooklatch.service.config.configuration import ConfigError, read_config

    path = os.path.abspath(paths.find_config_file(arguments.config, os.environ))
    try:
        read_config(path, read_safely(path))
    except FileNotFoundError:
        yield Diagnosis(f"there is no {path}", "hooklatch init", is_problem=False)
    except (ConfigError, UnsafeFileError, OSError) as error:
        yield Diagnosis(describe_error(error), "fix it before you start the daemon")

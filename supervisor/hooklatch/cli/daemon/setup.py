"""The command `setup`: guards, agents and a daemon in one go.  It plans, shows all of the plan, asks, and then writes.

Each step is a command of its own, and is named.  What is there already is left as it is, so a setup that was
interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypedDict

from hooklatch.cli.daemon import serve, service
from hooklatch.cli.daemon.doctor import CheckedHost, Diagnosis, describe_host, format_canary
from hooklatch.cli.daemon.init import FIRST, make_config_files
from hooklatch.cli.hooks.guard_files import write_new
from hooklatch.cli.hooks.guards import find_guard, guard_files
from hooklatch.cli.hosts.changing import diff_edit
from hooklatch.cli.hosts.checking import check_hosts
from hooklatch.cli.hosts.install import HostInstall, apply_host, count_changes, list_host_notes, plan_host
from hooklatch.cli.hosts.layouts import LAYOUTS
from hooklatch.cli.hosts.programs import find_program
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.questions import ask_line, ask_yes, choose_rows, may_ask
from hooklatch.core.text import format_count
from hooklatch.errors import HooklatchError, format_install_command, locate_error
from hooklatch.guards.catalogue import list_gallery
from hooklatch.paths import find_config_file, state_dir

__all__ = ["add_setup"]

PROPOSED = (FIRST, "git_rules", "protected_paths")
SERVICES = ("systemd", "agents", "none")
ServiceKind = Literal["systemd", "agents", "none"]
MEANINGS: Mapping[str, str] = {
    "systemd": "systemd starts the daemon now, at each login, and when it ends",
    "agents": "the daemon runs now, and after a reboot an agent's first event starts it (--start)",
    "none": "the daemon runs now; after a reboot you start it, and until then tool calls are refused",
}


class SetupOutput(TypedDict):
    """`setup`: the files that it writes, the commands that do the same, and each agent's canary."""

    dry_run: bool
    files: list[str]
    steps: list[str]
    hosts: list[CheckedHost]
    problems: list[Diagnosis]


@dataclass(slots=True)
class SetupStep:
    """A step: the command that does the same, and what does it."""

    command: str
    run: Callable[[], object]


@dataclass(slots=True)
class SetupPlan:
    """All that will be written: new files, units, and edits of agents' settings, with the steps that write them."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    units: dict[str, str] = field(default_factory=dict[str, str])
    installs: list[HostInstall] = field(default_factory=list[HostInstall])
    steps: list[SetupStep] = field(default_factory=list[SetupStep])

    def list_paths(self) -> list[str]:
        return [*self.files, *self.units, *(edit.path for install in self.installs for edit in install.plans)]


def add_setup(parser: Parser) -> None:
    exits = (
        Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.CANNOT_CREATE, Exit.UNAVAILABLE, Exit.NOT_PERMITTED,
    )  # fmt: skip
    parser.runs(run_setup, example="hooklatch setup --yes", exits=exits)
    parser.prints("cli.daemon.setup:SetupOutput")
    parser.add_argument("--yes", action="store_true", help="ask nothing: write what is proposed, once it was shown")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.add_argument("--diff", action="store_true", help="show each line of it")
    parser.add_argument(
        "--guard", metavar="NAME", action="append", help=f"a guard of the gallery (else {', '.join(PROPOSED)})"
    )
    parser.add_argument("--agent", metavar="HOST", action="append", help="an agent (else those that are found here)")
    parser.add_argument("--service", choices=SERVICES, help="what starts the daemon (else systemd where it is)")


def run_setup(arguments: argparse.Namespace) -> int:
    is_asking = may_ask() and not (arguments.yes or arguments.dry_run or arguments.json)
    if not is_asking and not (arguments.yes or arguments.dry_run):
        raise CommandError(
            Exit.USAGE,
            "nobody can be asked here, so nothing was written: see --dry-run, and write what it shows by --yes",
        )
    plan = make_plan(arguments, is_asking=is_asking)
    if not arguments.json:
        show_plan(plan, is_whole=arguments.diff)
    is_agreed = confirm_plan(plan) if is_asking else not arguments.dry_run
    if not is_agreed:
        if arguments.json:
            output.say_json(describe_setup(plan, arguments, [], []))
        else:
            output.print_line("nothing was written")
        return Exit.OK
    done: list[str] = []
    step = plan.steps[0]
    try:
        for step in plan.steps:
            step.run()
            done.append(step.command)
            if not arguments.json:
                output.print_line(look.paint_text("done", "good"), f"  {step.command}")
        return finish_setup(plan, arguments)
    except (CommandError, HooklatchError, OSError, KeyboardInterrupt) as error:
        left = [step.command for step in plan.steps[len(done) :]]
        if not left:
            raise
        code = error.code if isinstance(error, CommandError) else Exit.UNAVAILABLE
        is_interrupted = isinstance(error, KeyboardInterrupt)
        why = "interrupted" if is_interrupted else locate_error(error)
        what = f"setup stopped at `{step.command}`: {why}; done before: {', '.join(done) or 'nothing'}"
        output.print_error(f"{what}; not done: {', '.join(left)}; `hooklatch setup` goes on from here")
        return Exit.INTERRUPTED if is_interrupted else code


def finish_setup(plan: SetupPlan, arguments: argparse.Namespace) -> int:
    """Send each agent's canary, and say what came of it."""
    names = {install.host.name for install in plan.installs}
    with look.Spinner("a call that has to be refused goes through each agent's settings"):
        checks = [check for check in check_hosts() if check.host in names]
    found = [Diagnosis(each.what, each.do, each.is_problem) for check in checks for each in check.findings]
    problems = [finding for finding in found if finding.is_problem]
    if arguments.json:
        output.say_json(describe_setup(plan, arguments, [describe_host(check) for check in checks], problems))
    else:
        for install in plan.installs:
            options = parse_install(arguments, install.host.name, is_starting=False)
            for note in list_host_notes(install, [None for _ in install.plans], options):
                output.print_line(f"note: {install.host.title}: ", note)
        for finding in problems:
            output.say_lines(("wrong", finding.what), ("do", finding.do), width=7)
        for check in checks:
            output.print_line(format_canary(check))
        if not names:
            output.print_line("no agent asks yet; to have one ask: hooklatch install HOST")
        output.print_line("next: hooklatch   # the state in six lines; restart agents that run now")
    return Exit.FINDINGS if problems else Exit.OK


def describe_setup(
    plan: SetupPlan, arguments: argparse.Namespace, hosts: list[CheckedHost], problems: list[Diagnosis]
) -> SetupOutput:
    return {
        "dry_run": arguments.dry_run, "files": plan.list_paths(), "steps": [step.command for step in plan.steps],
        "hosts": hosts, "problems": problems,
    }  # fmt: skip


def make_plan(arguments: argparse.Namespace, *, is_asking: bool) -> SetupPlan:
    """Return the plan for what is proposed, or for what a person chooses of it."""
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    guards = choose_guards(arguments, os.path.join(os.path.dirname(config), "hooks.d"), is_asking=is_asking)
    agents = choose_agents(arguments, is_asking=is_asking)
    kind = choose_service(arguments, is_asking=is_asking)
    plan = SetupPlan()
    commands: list[str] = []
    if not os.path.lexists(config):
        plan.files |= make_config_files(config)
        commands.append("hooklatch init")
    for name in guards:
        plan.files |= guard_files(os.path.join(os.path.dirname(config), "hooks.d"), name)
    commands += [f"hooklatch guards add {' '.join(guards)}"] if guards else []
    if plan.files:
        plan.steps.append(SetupStep("; ".join(commands), lambda: write_new(plan.files)))
    if kind == "systemd":
        plan.units = service.make_user_units(arguments)
        plan.steps.append(SetupStep("hooklatch service install", lambda: service.install_units(arguments, plan.units)))
    else:
        words = parse_words(arguments, "serve", "--detach")
        plan.steps.append(
            SetupStep("hooklatch serve --detach", lambda: serve.start_once(words, serve.make_options(words)))
        )
    for name in agents:
        options = parse_install(arguments, name, is_starting=kind == "agents")
        options.dry_run = True  # until it is agreed, the entry's program is not built either
        install = plan_host(options)
        options.dry_run = False
        plan.installs.append(install)
        command = f"hooklatch install {name}{' --start' if kind == 'agents' else ''}"
        plan.steps.append(SetupStep(command, partial(apply_host, install, options)))
    return plan


def parse_words(arguments: argparse.Namespace, *words: str) -> argparse.Namespace:
    """Return the arguments of another command, with the places of this one."""
    from hooklatch.cli.commands import build_command_line

    places = [("--config", arguments.config), ("--runtime-dir", arguments.runtime_dir)]
    options = [word for option, value in places if value is not None for word in (option, str(value))]
    parsed: argparse.Namespace = build_command_line().parse_args([*words, *options])
    parsed.daemon_uid = arguments.daemon_uid
    return parsed


def parse_install(arguments: argparse.Namespace, host: str, *, is_starting: bool) -> argparse.Namespace:
    return parse_words(arguments, "install", host, *(["--start"] if is_starting else []))


def choose_guards(arguments: argparse.Namespace, folder: str, *, is_asking: bool) -> list[str]:
    """Return the guards to copy: those that are chosen, and are not there already."""
    there = {guard.name for guard in list_gallery() if os.path.lexists(os.path.join(folder, f"{guard.name}.py"))}
    if arguments.guard is not None:
        named = [find_guard(name) for name in arguments.guard]
        if missing := next((guard for guard in named if guard.is_missing), None):
            install = format_install_command(str(missing.needs))
            raise CommandError(Exit.NO_INPUT, f"{missing.name} needs a package, without which it denies: {install}")
        return [guard.name for guard in named if guard.name not in there]
    rows = [(guard.name, guard.summary) for guard in list_gallery() if not guard.is_missing and guard.name not in there]
    proposed = [name for name, _ in rows if name in PROPOSED]
    if not is_asking:
        return proposed
    for guard in list_gallery():
        if guard.is_missing:
            output.print_line(f"not offered: {guard.name}, which needs: {format_install_command(str(guard.needs))}")
    title = f"guards, each a file in {look.shorten_path(folder)} that is yours to edit:"
    return choose_rows(title, rows, proposed)


def choose_agents(arguments: argparse.Namespace, *, is_asking: bool) -> list[str]:
    """Return the agents to install for: those that are named, or are found here and chosen."""
    if arguments.agent is not None:
        return list(dict.fromkeys(arguments.agent))
    found: list[tuple[str, str]] = []
    for layout in LAYOUTS.values():
        path = layout.file("user", os.environ, "")
        if find_program(layout, None, os.environ) or os.path.isdir(path.removesuffix(layout.user)):
            found.append((layout.name, look.shorten_path(path)))
    names = [name for name, _ in found]
    title = "agents that are here; each gets entries that ask before a tool call (refused while no daemon runs):"
    return choose_rows(title, found, names) if is_asking else names


def choose_service(arguments: argparse.Namespace, *, is_asking: bool) -> ServiceKind:
    """Return what starts the daemon."""
    named: ServiceKind | None = arguments.service
    if named is not None:
        return named
    best: ServiceKind = "systemd" if service.find_manager_fault() is None else "agents"
    if not is_asking:
        return best
    return best if ask_yes(f"{MEANINGS[best]}?", is_default=True) else "none"


def show_plan(plan: SetupPlan, *, is_whole: bool) -> None:
    """Show all that will be written, and the commands that do the same."""
    output.print_line(look.paint_text("what will be written:", "title"))
    for path, text in {**plan.files, **plan.units}.items():
        output.print_line(f"  {look.shorten_path(path)}  (new, {format_count(text.count(chr(10)), 'line')})")
    for install in plan.installs:
        for edit in install.plans:
            kept = "" if edit.old is None or edit.uninstalled is None else ", with a backup beside it"
            size = "as it should be" if edit.is_none else f"{count_changes(edit)}{kept}"
            output.print_line(f"  {look.shorten_path(edit.path)}  ({size})")
    state = look.shorten_path(state_dir(os.environ))
    output.print_line(f"  {state}  (the record, what was installed, and the program that the agents start)")
    if is_whole:
        show_texts(plan)
    output.print_line(look.paint_text("by these steps, each a command of its own:", "title"))
    for step in plan.steps:
        output.print_line(f"  {step.command}")


def show_texts(plan: SetupPlan) -> None:
    for path, text in {**plan.files, **plan.units}.items():
        output.say_diff([f"+++ {path}", *(f"+{line}" for line in text.splitlines())])
    for install in plan.installs:
        for edit in install.plans:
            output.say_diff(diff_edit(edit).splitlines())


def confirm_plan(plan: SetupPlan) -> bool:
    while (answer := ask_line("write it? y: yes, d: show each line first, n: no")) not in ("y", "yes", "n", "no"):
        if answer in ("d", "diff"):
            show_texts(plan)
    return answer[:1] == "y"

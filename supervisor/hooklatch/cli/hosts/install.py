"""The commands `install` and `uninstall`: connect a host with hooklatch by `changing` its files, and undo it."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

from hooklatch.cli.hosts import adopting, agent_plugin, codex_trust, install_record, managed
from hooklatch.cli.hosts.changing import (
    FileEdit,
    apply_edit,
    diff_edit,
    plan_edit,
    plan_plugin_install,
    plan_plugin_uninstall,
    plan_settings_uninstall,
    starts_daemon,
)
from hooklatch.cli.hosts.effective import SERVICE
from hooklatch.cli.hosts.layouts import LAYOUTS, Scope, SettingsLayout, Version, format_version, is_known, make_handler
from hooklatch.cli.hosts.machine_files import TITLES
from hooklatch.cli.hosts.others import OtherHook, list_other_hooks, list_unaccepted, read_documents
from hooklatch.cli.hosts.plugin import make_plugin
from hooklatch.cli.hosts.programs import find_program, is_service_installed, list_more_programs, read_program_version
from hooklatch.cli.hosts.settings_files import FileError, list_upwards
from hooklatch.cli.hosts.text_forms import add_tables, make_script, remove_tables
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.requests import connect_agent_once
from hooklatch.entry.building import BuildError, build_program, entries_folder
from hooklatch.entry.commands import make_entry_command, python_form
from hooklatch.errors import HooklatchError
from hooklatch.hosts.find import UnknownHostError, find_host
from hooklatch.hosts.host import Host, HostEventSpec
from hooklatch.paths import find_config_file, list_runtime_dirs, state_dir

__all__ = [
    "HostInstall", "add_install", "add_uninstall", "apply_host", "count_changes", "find_layout",
    "list_host_notes", "list_settings_files", "plan_host",
]  # fmt: skip

NAMES = ", ".join(LAYOUTS)
SCOPES: tuple[Scope, Scope] = ("user", "project")
NO_DAEMON = "NO DAEMON RUNS: until one does, {} is refused every tool call: hooklatch serve --detach"
EXITS = (Exit.BAD_DATA, Exit.CANNOT_CREATE, Exit.NO_INPUT, Exit.NOT_PERMITTED)


class SettingsChange(TypedDict):
    """`install`: the change of an agent's settings, which `dry_run` does not make; `backup` is the file before it."""

    host: str
    file: str
    changed: bool
    dry_run: bool
    backup: str | None
    diff: str
    notes: list[str]


class UninstallOutput(TypedDict):
    """`uninstall`: a change of each file that had entries of hooklatch."""

    host: str
    files: list[SettingsChange]


def add_install(parser: Parser) -> None:
    parser.runs(run_install, example="hooklatch install claude-code --dry-run", exits=EXITS)
    parser.prints("cli.hosts.install:SettingsChange", "cli.hosts.agent_plugin:PluginOutput")
    add_common(parser)
    agent_plugin.add_plugin(parser)
    parser.add_argument(
        "--also", metavar="EVENT", action="append", default=[], help="an event that is left out otherwise"
    )
    parser.add_argument("--program", metavar="PATH", help="the program itself, which is asked for its version")
    parser.add_argument("--start", action="store_true", help="have the entry start the daemon where none listens")
    parser.add_argument(
        "--form", choices=("python", "c"),
        help="what the program starts: a script, or a C program, which is the default where it can be had",
    )  # fmt: skip
    parser.add_argument(
        "--adopt", action="store_true",
        help="take other hooks that may change what was judged into the daemon, where they run before the guards",
    )  # fmt: skip
    parser.add_argument(
        "--accept", metavar="DIGEST", action="append", default=[],
        help="accept another hook that may change what was judged, as it is now, and change nothing else",
    )  # fmt: skip
    trusted = "for codex: also write that you trust these hooks, as /hooks would, and turn its model's terminals off"
    parser.add_argument("--trust", action="store_true", help=trusted)


def add_uninstall(parser: Parser) -> None:
    parser.runs(run_uninstall, example="hooklatch uninstall claude-code", exits=EXITS)
    parser.prints("cli.hosts.install:UninstallOutput")
    add_common(parser)


def add_common(parser: Parser) -> None:
    parser.add_argument("host", metavar="HOST", help=f"one of {NAMES}")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--user", action="store_true", help="your own settings, for every project (install: the default)"
    )
    scope.add_argument("--project", action="store_true", help="the settings of the project in this folder")
    scope.add_argument(
        "--managed", action="store_true", help="the settings that only root can write, for every user of this machine"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
    parser.add_argument("--diff", action="store_true", help="show each line that changes, as --dry-run does")


@dataclass(frozen=True, slots=True)
class HostInstall:
    """An installation for one host: the edits of its files, that of its settings first, and what is to be noted."""

    host: Host
    layout: SettingsLayout
    scope: Scope
    program: str | None
    version: Version | None
    why: str  # the version is not known
    no_program: str  # why the entry is not a C program
    others: list[OtherHook]
    plans: list[FileEdit]


def run_install(arguments: argparse.Namespace) -> int:
    host, layout = find_layout(arguments.host)
    if arguments.plugin is not None:
        with convert_file_errors():
            _, version, _ = find_version(host, layout, arguments.program)
            return agent_plugin.run_plugin(host, layout, draft_entries(host, layout, version, arguments)[1], arguments)
    if arguments.accept:
        return accept_others(host, layout, arguments)
    if arguments.managed:
        return install_managed(host, layout, arguments)
    install = plan_host(arguments)
    backups: list[str | None] = [None for _ in install.plans]
    if not arguments.dry_run:
        backups = apply_host(install, arguments)
    notes = list_host_notes(install, backups, arguments)
    print_settings_change(host, install.plans[0], backups[0], notes, arguments, done="installed")
    return Exit.OK


def draft_entries(
    host: Host, layout: SettingsLayout, version: Version | None, arguments: argparse.Namespace
) -> tuple[dict[str, list[str]], dict[str, dict[str, Any]], str, str]:
    """Return the commands and handlers by event, the text of a plugin, and why the program is not the C form."""
    events = dict(list_installed_events(host, layout, version, arguments.also))
    started, no_program = choose_program(arguments)
    commands = {event: entry_arguments(host, event, spec, started, arguments) for event, spec in events.items()}
    handlers = {event: make_handler(layout, event, spec, commands[event], version) for event, spec in events.items()}
    plugin = make_plugin(commands, events[layout.gate].limit) if layout.is_plugin else ""
    return commands, handlers, plugin, no_program


def find_version(host: Host, layout: SettingsLayout, named: str | None) -> tuple[str | None, Version | None, str]:
    """Return the host's program, its version, and why that is not known."""
    program = find_program(layout, named, os.environ)
    if named is not None and program is None:
        raise CommandError(Exit.NO_INPUT, f"{named} is not a program; name the path of {host.title}")
    version, why = read_program_version(program, os.environ) if program is not None else (None, "")
    return program, version, why


def plan_host(arguments: argparse.Namespace) -> HostInstall:
    """Return what `install` would write for a host."""
    host, layout = find_layout(arguments.host)
    scope: Scope = "project" if arguments.project else "user"
    path = find_settings_file(host, layout, scope)
    arguments.start = arguments.start or starts_daemon(path)
    program, version, why = find_version(host, layout, arguments.program)
    commands, handlers, plugin, no_program = draft_entries(host, layout, version, arguments)
    others = [other for other in list_others_here(host, layout) if arguments.adopt]
    with convert_file_errors():
        if layout.is_plugin:
            plans = [plan_plugin_install(path, plugin, os.environ)]
        elif layout.form == "scripts":
            order = sorted(commands, key=lambda event: event != layout.gate)
            texts = {layout.place(path, event): make_script(commands[event]) for event in order}
            plans = [plan_plugin_install(place, text, os.environ) for place, text in texts.items()]
        elif layout.form == "toml":
            edit = partial(add_tables, path, handlers=handlers)
            plans = [plan_edit(path, edit, partial(remove_tables, path), os.environ)]
        else:
            plans = adopting.plan_adoption(layout, path, handlers, others)
            fault = layout.describe_unread_part(host.title, path, plans[0].old)
            if fault is not None and layout.has_comments is not None:
                raise FileError(f"{fault}; nothing was changed: take it out, then try again")
        plans[0] = agent_plugin.plan_status_line(plans[0], layout, arguments)
    return HostInstall(host, layout, scope, program, version, why, no_program, others, plans)


def apply_host(install: HostInstall, arguments: argparse.Namespace) -> list[str | None]:
    """Make the edits; return the backups that are now beside the files."""
    _, fault = choose_program(arguments)  # which builds it, where the edits were only planned so far
    if fault and not install.no_program:
        raise CommandError(Exit.CANNOT_CREATE, f"the program that the entries start cannot be built: {fault}")
    with convert_file_errors():
        if arguments.adopt and install.layout.form == "json":
            adopting.adopt_handlers(
                install.layout, [each for plan in install.plans for each in plan.adopted], arguments
            )
        backups = [None if plan.is_none else apply_edit(plan, install.host.name, os.environ) for plan in install.plans]
        if arguments.start:
            install_record.remember_environment(os.environ)
    return backups


def list_host_notes(install: HostInstall, backups: list[str | None], arguments: argparse.Namespace) -> list[str]:
    """Return what a person should know of an installation; for Codex, settle its trust."""
    host, layout, change = install.host, install.layout, install.plans[0]
    notes = [
        *list_install_notes(host, layout, install.scope, install.program, install.version, install.why),
        *list_left_out_events(host, layout, install.version, arguments.also),
    ]
    with convert_file_errors():
        notes += adopting.list_adoption_notes(layout, install.others, install.plans[1:], backups[1:])
        notes += list_other_notes(host, layout, {other.digest for other in install.others if arguments.dry_run})
    if install.no_program:
        notes.append(
            "the entry is the Python form, so each event starts an interpreter; the C form cannot be had: "
            f"{install.no_program}"
        )
    if layout.name == "codex":
        notes += codex_trust.settle_codex_trust(change.path, install.program, arguments)
    if layout.form == "json" and (fault := layout.describe_unread_part(host.title, change.path, change.new)):
        notes.insert(0, f"NOT ACTIVE?: {fault}")
    if arguments.start:
        notes += list_start_notes(arguments)
    elif not is_served(arguments):
        notes.append(NO_DAEMON.format(host.title))
    return notes


def install_managed(host: Host, layout: SettingsLayout, arguments: argparse.Namespace) -> int:
    """Write the files of the layer that only root can write."""
    if layout.managed_fault:
        raise CommandError(Exit.NO_INPUT, f"{host.title}: {layout.managed_fault}; install it for users")
    _, version, _ = find_version(host, layout, arguments.program)
    commands, handlers, plugin, _ = draft_entries(host, layout, version, arguments)
    texts = managed.make_managed_texts(layout, handlers, plugin)
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    runtime_dir = os.path.abspath(list_runtime_dirs(arguments.runtime_dir, os.environ)[0])
    with convert_file_errors():
        for path in managed.list_foreign(texts, os.environ) if arguments.dry_run and not arguments.json else ():
            for line in (f"what its owner puts into {path}:", "", *texts[path].splitlines(), ""):
                output.say_exact(line)
        plans = [managed.plan_managed(path, text, os.environ, layout.name) for path, text in texts.items()]
        if os.geteuid() != 0 and not arguments.dry_run:
            raise CommandError(Exit.NOT_PERMITTED, f"only root can write {layout.managed}: run it with sudo")
        for plan in plans:
            if not arguments.dry_run and not plan.is_none:
                managed.write_managed(plan, host.name, os.environ)
        if arguments.start and not arguments.dry_run:
            install_record.remember_environment(os.environ)
    notes = [f"the entries ask the daemon at {runtime_dir}; users who cannot reach it are refused every tool call"]
    places = [config, os.path.join(os.path.dirname(config), "hooks.d"), runtime_dir, *texts]
    notes += [
        f"NOT ROOT'S ALONE: {place}: who can write it can leave the guards out"
        for place in managed.list_not_roots(commands[layout.gate], places)
    ]
    if layout.name == "gemini":
        notes.append("a variable of the agent's environment can name another file: GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    if layout.machine.beside:
        notes.append(f"{layout.machine.beside} turns other hooks off")
    elif layout.name not in managed.ALONE and not layout.managed.endswith(".toml"):
        notes.append(f"{host.title} cannot turn off other hooks there, so they still run: see hooklatch doctor")
    if not arguments.start and not is_served(arguments):
        notes.append(NO_DAEMON.format(host.title))
    (shown,) = (plan for plan in plans if plan.path == layout.managed)
    print_settings_change(host, shown, None, notes, arguments, done="installed")
    return Exit.OK


def accept_others(host: Host, layout: SettingsLayout, arguments: argparse.Namespace) -> int:
    """Record that hooks beside ours are accepted, by their digests."""
    others = {other.digest: other.title for other in list_others_here(host, layout)}
    if unknown := [digest for digest in arguments.accept if digest not in others]:
        raise CommandError(
            Exit.NO_INPUT, f"{host.title} has no hook with the digest {unknown[0]}; see: hooklatch doctor"
        )
    accepted = {digest: others[digest] for digest in arguments.accept}
    with convert_file_errors():
        if not arguments.dry_run:
            install_record.remember_accepted(os.environ, accepted)
    for title in accepted.values():
        output.print_line(f"accepted as it is now: {title}")
    return Exit.OK


def list_others_here(host: Host, layout: SettingsLayout) -> list[OtherHook]:
    return list(list_other_hooks(host, read_documents(layout, os.environ, find_project_here())))


def list_other_notes(host: Host, layout: SettingsLayout, adopted: set[str]) -> Iterator[str]:
    for other in list_unaccepted(host.name, os.environ, find_project_here()):
        why_not = adopting.read_why_not(layout, other)
        if why_not or other.digest not in adopted:
            take = f"it cannot be adopted, since {why_not}; " if why_not else "--adopt takes it in, "
            yield f"NOT THE ONLY ONE: {other.title}: {take}--accept {other.digest} accepts it as it is"


def run_uninstall(arguments: argparse.Namespace) -> int:
    host, layout = find_layout(arguments.host)
    if arguments.managed:
        return uninstall_managed(host, layout, arguments)
    with convert_file_errors():
        paths = list(list_settings_files(layout, user=arguments.user, project=arguments.project))
        changes: list[tuple[FileEdit, str | None]] = []
        for path in paths:
            change = plan_uninstall(layout, path)
            known = install_record.list_installed(os.environ).get(path)
            if change.is_none and known is None:
                continue
            backup = None if arguments.dry_run else apply_edit(change, host.name, os.environ)
            changes.append((change, backup))
        if layout.name == "codex":
            for path in paths:
                changes += [
                    (change, None if arguments.dry_run else apply_edit(change, host.name, os.environ))
                    for change in codex_trust.plan_untrust(path, os.environ)
                ]
        if not any(adopting.list_adopted(layout.name, os.environ)):
            changes += adopting.give_back_handlers(layout, arguments)
        starting = {word for change, _ in changes for word in list_entry_programs(change) if os.path.isfile(word)}
    if arguments.json:
        edits = [describe_install(host, change, backup, [], arguments) for change, backup in changes]
        output.say_json(UninstallOutput(host=host.name, files=edits))
        return Exit.OK
    for change, backup in changes:
        print_settings_change(host, change, backup, [], arguments, done="uninstalled")
    for path in sorted(starting):
        # Not deleted: settings that were written by hand may start it, and a guard that is gone refuses nothing.
        output.print_line(f"left: {path}, the entry as a C program; delete it if nothing else starts it")
    if not changes:
        output.print_line(f"nothing of hooklatch is in {' or '.join(paths)}")
    return Exit.OK


def uninstall_managed(host: Host, layout: SettingsLayout, arguments: argparse.Namespace) -> int:
    """Delete our files of the layer that only root can write."""
    paths = layout.managed_files
    with convert_file_errors():
        plans = [managed.plan_managed(path, None, os.environ, layout.name) for path in paths]
        changes = [plan for plan in plans if not plan.is_none]
        if changes and os.geteuid() != 0 and not arguments.dry_run:
            raise CommandError(Exit.NOT_PERMITTED, f"only root can delete {changes[-1].path}: run it with sudo")
        for change in reversed(changes):
            if not arguments.dry_run:
                managed.write_managed(change, host.name, os.environ)
    if arguments.json:
        edits = [describe_install(host, change, None, [], arguments) for change in changes]
        output.say_json(UninstallOutput(host=host.name, files=edits))
        return Exit.OK
    for change in changes:
        print_settings_change(host, change, None, [], arguments, done="uninstalled")
    for plan in plans:
        if plan.is_none and plan.old is not None:
            output.print_line(f"left: {plan.path}, which is somebody else's")
    if not changes:
        output.print_line(
            f"nothing of hooklatch is in {layout.managed}" if paths else f"{host.title}: {layout.managed_fault}"
        )
    return Exit.OK


def list_start_notes(arguments: argparse.Namespace) -> Iterator[str]:
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    yield (
        "a daemon that an entry starts has the PATH and HOME of this terminal: "
        f"{install_record.start_environment_path(os.environ)}"
    )
    if not os.path.exists(config):
        yield f"NO DAEMON WILL START: there is no {config}; write a first one: hooklatch init"


def is_served(arguments: argparse.Namespace) -> bool:
    try:
        with connect_agent_once(arguments):
            return True
    except HooklatchError:
        return False


def plan_uninstall(layout: SettingsLayout, path: str) -> FileEdit:
    if layout.form in ("plugin", "scripts"):
        return plan_plugin_uninstall(path, os.environ)
    if layout.form == "toml":
        return plan_edit(path, None, partial(remove_tables, path), os.environ)
    return plan_settings_uninstall(path, layout.shape, os.environ)


def find_layout(name: str) -> tuple[Host, SettingsLayout]:
    """Return a host by any of its names, with its settings."""
    try:
        host = find_host(name)
    except UnknownHostError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    if host.name not in LAYOUTS:
        raise CommandError(Exit.USAGE, f"{host.title} has no settings that could be written; there are {NAMES}")
    return host, LAYOUTS[host.name]


def list_settings_files(layout: SettingsLayout, *, user: bool, project: bool) -> Iterator[str]:
    """Yield the files that may hold our entries: one, or without a choice all that are known."""
    events = [layout.gate, *(set(find_host(layout.name).events) - {layout.gate} if layout.form == "scripts" else ())]
    own, here = (
        [layout.place(layout.file(scope, os.environ, find_project(layout)), event) for event in sorted(events)]
        for scope in SCOPES
    )
    if not project:
        yield from own
    if not user and layout.project and here != own:
        yield from here
    if not user and not project:
        for path, installed in install_record.list_installed(os.environ).items():
            is_settings = not path.endswith((codex_trust.FILE, adopting.ENDING)) and path not in layout.managed_files
            if installed.host == layout.name and path not in (*own, *here) and is_settings:
                yield path


def list_installed_events(
    host: Host, layout: SettingsLayout, version: Version | None, also: list[str]
) -> Iterator[tuple[str, HostEventSpec]]:
    """Yield the events that get an entry."""
    for event in also:
        if event not in host.events or not host.events[event].event:
            raise CommandError(Exit.USAGE, f"{host.title} has no event {event!r} that a hook can be on")
    for event, spec in host.events.items():
        is_wanted = event in also or not spec.alters_host
        if spec.event and is_wanted and not layout.skip(event) and layout.knows(event, version):
            yield event, spec


def list_left_out_events(host: Host, layout: SettingsLayout, version: Version | None, also: list[str]) -> Iterator[str]:
    altering = [event for event, spec in host.events.items() if spec.event and spec.alters_host and event not in also]
    if altering:
        yield f"{', '.join(altering)}: left out, since an entry alone changes what {host.title} does; --also adds one"
    unknown = [event for event, spec in host.events.items() if spec.event and not layout.knows(event, version)]
    if unknown:
        yield f"{', '.join(unknown)}: left out, since this version may not know them"


def choose_program(arguments: argparse.Namespace) -> tuple[list[str], str]:
    """Return the words that start the entry, and why it is the Python form if the operator has not asked for that."""
    if arguments.form == "python":
        return python_form(), ""
    try:
        return [str(build_program(dry_run=arguments.dry_run))], ""
    except BuildError as error:
        if arguments.form == "c":
            raise CommandError(
                Exit.CANNOT_CREATE, f"the C form cannot be had: {error}; without --form it is the Python form"
            ) from None
        return python_form(), str(error)


def entry_arguments(
    host: Host, event: str, spec: HostEventSpec, started: list[str], arguments: argparse.Namespace
) -> list[str]:
    runtime_dir = arguments.runtime_dir or os.environ.get("HOOKLATCH_RUNTIME_DIR")
    pins: dict[str, str] = {}
    if arguments.start or arguments.managed:
        # Pinned, since the agent's environment at the time of an event may name others.
        runtime_dir = os.path.abspath(list_runtime_dirs(arguments.runtime_dir, os.environ)[0])
    if arguments.start:
        pins = {"config": find_config_file(arguments.config, os.environ), "state_dir": state_dir(os.environ)}
    return make_entry_command(
        host.name, event, spec.kind, spec.wait, runtime_dir=runtime_dir, daemon_uid=arguments.daemon_uid,
        start=arguments.start, program=started, **pins,
    )  # fmt: skip


def list_entry_programs(change: FileEdit) -> set[str]:
    """Return the C programs that a file's entries started."""
    folder = str(entries_folder())
    text = (change.old or b"").decode(errors="replace")
    return set(re.findall(rf"{re.escape(folder)}/entry-[0-9a-f]+", text))


def list_install_notes(
    host: Host, layout: SettingsLayout, scope: Scope, program: str | None, version: Version | None, why: str
) -> Iterator[str]:
    newest = f"as {host.title} {layout.measured} wants them" if layout.measured else "as its documentation says"
    if layout.name == "auggie":
        yield f"what can leave these hooks out without a word: {SERVICE}"
    if not layout.machine.is_known:
        yield f"{host.title} was read on Linux: that it reads this file is not known on {TITLES[layout.system]}"
    if program is None:
        names = " or ".join(layout.programs)
        yield f"{names} is not on the PATH, so its version is unknown; the entries are {newest} (--program names it)"
    elif version is None:
        yield f"the version is unknown ({why}); the entries are {newest}"
    elif not is_known(layout, version):
        what = f"{host.title} {format_version(version)} is older than {format_version(layout.oldest)}"
        yield f"{what}: a hook that fails may let a tool run there"
    if program is not None and (more := list_more_programs(layout, program, os.environ)):
        yield f"{program} was asked for its version, and {', '.join(more)} not, which is there too: --program names one"
    if version is not None and version < layout.strict_since:
        key, since = next(iter(layout.strict)), format_version(layout.strict_since)
        what = f"{host.title} {format_version(version)} has no {key} (from {since} on)"
        yield f"{what}: if an entry is killed, or its program is gone, the tool runs"
    if scope == "project":
        yield "the entries name a program of this machine, so do not share this file with others"
        yield from PROJECT_NOTES.get(layout.name, ())


PROJECT_NOTES: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("interactively, Claude Code runs a project's hooks only once you trust the folder",),
    "gemini": ("Gemini CLI warns of a project's new hooks at its next start",),
    "codex": ("Codex reads a project's hooks only where the project is trusted",),
}


def find_settings_file(host: Host, layout: SettingsLayout, scope: Scope) -> str:
    if scope == "project" and not layout.project:
        raise CommandError(Exit.NO_INPUT, f"{host.title} reads no hooks of a project: install it without --project")
    return layout.file(scope, os.environ, find_project(layout))


@contextmanager
def convert_file_errors() -> Generator[None]:
    """Turn an error of a file into one of the command."""
    try:
        yield
    except FileError as error:
        is_data = "nothing was changed" in str(error) or "not UTF-8" in str(error)
        raise CommandError(Exit.BAD_DATA if is_data else Exit.CANNOT_CREATE, str(error)) from None


def find_project(layout: SettingsLayout) -> str:
    """Return the folder whose settings a host takes for those of the project, here."""
    here = find_project_here()
    return list_upwards(here)[-1] if layout.of_root else here


def find_project_here() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise CommandError(Exit.NO_INPUT, "the current directory is gone; go to the project") from None


def describe_install(
    host: Host, change: FileEdit, backup: str | None, notes: list[str], arguments: argparse.Namespace
) -> SettingsChange:
    return {
        "host": host.name, "file": change.path, "changed": not change.is_none, "dry_run": arguments.dry_run,
        "backup": backup, "diff": diff_edit(change), "notes": notes,
    }  # fmt: skip


def print_settings_change(
    host: Host, change: FileEdit, backup: str | None, notes: list[str], arguments: argparse.Namespace, *, done: str
) -> None:
    if arguments.json:
        output.say_json(describe_install(host, change, backup, notes, arguments))
        return
    if change.is_none:
        output.print_line(f"{change.path} is as it should be; nothing was changed")
    else:
        if arguments.diff or arguments.dry_run:
            output.say_diff(diff_edit(change).splitlines())
        would = " (dry run: nothing was written)" if arguments.dry_run else ""
        gone = ", which is gone now" if change.new is None and done == "uninstalled" else ""
        output.print_line(f"{done} for {host.title}: {change.path}{gone}{would} ({count_changes(change)})")
    if backup is not None:
        output.print_line(f"backup: {backup}")
    for note in notes:
        is_bad = note.startswith("NOT ")
        output.print_line("note: ", look.paint_text(note, "bad") if is_bad else note)
    if done == "installed" and not arguments.dry_run:
        output.print_line("next: hooklatch doctor   # sends each installed program's entry a call that must be denied")
        if not arguments.start and not is_service_installed():
            starts = f"the entries themselves (hooklatch install {host.name} --start)"
            output.print_line(
                f"after a reboot no daemon runs: have it started (hooklatch service install), or {starts}"
            )


def count_changes(change: FileEdit) -> str:
    """Return how many lines an edit adds and takes away."""
    lines = diff_edit(change).splitlines()[2:]
    added, gone = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{added} -{gone} lines"

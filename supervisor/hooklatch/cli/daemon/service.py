"""The commands `service`: the service manager of this user starts the daemon, and starts it again when it ends.

The units are in the folder `units` beside this module.  Installed, they have the path of the program that installed
them, and the PATH of its terminal, where hooks find their programs.  launchd gets the same in files of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from typing import TypedDict

from hooklatch.cli.daemon.launchd import Launchd
from hooklatch.cli.daemon.managers import MARK, START_LIMIT, UNITS, ServiceManager
from hooklatch.cli.daemon.stop import stop_daemon
from hooklatch.cli.daemon.systemd import Systemd, fill_in
from hooklatch.cli.hosts import settings_files
from hooklatch.cli.hosts.machine_files import System, name_system
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.requests import ask_administrator
from hooklatch.core.status_answers import StatusAnswer
from hooklatch.errors import DaemonUnreachableError, HooklatchError

__all__ = [
    "add_install", "add_remove", "add_service", "add_show", "add_status", "choose_manager", "install_units",
    "run_install", "run_remove", "run_status",
]  # fmt: skip

BELOW = (
    ("install", "daemon.service", "have systemd start the daemon now, at each login, and when it ends"),
    ("status", "daemon.service", "say whether it is installed, enabled and running"),
    ("remove", "daemon.service", "stop it, and delete what `install` wrote"),
    ("show", "daemon.service", "print a unit, with the path of this program"),
)
PAUSE = 0.1
WITHOUT = (
    "without it: write `hooklatch serve --detach` into the profile of your shell, or have agents start the daemon: "
    "hooklatch install HOST --start"
)


class UnitStatus(TypedDict):
    """A unit: whether its file is what `service install` would write now, and what the service manager says."""

    unit: str
    file: str
    is_current: bool
    enabled: str
    active: str


class ServiceStatus(TypedDict):
    """`service status`, `install` and `remove`: the units that are there; `fault` if the manager cannot be asked."""

    fault: str | None
    units: list[UnitStatus]


def choose_manager(system: System | None = None) -> ServiceManager:
    """Return the service manager of a system, by default this one."""
    return Launchd() if (system or name_system()) == "darwin" else Systemd()


def add_service(parser: Parser) -> None:
    parser.explain(example="hooklatch service install")
    parser.add_commands(BELOW, required=True)


def add_install(parser: Parser) -> None:
    exits = (Exit.CANNOT_CREATE, Exit.FINDINGS, Exit.UNAVAILABLE)
    parser.runs(run_install, example="hooklatch service install", exits=exits)
    parser.prints("cli.daemon.service:ServiceStatus")
    parser.add_argument("--link", action="store_true", help="also the link to a fleet")
    parser.add_argument("--dry-run", action="store_true", help="print the units, and write nothing")


def add_status(parser: Parser) -> None:
    parser.runs(run_status, example="hooklatch service status", exits=(Exit.FINDINGS, Exit.CANNOT_CREATE))
    parser.prints("cli.daemon.service:ServiceStatus")


def add_remove(parser: Parser) -> None:
    parser.runs(run_remove, example="hooklatch service remove", exits=(Exit.CANNOT_CREATE, Exit.UNAVAILABLE))
    parser.prints("cli.daemon.service:ServiceStatus")


class ShownService(TypedDict):
    """`service show`."""

    unit: str
    text: str


def add_show(parser: Parser) -> None:
    names = sorted(path.name for path in UNITS.glob("*/*"))
    parser.runs(run_show, example="hooklatch service show hooklatch@.service")
    parser.prints("cli.daemon.service:ShownService")
    parser.add_argument("unit", metavar="UNIT", choices=names, help=f"one of {', '.join(names)}")


def run_show(arguments: argparse.Namespace) -> int:
    (file,) = UNITS.glob(f"*/{arguments.unit}")
    text = fill_in(file.read_text(), [])
    shown = ShownService(unit=arguments.unit, text=text)
    return output.say_result(shown, is_json=arguments.json, show=lambda: output.say_text(text.rstrip("\n")))


def run_install(arguments: argparse.Namespace, manager: ServiceManager | None = None) -> int:
    manager = manager or choose_manager()
    units = manager.make_files(arguments, has_link=arguments.link)
    if arguments.dry_run:
        for path, text in units.items():
            output.print_line(look.paint_text(f"{path}:", "title"))
            output.say_text(text)
        return Exit.OK
    status = install_units(arguments, units, manager)
    if not arguments.json:
        output.print_line(
            f"{manager.title} runs hooklatch {status['version']} (pid {status['pid']}), starts it at each login, and "
            "again when it ends"
        )
        output.print_line(f"note: {manager.login_note}")
    return print_units(arguments, manager)


def install_units(arguments: argparse.Namespace, units: Mapping[str, str], manager: ServiceManager) -> StatusAnswer:
    """Write the units, and have the manager run the daemon, in place of one that runs; return its status."""
    if (fault := manager.find_fault()) is not None:
        raise CommandError(Exit.UNAVAILABLE, f"{fault}; nothing was written; {WITHOUT}")
    before = find_status(arguments)
    is_managed = before is not None and before["start"] is not None and before["start"]["is_managed"]
    is_changed = write_units(units)
    if before is not None and not is_managed:
        stop_daemon(arguments)
    manager.start(list(units), is_changed=is_changed, is_managed=is_managed)
    deadline = time.monotonic() + START_LIMIT
    with look.Spinner(f"{manager.title} starts the daemon"):
        while (status := find_status(arguments)) is None:
            if time.monotonic() > deadline:
                raise CommandError(
                    Exit.FINDINGS, f"{manager.title} has not started it in {START_LIMIT:.0f} s; every gate is denied "
                    f"until it runs; see why: {manager.log_hint}",
                )  # fmt: skip
            time.sleep(PAUSE)
    return status


def find_status(arguments: argparse.Namespace) -> StatusAnswer | None:
    try:
        status: StatusAnswer = ask_administrator(arguments, "status")
        return status
    except DaemonUnreachableError:
        return None
    except HooklatchError as error:
        raise CommandError(Exit.UNAVAILABLE, str(error)) from None


def write_units(units: Mapping[str, str]) -> bool:
    """Write the units that are not there as they should be; return whether there were any.  Others' are backed up."""
    is_changed = False
    try:
        for path, text in units.items():
            settings_files.make_folders(path, mode=0o755)
            old = settings_files.read_if_present(path)
            if old == text.encode():
                continue
            if old is not None and MARK.encode() not in old:
                output.print_line(f"backup: {settings_files.back_up_file(path, old)}")
            settings_files.replace_file(path, old, text.encode(), mode=0o644)
            is_changed = True
    except FileError as error:
        raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
    return is_changed


def list_units(arguments: argparse.Namespace, manager: ServiceManager) -> list[UnitStatus]:
    """Return the units of ours that are installed."""
    fault, units = manager.find_fault(), list[UnitStatus]()
    for path, text in manager.make_files(arguments, has_link=True).items():
        try:
            old = settings_files.read_if_present(path)
        except FileError as error:
            raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
        name = os.path.basename(path)
        if old is not None:
            enabled, active = manager.ask_state(path) if fault is None else ("unknown", "unknown")
            is_current = old == text.encode()
            units.append(UnitStatus(unit=name, file=path, is_current=is_current, enabled=enabled, active=active))
    return units


def run_status(arguments: argparse.Namespace, manager: ServiceManager | None = None) -> int:
    return print_units(arguments, manager or choose_manager())


def print_units(arguments: argparse.Namespace, manager: ServiceManager) -> int:
    fault, units = manager.find_fault(), list_units(arguments, manager)
    if arguments.json:
        output.say_json(ServiceStatus(fault=fault, units=units))
    elif units:
        rows = [
            (unit["unit"], unit["enabled"], unit["active"], "yes" if unit["is_current"] else "no: install it again")
            for unit in units
        ]
        output.say_table(("UNIT", "ENABLED", "ACTIVE", "CURRENT"), rows)
    else:
        output.print_line(f"{manager.title} does not start it; to have that: hooklatch service install")
    if fault is not None:
        output.print_error(f"{fault}; {WITHOUT}")
    is_well = fault is None and units and all(unit["active"] == "active" for unit in units)
    return Exit.OK if is_well else Exit.FINDINGS


def run_remove(arguments: argparse.Namespace, manager: ServiceManager | None = None) -> int:
    manager = manager or choose_manager()
    units = list_units(arguments, manager)
    try:
        texts = {unit["file"]: settings_files.read_if_present(unit["file"]) or b"" for unit in units}
        ours = [unit for unit in units if MARK.encode() in texts[unit["file"]]]
        fault = manager.find_fault()
        if ours and fault is None:
            manager.stop([unit["file"] for unit in ours])
        for unit in ours:
            settings_files.delete_file(unit["file"], texts[unit["file"]])
    except FileError as error:
        raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
    if ours and fault is None:
        manager.forget()
    if arguments.json:
        output.say_json(ServiceStatus(fault=fault, units=list_units(arguments, manager)))
        return Exit.OK
    for unit in units:
        output.print_line(
            f"removed {unit['file']}" if unit in ours else f"left: {unit['file']}, which is not of `install`"
        )
    if not units:
        output.print_line("there is no unit of hooklatch")
    elif find_status(arguments) is None:
        output.print_line("no daemon runs now, so every gate is denied until: hooklatch serve --detach")
    return Exit.OK

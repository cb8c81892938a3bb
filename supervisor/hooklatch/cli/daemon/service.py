"""The commands `service`: systemd of this user holds the sockets, starts the daemon, and starts it again when it ends.

The units are in the folder `units` beside this module.  Installed, they have the path of the program that installed
them, and the PATH of its terminal, where hooks find their programs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from hooklatch.cli.daemon.stop import stop_daemon
from hooklatch.cli.hosts import settings_files
from hooklatch.cli.hosts.programs import LateError, run_host_program, units_folder
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.requests import ask_administrator
from hooklatch.core.status_answers import StatusAnswer
from hooklatch.errors import DaemonUnreachableError, HooklatchError, explain_error
from hooklatch.paths import find_config_file, list_runtime_dirs, state_dir

__all__ = [
    "UNITS", "add_install", "add_remove", "add_service", "add_show", "add_status", "find_manager_fault",
    "install_units", "make_user_units", "quote_for_systemd",
]  # fmt: skip

BELOW = (
    ("install", "daemon.service", "have systemd start the daemon now, at each login, and when it ends"),
    ("status", "daemon.service", "say whether it is installed, enabled and running"),
    ("remove", "daemon.service", "stop it, and delete what `install` wrote"),
    ("show", "daemon.service", "print a unit, with the path of this program"),
)
UNITS = Path(__file__).with_name("units")
MARK = "# Written by: hooklatch service install"
SOCKETS = ("hooklatch-agent.socket", "hooklatch-admin.socket")
SERVICE, LINK = "hooklatch.service", "hooklatch-link.service"
PROGRAM = re.compile(r"(?<=^ExecStart=)\S+/hooklatch (\w+)", re.MULTILINE)
START_LIMIT = 120.0  # seconds, as in the unit
PAUSE = 0.1
WITHOUT = (
    "without it: write `hooklatch serve --detach` into the profile of your shell, or have agents start the daemon: "
    "hooklatch install HOST --start"
)


class UnitStatus(TypedDict):
    """A unit: whether its file is what `service install` would write now, and what systemd says of it."""

    unit: str
    file: str
    is_current: bool
    enabled: str
    active: str


class ServiceStatus(TypedDict):
    """`service status`, `install` and `remove`: the units that are installed; `fault` if systemd cannot be asked."""

    fault: str | None
    units: list[UnitStatus]


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
    if arguments.json:
        output.say_json(ShownService(unit=arguments.unit, text=text))
    else:
        output.say_text(text.rstrip("\n"))
    return Exit.OK


def run_install(arguments: argparse.Namespace) -> int:
    units = make_user_units(arguments, has_link=arguments.link)
    if arguments.dry_run:
        for path, text in units.items():
            output.print_line(look.paint_text(f"{path}:", "title"))
            output.say_text(text)
        return Exit.OK
    status = install_units(arguments, units)
    if not arguments.json:
        output.print_line(
            f"systemd runs hooklatch {status['version']} (pid {status['pid']}), starts it at each login, and again "
            "when it ends"
        )
        output.print_line("note: where agents run while you are not logged in: loginctl enable-linger")
    return print_units(arguments)


def make_user_units(arguments: argparse.Namespace, *, has_link: bool = False) -> dict[str, str]:
    """Return the units for this user by the paths of their files."""
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    state, runtime_dir = state_dir(os.environ), list_runtime_dirs(arguments.runtime_dir, os.environ)[0]
    plain = {name: value for name, value in os.environ.items() if name in ("HOME", "XDG_RUNTIME_DIR")}
    options: list[str] = []  # only what systemd's own environment would not lead to
    if config != find_config_file(None, plain) and os.path.lexists(config):
        options += ["--config", config]
    if state != state_dir(plain):
        options += ["--state-dir", state]
    sockets = "" if runtime_dir == list_runtime_dirs(None, plain)[0] else os.path.abspath(runtime_dir)
    folder = units_folder()
    return {
        os.path.join(folder, name): f"{MARK}\n{fill_in((UNITS / 'user' / name).read_text(), options, sockets)}"
        for name in (*SOCKETS, SERVICE, *([LINK] if has_link else []))
    }


def fill_in(unit: str, options: list[str], sockets: str = "") -> str:
    """Return a unit with the path of this program, and its PATH."""
    program = " ".join(map(quote_for_systemd, find_own_program()))
    config = " ".join(map(quote_for_systemd, options))
    path = quote_for_systemd(f"PATH={os.environ.get('PATH') or os.defpath}", is_command=False)
    text = PROGRAM.sub(lambda found: f"{program} {found[1]} {config}".rstrip(), unit)
    text = re.sub(r"^(ExecStart=.*)$", lambda found: f"{found[1]}\nEnvironment={path}", text, flags=re.MULTILINE)
    return text.replace("ListenStream=%t/hooklatch", f"ListenStream={sockets.replace('%', '%%')}") if sockets else text


def find_own_program() -> list[str]:
    """Return the words that start this program: its script where there is one, whose path outlives an upgrade."""
    script = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), "hooklatch")
    for path in (script, beside):
        if os.path.basename(path) == "hooklatch" and os.path.isfile(path) and os.access(path, os.X_OK):
            return [path]
    return [sys.executable, "-P", "-m", "hooklatch"]


def quote_for_systemd(word: str, *, is_command: bool = True) -> str:
    """Return a word as it stands in a unit (systemd.service(5), "COMMAND LINES"; systemd.unit(5), "SPECIFIERS")."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    text = text.replace("$", "$$") if is_command else text
    if "\n" in text:
        raise CommandError(Exit.CANNOT_CREATE, f"{word!r} has a line break, which a unit cannot hold")
    return text if re.fullmatch(r"[\w./%$:=@+,-]+", text) else f'"{text}"'


def ask_systemd(*words: str) -> tuple[int, str]:
    """Return the exit code of systemctl, and what it said."""
    try:
        done = run_host_program(["systemctl", "--user", *words], limit=START_LIMIT, environ=os.environ)
    except (OSError, LateError) as error:
        return Exit.UNAVAILABLE, explain_error(error)
    return done.exit_code, (done.stdout or done.stderr).decode(errors="replace").strip()


def find_manager_fault() -> str | None:
    """Return why systemd cannot be asked to run services of this user; None if it can."""
    code, answer = ask_systemd("show", "--property=Version")
    return f"systemctl --user does not work here ({answer})" if code else None


def order_systemd(*words: str) -> None:
    code, answer = ask_systemd(*words)
    if code:
        raise CommandError(Exit.UNAVAILABLE, f"systemctl --user {' '.join(words)}: {answer}")


def install_units(arguments: argparse.Namespace, units: Mapping[str, str]) -> StatusAnswer:
    """Write the units, and have systemd run the daemon, in place of one that runs; return its status."""
    if (fault := find_manager_fault()) is not None:
        raise CommandError(Exit.UNAVAILABLE, f"{fault}; nothing was written; {WITHOUT}")
    before = find_status(arguments)
    is_managed = before is not None and before["start"] is not None and before["start"]["is_managed"]
    is_changed = write_units(units)
    order_systemd("daemon-reload")
    if before is not None and not is_managed:
        stop_daemon(arguments)
    names = [os.path.basename(path) for path in units]
    order_systemd("enable", "--now", *names)
    if is_managed and is_changed:
        order_systemd("restart", SERVICE)
    deadline = time.monotonic() + START_LIMIT
    with look.Spinner("systemd starts the daemon"):
        while (status := find_status(arguments)) is None:
            if time.monotonic() > deadline:
                raise CommandError(
                    Exit.FINDINGS, f"systemd has not started it in {START_LIMIT:.0f} s; every gate is denied until it "
                    f"runs; see why: journalctl --user -u {SERVICE}",
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
            if old is not None and not old.startswith(MARK.encode()):
                output.print_line(f"backup: {settings_files.back_up_file(path, old)}")
            settings_files.replace_file(path, old, text.encode(), mode=0o644)
            is_changed = True
    except FileError as error:
        raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
    return is_changed


def list_units(arguments: argparse.Namespace) -> list[UnitStatus]:
    """Return the units of ours that are installed."""
    fault, units = find_manager_fault(), list[UnitStatus]()
    for path, text in make_user_units(arguments, has_link=True).items():
        try:
            old = settings_files.read_if_present(path)
        except FileError as error:
            raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
        name = os.path.basename(path)
        if old is not None:
            enabled, active = (
                ask_systemd(question, name)[1] if fault is None else "unknown"
                for question in ("is-enabled", "is-active")
            )
            is_current = old == text.encode()
            units.append(UnitStatus(unit=name, file=path, is_current=is_current, enabled=enabled, active=active))
    return units


def run_status(arguments: argparse.Namespace) -> int:
    return print_units(arguments)


def print_units(arguments: argparse.Namespace) -> int:
    fault, units = find_manager_fault(), list_units(arguments)
    if arguments.json:
        output.say_json(ServiceStatus(fault=fault, units=units))
    elif units:
        rows = [
            (unit["unit"], unit["enabled"], unit["active"], "yes" if unit["is_current"] else "no: install it again")
            for unit in units
        ]
        output.say_table(("UNIT", "ENABLED", "ACTIVE", "CURRENT"), rows)
    else:
        output.print_line("systemd does not start it; to have that: hooklatch service install")
    if fault is not None:
        output.print_error(f"{fault}; {WITHOUT}")
    is_well = fault is None and units and all(unit["active"] == "active" for unit in units)
    return Exit.OK if is_well else Exit.FINDINGS


def run_remove(arguments: argparse.Namespace) -> int:
    units = list_units(arguments)
    try:
        texts = {unit["file"]: settings_files.read_if_present(unit["file"]) or b"" for unit in units}
        ours = [unit for unit in units if texts[unit["file"]].startswith(MARK.encode())]
        fault = find_manager_fault()
        if ours and fault is None:
            order_systemd("disable", "--now", *(unit["unit"] for unit in ours))
        for unit in ours:
            settings_files.delete_file(unit["file"], texts[unit["file"]])
    except FileError as error:
        raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
    if ours and fault is None:
        order_systemd("daemon-reload")
    if arguments.json:
        output.say_json(ServiceStatus(fault=fault, units=list_units(arguments)))
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

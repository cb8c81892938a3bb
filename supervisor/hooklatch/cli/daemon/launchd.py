"""launchd of macOS: agents of this user, made of the same units that systemd gets (launchd.plist(5), launchctl(1)).

launchd holds no sockets and hears of no readiness, so the daemon binds its own, and while it starts anew there is none.
"""

from __future__ import annotations

import argparse
import os
import plistlib
import re
import time
from collections.abc import Sequence
from configparser import ConfigParser
from typing import Any

from hooklatch.cli.daemon.managers import (
    LINK,
    MARK,
    PROGRAM,
    SERVICE,
    START_LIMIT,
    UNITS,
    ask_manager,
    find_own_program,
    list_options,
    order_manager,
)
from hooklatch.cli.hosts import settings_files
from hooklatch.cli.hosts.programs import agents_folder
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.paths import state_dir

__all__ = ["Launchd"]

ABSENT = 113  # launchctl print: there is no such service in the domain
RUNNING = re.compile(r"^\s*state = (.+)$", re.MULTILINE)
PAUSE = 0.1  # seconds between two looks at a service that is being removed


class Launchd:
    """launchctl in the domain of this user's login, as a `ServiceManager`."""

    title = "launchd"
    log_hint = f"launchctl print gui/{os.getuid()}/hooklatch, and the log that it names"
    login_note = "launchd runs it while you are logged in"

    def __init__(self) -> None:
        self._domain = f"gui/{os.getuid()}"

    def make_files(self, arguments: argparse.Namespace, *, has_link: bool = False) -> dict[str, str]:
        options, runtime_dir = list_options(arguments, ("HOME",))
        options += ["--runtime-dir", runtime_dir] if runtime_dir else []
        names = [name.removesuffix(".service") for name in (SERVICE, *([LINK] if has_link else []))]
        return {
            os.path.join(agents_folder(), f"{name}.plist"): format_agent(
                make_agent(name, (UNITS / "user" / f"{name}.service").read_text(), options)
            )
            for name in names
        }

    def find_fault(self) -> str | None:
        code, answer = ask_manager("launchctl", "print", self._domain)
        return f"launchctl print {self._domain} does not work here ({answer})" if code else None

    def start(self, paths: Sequence[str], *, is_changed: bool, is_managed: bool) -> None:
        try:
            settings_files.make_folders(find_log("hooklatch"))  # launchd makes the file, and no folder
        except FileError as error:
            raise CommandError(Exit.CANNOT_CREATE, str(error)) from None
        for path in paths:
            if is_changed:  # also where no daemon runs: it may be one that ends at once, of the file before
                self._remove(path)
            if self._ask(path)[0] == ABSENT:
                order_manager("launchctl", "bootstrap", self._domain, path)
            order_manager("launchctl", "kickstart", self._target(path))

    def stop(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._remove(path)

    def forget(self) -> None:
        """Do nothing: a service that was removed is forgotten."""

    def ask_state(self, path: str) -> tuple[str, str]:
        code, answer = self._ask(path)
        if code:
            return ("not loaded", "inactive") if code == ABSENT else ("unknown", "unknown")
        state = RUNNING.search(answer)
        return "loaded", "active" if state is not None and state[1] == "running" else state[1] if state else "unknown"

    def _target(self, path: str) -> str:
        return f"{self._domain}/{os.path.basename(path).removesuffix('.plist')}"

    def _ask(self, path: str) -> tuple[int, str]:
        return ask_manager("launchctl", "print", self._target(path))

    def _remove(self, path: str) -> None:
        """Have a service end, and wait until it is gone: launchctl may return while it still drains."""
        if self._ask(path)[0] == ABSENT:
            return
        code, answer = ask_manager("launchctl", "bootout", self._target(path))
        deadline = time.monotonic() + START_LIMIT
        while self._ask(path)[0] != ABSENT:
            if time.monotonic() > deadline:
                why = answer or f"exit code {code}"
                raise CommandError(
                    Exit.UNAVAILABLE, f"launchctl bootout {self._target(path)}: it is still there ({why})"
                )
            time.sleep(PAUSE)


def make_agent(name: str, unit: str, options: Sequence[str]) -> dict[str, Any]:
    """Return the agent that does what a unit says, as far as launchd can."""
    verb = PROGRAM.search(unit)
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(unit)
    service = parser["Service"]
    log = find_log(name)
    limits = {"Core": 0, **({"NumberOfFiles": service.getint("LimitNOFILE")} if "LimitNOFILE" in service else {})}
    return {
        "Label": name,
        "ProgramArguments": [*find_own_program(), verb[1] if verb is not None else "serve", *options],
        "EnvironmentVariables": {"PATH": os.environ.get("PATH") or os.defpath},
        "RunAtLoad": True,
        # It knows no exit code after which nothing is tried again, so misuse of the command line is tried too.
        "KeepAlive": True if service["Restart"] == "always" else {"SuccessfulExit": False},
        "ThrottleInterval": service.getint("RestartSec"),
        "ExitTimeOut": service.getint("TimeoutStopSec"),
        "Umask": int(service["UMask"], 8),
        "Nice": service.getint("Nice", 0),
        "SoftResourceLimits": limits,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }


def find_log(name: str) -> str:
    return os.path.join(state_dir(os.environ), "daemon.log" if name == "hooklatch" else f"{name}.log")


def format_agent(agent: dict[str, Any]) -> str:
    """Return the text of an agent's file, with a comment on who wrote it."""
    first, rest = plistlib.dumps(agent, sort_keys=False).decode().split("\n", 1)
    return f"{first}\n<!-- {MARK} -->\n{rest}"

"""The parts that both service managers share: systemd of a user, and launchd of macOS.

Each form knows its own files and its own program; `service` has the commands, and chooses the form.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hooklatch.cli.hosts.programs import LateError, run_host_program
from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.errors import explain_error
from hooklatch.paths import find_config_file, list_runtime_dirs, state_dir

__all__ = [
    "LINK", "MARK", "PROGRAM", "SERVICE", "START_LIMIT", "UNITS", "ServiceManager", "ask_manager", "find_own_program",
    "list_options", "order_manager",
]  # fmt: skip

UNITS = Path(__file__).with_name("units")
MARK = "Written by: hooklatch service install"  # in a comment of each file
SERVICE, LINK = "hooklatch.service", "hooklatch-link.service"
PROGRAM = re.compile(r"(?<=^ExecStart=)\S+/hooklatch (\w+)", re.MULTILINE)
START_LIMIT = 120.0  # seconds, as in the unit


class ServiceManager(Protocol):
    """A manager of one user's services.  Its files are texts by path; a method raises CommandError if it refuses."""

    @property
    def title(self) -> str: ...

    @property
    def log_hint(self) -> str:
        """Return the command that shows why a daemon does not start."""
        ...

    @property
    def login_note(self) -> str:
        """Return what to know where agents run while the user is not logged in."""
        ...

    def make_files(self, arguments: argparse.Namespace, *, has_link: bool = False) -> dict[str, str]:
        """Return the files that have it run this daemon."""
        ...

    def find_fault(self) -> str | None:
        """Return why it cannot be asked; None if it can."""
        ...

    def start(self, paths: Sequence[str], *, is_changed: bool, is_managed: bool) -> None:
        """Have it take the files and start what they name, anew if they have changed.

        `is_managed`: it runs the daemon now.  Without that, one that takes its files anew has nothing to restart.
        """
        ...

    def stop(self, paths: Sequence[str]) -> None:
        """Have it stop what the files name, before they are deleted."""
        ...

    def forget(self) -> None:
        """Have it notice that files are gone."""
        ...

    def ask_state(self, path: str) -> tuple[str, str]:
        """Return whether a file is enabled, and "active" or what its service is instead."""
        ...


def ask_manager(*words: str) -> tuple[int, str]:
    """Return the exit code of a manager's program, and what it said."""
    try:
        done = run_host_program(words, limit=START_LIMIT, environ=os.environ)
    except (OSError, LateError) as error:
        return Exit.UNAVAILABLE, explain_error(error)
    return done.exit_code, (done.stdout or done.stderr).decode(errors="replace").strip()


def order_manager(*words: str) -> None:
    """Run a manager's program, which must succeed."""
    code, answer = ask_manager(*words)
    if code:
        raise CommandError(Exit.UNAVAILABLE, f"{' '.join(words)}: {answer or f'exit code {code}'}")


def list_options(arguments: argparse.Namespace, kept: Sequence[str]) -> tuple[list[str], str]:
    """Return the options that the manager's own environment would not lead to, and the folder of sockets likewise.

    Of the environment of this terminal, the manager has the variables `kept`.
    """
    config = os.path.abspath(find_config_file(arguments.config, os.environ))
    state, runtime_dir = state_dir(os.environ), list_runtime_dirs(arguments.runtime_dir, os.environ)[0]
    plain: Mapping[str, str] = {name: value for name, value in os.environ.items() if name in kept}
    options: list[str] = []
    if config != find_config_file(None, plain) and os.path.lexists(config):
        options += ["--config", config]
    if state != state_dir(plain):
        options += ["--state-dir", state]
    return options, "" if runtime_dir == list_runtime_dirs(None, plain)[0] else os.path.abspath(runtime_dir)


def find_own_program() -> list[str]:
    """Return the words that start this program: its script where there is one, whose path outlives an upgrade."""
    script = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), "hooklatch")
    for path in (script, beside):
        if os.path.basename(path) == "hooklatch" and os.path.isfile(path) and os.access(path, os.X_OK):
            return [path]
    return [sys.executable, "-P", "-m", "hooklatch"]

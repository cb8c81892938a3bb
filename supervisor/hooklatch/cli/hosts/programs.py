"""A runner of other programs, for their version, or in the way in which they themselves run a hook.

Each runs in a session of its own and within a time limit.  At its end its whole process group is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hooklatch.cli.hosts.layouts import SettingsLayout, Version, read_version
from hooklatch.cli.hosts.machine_files import System, name_system
from hooklatch.errors import explain_error
from hooklatch_worker.sandbox import children

__all__ = [
    "ProgramExit", "LateError", "agents_folder", "find_program", "is_service_installed", "list_more_programs",
    "run_host_program", "read_program_version", "units_folder",
]  # fmt: skip

VERSION_LIMIT = 30.0  # seconds; a program in JavaScript may take ten on a busy machine


class LateError(Exception):
    """A program did not end in time; it was killed."""


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """The end of a program; a negative code is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def run_host_program(
    command: Sequence[str], *, limit: float, stdin: bytes = b"", environ: Mapping[str, str], cwd: str | None = None
) -> ProgramExit:
    """Run a program of the user to its end.

    Raises:
        OSError: it cannot be started.
        LateError: it did not end within `limit` seconds.
    """
    with children.start_child(
        command, children.make_user_environment(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(stdin, timeout=limit)
        except subprocess.TimeoutExpired:
            raise LateError(f"it did not end within {limit:g} s") from None
        finally:  # also after its own end: it may have left processes in its group
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return ProgramExit(process.returncode, out, err)


def find_program(layout: SettingsLayout, named: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the path of a host's program; None if it is not on the PATH."""
    for name in (named,) if named is not None else layout.programs:
        if (path := shutil.which(name, path=environ.get("PATH"))) is not None:
            return path
    return None


def list_more_programs(layout: SettingsLayout, program: str, environ: Mapping[str, str]) -> list[str]:
    """Return the other programs of a host on the PATH: each may be of another version, and reads the same settings."""
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    found = [shutil.which(name, path=folder) for folder in folders for name in layout.programs]
    by_file = {os.path.realpath(path): path for path in reversed(found) if path is not None}
    return sorted(path for real, path in by_file.items() if real != os.path.realpath(program))


def read_program_version(path: str, environ: Mapping[str, str]) -> tuple[Version | None, str]:
    """Return the version of a program, or None and the reason why it is not known."""
    try:
        done = run_host_program([path, "--version"], limit=VERSION_LIMIT, environ=environ)
    except (OSError, LateError) as error:
        return None, f"{path} --version: {explain_error(error)}"
    version = read_version(done.stdout.decode(errors="replace"))
    if done.exit_code != 0 or version is None:
        return None, f"{path} --version did not print one (exit code {done.exit_code})"
    return version, ""


def units_folder() -> str:
    """Return the folder of the units that systemd runs for this user."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(config if config.startswith("/") else os.path.expanduser("~/.config"), "systemd", "user")


def agents_folder() -> str:
    """Return the folder of the agents that launchd runs for this user."""
    return os.path.expanduser("~/Library/LaunchAgents")


def is_service_installed(system: System | None = None) -> bool:
    """Return whether the service manager of a system, by default this one, is to start the daemon at each login."""
    is_mac = (system or name_system()) == "darwin"
    path = (agents_folder(), "hooklatch.plist") if is_mac else (units_folder(), "hooklatch.service")
    return os.path.lexists(os.path.join(*path))

"""The one place that starts programs for hooklatch, each with an explicit environment.

A program gets the variables that its list names, those that the caller adds, and no others.  No list has PYTHON* or
LD_*: they decide which code runs in a process before its first line.  `isolated_command` starts our own Python, which
also imports nothing from the working directory and from the user's site.

tests/test_children.py finds every other place that starts a program.  Needs the standard library alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = [
    "COMPILER", "GIT", "INSTALLER", "OWN", "SHELL_HOOK", "AllowedVariables", "filter_absolute_path",
    "make_user_environment", "isolated_command", "run_child",
    "start_child",
]  # fmt: skip


class AllowedVariables(NamedTuple):
    """The variables that a kind of program gets: by name, or by the beginning of the name."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    never: frozenset[str] = frozenset()

    def of(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the allowed variables of an environment; PATH gets only its absolute entries."""
        return {
            name: filter_absolute_path(value) if name == "PATH" else value
            for name, value in environ.items()
            if (name in self.names or name.startswith(self.prefixes)) and name not in self.never
        }


# The daemon that a forwarder starts, guardians, zygotes, workers, language servers: the variables that programs need to
# run, and no secret of an agent or a link.  HOME and the runtime directory also show whose a process is.
OWN = AllowedVariables(
    frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"}),
    ("LC_", "XDG_", "HOOKLATCH_"),
    frozenset({"HOOKLATCH_PARENT", "HOOKLATCH_FLEET_PASSWORD"}),
)
# Commands of hooks; PATH comes from the definition or from the worker, without relative entries.
SHELL_HOOK = AllowedVariables(frozenset({"HOME", "USER", "LANG", "TZ", "TMPDIR"}), OWN.prefixes, OWN.never)
# Installers of packages also need the index of packages, and the way to it.
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
INSTALLER = AllowedVariables(
    OWN.names.union(NETWORK, map(str.lower, NETWORK)), (*OWN.prefixes, "PIP_", "UV_"), OWN.never | {"VIRTUAL_ENV"}
)
# HOME and XDG_CONFIG_HOME hold the user's own settings of git, such as which work trees of others are safe.
GIT = AllowedVariables(frozenset({"PATH", "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "TMPDIR", "TZ"}))
COMPILER = AllowedVariables(frozenset({"PATH", "HOME", "TMPDIR", "LANG"}), ("LC_",))


def filter_absolute_path(path: str) -> str:
    """Return the absolute entries of a PATH: a relative one would depend on the folder of the program."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))


def make_user_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment, for a program of the user's own that a command in their terminal starts for them.

    Examples are their agent, their browser, and an MCP server that they name.
    """
    return dict(environ)


def isolated_command(python: str, *words: str) -> list[str]:
    """Return the command line of an interpreter for our own code: -I leaves out PYTHON*, cwd and user site."""
    return [python, "-I", *words]


def start_child(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    cwd: str | None = None,
    bufsize: int = -1,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
    start_new_session: bool = False,
    process_group: int | None = None,
    umask: int = -1,
    preexec_fn: Callable[[], object] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program with this environment; the other parameters are those of `subprocess.Popen`.

    Raises:
        OSError, ValueError, subprocess.SubprocessError: it cannot be started.
    """
    return subprocess.Popen(
        command, env=environ, cwd=cwd, bufsize=bufsize, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds,
        start_new_session=start_new_session, process_group=process_group, umask=umask, preexec_fn=preexec_fn,
    )  # fmt: skip


def run_child(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout: float,
    cwd: str | None = None,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end with this environment, and capture its output; kill it after `timeout` seconds.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took too long.
    """
    return subprocess.run(command, env=environ, cwd=cwd, input=stdin, capture_output=True, timeout=timeout, check=False)

"""Starts every program that hooklatch starts, each with a whole environment.  Knows lists of variables, and no program.

A program gets what its list names of the environment at hand, what the caller adds, and nothing else.  No list has
PYTHON* or LD_*: they decide which code runs in a process before its first line.  `isolated_command` is how our own
Python is
started beyond that: nothing of the working directory, and nothing of the user's site.

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
    """The variables that a kind of program gets: by name, or by how the name begins."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()
    never: frozenset[str] = frozenset()

    def of(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return what is allowed of an environment; of PATH only what is `filter_absolute_path`."""
        return {
            name: filter_absolute_path(value) if name == "PATH" else value
            for name, value in environ.items()
            if (name in self.names or name.startswith(self.prefixes)) and name not in self.never
        }


# The daemon that an entry starts, guardians, zygotes, workers, language servers: what programs need to run, and no
# secret of an agent's or a link's.  HOME and the runtime directory also show an operator whose a process is.
OWN = AllowedVariables(
    frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV"}),
    ("LC_", "XDG_", "HOOKLATCH_"),
    frozenset({"HOOKLATCH_PARENT", "HOOKLATCH_FLEET_PASSWORD"}),
)
# Commands of hooks; PATH comes from the definition or from the worker, without what is relative.
SHELL_HOOK = AllowedVariables(frozenset({"HOME", "USER", "LANG", "TZ", "TMPDIR"}), OWN.prefixes, OWN.never)
# What installers of packages need besides: where packages come from, and how to get there.
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
INSTALLER = AllowedVariables(
    OWN.names.union(NETWORK, map(str.lower, NETWORK)), (*OWN.prefixes, "PIP_", "UV_"), OWN.never | {"VIRTUAL_ENV"}
)
# HOME and XDG_CONFIG_HOME hold the user's own settings of git, such as which work trees of others are safe.
GIT = AllowedVariables(frozenset({"PATH", "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "TMPDIR", "TZ"}))
COMPILER = AllowedVariables(frozenset({"PATH", "HOME", "TMPDIR", "LANG"}), ("LC_",))


def filter_absolute_path(path: str) -> str:
    """Return the absolute entries of a PATH: any other is a place below wherever a program is started."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))


def make_user_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return all of an environment: for a program of the person's own that a command in their terminal starts for them.

    Their agent, asked for its version or shown its own settings; their browser; the MCP server that they name.
    """
    return dict(environ)


def isolated_command(python: str, *words: str) -> list[str]:
    """Return the command line of an interpreter that runs code of ours: -I leaves out PYTHON*, cwd and user site."""
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
    """Start a program with this environment; the rest is as `subprocess.Popen` has it.

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

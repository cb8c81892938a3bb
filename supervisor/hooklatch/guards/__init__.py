"""What authors of guards may use: shell text read as commands, and what those write, reach and install.

from hooklatch.guards import commands, UnreadableCommandError

Imported by hooks in workers; knows no daemon and no policy.
"""

from __future__ import annotations

from hooklatch.guards.command import Command, Redirect, UnreadableCommandError
from hooklatch.guards.commands import commands
from hooklatch.guards.words import Word

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from hooklatch.guards.effects.fetched import running_fetched
    from hooklatch.guards.effects.hosts import hostname_of, hosts_reached
    from hooklatch.guards.effects.packages import packages_installed
    from hooklatch.guards.effects.services import data_lost
    from hooklatch.guards.interpreters import codes_of, reads_data
    from hooklatch.guards.reading.containers import is_contained
    from hooklatch.guards.targets import git_parts, paths_written

__all__ = [
    "Command",
    "Redirect",
    "UnreadableCommandError",
    "Word",
    "codes_of",
    "commands",
    "data_lost",
    "git_parts",
    "hostname_of",
    "hosts_reached",
    "is_contained",
    "packages_installed",
    "paths_written",
    "reads_data",
    "running_fetched",
]
# Where each of these is, which are loaded when somebody asks for one: a daemon reads commands, and needs no table.
MODULES = {
    "running_fetched": "effects.fetched", "hostname_of": "effects.hosts", "hosts_reached": "effects.hosts",
    "packages_installed": "effects.packages", "data_lost": "effects.services", "reads_data": "interpreters",
    "codes_of": "interpreters", "is_contained": "reading.containers",
    "git_parts": "targets", "paths_written": "targets",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Load the table of programs that has a function, with the first use of it."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
    return value

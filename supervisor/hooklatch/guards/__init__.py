"""The library for authors of guards: shell text as commands, and the paths, hosts and packages that they touch.

from hooklatch.guards import commands, UnreadableCommandError

Imported by hooks in workers; knows no daemon and no policy.
"""

from __future__ import annotations

import importlib

from hooklatch.guards.command import Command, Redirect, UnreadableCommandError
from hooklatch.guards.commands import commands
from hooklatch.guards.words import Word

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from hooklatch.guards.calls.texts import call_of, is_harmless, strictest
    from hooklatch.guards.effects.fetched import running_fetched
    from hooklatch.guards.effects.hosts import hostname_of, hosts_reached
    from hooklatch.guards.effects.packages import packages_installed
    from hooklatch.guards.effects.services import data_lost
    from hooklatch.guards.git.commands import git_options, git_parts, is_of_person
    from hooklatch.guards.interpreters import codes_of, reads_data, strip_version
    from hooklatch.guards.reading.containers import is_contained
    from hooklatch.guards.targets import paths_written

__all__ = [
    "Command",
    "Redirect",
    "UnreadableCommandError",
    "Word",
    "call_of",
    "codes_of",
    "commands",
    "data_lost",
    "git_options",
    "git_parts",
    "hostname_of",
    "hosts_reached",
    "is_contained",
    "is_harmless",
    "is_of_person",
    "packages_installed",
    "paths_written",
    "reads_data",
    "running_fetched",
    "strictest",
    "strip_version",
]
# Where each function is that is loaded with its tables only when it is asked for.
MODULES = {
    **dict.fromkeys(("call_of", "is_harmless", "strictest"), "calls.texts"),
    **dict.fromkeys(("hostname_of", "hosts_reached"), "effects.hosts"),
    **dict.fromkeys(("git_options", "git_parts", "is_of_person"), "git.commands"),
    **dict.fromkeys(("codes_of", "reads_data", "strip_version"), "interpreters"),
    "data_lost": "effects.services",
    "is_contained": "reading.containers",
    "packages_installed": "effects.packages",
    "paths_written": "targets",
    "running_fetched": "effects.fetched",
}


def __getattr__(name: str) -> object:
    """Load the tables of programs with the first of their functions: a daemon reads commands, and needs no table."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)
    return value

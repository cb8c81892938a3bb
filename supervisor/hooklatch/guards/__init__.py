"""The library for authors of guards: shell text as commands, and the paths, hosts and packages that they touch.

from hooklatch.guards import commands

from hooklatch.guards import UnreadableCommandError

Imported by hooks in workers; knows no daemon and no policy.
"""

from __future__ import annotations

import importlib

from hooklatch.shelltext.command import Command, Redirect, UnreadableCommandError
from hooklatch.shelltext.commands import commands
from hooklatch.shelltext.words import Word

TYPE_CHECKING = False  # type checkers take it for true
if TYPE_CHECKING:
    from hooklatch.guards.answered import allow_same_call, is_same_call
    from hooklatch.guards.calls import call_of, is_harmless, strictest
    from hooklatch.guards.fetched import running_fetched
    from hooklatch.guards.git_commands import git_options, git_parts, is_of_person
    from hooklatch.guards.hosts import hostname_of, hosts_reached
    from hooklatch.guards.interpreters import codes_of, reads_data, strip_version
    from hooklatch.guards.packages import packages_installed
    from hooklatch.guards.services import data_lost
    from hooklatch.guards.targets import paths_written
    from hooklatch.shelltext.reading.containers import is_contained

__all__ = [
    "Command", "Redirect", "UnreadableCommandError", "Word", "allow_same_call", "call_of", "codes_of", "commands",
    "data_lost", "git_options", "git_parts", "hostname_of", "hosts_reached", "is_contained", "is_harmless",
    "is_of_person", "is_same_call",
    "packages_installed", "paths_written", "reads_data", "running_fetched", "strictest", "strip_version",
]  # fmt: skip
# Where each function is that is loaded with its tables only when it is asked for.
MODULES = {
    **dict.fromkeys(("allow_same_call", "is_same_call"), "guards.answered"),
    **dict.fromkeys(("call_of", "is_harmless", "strictest"), "guards.calls"),
    **dict.fromkeys(("hostname_of", "hosts_reached"), "guards.hosts"),
    **dict.fromkeys(("git_options", "git_parts", "is_of_person"), "guards.git_commands"),
    **dict.fromkeys(("codes_of", "reads_data", "strip_version"), "guards.interpreters"),
    "data_lost": "guards.services",
    "is_contained": "shelltext.reading.containers",
    "packages_installed": "guards.packages",
    "paths_written": "guards.targets",
    "running_fetched": "guards.fetched",
}


def __getattr__(name: str) -> object:
    """Load the tables of programs with the first of their functions: a daemon reads commands, and needs no table."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"hooklatch.{MODULES[name]}"), name)
    return value

"""The files of the simulated world: its hooks, each in versions, and its settings."""

from __future__ import annotations

import os

__all__ = ["BROKEN", "CALLED", "CONFIG", "FAILING", "PASSING", "REFUSING", "source_text", "sync"]

FAILING = {
    "raise": "crash", "exit": "crash", "drop": "crash", "hang": "timeout", "garbage": "protocol", "forge": "protocol",
    "twice": "protocol", "illegal": "protocol",
}  # fmt: skip
REFUSING = {"deny", "halt", *FAILING} - {"twice"}  # of two answers the first may count
BROKEN = "def (\n"

HOOK = """
from hooklatch_worker import hook
from simulation.acting import act, count

@hook({event})
def {name}(event):
    return {does}(event, "{name}", {version})
"""
KINDS = {  # the arguments of @hook, and what it does
    "n": ('"post_tool_use"', "act"), "t": ('"post_model"', "act"), "c": ('"pre_tool_use", match="Count"', "count"),
}  # fmt: skip
# A file that clients name by `run`, and the file that it imports, which has the version.
CALLED = """
from simulation.acting import act
from version import VERSION

def called(event):
    return act(event, event.config["id"], VERSION)
"""

PASSING = """
def called(event):
    return None  # {number}
"""

CONFIG = """
[daemon]
record = "{durability}"

[record]
segment_mib = {segment}
segment_hours = 0.02
keep_mib = {keep}
keep_days = {days}

[state]
kept = {kept}

[ask]
wait = 15

[workers]
workers = {workers}
calls = {calls}
"""


def source_text(name: str, version: int) -> str:
    """Return the source of a file in one version."""
    if name == "s":
        return f"VERSION = {version}\n"
    event, does = KINDS.get(name, ('"pre_tool_use"', "act"))
    return HOOK.format(event=event, name=name, does=does, version=version)


def sync(folder: str) -> None:
    """Have a folder's names on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)

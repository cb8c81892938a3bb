"""The guards that the system tests push: two files a version, which say by their names which version they are of.

Knows texts; the number of a version's guards is not its version: a rollback has the guards of an older one.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["FORBIDDEN", "HALVES", "number_of", "write_guards"]

HALVES = ("first", "second")
FORBIDDEN = "rm everything"  # every version denies it
NAME = re.compile(r"guard_[a-z]+_(\d+)$")
GUARD = '''"""The {which} half of guards {number}; a half alone would show."""

from hooklatch_worker import deny, hook


@hook("pre_tool_use", timeout=20)
def guard_{which}_{number}(event):
    if event.payload["tool_input"]["command"].startswith({forbidden!r}):
        return deny("guards {number}: not on any machine of ours")
    return None
'''


def write_guards(folder: Path, number: int) -> Path:
    """Write the guards of this number into a folder of their own; return it."""
    pushed = folder / f"guards-{number}"
    pushed.mkdir(parents=True)
    for which in HALVES:
        text = GUARD.format(which=which, number=number, forbidden=FORBIDDEN)
        (pushed / f"{which}.py").write_text(text)
    return pushed


def number_of(hook: str) -> int | None:
    """Return the number that a guard's id has at its end; None for another hook."""
    found = NAME.search(hook)
    return int(found[1]) if found else None

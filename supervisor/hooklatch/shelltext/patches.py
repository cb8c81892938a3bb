"""Patches in the form of `apply_patch`: the files that one names."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["list_patched_files"]

# As the most lenient program reads it: with blanks before it, or none behind the colon.
PATCHED: Final = re.compile(r"(?im)^[^\S\n]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[^\S\n]*(\S.*?)\s*$")


def list_patched_files(text: str) -> list[str]:
    """Return the files that a patch adds, changes, deletes or moves to, in its order."""
    return PATCHED.findall(text)

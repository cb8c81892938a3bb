"""A third voice beside the reader and the shells: mvdan/sh, where the package shfmt-py is installed.

It parses and runs nothing.  It is asked about texts that the reader takes and of which no shell ran anything, since
stubs succeed and print nothing: what stands behind `||` is not reached.  It is wrong in 5 of 100 hostile texts, so
where it differs is a place to look at, and no miss.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from hooklatch.guards import Command

__all__ = ["LANGUAGES", "Voice"]

LANGUAGES = {"bash": "bash", "dash -c": "posix"}  # by the reading that it is compared with


class Voice:
    """Another parser's view of texts."""

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def find(cls) -> Voice | None:
        """Return it if the environment of these tests has it."""
        path = os.path.join(os.path.dirname(sys.executable), "shfmt")
        return cls(path) if os.access(path, os.X_OK) else None

    def hears_more(self, text: str, reading: str, shown: Sequence[Command]) -> bool:
        """Return whether it sees a program that a reading does not show."""
        known = {one.program for one in shown}
        return None not in known and any(name not in known for name in self.programs(text, LANGUAGES[reading]))

    def programs(self, text: str, language: str) -> set[str]:
        """Return the programs that it sees by name; none if it does not understand the text."""
        done = subprocess.run(
            [self._path, "--to-json", "-ln", language],
            input=text.encode("utf-8", "surrogateescape"), capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        return set(named(json.loads(done.stdout))) if done.returncode == 0 else set()


def named(tree: Any) -> Iterator[str]:
    """Yield the names of programs that are written without quotes and expansions."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            parts = (node.get("Args") or [{}])[0].get("Parts", []) if node.get("Type") == "CallExpr" else []
            text = "".join(part.get("Value", "\\") if part.get("Type") == "Lit" else "\\" for part in parts)
            if text and not set(text) & set("\\*?[{~"):
                yield text.rpartition("/")[2]
            pending += node.values()
        elif isinstance(node, list):
            pending += node

"""Faults that this project once had, each as lines that replace others of today's source: faults.txt has them.

    name letter module: what is wrong        the letter is that of the rule of judge.py that must see it
    -a line of the module
    +a line in its place

`install` puts one back: the changed source is compiled in place of the file when its module is imported.  The old lines
must stand there exactly once, so that none rots unseen (test_faults.py).
"""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NamedTuple

__all__ = ["FAULTS", "Fault", "install"]

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """A fault: what is wrong, the rule that must see it, and which lines change where."""

    sentence: str
    letter: str
    module: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """Return the file of the module."""
        root = "workers" if self.module.startswith("hooklatch_worker") else "supervisor"
        return ROOT / root / (self.module.replace(".", "/") + ".py")

    def change(self) -> CodeType:
        """Return the module's code with the fault.

        Raises:
            ValueError: the old text is not there exactly once.
        """
        text = self.path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has the text {text.count(self.old)} times: {self.old}")
        return compile(text.replace(self.old, self.new), str(self.path), "exec", dont_inherit=True)


def read_fault(text: str) -> tuple[str, Fault]:
    """Return the name of a fault, and the fault."""
    head, *changes = text.splitlines()
    place, _, sentence = head.partition(": ")
    name, letter, module = place.split()
    old, new = ("".join(f"{line[1:]}\n" for line in changes if line[0] == sign) for sign in "-+")
    return name, Fault(sentence, letter, module, old, new)


FAULTS = dict(map(read_fault, Path(__file__).with_suffix(".txt").read_text().strip().split("\n\n")))


def install(name: str) -> None:
    """Put a fault back, before anything of hooklatch is imported."""
    fault = FAULTS[name]
    if fault.module in sys.modules:
        raise RuntimeError(f"{fault.module} is imported already")
    changed, get_code = fault.change(), SourceFileLoader.get_code

    def get_changed(loader: SourceFileLoader, module: str) -> CodeType | None:
        return changed if module == fault.module else get_code(loader, module)

    SourceFileLoader.get_code = get_changed  # type: ignore[method-assign]

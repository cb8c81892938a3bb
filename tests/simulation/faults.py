"""Faults that this project once had, each as lines that replace others of today's source: faults.txt has them.

    name letter module: what is wrong        the letter is that of the rule of judge.py that must see it
    -a line of the module
    +a line in its place

`install` puts one back: the changed source is compiled in place of the file when its module is imported.  The old lines
must stand there exactly once, so that none rots unseen (test_faults.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType
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


class FaultLoader(importlib.machinery.SourceFileLoader):
    """The loader of one module with a fault."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._changed = code

    def get_code(self, fullname: str) -> CodeType:
        return self._changed


class FaultFinder:
    """A finder of one module."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._code = fault, fault.change()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._fault.module:
            return None
        file = str(self._fault.path)
        return importlib.util.spec_from_file_location(name, file, loader=FaultLoader(name, file, self._code))


def install(name: str) -> None:
    """Put a fault back, before anything of hooklatch is imported."""
    fault = FAULTS[name]
    if fault.module in sys.modules:
        raise RuntimeError(f"{fault.module} is imported already")
    sys.meta_path.insert(0, FaultFinder(fault))

"""The setup of another interpreter for our workers.  Needs the standard library alone.

A worker whose source has its own environment runs in that environment's interpreter.  That interpreter has its own
packages, and none of the daemon's.  Two things have to come from the daemon's installation:

    ours      hooklatch and hooklatch_worker: both sides of the frames must be of one version, so they come first
    spares    what these need (msgspec, the grammar of the guards): only where the environment lacks it

The interpreter starts without `site` (-S), so no code of the environment runs in a zygote but its own msgspec, if it
has one.  `complete` runs `site` later, in the confined worker, since a package's .pth file may contain code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder

__all__ = ["Finder", "complete", "enter", "is_entered", "packages"]


class Finder:
    """A finder for a few packages by name, each in its own folder, and nothing else in those folders.

    It searches when it is made: a confined worker may not list the folders later.
    """

    def __init__(self, folders: Mapping[str, str]) -> None:
        self.folders = dict(folders)
        self._specs = {name: PathFinder.find_spec(name, [folder]) for name, folder in folders.items()}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a package, if it is one of these; its submodules are found by its own path."""
        return self._specs.get(name)


ENTERED: list[Finder] = []  # empty where the daemon's own environment is in use


def enter(path: Sequence[str], prefix: str, ours: Mapping[str, str], spares: Mapping[str, str]) -> None:
    """Use the import path of an environment; `ours` and `spares` are folders by the name of a package in them."""
    sys.prefix = sys.exec_prefix = prefix  # as `site` sets it in a virtual environment
    sys.path[:] = path
    first, last = Finder(ours), Finder(spares)
    sys.meta_path.insert(0, first)
    sys.meta_path.append(last)
    ENTERED[:] = first, last


def is_entered() -> bool:
    """Return whether this interpreter runs in the environment of a source, and not in the daemon's."""
    return bool(ENTERED)


def complete() -> None:
    """Run the start code of the environment: .pth files, sitecustomize."""
    if ENTERED:
        import site

        site.main()


def packages() -> list[str]:
    """Return the paths of the packages that come from the daemon's installation."""
    return [f"{folder}/{name}" for finder in ENTERED for name, folder in finder.folders.items()]

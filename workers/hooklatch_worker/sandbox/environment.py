"""Makes another interpreter one of ours.  Knows import paths; needs the standard library alone.

A worker whose source has its own environment runs in that environment's interpreter.  That interpreter has its own
packages, and none of the daemon's.  Two things have to come from the daemon's installation:

    ours      hooklatch and hooklatch_worker: both sides of the frames must be of one version, so they come first
    spares    what these need (msgspec, the grammar of the guards): only where the environment lacks it

The interpreter starts without `site` (-S), so nothing of the environment runs in a zygote but, if it has one, its own
msgspec.  `complete` does in the worker, once that is confined, what `site` would have done: a package's .pth file may
contain code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder

__all__ = ["Finder", "complete", "enter", "is_entered", "packages"]


class Finder:
    """Finds a few packages by name, each in its own folder, and nothing else in those folders.

    It looks at once: a confined worker may not list the folders.
    """

    def __init__(self, folders: Mapping[str, str]) -> None:
        self.folders = dict(folders)
        self._specs = {name: PathFinder.find_spec(name, [folder]) for name, folder in folders.items()}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where a package is, if it is one of those; what is inside of it is found by its own path."""
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
    """Return whether this interpreter is not one like the daemon's own."""
    return bool(ENTERED)


def complete() -> None:
    """Run what the environment has for the start of its interpreter: .pth files, sitecustomize."""
    if ENTERED:
        import site

        site.main()


def packages() -> list[str]:
    """Return the paths of the packages that come from the daemon's installation."""
    return [f"{folder}/{name}" for finder in ENTERED for name, folder in finder.folders.items()]

"""The hints of the kernel that a file has changed, and the paths that they cover.

A path is covered if every change of its stamp is reported: it is watched itself, and so is each directory on its way,
links followed.  A directory is watched for the next name too, unless that is a directory in which something is watched:
it goes only after that has gone, or moves, which it reports itself.  So files of strangers in /tmp and at home cause no
wake-up.  Paths on a network disk are not covered: the kernel here does not report what another machine does there.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import trio

from hooklatch.disks import ResolvedPath, away_now, resolve_path
from hooklatch.errors import explain_error
from hooklatch_worker.systems.disks import FileWatches

__all__ = ["PAUSE", "KernelHints"]

PAUSE = 0.02  # seconds between two reads of reports: a save is several changes
ANY, LOST = "", -2  # no file has this name, and no place this number


class KernelHints:
    """The paths that the kernel watches, and the names that matter in its reports.

    Raises:
        OSError: it watches none for this user.
    """

    def __init__(self) -> None:
        self._watches = FileWatches()
        self.close = self._watches.close
        self._names: dict[int, set[str]] = {}  # by the number of a place: the names that matter there, ANY for all
        self._turn = threading.Lock()

    @property
    def fault(self) -> str | None:
        """Return why the kernel watches less than it was asked to, if so."""
        error = self._watches.shortage
        return None if error is None else f"the kernel watches no more files for this user ({explain_error(error)})"

    def cover(self, paths: Iterable[str]) -> set[str]:
        """Watch these paths and no others, in a thread. Return those whose every change is reported from now on."""
        with self._turn:
            away, ways = away_now(), dict[str, ResolvedPath]()
            for path in paths:
                with suppress(OSError, ValueError):  # what cannot be looked up is checked more often
                    ways[path] = resolve_path(path, away)
            steps = {step: os.path.join(*step) for way in ways.values() for step in way.steps}
            remote = {way.end for way in ways.values() if way.disk is not None}  # which may not answer
            there = {step: place for step, place in steps.items() if place in remote or os.path.lexists(place)}
            held, places = {folder for folder, _ in there}, dict[str, int]()
            for (folder, _), place in steps.items():
                wanted = FileWatches.ITSELF if place in held else FileWatches.ENTRIES
                places[folder] = max(wanted, places.get(folder, 0))
            ends = {way.end for way in ways.values() if way.disk is None} & {"/", *there.values()}
            places |= dict.fromkeys(ends, FileWatches.CONTENT)
            numbers, names = self._watches.replace(places), defaultdict[int, set[str]](set)
            for place, name in [*steps, *((end, ANY) for end in ends)]:
                names[numbers.get(place, LOST)].add(name)
            self._names = names
            unwatched = places.keys() - numbers.keys()
            return {
                path
                for path, way in ways.items()
                if FileWatches.IS_COMPLETE
                and way.disk is None
                and unwatched.isdisjoint([way.end, *(folder for folder, _ in way.steps)])
            }

    async def hint(self) -> None:
        """Wait for a report that matters."""
        await trio.lowlevel.wait_readable(self._watches.fileno())
        while not self._is_hint():
            await trio.sleep(PAUSE)
            await trio.lowlevel.wait_readable(self._watches.fileno())

    def _is_hint(self) -> bool:
        if (reports := self._watches.take()) is None:
            return True
        matching = ((name, self._names.get(number)) for number, name in reports)
        return any(names and (not name or ANY in names or name in names) for name, names in matching)

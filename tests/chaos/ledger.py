"""The nemesis's own history: what it changes, and when that must be in force.  Knows subjects and versions only."""

from __future__ import annotations

import os
from collections import Counter

from chaos.history import Acked, Barred, Change, Line, Lost, Pen, now

__all__ = ["Ledger"]

FIRST_VERSION = 10  # 0 and 1 say that a hook is there or not
FILES = ("policy", "shell", "project")


class Ledger:
    """Writes down each change before it is made, and once it is acknowledged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._pen = Pen(path)
        self._count = 0
        self.versions = dict.fromkeys(FILES, FIRST_VERSION - 1)
        self.is_in: Counter[str] = Counter()  # of hooks that are put in and taken out
        self._whole: dict[str, str | None] = {}  # the change by which a file is whole, until it is acknowledged
        self._barred_since: int | None = None

    def write(self, line: Line) -> None:
        self._pen.write(line)

    def close(self) -> None:
        self._pen.close()

    def next_op(self) -> str:
        self._count += 1
        return f"nemesis-{self._count}"

    def begin(self, subject: str, value: int) -> str:
        """Note that somebody is about to make a change; give its name."""
        change = f"{subject}/{self.next_op()}"
        self.write(Change(change, subject, value, now()))
        return change

    def acked(self, change: str, revision: int | None) -> None:
        self.write(Acked(change, now(), revision))

    def lost(self, change: str) -> None:
        self.write(Lost(change, now()))

    # -- files -----------------------------------------------------------------------------------------------------

    def begin_version(self, subject: str) -> int:
        """Note that the next version of a file is about to be written; give its number."""
        version = self.versions[subject] = self.versions[subject] + 1
        self._whole[subject] = self.begin(subject, version)
        return version

    def spoiled(self, subject: str) -> None:
        """Note that a file holds no version any more."""
        self._whole[subject] = None

    def taken(self, subject: str, revision: int | None = None) -> None:
        """Note that what is in a file is in force, if it is whole."""
        if (change := self._whole.get(subject)) is not None:
            self.acked(change, revision)
            self._whole[subject] = None

    def started(self) -> None:
        """Note that a daemon is ready: what is in the files is in force, but for a project's, which wait for trust."""
        for subject in FILES:
            if subject != "project":
                self.taken(subject)

    def bar(self) -> None:
        """Note that the project's files are not those that were trusted."""
        if self._barred_since is None:
            self._barred_since = now()

    def unbar(self) -> None:
        """Note that they are about to be trusted: from here on they may be, whether or not anybody hears of it."""
        if self._barred_since is not None:
            self.write(Barred("project", self._barred_since, now()))
            self._barred_since = None

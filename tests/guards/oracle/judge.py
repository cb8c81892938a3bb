"""Holds a reader to what real shells ran: texts in, misses out, each as short as it can be.  Starts the sandboxes.

A text is run in each shell whose language it was accepted in.  One thread has one sandbox.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple

import msgspec

from guards.oracle.rule import READINGS, judged, read
from guards.oracle.sandbox import Built, Ran, Sandbox
from guards.oracle.voice import LANGUAGES, Voice

__all__ = ["Judge", "Miss", "Outcome"]

MAX_TRIES = 400  # texts that are run while one is made shorter


class Miss(msgspec.Struct, frozen=True):
    """A text that ran something which a reading of it does not show."""

    reading: str
    shell: str
    text: str
    ran: list[str]
    whole: str = ""  # what it was made shorter from


class Outcome(NamedTuple):
    """What came of a text: `counts` by reading and outcome, its first miss, and whether it ran anything."""

    text: str
    counts: Counter[tuple[str, str]]
    miss: Miss | None
    excused: Miss | None  # what only an unknown program or a file of the text excuses
    has_run: bool
    is_doubted: bool  # by the third voice


class Judge:
    """Judges texts, several at once."""

    def __init__(self, programs: Built, *, threads: int = 2, voice: Voice | None = None) -> None:
        self._voice = voice
        self._stack = contextlib.ExitStack()
        self._idle: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(threads)
        for _ in range(threads):
            self._idle.put(self._stack.enter_context(Sandbox(programs)))

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown()
        self._stack.close()

    def each(self, texts: Iterable[str], *, in_turn: bool = False) -> Iterator[Outcome]:
        """Judge texts, and yield what came of each in their order; `in_turn`: each by one reading alone."""
        names = itertools.cycle([(name,) for name in READINGS] if in_turn else [tuple(READINGS)])
        return self._pool.map(self.judge, texts, names)

    def judge(self, text: str, readings: Iterable[str] = READINGS) -> Outcome:
        counts: Counter[tuple[str, str]] = Counter()
        miss: Miss | None = None
        excused: Miss | None = None
        ran: dict[str, Ran] = {}
        is_doubted = False
        for name in readings:
            if (shown := read(name, text)) is None:
                counts[name, "refused"] += 1
                continue
            for shell in READINGS[name][1]:
                if shell not in ran:
                    ran[shell] = self.run(shell, text)
                words = ran[shell].words
                judgement = judged(words, shown)
                counts[name, judgement.outcome if words else "nothing ran"] += 1
                if judgement.hidden and not judgement.excused:
                    miss = miss or Miss(name, shell, text, written(judgement.hidden[0]))
                elif judgement.hidden:
                    excused = excused or Miss(name, shell, text, written(judgement.hidden[0]))
                if not words and self._voice is not None and name in LANGUAGES:
                    is_doubted = is_doubted or self._voice.hears_more(text, name, shown)
        return Outcome(text, counts, miss, excused, any(one.words for one in ran.values()), is_doubted)

    def run(self, shell: str, text: str) -> Ran:
        sandbox = self._idle.get()
        try:
            return sandbox.run(shell, text.encode("utf-8", "surrogateescape"))
        finally:
            self._idle.put(sandbox)

    def shorter(self, miss: Miss) -> Miss:
        """Return a miss of the same reading and shell from which nothing can be left out."""
        text, found, tries = miss.text, miss, 0
        size = max(1, len(text) // 2)
        while size and tries < MAX_TRIES:
            at = 0
            while at < len(text) and tries < MAX_TRIES:
                shorter = text[:at] + text[at + size :]
                words, is_tried = self._missed(miss, shorter)
                tries += is_tried
                if words:
                    text, found = shorter, Miss(miss.reading, miss.shell, shorter, words, miss.text)
                else:
                    at += size
            size = min(size // 2, len(text))
        return found

    def _missed(self, miss: Miss, text: str) -> tuple[list[str], bool]:
        """Return the words of a text that its reading misses, and whether it had to be run to tell."""
        shown = read(miss.reading, text)
        if shown is None or any(one.program is None for one in shown):
            return [], False
        found = judged(self.run(miss.shell, text).words, shown)
        return (written(found.hidden[0]) if found.outcome == "missed" else []), True


def written(words: Iterable[bytes]) -> list[str]:
    return [word.decode("utf-8", "backslashreplace") for word in words]

"""Bounds of the texts of one command: commands, words, texts within texts.  Knows words."""

from __future__ import annotations

from collections.abc import Sequence

from hooklatch.shelltext.words import GLOB, UnreadableCommandError, Word

__all__ = ["MAX_COMMANDS", "MAX_DEPTH", "MAX_GIVEN", "MAX_WORDS", "Work"]

MAX_DEPTH = 8  # of texts within texts: bash -c "bash -c …"
MAX_COMMANDS = 2000
# Words of all commands; those that several programs are given count for each.  A guard looks at each as a path, which
# takes some 50 us with the links on the way: so many take 0.1 s.
MAX_WORDS = 2000
OF_PATTERN = 16  # words that a pattern counts for: it is tried on all names that guards know
MAX_GIVEN = 32  # lines that xargs is given, each of which is tried in its place; more are unknown


class Work:
    """Counts what is read, and refuses what is more than guards can look at in time."""

    def __init__(self) -> None:
        self._commands = self._words = 0

    def count(self, words: Sequence[Word] = ()) -> None:
        """Note a command with these words."""
        self._commands += 1
        self._words += len(words) + OF_PATTERN * sum(GLOB.search(word.text) is not None for word in words)
        if self._commands > MAX_COMMANDS:
            raise UnreadableCommandError(f"it is too large to be read: it has more than {MAX_COMMANDS} commands")
        if self._words > MAX_WORDS:
            raise UnreadableCommandError(f"it is too large to be read: it has more than {MAX_WORDS} words")

    @property
    def is_over(self) -> bool:
        """Return whether it has refused something."""
        return self._commands > MAX_COMMANDS or self._words > MAX_WORDS

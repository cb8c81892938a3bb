"""One command of a shell text, as guards see it: its words, and where it runs."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from hooklatch.shelltext.option_reader import Options, list_option_values, parse_options
from hooklatch.shelltext.option_syntax import ANY, SYNTAX
from hooklatch.shelltext.words import UnreadableCommandError, Word

__all__ = ["Command", "Places", "Redirect", "UnreadableCommandError"]

Places: TypeAlias = tuple[str | None, ...]


class Redirect(msgspec.Struct, frozen=True):
    """One redirection: its operator, such as `>` or `<<<`, and the file or text."""

    operator: str
    target: Word


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command that a text would run.

    `program` is the name without its folder, None if it is decided only when it runs; `arguments` are the words after
    it.  `within` are the programs that run it, outermost first: `("sudo", "xargs")`.  `fed_by` is the program whose
    output it reads in a pipe, "?" if that is unknown, or "<" for a file or text; `sources` are all programs of the
    pipe before it.  `given` is what it reads, from there or from a file that the same text has written: exactly, or
    what is known of it.  `places` are the folders that it may run in after each `cd`, relative to where the text
    begins; None stands for one that is decided only when it runs.
    """

    program: str | None
    arguments: tuple[Word, ...] = ()
    within: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    fed_by: str | None = None
    given: Word | None = None
    sources: tuple[str, ...] = ()
    text: str = ""
    places: Places = ("",)

    def folders(self, begin: str) -> list[str | None]:
        """Return the folders that it may run in, if the text begins in this one; None for one that is unknown."""
        return [place if place is None else os.path.join(begin, os.path.expanduser(place)) for place in self.places]

    def list_givers(self, script: Sequence[Command]) -> list[Command]:
        """Return the commands of a script that may print what xargs gives this one: those before it, or any of them."""
        if self.fed_by == "<":  # a file, which each of them may have written
            return [*script]
        return list(itertools.takewhile(lambda earlier: earlier is not self, script))

    @property
    def is_known(self) -> bool:
        """True if its program and all its words are known now."""
        return self.program is not None and all(word.is_known for word in self.arguments)

    def has_option(self, *names: str) -> bool:
        """Return whether one of these options is among its arguments: `-r` is in `-rf`, `--force` in `--force=x`."""
        return self.options.has(*names)

    def values_of(self, *names: str) -> Iterator[Word]:
        """Yield the values of these options, in each way of writing them: -o x, -ox, -so x, --output x, --out=x."""
        yield from list_option_values(self.arguments, names, SYNTAX.get(self.program or ""))

    @property
    def operands(self) -> tuple[Word, ...]:
        """The arguments that are not options or their values, or may not be, if no table has the program."""
        return tuple(self.options.operands)

    @property
    def options(self) -> Options:
        """Its options and operands, as the program reads them, or as far as they show if no table has the program."""
        return parse_options(self.arguments, SYNTAX.get(self.program or "", ANY))

"""The rule that a reader of shell texts is held to: each argv that ran is shown, or the text was refused.

An argv is shown by the program with its words, where an unknown word stands for any, or by a program that is unknown.
Texts are read by `hooklatch.shelltext.commands` as they are, for bash; and as what a shell is given by `-c`, for
others.
Knows no sandbox.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from guards.oracle.sandbox import CUT
from guards.oracle.texts import Shape
from hooklatch.guards import Command, UnreadableCommandError, Word, commands

__all__ = ["READINGS", "Judgement", "Reading", "hides", "judged", "read"]

Reading: TypeAlias = Callable[[str], list[Command]]
HOME = "/w"  # in the sandbox
TILDE = re.compile(r"(^|[=:])~(?=[/:]|$)")
SHELLS = frozenset({"sh", "bash", "dash", ".", "source"})
GLOB = re.compile(r"[*?\[]")


def given_to(shell: str) -> Reading:
    return lambda text: commands(f"{shell} -c {shlex.quote(text)}")


# How a text is read, and the shells whose language that is: nobody knows which one `sh` is.
READINGS: dict[str, tuple[Reading, tuple[str, ...]]] = {
    "bash": (commands, ("bash",)),
    "dash -c": (given_to("dash"), ("dash",)),
    "bash --posix -c": (given_to("bash --posix"), ("posix",)),
    "sh -c": (given_to("sh"), ("dash", "posix")),
}


class Judgement(NamedTuple):
    """What ran and is not shown; it is missed, unless something excuses it."""

    hidden: list[list[bytes]]
    excused: str = ""  # by what alone: "unknown program", or "own file"

    @property
    def outcome(self) -> str:
        return self.excused or ("missed" if self.hidden else "shown")


def read(name: str, text: str) -> list[Command] | None:
    """Return what a reading shows; None if it refuses the text."""
    try:
        return READINGS[name][0](text)
    except UnreadableCommandError:
        return None


def judged(ran: Iterable[Sequence[bytes]], shown: Sequence[Command]) -> Judgement:
    """Compare what ran with what a reader has shown."""
    hidden = [list(words) for words in ran if not any(shows(one, words) for one in shown)]
    if hidden and any(one.program is None for one in shown):
        return Judgement(hidden, "unknown program")
    if hidden and runs_its_file(shown):
        return Judgement(hidden, "own file")
    return Judgement(hidden)


def runs_its_file(shown: Sequence[Command]) -> bool:
    """Return whether a shell is shown that runs a file of the text: what is in it, no reader of words says."""
    written = {name_in(one.target) for command in shown for one in command.redirects if ">" in one.operator}
    return any(name_in(word) in written for one in shown if one.program in SHELLS for word in one.arguments)


def name_in(word: Word) -> str:
    return word.text.rpartition("/")[2]


def hides(shape: Shape) -> list[str]:
    """Return the readings that take a shape, and show neither what it hides nor an unknown program."""
    argv = [word.encode() for word in shape.hides]
    names = [name for name, (_, shells) in READINGS.items() if set(shells) & set(shape.shells or ("bash",))]
    taken = [(name, shown) for name in names if (shown := read(name, shape.text)) is not None]
    return [name for name, shown in taken if not any(one.program is None or shows(one, argv) for one in shown)]


def shows(one: Command, words: Sequence[bytes]) -> bool:
    """Return whether a command is the one that ran."""
    if one.program is None or not words or encoded(one.program) != words[0].rpartition(b"/")[2]:
        return False

    places = {1}  # among the words that ran, where the next word of the command may stand
    for word in one.arguments:
        if not word.is_known:
            places = set(range(min(places, default=len(words) + 1), len(words) + 1))
        else:
            places = {after for place in places for after in behind(word, words, place)}
    return len(words) in places or any(words[place] == CUT for place in places if place < len(words))


def behind(word: Word, words: Sequence[bytes], place: int) -> Iterator[int]:
    """Yield where what a known word becomes may end: a pattern of files becomes one word or more."""
    while place < len(words) and words[place] != CUT and is_one(word, words[place]):
        place += 1
        yield place
        if GLOB.search(word.text) is None:
            return
    if place < len(words) and words[place] == CUT:
        yield place


def is_one(word: Word, ran: bytes) -> bool:
    if encoded(word.text) == ran:
        return True
    at_home = TILDE.sub(rf"\1{HOME}", word.text)
    if encoded(at_home) == ran:
        return True
    return GLOB.search(word.text) is not None and fnmatch.fnmatchcase(ran.decode("utf-8", "surrogateescape"), at_home)


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

"""The options among the words of a command: clusters, long ones cut short, values, `--`.  Knows words and one table."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hooklatch.guards.options.syntax import Syntax
from hooklatch.guards.words import Word

__all__ = ["Option", "Options", "list_option_values", "parse_options"]


class Option(NamedTuple):
    """One option: as it is written, what long ones it may mean, and its value, if it may have one."""

    name: str
    meanings: frozenset[str]
    value: Word | None = None

    def may_be(self, name: str) -> bool:
        """Return whether it may be the option of this name."""
        if self.name == name or name in self.meanings:
            return True
        return (
            not self.meanings
            and len(self.name) > 2
            and self.name[:2] == "--" == name[:2]
            and name.startswith(self.name)
        )


class Options(NamedTuple):
    """The options of a command, and its other words."""

    options: list[Option]
    operands: list[Word]

    def has(self, *names: str) -> bool:
        """Return whether one of these may be among the options, cut short or not."""
        return any(option.may_be(name) for option in self.options for name in names)


class Asked:
    """A command's words, which are the same only if they are the same object: nobody compares thousands of words."""

    __slots__ = ("how", "words")

    def __init__(self, words: Sequence[Word], how: Syntax) -> None:
        self.words, self.how = words, how

    def __hash__(self) -> int:
        return id(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and other.words is self.words and other.how is self.how


@functools.lru_cache(maxsize=4)  # a guard asks of one command after the other, and of each many times
def parsed_once(asked: Asked) -> Options:
    return read_options(asked.words, asked.how)


def parse_options(words: Sequence[Word], how: Syntax) -> Options:
    """Return the options among words, and the operands, as `read_options` does; of a command's own, once."""
    return parsed_once(Asked(words, how)) if isinstance(words, tuple) else read_options(words, how)


def read_options(words: Sequence[Word], how: Syntax) -> Options:
    """Return the options among words, and the operands: each way of writing them, clusters, cut short, behind `--`.

    Where nobody knows whether an option takes the next word, that word is read as its value and by itself; of a program
    that no table has, so is each.
    """
    options: list[Option] = []
    operands: list[Word] = []
    is_over = False
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        at += 1
        following = words[at] if at < len(words) else None
        if text == "--" and not is_over:
            is_over = True
            continue
        is_operand = is_over or text[:1] != "-" or len(text) < 2
        if is_operand:
            operands.append(word)
        if is_over and how.is_whole:
            continue
        if how.is_old and at == 1 and text[:1] not in ("-", "", "/", ".") and word.is_known:
            operands.pop()
            for letter in text:  # each takes a word of its own
                is_valued = f"-{letter}" in how.valued and at < len(words)
                options.append(Option(f"-{letter}", frozenset(), words[at] if is_valued else None))
                at += is_valued
        elif text in how.valued and len(text) > 2:  # -connect of openssl, and whole long ones
            options.append(Option(text, frozenset({text}), following))
            at += how.is_whole
        elif text.startswith("--"):
            name, mark, value = text.partition("=")
            meanings = how.meant_by(name)
            takes = not meanings or not meanings.isdisjoint(how.valued)
            options.append(Option(name, meanings, Word(value, word.is_known) if mark else following if takes else None))
            at += bool(not mark and meanings and meanings <= how.valued and how.is_whole)
        elif text.startswith("-") and len(text) > 1:
            found, is_open = parse_cluster(word, how)
            if is_open and following is not None:
                found[-1] = found[-1]._replace(value=following)
                at += how.is_whole
            options += found
    return Options(options, operands)


def parse_cluster(word: Word, how: Syntax) -> tuple[list[Option], bool]:
    """Return the options in a word of letters, and whether the last one takes the next word."""
    found: list[Option] = []
    text = word.text
    for at in range(1, len(text)):
        if not text[at].isalnum():
            break
        name, rest = f"-{text[at]}", Word(text[at + 1 :], word.is_known)
        if name in how.valued or name in how.optional:
            is_open = not rest.text and name in how.valued
            return [*found, Option(name, frozenset(), rest if rest.text else None)], is_open
        found.append(Option(name, frozenset()))
    return found, False


def list_option_values(words: Sequence[Word], names: Iterable[str], how: Syntax | None = None) -> Iterator[Word]:
    """Yield the values of options, in each way of writing them: -o x, -ox, -so x, --output x, --out=x."""
    if not (named := frozenset(names)):
        return
    how = how or Syntax(valued=named)
    for option in parse_options(words, how).options:
        if option.value is not None and not named.isdisjoint((option.name, *option.meanings)):
            yield option.value

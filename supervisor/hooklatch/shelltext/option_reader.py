"""Parser of the options among the words of a command: clusters, long options cut short, values, `--`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hooklatch.shelltext.option_syntax import Syntax
from hooklatch.shelltext.words import Word

__all__ = ["Option", "Options", "list_option_values", "parse_options"]


class Option(NamedTuple):
    """One option: its name as it is written, the long options that it may mean, and its value, if it may have one."""

    name: str
    meanings: frozenset[str]
    value: Word | None = None

    def may_be(self, name: str) -> bool:
        """Return whether it may be the option of this name, of which it may have only the beginning."""
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
        """Return whether one of these names may be among the options, cut short or not."""
        return any(option.may_be(name) for option in self.options for name in names)


class CommandWords:
    """The words of a command with their syntax, equal only to themselves: comparing thousands of words costs more."""

    __slots__ = ("syntax", "words")

    def __init__(self, words: Sequence[Word], syntax: Syntax) -> None:
        self.words, self.syntax = words, syntax

    def __hash__(self) -> int:
        return id(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandWords) and other.words is self.words and other.syntax is self.syntax


@functools.lru_cache(maxsize=4)  # a guard asks about one command after the other, and about each many times
def parse_once(command_words: CommandWords) -> Options:
    """Return the options of a command that was asked about just now, or parse them."""
    return read_options(command_words.words, command_words.syntax)


def parse_options(words: Sequence[Word], syntax: Syntax) -> Options:
    """Return the options among words, and the operands, as `read_options` does; of a command's own words, once."""
    return parse_once(CommandWords(words, syntax)) if isinstance(words, tuple) else read_options(words, syntax)


def read_options(words: Sequence[Word], syntax: Syntax) -> Options:
    """Return the options among words, and the operands: each way of writing them, clusters, cut short, behind `--`.

    Where it is unknown whether an option takes the next word, that word is read as its value and by itself.  This holds
    for each option of a program that no table has.
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
        # Without a whole table `--` may be the value of an option, so the words behind it may be options too.
        if is_over and syntax.is_whole:
            continue
        if syntax.is_old and at == 1 and text[:1] not in ("-", "", "/", ".") and word.is_known:
            operands.pop()
            for letter in text:  # each takes a word of its own
                is_valued = f"-{letter}" in syntax.valued and at < len(words)
                options.append(Option(f"-{letter}", frozenset(), words[at] if is_valued else None))
                at += is_valued
        elif text in syntax.valued and len(text) > 2:  # -connect of openssl, and whole long ones
            options.append(Option(text, frozenset({text}), following))
            at += syntax.is_whole
        elif text.startswith("--"):
            name, mark, value = text.partition("=")
            meanings = syntax.meant_by(name)
            takes = not meanings or not meanings.isdisjoint(syntax.valued)
            options.append(Option(name, meanings, Word(value, word.is_known) if mark else following if takes else None))
            at += bool(not mark and meanings and meanings <= syntax.valued and syntax.is_whole)
        elif text.startswith("-") and len(text) > 1:
            found, is_open = parse_cluster(word, syntax)
            if is_open and following is not None:
                found[-1] = found[-1]._replace(value=following)
                at += syntax.is_whole
            options += found
    return Options(options, operands)


def parse_cluster(word: Word, syntax: Syntax) -> tuple[list[Option], bool]:
    """Return the options in a word of letters, and whether the last one takes the next word."""
    options: list[Option] = []
    text = word.text
    for at in range(1, len(text)):
        if not text[at].isalnum():
            break
        name, remainder = f"-{text[at]}", Word(text[at + 1 :], word.is_known)
        if name in syntax.valued or name in syntax.optional:
            is_open = not remainder.text and name in syntax.valued
            return [*options, Option(name, frozenset(), remainder if remainder.text else None)], is_open
        options.append(Option(name, frozenset()))
    return options, False


def list_option_values(words: Sequence[Word], names: Iterable[str], syntax: Syntax | None = None) -> Iterator[Word]:
    """Yield the values of options, in each way of writing them: -o x, -ox, -so x, --output x, --out=x."""
    if not (wanted_names := frozenset(names)):
        return
    syntax = syntax or Syntax(valued=wanted_names)
    for option in parse_options(words, syntax).options:
        if option.value is not None and not wanted_names.isdisjoint((option.name, *option.meanings)):
            yield option.value

"""Options of programs: where they end, what takes the next word, and the values of some.  Knows words; no program.

Long options may be cut short, as GNU programs take them.  Of an option that no table has, both readings are followed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from hooklatch.guards.reading.programs import FLAGS, Wrapper
from hooklatch.guards.reading.syntax import Syntax
from hooklatch.guards.words import Word

__all__ = ["Option", "after_options", "begins_of", "option_values", "parsed", "skip_options", "takes_next"]

MAX_BEGINS = 8  # places where a command may begin; beyond that nobody knows


def takes_next(text: str, valued: Container[str]) -> bool:
    """Return whether an option takes the next word: -u does, and so does -nu; -un has its value already."""
    if text in valued:
        return True
    if text[:1] not in ("-", "+") or text.startswith("--"):
        return False
    return next((at for at in range(1, len(text)) if text[0] + text[at] in valued), 0) == len(text) - 1 > 0


def skip_options(words: Sequence[Word], told: Wrapper) -> int:
    """Return where the options of a program end, if each is one of its own and none is cut short."""
    return begins_of(words, told._replace(before=0))[0][0]


def after_options(words: Sequence[Word], told: Wrapper) -> Sequence[Word]:
    """Return what follows the options of a program, as `skip_options` reads them, and the words before the command."""
    return words[begins_of(words, told)[0][0] :]


def begins_of(words: Sequence[Word], told: Wrapper) -> tuple[list[int], bool]:
    """Return where the command of a program that runs others may begin, and whether it may be elsewhere, too.

    The first place is that of the plain reading.  Behind a word that may be none or several, nobody knows.
    """
    found: list[int] = []
    is_lost = False
    for begin, is_open in ends_of(words, 0, told):
        is_lost = is_lost or is_open
        if not told.before:
            found.append(begin)
            continue
        end = min(begin + told.before, len(words))
        is_lost = is_lost or any(not word.is_one for word in words[begin:end])
        for other, is_other_open in ends_of(words, end, told):  # ssh takes its own behind the host, too
            found.append(other)
            is_lost = is_lost or is_other_open
    unique = list(dict.fromkeys(found))
    return unique[:MAX_BEGINS], is_lost or len(unique) > MAX_BEGINS


def ends_of(words: Sequence[Word], begin: int, told: Wrapper) -> list[tuple[int, bool]]:
    """Return where options may end that begin here, the plain reading first, and whether words before are unknown."""
    found: list[tuple[int, bool]] = []
    waiting, seen = [begin], {begin}
    is_lost = False
    while waiting:
        at = waiting.pop()
        if at >= len(words):
            found.append((len(words), is_lost))
            continue
        word = words[at]
        text = word.text
        following: list[int] = []
        if text == "--":
            at += 1
            while told.assigns and at < len(words) and "=" in words[at].text:
                at += 1
            found.append((at, is_lost))
        elif told.assigns and "=" in text and not text.startswith("-"):
            following = [at + 1]
        elif text.startswith("-") and (len(text) > 1 or told.assigns):  # `env -` is `env -i`
            is_lost = is_lost or not word.is_one
            following = [at + 2 if takes else at + 1 for takes in takings(text, told)]
        else:
            found.append((at, is_lost or not word.is_one))
        for other in following:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
        if len(found) > MAX_BEGINS:
            return [*found, (len(words), True)]
    return found


def takings(text: str, told: Wrapper) -> tuple[bool, ...]:
    """Return whether an option takes the next word: both, where nobody knows; the likely one comes last."""
    valued = told.valued | told.script
    if not text.startswith("--") or "=" in text:
        return (takes_next(text, valued),)
    if text in valued:
        return (True,)
    if text in FLAGS:
        return (False,)
    if any(name.startswith(text) for name in valued):
        return (False, True)
    return (False,) if any(name.startswith(text) for name in FLAGS) else (True, False)


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


def parsed(words: Sequence[Word], how: Syntax) -> tuple[list[Option], list[Word]]:
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
            found, is_open = cluster(word, how)
            if is_open and following is not None:
                found[-1] = found[-1]._replace(value=following)
                at += how.is_whole
            options += found
    return options, operands


def cluster(word: Word, how: Syntax) -> tuple[list[Option], bool]:
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


def option_values(words: Sequence[Word], names: Iterable[str], how: Syntax | None = None) -> Iterator[Word]:
    """Yield the values of options, in each way of writing them: -o x, -ox, -so x, --output x, --out=x."""
    if not (named := frozenset(names)):
        return
    how = how or Syntax(valued=named)
    for option in parsed(words, how)[0]:
        if option.value is not None and not named.isdisjoint((option.name, *option.meanings)):
            yield option.value

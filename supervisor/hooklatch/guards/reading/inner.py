"""What a command runs besides itself, by its words: those after sudo, xargs, find -exec.  Parses no shell text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hooklatch.guards.options.reader import option_values
from hooklatch.guards.reading.options import after_options, begins_of, skip_options
from hooklatch.guards.reading.programs import JOINED, PACKAGED, RUNNERS, WRAPPERS, Wrapper
from hooklatch.guards.reading.unknown import words_of_others
from hooklatch.guards.words import Word

__all__ = [
    "GIT",
    "PLAIN",
    "git_verb",
    "hears",
    "inner_words",
    "name_of",
    "parallel_parts",
    "replaced_by_xargs",
]

EXECUTING = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "fdfind": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
}
PLAIN = re.compile(r"[\w./=:@%+,{}-]+")  # a word that means to a shell what it says
OF_ENV = re.compile(r"[\w./=:@%+,~ -]*")  # a text of `env -S` that has nothing but words
OF_PACKAGE = re.compile(r"(?<=[^@/])@[^/@]*\Z")
SPLITTING = frozenset({"-S", "--split-string"})
GIT = Wrapper(
    frozenset(
        {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--super-prefix"}
    )
)
UNKNOWN = Word("a word that may be none or several", False)
MAX_LOST = 8  # places that are tried where nobody knows at which word a command begins


def name_of(word: Word) -> str | None:
    """Return a program's name without its folder; None if it is decided only when it runs."""
    if word.text == "[":
        return "["
    if not word.is_known or any(one in word.text for one in "*?["):
        return None
    return word.text.rpartition("/")[2].lstrip("=")  # to zsh =rm is the path of rm


def inner_words(name: str, words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the commands that a program is told to run by words."""
    if name == "parallel":
        template, values = parallel_parts(words)
        if values is None and template and all(map(PLAIN.fullmatch, (word.text for word in template))):
            yield template
    elif (told := WRAPPERS.get(name)) is not None:
        yield from map(packaged if name in PACKAGED else list, wrapped(name, words, told))
    elif (verbs := RUNNERS.get(name)) is not None:
        rest = after_options(words, Wrapper())
        if rest and rest[0].text in verbs:
            yield from map(packaged if name in PACKAGED else list, after_any_options(rest[1:]))
    elif name == "git":
        verb, rest = git_verb(words)
        if verb == "bisect" and rest and rest[0].text == "run":
            yield rest[1:]
    elif (executing := EXECUTING.get(name)) is not None:
        for at, word in enumerate(words):
            if word.text in executing:
                yield until_end(words[at + 1 :])
    yield from words_of_others(name, words)


def wrapped(name: str, words: Sequence[Word], told: Wrapper) -> Iterator[Sequence[Word]]:
    """Yield what a program runs that stands behind its options; more than once where nobody knows where that begins."""
    begins, is_lost = begins_of(words, told)
    if is_lost:
        yield [UNKNOWN]
        first = next((at for at, word in enumerate(words) if not word.is_one), 0)
        plain = [at for at in range(first + 1, len(words)) if at not in begins and words[at].text[:1] != "-"]
        yield from (words[at:] for at in plain[:MAX_LOST])
    for begin in begins:
        if name == "env" and (split := next(option_values(words[:begin], SPLITTING), None)) is not None:
            # Its words stand before the others, and may be options.
            known = split.is_known and OF_ENV.fullmatch(split.text) is not None
            yield [Word("env"), *map(Word, split.text.split()), *words[begin:]] if known else [UNKNOWN]
        else:
            yield words[begin:]


def packaged(words: Sequence[Word]) -> list[Word]:
    """Return a command that a package is run as, whose name may have a version: rimraf@5."""
    return [words[0]._replace(text=OF_PACKAGE.sub("", words[0].text)), *words[1:]] if words else []


def until_end(words: Sequence[Word]) -> list[Word]:
    found: list[Word] = []
    for word in words:
        if word.text == ";" or (word.text == "+" and found and found[-1].text == "{}"):
            break
        found.append(Word(word.text, word.is_known and "{}" not in word.text))
    return found


def after_any_options(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what may follow the options of a program of which nobody knows which ones take a value."""
    for at, word in enumerate(words):
        if word.text == "--":
            yield words[at + 1 :]
            return
        if not word.text.startswith("-"):
            yield words[at:]
            if not at or not words[at - 1].text.startswith("-"):
                return


def git_verb(words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    rest = after_options(words, GIT)
    return (rest[0].text, rest[1:]) if rest else ("", ())


def hears(name: str, words: Sequence[Word]) -> bool:
    """Return whether a program reads a password before what it runs reads the rest: sudo -S."""
    if name not in ("sudo", "doas"):
        return False
    own = words[: skip_options(words, WRAPPERS[name])]
    return any(re.match(r"-[A-Za-z]*S|--stdin|--st?d?i?\Z", word.text) for word in own)


def parallel_parts(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word] | None]:
    """Return the words that parallel runs, and the values for each run; None if it reads those."""
    rest = after_options(words, JOINED["parallel"])
    at = next((at for at, word in enumerate(rest) if word.text.startswith(":::")), None)
    return (rest, None) if at is None else (rest[:at], rest[at + 1 :])


def replaced_by_xargs(words: Sequence[Word]) -> str | None:
    """Return what xargs replaces in its words by what it reads; None if it puts that behind them."""
    own = words[: skip_options(words, WRAPPERS["xargs"])]
    named = next(option_values(own, frozenset({"-I", "-J"})), None)
    if named is not None:
        return named.text
    short = [re.fullmatch(r"(?:-[a-zA-Z0-9]*?i|--replace=?)(.*)", word.text) for word in own]
    return next((one[1] or "{}" for one in short if one is not None), None)

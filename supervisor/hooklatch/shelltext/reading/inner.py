"""Commands that another runs, by its words: those after sudo, xargs, find -exec.  Parses no shell text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hooklatch.shelltext.option_reader import list_option_values
from hooklatch.shelltext.reading.options import find_command_starts, skip_options, skip_to_operands, takes_next
from hooklatch.shelltext.reading.programs import JOINED, PACKAGED, RUNNERS, WRAPPERS, RunnerOptions, normalize_program
from hooklatch.shelltext.reading.unknown import list_possible_commands
from hooklatch.shelltext.words import Word

__all__ = [
    "GIT", "PLAIN", "split_git_verb", "reads_password_first", "list_inner_commands", "name_of",
    "split_parallel", "find_xargs_mark",
]  # fmt: skip

EXECUTING = {
    "find": frozenset({"-exec", "-execdir", "-ok", "-okdir"}),
    "fd": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
    "fdfind": frozenset({"-x", "-X", "--exec", "--exec-batch"}),
}
OF_CMAKE = {  # commands of `cmake -E`, and programs that do the same
    "rm": ["rm"], "remove": ["rm"], "remove_directory": ["rm", "-r"], "copy": ["cp"], "copy_directory": ["cp", "-r"],
    "copy_if_different": ["cp"], "rename": ["mv"], "touch": ["touch"], "make_directory": ["mkdir"], "tar": ["tar"],
    "create_symlink": ["ln", "-s"], "create_hardlink": ["ln"], "cat": ["cat"],
}  # fmt: skip
IN_CAPITALS = {"R": "R", "rscript": "Rscript"}  # by how they may be written; `r` is another one
# What a shell has itself, and a program of that name has not: `CD /` moves nowhere.
OF_SHELLS = frozenset({
    "cd", "chdir", "pushd", "popd", "set", "unset", "shift", "export", "declare", "local", "typeset", "readonly",
    "alias", "unalias", "eval", "exec", "source", "trap", "enable", "builtin", "shopt", "return", "exit", "break",
    "continue",
})  # fmt: skip
PLAIN = re.compile(r"[\w./=:@%+,{}-]+")  # a word that means to a shell what it says
OF_ENV = re.compile(r"[\w./=:@%+,~ -]*")  # a text of `env -S` that has nothing but words
OF_PACKAGE = re.compile(r"(?<=[^@/])@[^/@]*\Z")
OF_SPLITTING = re.compile(r"(?s)(?:-[iv0]*S|--s(?:plit-string|plit-s?\w*|p?l?i?t?)(?:=|\Z))(.*)")
GIT = RunnerOptions(
    frozenset(
        {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--super-prefix"}
    )
)
UNKNOWN = Word("a word that may be none or several", False)
MAX_LOST = 8  # places that are tried where it is unknown at which word a command begins


def name_of(word: Word) -> str | None:
    """Return a program's name without its folder, in small letters; None if it is decided only when it runs."""
    if word.text == "[":
        return "["
    if not word.is_known or any(mark in word.text for mark in "*?["):
        return None
    name = word.text.rpartition("/")[2].lstrip("=")
    folded = normalize_program(name)
    return name if folded in OF_SHELLS else IN_CAPITALS.get(name) or IN_CAPITALS.get(folded, folded)


def list_inner_commands(name: str, words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the commands that a program is told to run by words."""
    if name == "parallel":
        template, values = split_parallel(words)
        if values is None and template and all(map(PLAIN.fullmatch, (word.text for word in template))):
            yield template
    elif (options := WRAPPERS.get(name)) is not None:
        yield from map(strip_package_version if name in PACKAGED else list, list_wrapped_commands(name, words, options))
    elif (verbs := RUNNERS.get(name)) is not None:
        rest = skip_to_operands(words, RunnerOptions())
        if rest and rest[0].text in verbs:
            own = list(rest[:1]) if rest[0].text == "unshare" else []  # a program of that name does the same
            for run in list_possible_rests(rest[1:]):
                yield strip_package_version(run) if name in PACKAGED else [*own, *run]
    elif name == "git":
        verb, rest = split_git_verb(words)
        if verb == "bisect" and rest and rest[0].text == "run":
            yield rest[1:]
    elif name == "cmake":
        yield from list_cmake_commands(words)
    elif (executing := EXECUTING.get(name)) is not None:
        for at, word in enumerate(words):
            if word.text in executing:
                yield cut_at_end(words[at + 1 :])
    yield from list_possible_commands(name, words)


def list_cmake_commands(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what `cmake -E` runs, or does itself as programs of other names do."""
    at = next((at for at, word in enumerate(words) if word.text == "-E"), None)
    verb, *rest = words[at + 1 :] if at is not None else [Word("")]
    if verb.text in OF_CMAKE:
        yield [*map(Word, OF_CMAKE[verb.text]), *rest]
    elif verb.text in ("env", "time"):
        yield [verb, *rest]
    elif verb.text == "chdir":
        yield [Word("env"), Word("-C"), *rest]


def list_wrapped_commands(name: str, words: Sequence[Word], options: RunnerOptions) -> Iterator[Sequence[Word]]:
    """Yield what a program runs that stands behind its options; more than once where its start is unknown."""
    begins, is_lost = find_command_starts(words, options)
    if is_lost:
        yield [UNKNOWN]
        first = next((at for at, word in enumerate(words) if not word.is_one), 0)
        plain = [at for at in range(first + 1, len(words)) if at not in begins and words[at].text[:1] != "-"]
        yield from (words[at:] for at in plain[:MAX_LOST])
    for begin in begins:
        if name == "env" and (split := split_words(words[:begin], options)) is not None:
            yield [*split, *words[begin:]]
        else:
            yield words[begin:]


def split_words(words: Sequence[Word], options: RunnerOptions) -> list[Word] | None:
    """Return the words of env with those of `-S` in its place: all behind it are theirs, options too; None without."""
    is_value = False
    for at, word in enumerate(words):
        found = None if is_value else OF_SPLITTING.match(word.text)
        is_value = not is_value and takes_next(word.text, options.valued)
        if found is None:
            continue
        text = found[1] or "".join(other.text for other in words[at + 1 : at + 2])
        rest = words[at + 1 if found[1] else at + 2 :]
        is_known = all(other.is_known for other in words[at : at + 2]) and OF_ENV.fullmatch(text) is not None
        return [Word("env"), *words[:at], *map(Word, text.split()), *rest] if is_known else [UNKNOWN]
    return None


def strip_package_version(words: Sequence[Word]) -> list[Word]:
    """Return a command that a package is run as, whose name may have a version: rimraf@5."""
    return [words[0]._replace(text=OF_PACKAGE.sub("", words[0].text)), *words[1:]] if words else []


def cut_at_end(words: Sequence[Word]) -> list[Word]:
    found: list[Word] = []
    for word in words:
        if word.text == ";" or (word.text == "+" and found and found[-1].text == "{}"):
            break
        found.append(Word(word.text, word.is_known and "{}" not in word.text))
    return found


def list_possible_rests(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what may follow the options of a program of which it is unknown which ones take a value."""
    for at, word in enumerate(words):
        if word.text == "--":
            yield words[at + 1 :]
            return
        if not word.text.startswith("-"):
            yield words[at:]
            if not at or not words[at - 1].text.startswith("-"):
                return


def split_git_verb(words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    rest = skip_to_operands(words, GIT)
    return (rest[0].text, rest[1:]) if rest else ("", ())


def reads_password_first(name: str, words: Sequence[Word]) -> bool:
    """Return whether a program reads a password before what it runs reads the rest: sudo -S."""
    if name not in ("sudo", "doas"):
        return False
    own = words[: skip_options(words, WRAPPERS[name])]
    return any(re.match(r"-[A-Za-z]*S|--stdin|--st?d?i?\Z", word.text) for word in own)


def split_parallel(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word] | None]:
    """Return the words that parallel runs, and the values for each run; None if it reads those."""
    rest = skip_to_operands(words, JOINED["parallel"])
    at = next((at for at, word in enumerate(rest) if word.text.startswith(":::")), None)
    return (rest, None) if at is None else (rest[:at], rest[at + 1 :])


def find_xargs_mark(words: Sequence[Word]) -> str | None:
    """Return what xargs replaces in its words by what it reads; None if it puts that behind them."""
    own = words[: skip_options(words, WRAPPERS["xargs"])]
    named = next(list_option_values(own, frozenset({"-I", "-J"})), None)
    if named is not None:
        return named.text
    short = [re.fullmatch(r"(?:-[a-zA-Z0-9]*?i|--replace=?)(.*)", word.text) for word in own]
    return next((match[1] or "{}" for match in short if match is not None), None)

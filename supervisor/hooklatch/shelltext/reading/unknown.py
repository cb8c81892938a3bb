"""Possible commands of a program no table has: each of its words that names a program which guards are for, and texts.

No table has all the programs that run what their words say: direnv exec, op run, npm explore x --, a script of one's
own.  Knows the tables of programs; parses no shell text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hooklatch.shelltext.reading.programs import (
    GUARDED,
    JOINED,
    RUN,
    RUNNERS,
    SCRIPTED,
    SILENT,
    SPEAKING,
    TELLING,
    TEXTS,
    WRAPPERS,
)
from hooklatch.shelltext.words import GLOB, Word

__all__ = ["find_first_run_word", "find_run_program", "list_possible_scripts", "list_possible_commands"]

OF_PACKAGE: Final = re.compile(r"\A(?:npm|jsr):|(?<=\w)@[^/@]*\Z")  # a program as a package: npm:rimraf@5
MAX_BEGINS: Final = 8  # words of one command that are judged as if they ran there
KNOWN: Final = frozenset({*WRAPPERS, *JOINED, *SCRIPTED, *TEXTS, *SPEAKING}) - {"tmux"}  # which takes words, too
LATER: Final = Word("one of many words that name a program", False)
# Programs that run the command behind a word of theirs, and nothing else.  What stands before it may be a folder, a
# flake or a profile that is called as a program is: direnv exec echo rm, nix develop git -c rm.
RUN_BEHIND: Final[Mapping[str, frozenset[str]]] = {
    "nix": frozenset({"-c", "--command"}),
    **dict.fromkeys(("op", "doppler", "dotenvx", "infisical", "chamber", "aws-vault"), frozenset({"--"})),
}
# In a text, these are words of English, too.
ENGLISH: Final = frozenset(
    {"find", "kill", "touch", "command", "env", "node", "tee", "su", "halt", "reboot", "shutdown"}
)
# Programs that have ways to a shell in languages of their own, and those ways.
ESCAPING: Final = frozenset({
    "vim", "vi", "nvim", "view", "ex", "ed", "less", "more", "man", "gdb", "lldb", "sqlite3", "psql", "mysql",
    "mariadb", "ftp", "sftp", "mutt", "nano", "emacs", "expect",
})  # fmt: skip
ESCAPE: Final = re.compile(
    r"(?m)(?:(?:\A|[\s+:\\])!(?!=)|(?:\A|\s)(?:\.shell|\.system|\\!|shell|system|spawn)\s)[ \t]*([^\n]+)"
)
VALUE_BEHIND: Final = re.compile(r"\A(?:-+[\w-]+=|-[A-Za-z](?=[\w./]+\s))")  # of --cmd='…' and -c'…'
A_COMMAND: Final = re.compile(
    r"(?:\A|[;&|(`\n]|\b(?:then|do|exec|sudo)\s)\s*(?:[\w.~-]*/)*(?:"
    + "|".join(sorted(map(re.escape, GUARDED - ENGLISH), key=len, reverse=True))
    + r")\s+\S|(?:\A|[;&|(`\n])\s*(?:[\w.~-]*/)*(?:"
    + "|".join(sorted(ENGLISH))
    + r")\s+[-/.~$0-9*]"
)


def find_first_run_word(name: str, words: Sequence[Word]) -> int | None:
    """Return from which word on a program may run its words; None if it is known not to."""
    if name in KNOWN:
        return None
    if name in TELLING or name in RUNNERS:
        at = next((at for at, word in enumerate(words) if word.text in RUN), None)
        return None if at is None else at + 1
    return None if name in GUARDED else 0


def find_run_program(name: str, words: Sequence[Word]) -> int | None:
    """Return at which word a known program begins that a wrapper runs for sure; None if that is unknown.

    All words behind it are its own, and so no other commands: rtk git commit -m 'rm is refused', op run -- grep rm.
    The word that it stands behind may be an option's value (chamber exec --kms-key-alias -- echo -- rm), and nix has
    options with two of them.
    """
    texts = [word.text for word in words]
    if name == "rtk":  # `err` and `test` give a shell all their words as one text
        at = next((at for at, text in enumerate(texts) if text != "proxy"), 0)
    elif name == "direnv":
        at = 2 if texts[:1] == ["exec"] else 0
    else:
        at = next((at for at, text in enumerate(texts, 1) if text in RUN_BEHIND.get(name, ())), 0)
    if not 0 <= at < len(words) or (at == 0 and name != "rtk") or not words[at].is_known:
        return None
    before = texts[: max(at - 1, 0)]
    options = [text for text in (before if name == "nix" else before[-1:]) if text.startswith("-")]
    if any("=" not in text for text in options) or not all(is_one_word(word) for word in words[:at]):
        return None
    return at if texts[at] in TELLING | GUARDED and (name, texts[at]) != ("rtk", "test") else None


def is_one_word(word: Word) -> bool:
    return word.is_one and GLOB.search(word.text) is None


def list_possible_commands(name: str, words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield what a program may run by words that stand one by one."""
    first = find_first_run_word(name, words)
    if first is None:
        return
    run = find_run_program(name, words)
    if run is not None:
        yield words[run:]
    count = 0
    for at in range(first, len(words) if run is None else run):
        word = words[at]
        text = word.text
        if text.startswith("-"):
            _, mark, text = text.partition("=")
            if not mark:
                continue
        text = OF_PACKAGE.sub("", text)
        named = text.rpartition("/")[2]
        if not word.is_known or named not in GUARDED or (named in SILENT and at + 1 == len(words)):
            continue
        count += 1
        if count > MAX_BEGINS:
            yield [LATER]
            return
        yield [Word(text), *words[at + 1 :]]


def list_possible_scripts(name: str, words: Sequence[Word]) -> Iterator[Word]:
    """Yield the shell texts that a program may run: words that have a command which guards are for."""
    if name in ESCAPING:
        for word in words:
            for found in ESCAPE.finditer(word.text):
                yield make_script_word(found[1], word)
        return
    first = find_first_run_word(name, words)
    for word in words[first : find_run_program(name, words)] if first is not None else ():
        text = VALUE_BEHIND.sub("", word.text)
        if any(blank in text for blank in " \t\n") and A_COMMAND.search(text) is not None:
            yield make_script_word(text, word)


def make_script_word(text: str, word: Word) -> Word:
    """Return a part of a word as shell text, or as unknown: a sentence is not a reason to refuse the whole."""
    return Word(text, word.is_known and not text.count("'") % 2 and not text.count('"') % 2)

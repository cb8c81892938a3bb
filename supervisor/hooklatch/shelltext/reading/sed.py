"""The shell texts that scripts of sed run (`e`), and the files that they write (`w`).

A script is read as GNU sed reads it, which has more than the others.  What it says by a variable is taken as a number
that is not known, so a script that is nothing but one is not read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hooklatch.shelltext.option_reader import list_option_values, parse_options
from hooklatch.shelltext.option_syntax import SYNTAX
from hooklatch.shelltext.reading.flows import is_input
from hooklatch.shelltext.words import Word

__all__ = ["SEDS", "is_stdin", "list_sed_files", "list_sed_scripts", "read_sed"]

SEDS: Final = frozenset({"sed", "gsed", "ssed"})
VARIED: Final = "\ue0ff"  # stands for what a variable says
EXPANSION: Final = re.compile(r"\$\{[^}]*\}|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\w+|\$[@*#?!-]")
LINE: Final = re.compile(r"(?:[^\\\n]|\\.)*\\?", re.DOTALL)  # a line that the next one continues after a backslash
BLANKS: Final = re.compile(r"[\s;]*")
COMMA: Final = re.compile(r"\s*,\s*")
BEFORE_COMMAND: Final = re.compile(r"[\s!]*")
REST: Final = re.compile(r".*")
# An address, and after a comma what only a second one may be.
NUMBER: Final = re.compile(rf"[0-9{VARIED}]+(?:~[0-9{VARIED}]+)?|\$|[+~][0-9{VARIED}]+")
FLAGS_OF_ADDRESS: Final = re.compile(r"[IM]*")
FLAGS_OF_S: Final = re.compile(rf"[gpiImMe0-9{VARIED}]*")
ENDING: Final = re.compile(r"[ \t]*(?:[;\n]|(?=[#}])|\Z)")  # what may follow a command
COUNTED: Final = re.compile(rf"[ \t]*[0-9{VARIED}]*")
# In a pattern some versions let brackets hide a delimiter, with classes in them or without.
BRACKETS: Final = ("", r"\[\^?\]?[^\]\n]*\]|", r"\[\^?\]?(?:\[([:.=]).*?\1\]|[^\]\n])*\]|")
LABEL: Final = re.compile(r"[ \t]*[^\s;]*")
ALONE: Final = frozenset("=dDgGhHnNpPxzF")
TEXTS: Final = frozenset("aic")
FILES: Final = frozenset("rRwW")
MATCHED: Final = Word("what sed matches", False)


class SedScript(NamedTuple):
    """The shell texts that a script runs, and the files that it writes."""

    runs: tuple[Word, ...]
    files: tuple[Word, ...]


class SedReader:
    """A reader of one script, by one of `BRACKETS`."""

    def __init__(self, text: str, brackets: str) -> None:
        self._text, self._at = text, 0
        self._brackets = brackets
        self.runs: list[Word] = []
        self.files: list[Word] = []

    def read(self) -> bool:
        """Read all of it; return whether it is a script."""
        while True:
            self._take(BLANKS)
            if self._at == len(self._text):
                return True
            if not self._read_addresses() or not self._read_command():
                return False

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _take_part(self, delimiter: str, *, is_pattern: bool = True) -> bool:
        """Take the text up to a delimiter, and that."""
        last = re.escape(delimiter)
        brackets = self._brackets if is_pattern else ""
        # Possessive, since a text without the delimiter would be tried in all ways else.
        return self._take(re.compile(rf"(?:{brackets}\\.|[^\\{last}])*+{last}", re.DOTALL)) is not None

    def _read_addresses(self) -> bool:
        while True:
            here = self._text[self._at : self._at + 2]
            if here[:1] == "/" or (here[:1] == "\\" and here[1:] not in ("", "\n", "\\")):
                self._at += 1 if here[:1] == "/" else 2
                if not self._take_part(here[:1] if here[:1] == "/" else here[1:]):
                    return False
                self._take(FLAGS_OF_ADDRESS)
            else:
                self._take(NUMBER)
            if self._take(COMMA) is None:
                self._take(BEFORE_COMMAND)
                return True

    def _read_command(self) -> bool:
        name = self._text[self._at : self._at + 1]
        self._at += 1
        if name in ("{", "}"):
            return True
        if name == "#":
            self._take(REST)
        elif name == "s" or name == "y":
            return self._read_replacement(name)
        elif name == "e":
            command = (self._take(LINE) or "").strip()
            if "\\" not in command and command:
                self.runs.append(Word(command))
            else:  # sed gives its shell another text than the one with the backslash
                self.runs += [Word(command, False), MATCHED]
        elif name in FILES:
            self._read_file(is_written=name in "wW")
        elif name in TEXTS:
            self._take(LINE)
        elif name in (":", "b", "t", "T", "v"):
            self._take(LABEL)
            return True  # a command may follow behind a blank
        elif name in ("q", "Q", "l", "L"):
            self._take(COUNTED)
        elif name not in ALONE or not name:
            return False
        return self._take(ENDING) is not None

    def _read_replacement(self, name: str) -> bool:
        delimiter = self._text[self._at : self._at + 1]
        self._at += 1
        if delimiter in ("", "\n", "\\") or not self._take_part(delimiter, is_pattern=name == "s"):
            return False
        if not self._take_part(delimiter, is_pattern=False):
            return False
        if name == "s":
            if not {"e", VARIED}.isdisjoint(self._take(FLAGS_OF_S) or ""):
                self.runs.append(MATCHED)
            if self._text[self._at : self._at + 1] == "w":
                self._at += 1
                self._read_file(is_written=True)
        return self._take(ENDING) is not None

    def _read_file(self, *, is_written: bool) -> None:
        path = (self._take(REST) or "").strip()
        if is_written and path not in ("/dev/stdout", "/dev/stderr"):
            self.files.append(Word(path))


@functools.lru_cache(maxsize=16)  # several guards ask about one command, and each in several ways
def read_sed(text: str) -> SedScript:
    """Return what a script runs and writes by any reading; one that is not a script may run anything."""
    readers = [SedReader(text, brackets) for brackets in BRACKETS]
    read = [reader for reader in readers if reader.read()]
    runs = [word for reader in read for word in reader.runs] if read else [Word(text, False)]
    return SedScript(tuple(dict.fromkeys(runs)), tuple(dict.fromkeys(word for reader in read for word in reader.files)))


def list_told(words: Sequence[Word]) -> list[SedScript]:
    """Return the scripts that sed is told by its words; of one that it gets from xargs nothing is known."""
    found = parse_options(words, SYNTAX["sed"])
    texts = [
        option.value or Word("") for option in found.options if option.may_be("-e") or option.may_be("--expression")
    ]
    if not texts and not found.has("-f", "--file"):
        # BSD's sed takes the next word for -i, which may be empty: the script stands behind it.
        texts = [word for word in found.operands if word.text][:1]
        if not texts and found.has("--help", "--version"):
            return []
    replaced = [EXPANSION.subn(VARIED, word.text) if not word.is_known else (word.text, 1) for word in texts]
    if not all(count for _, count in replaced) or not (replaced or found.has("-f", "--file")):
        return [SedScript((MATCHED,), ())]  # xargs says it
    scripts = [read_sed("\n".join(text for text, _ in replaced))]
    if not all(word.is_known for word in texts):
        # What looks like a variable may be quoted, which the words do not tell.
        as_it_is = SedReader("\n".join(word.text for word in texts), BRACKETS[-1])
        as_it_is.read()
        scripts.append(SedScript(tuple(as_it_is.runs), tuple(as_it_is.files)))
    return scripts


def list_sed_scripts(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the shell texts that sed runs by its words."""
    for script in list_told(words):
        yield from script.runs


def list_sed_files(words: Sequence[Word], given: Word | None) -> Iterator[Word]:
    """Yield the files that the commands of scripts write; `given` is what sed reads, which may be one."""
    is_script = given is not None and any(map(is_stdin, list_option_values(words, ("-f", "--file"), SYNTAX["sed"])))
    for script in [*list_told(words), *([read_sed(given.text)] if given is not None and is_script else [])]:
        yield from script.files


def is_stdin(word: Word) -> bool:
    return word.text == "-" or is_input(word.text)

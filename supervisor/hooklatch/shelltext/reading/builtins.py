"""Effects of a shell's builtins on a text: they change how the rest is read, or evaluate text once more.

A text in which something is evaluated once more is read only if nothing in its quotes would run something then.
Knows builtins and variables; parses nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from hooklatch.shelltext.grammar.characters import ReadingLimits
from hooklatch.shelltext.grammar.commands import DECLARING
from hooklatch.shelltext.grammar.expansions import NAME
from hooklatch.shelltext.words import UnreadableCommandError, Word

__all__ = ["ASSIGNING", "BuiltinRules"]

CHANGING: Final = frozenset({
    "alias", "unalias", "enable", "builtin", "compgen", "complete", "compopt", "bind", "fc", "suspend",
})  # fmt: skip
# Of `shopt`: what changes neither words nor where they run, but for what globs may match.
OPTIONS: Final = frozenset({"globstar", "nullglob", "failglob", "nocasematch", "inherit_errexit", "huponexit"})
SET: Final = re.compile(r"[-+][euxfabvCEhmT]+|[-+][euxfC]*o|pipefail|errexit|nounset|xtrace|noglob|noclobber|errtrace")
# Variables that change how text is read, or which text is read before.
READING: Final = re.compile(r"BASH\w*|ENV|SHELLOPTS|POSIXLY_CORRECT|CDPATH|GLOBIGNORE|FIGNORE|histchars|BASH_FUNC_.*")
LOCALE: Final = re.compile(r"LANG|LC_\w+")
LOCALES: Final = re.compile(r"|C|POSIX|(?:C|[a-z]{2}_[A-Z]{2})(?:\.(?:UTF-?8|utf-?8))?")
PROMPT: Final = re.compile(r"PS[0-4]")
ARRAY: Final = re.compile(r"[\w\]]\+?=\(|(?:declare|local|typeset|readonly)\s+-\w*[aA]")
ONE_VALUE: Final = re.compile(r"(?s)\$\w+|\$\{[^{}]*\}|\$\(.*\)|`.*`")
VALUED: Final = {"read": "adinNptu", "mapfile": "dnOsuCc", "readarray": "dnOsuCc"}
ASSIGNING: Final = frozenset({"env", "sudo", "doas"})
MAX_INERT: Final = 20  # texts in quotes that are looked at


class BuiltinRules:
    """Facts seen in a text, and in the texts in it, that would not go together."""

    def __init__(self) -> None:
        self.limits = ReadingLimits()
        self._texts: list[tuple[int, str]] = []  # those that were read, with how many inert ones came before each
        self._has_arrays = False

    def begin(self, text: str) -> None:
        """Note that a text is read as commands of its own."""
        self._texts.append((len(self.limits.inert), text.strip()))
        self._has_arrays = self._has_arrays or ARRAY.search(text) is not None

    def check(self) -> None:
        """Refuse the text if something in its quotes could be evaluated once more."""
        if not self.limits.evaluating:
            return
        inert = self.limits.inert
        for at, (piece, offset) in enumerate(inert):
            is_read = any(at < before and piece.strip() == text for before, text in self._texts)
            if at >= MAX_INERT or not is_read:
                raise UnreadableCommandError(
                    f"text in quotes that would run something could be evaluated once more by {self.limits.evaluating};"
                    " do these two in commands of their own", offset, piece[:40],
                )  # fmt: skip

    def note_variable(self, name: str, value: str, *, is_known: bool) -> None:
        """Note that a variable is set."""
        if READING.fullmatch(name):
            refuse_builtin(f"the variable {name!r} changes how text is read", f"{name}={value}")
        if LOCALE.fullmatch(name) and (not is_known or LOCALES.fullmatch(value) is None):
            refuse_builtin(f"the variable {name!r} changes which characters there are", f"{name}={value}")
        if PROMPT.fullmatch(name):
            self._evaluates(f"the prompt {name}")

    def judge(self, name: str, words: Sequence[Word]) -> None:
        """Note what a builtin of this name evaluates; refuse it if it changes how the rest is read."""
        if name in CHANGING:
            refuse_builtin(f"{name!r} changes how the rest is read", format_builtin(name, words))
        if name in DECLARING:
            self._declares(name, words)
        elif name in ASSIGNING:
            for word in words:
                variable, mark, value = word.text.partition("=")
                if mark and (NAME.fullmatch(variable) or variable.startswith("BASH_FUNC")):
                    self.note_variable(variable, value, is_known=word.is_known)
        elif name in JUDGES:
            JUDGES[name](self, name, words)

    def _evaluates(self, what: str) -> None:
        self.limits.evaluating = self.limits.evaluating or what

    def _declares(self, name: str, words: Sequence[Word]) -> None:
        letters = "".join(word.text[1:] for word in words if re.match("[-+][A-Za-z]", word.text))
        if name != "export" and set(letters) & set("niI"):
            refuse_builtin(f"{name!r} with -i or -n changes what values mean", format_builtin(name, words))
        for word in words:
            if word.text.startswith(("-", "+")):
                continue
            variable, mark, value = word.text.partition("=")
            variable = variable.removesuffix("+")
            is_array = value.startswith("(") or set(letters) & set("aA") or (self._has_arrays and not word.is_known)
            if NAME.fullmatch(variable) is None or (mark and is_array and value != "()"):
                self._evaluates(f"{name!r}")
            if mark and NAME.fullmatch(variable):
                self.note_variable(variable, value, is_known=word.is_known)

    def names(self, name: str, words: Sequence[Word]) -> None:
        """Judge what takes names of variables: one that is none may have brackets, whose text is evaluated."""
        if name in ("mapfile", "readarray") and any(re.match("-[A-Za-z]*C", word.text) for word in words):
            refuse_builtin(f"a text that {name!r} runs", format_builtin(name, words))
        operands = list(list_operands(words, VALUED.get(name, "")))
        arrays = [after for word, after in itertools.pairwise(words) if re.fullmatch("-[a-z]*[ap]", word.text)]
        named = operands[1:2] if name == "getopts" else [*operands, *(arrays if name in ("read", "wait") else ())]
        if name == "wait":
            named = [word for word in arrays if word.text != "$!"]
        if name == "read" and arrays:
            named = operands + [word for word in arrays if not re.search(r"\s", word.text)]
        if any(not word.is_known or NAME.fullmatch(word.text) is None for word in named):
            self._evaluates(f"{name!r}")

    def let(self, name: str, _: Sequence[Word]) -> None:
        self._evaluates(f"{name!r}")

    def printf(self, name: str, words: Sequence[Word]) -> None:
        first = next(iter(words), None)
        if first is None:
            return
        is_option = first.text.startswith("-v") or (not first.is_known and ONE_VALUE.fullmatch(first.text))
        target = words[1].text if first.text == "-v" and len(words) > 1 and words[1].is_known else first.text[2:]
        if is_option and NAME.fullmatch(target) is None:
            self._evaluates(f"{name!r}")

    def test(self, name: str, words: Sequence[Word]) -> None:
        for word, after in itertools.pairwise(words):
            if word.text in ("-v", "-R") and (not after.is_known or NAME.fullmatch(after.text) is None):
                self._evaluates(f"{name!r} with {word.text}")

    def set(self, name: str, words: Sequence[Word]) -> None:
        for word in words:
            if word.text in ("--", "-"):
                return
            if not word.is_known or (word.text[:1] in ("-", "+") and SET.fullmatch(word.text) is None):
                refuse_builtin("this option of 'set' changes how the rest is read", format_builtin(name, words))
            if SET.fullmatch(word.text) is None and word is not words[0] and words[0].text.endswith("o"):
                refuse_builtin("this option of 'set' changes how the rest is read", format_builtin(name, words))

    def shopt(self, name: str, words: Sequence[Word]) -> None:
        named = [word for word in words if word.text not in ("-s", "-u", "-q", "-p")]
        if any(not word.is_known or word.text not in OPTIONS for word in named):
            refuse_builtin("this option of 'shopt' changes how the rest is read", format_builtin(name, words))

    def hash(self, name: str, words: Sequence[Word]) -> None:
        if any(not word.is_known or (word.text.startswith("-") and word.text != "-r") for word in words):
            refuse_builtin("'hash' changes which program a name stands for", format_builtin(name, words))

    def history(self, name: str, words: Sequence[Word]) -> None:
        if any(not word.text.isdigit() for word in words):
            refuse_builtin("'history' changes what the shell reads", format_builtin(name, words))

    def exec(self, name: str, words: Sequence[Word]) -> None:
        if words and words[0].text.startswith("-") and words[0].text != "--":
            refuse_builtin("'exec' with options", format_builtin(name, words))

    def eval(self, name: str, words: Sequence[Word]) -> None:
        if words and words[0].text.startswith("-") and words[0].text != "--":
            refuse_builtin("'eval' with options", format_builtin(name, words))


JUDGES: Final[Mapping[str, Callable[[BuiltinRules, str, Sequence[Word]], None]]] = {
    **dict.fromkeys(("read", "unset", "mapfile", "readarray", "wait", "getopts"), BuiltinRules.names),
    **dict.fromkeys(("test", "["), BuiltinRules.test),
    "let": BuiltinRules.let,
    "printf": BuiltinRules.printf,
    "set": BuiltinRules.set,
    "shopt": BuiltinRules.shopt,
    "hash": BuiltinRules.hash,
    "history": BuiltinRules.history,
    "exec": BuiltinRules.exec,
    "eval": BuiltinRules.eval,
}


def list_operands(words: Sequence[Word], valued: str) -> Iterator[Word]:
    """Yield what follows options, of which some take the next word."""
    is_value = is_over = False
    for word in words:
        if is_value:
            is_value = False
        elif is_over or not word.text.startswith("-") or not word.is_known:
            is_over = True
            yield word
        else:
            is_over = word.text == "--"
            is_value = bool(valued) and word.text[-1] in valued


def refuse_builtin(what: str, piece: str) -> NoReturn:
    raise UnreadableCommandError(f"{what}: {piece[:80]!r}")


def format_builtin(name: str, words: Sequence[Word]) -> str:
    return " ".join((name, *(word.text for word in words[:8])))

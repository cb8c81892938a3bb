"""Tests of whether a command may be a certain program with certain first words: "git push".

The answer is yes where it cannot be known, since a condition asks in order to leave a guard out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.reading.programs import GUARDED, RUN, SHELLS, TELLING, normalize_program
from hooklatch.shelltext.words import Word

__all__ = ["is_meant", "show_programs"]

# Characters that may hide or build a word, so that a program's name need not stand in the text.
HIDING: Final = frozenset("$`{*?[(^\0")
QUOTES: Final = ("'", '"', "\\", "\n")
RUNS_INPUT: Final = SHELLS | {"ssh", "su", "at", "batch", "crontab", "newgrp"}  # they run the commands that they read
NOWHERE: Final = re.compile(r">>?\s*(?:/dev/null|&\s*[0-9])")
WRITING: Final = ("tee ", "of=")
SIGNS_OF_INPUT: Final = (
    "sh", "su", "at", "batch", "crontab", "newgrp", "doas", "awk", "make", "sql", "maria", "duckdb", "ed", "ex",
)  # fmt: skip
# Run programs whose names need not stand in the text: of what they read, match or connect to, or by names of their own.
UNNAMING: Final = ("xargs", "parallel", "sed", "socat", "nc", "netcat", "cmake")
READ_FILES: Final = SHELLS | {"source", "."}
OTHER_SHELLS: Final = frozenset({"cmd", "powershell", "pwsh", "fish", "csh", "tcsh"})  # whose text is not read


def show_programs(text: str) -> str | None:
    """Return a text in which the name of each program that it runs stands; None if one may be hidden.

    Most commands are ruled out by this, which takes a hundredth of the time of parsing them.
    """
    if any(sign in text for sign in HIDING):
        return None
    for quote in QUOTES:
        text = text.replace(quote, "")
    text = text.casefold()
    if any(program in text for program in (*UNNAMING, *OTHER_SHELLS)):
        return None
    if ">" in NOWHERE.sub("", text) or any(sign in text for sign in WRITING):
        return None  # it may run what it has written
    is_piped = "|" in text or "<" in text
    return None if is_piped and any(sign in text for sign in SIGNS_OF_INPUT) else text


def is_meant(name: str, phrase: Sequence[str], command: Command) -> bool:
    """Return whether a command may be the program with these words, in this order, options between them."""
    if command.program is None:
        return True
    program, words = normalize_program(command.program), command.arguments
    if command.fed_by is not None and (program in RUNS_INPUT or is_shell_started(command)):
        return True
    if program in READ_FILES and any(not word.is_known for word in words):
        return True
    if (
        program in OTHER_SHELLS
        or program == "parallel"
        or (program == "xargs" and any(word.text.startswith(("-I", "-i", "--replace")) for word in words))
    ):
        return True
    # More words may come from what xargs reads, and from where an alias is used.
    is_open = not {"xargs", "alias"}.isdisjoint(command.within)
    if phrase and program == f"{name}-{phrase[0]}" and match_beginning(phrase[1:], words, is_open=is_open):
        return True  # /usr/lib/git-core/git-push is what `git push` starts
    if program == name and match_beginning(phrase, words, is_open=is_open):
        return True
    return is_run_by_words(program, name, phrase, command)


def is_run_by_words(program: str, name: str, phrase: Sequence[str], command: Command) -> bool:
    """Return whether a program may run its words, or a text among them, as a command: op run -- git push.

    No table can have all programs that do so, so each program that is in no table is taken for one.
    """
    words = command.arguments
    start = next((at for at, word in enumerate(words) if word.text in RUN), len(words))
    is_open = command.fed_by is not None or not command.is_known  # it may give a shell text that is not in the command
    is_speaking = program in TELLING or program in GUARDED
    for at, word in enumerate(words):
        if is_speaking and at <= start:
            continue
        run = normalize_program(word.text.rpartition("/")[2])
        if (at > start and is_open and run in SHELLS) or (
            run == name and match_beginning(phrase, words[at + 1 :], is_open=False)
        ):
            return True
        if any(blank in word.text for blank in " \t\n") and all(
            part in word.text.casefold() for part in (name, *phrase)
        ):
            return True
    return False


def is_shell_started(command: Command) -> bool:
    return command.program in ("sudo", "doas") and command.has_option("-s", "-i", "--shell", "--login")


def match_beginning(expected: Sequence[str], words: Sequence[Word], *, is_open: bool) -> bool:
    """Return whether words may begin with the expected ones, apart from options and one value after each."""
    if not expected:
        return True
    # How many were found, and whether an option came last, whose value may be next.  Both readings are followed.
    places = {(0, False)}
    for word in words:
        after: set[tuple[int, bool]] = set()
        for count, is_value in places:
            if not word.is_known:
                return True
            if word.text == expected[count]:
                if count + 1 == len(expected):
                    return True
                after.add((count + 1, False))
            if word.text.startswith("-"):
                after.add((count, True))
            elif is_value:
                after.add((count, False))
        places = after
    return is_open and bool(places)

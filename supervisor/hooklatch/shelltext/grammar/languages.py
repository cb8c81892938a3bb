"""The languages of shells: the syntax that one shell has and another one takes for something else."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["BASH", "BASH_POSIX", "COMMON", "DASH", "LANGUAGES", "ShellLanguage"]


class ShellLanguage(NamedTuple):
    """One language.

    `is_bash`: it has arrays, `[[`, `((`, `<(…)`, `&>`, `$'…'`.  `has_braces`: `{a,b}` is two words, None where that is
    not known.  `keeps_time`: `time` is a word of the language, None where it may be a program.
    """

    name: str
    is_bash: bool
    has_braces: bool | None
    keeps_time: bool | None


BASH: Final = ShellLanguage("bash", is_bash=True, has_braces=True, keeps_time=True)
# Its own differences lie outside of the subset: aliases, quotes in "${x-…}", assignments that fail.
BASH_POSIX: Final = ShellLanguage("bash --posix", is_bash=True, has_braces=True, keeps_time=True)
DASH: Final = ShellLanguage("dash", is_bash=False, has_braces=False, keeps_time=False)
# Syntax that all of them read alike: for `sh`, which is bash on one machine and dash on another.
COMMON: Final = ShellLanguage("sh", is_bash=False, has_braces=None, keeps_time=None)
# By the name of the program.  zsh and the Korn shells have more of their own, of which nothing is in the subset.
LANGUAGES: Final = {
    "bash": BASH, "bash --posix": BASH_POSIX, "rbash": BASH, "zsh": BASH, "dash": DASH, "ash": DASH, "sh": COMMON,
    "ksh": COMMON, "ksh93": COMMON, "mksh": COMMON, "yash": COMMON, "posh": COMMON,
}  # fmt: skip

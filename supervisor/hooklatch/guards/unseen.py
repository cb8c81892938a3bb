"""Programs that are decided only when they run: whether one may be what a guard is for, by what is seen of it.

Knows commands, no policy.
"""

from __future__ import annotations

import re

from hooklatch.shelltext.command import Command

__all__ = ["may_be"]


def may_be(command: Command, text: str, words: re.Pattern[str]) -> bool:
    """Return whether a command may be one with these words: its program is not known, and they stand where it is from.

    That is in the command itself; in the whole text, if what runs is read from somewhere; or in a variable of the text.
    """
    if command.program is not None:
        return False
    if command.fed_by is not None or not set("$`") & set(command.text):
        return words.search(text) is not None
    before = (text[max(match.start() - 2, 0) : match.start()] for match in words.finditer(text))
    in_variable = (piece.rstrip("'\"")[-1:] == "=" for piece in before)
    return words.search(command.text) is not None or any(in_variable)

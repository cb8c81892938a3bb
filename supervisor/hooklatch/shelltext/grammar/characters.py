"""The characters that a text may have, the limits of its size, and the place of reading in it.  Knows no syntax."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hooklatch.shelltext.grammar.languages import ShellLanguage
from hooklatch.shelltext.words import UnreadableCommandError

__all__ = ["MAX_TEXT", "TextCursor", "ReadingLimits"]

# Characters of a text: the one bound before anything reads it.  Files of half a megabyte in a here-document are read.
MAX_TEXT: Final = 512 * 1024
MAX_NESTED: Final = 32  # of what is open at a place; each takes some ten calls
MAX_STEPS: Final = 12_000  # words and signs of all texts together that are not plain, some 4 us each
MAX_PIECE: Final = 40  # characters of a text that a refusal shows
# To shells some of these are blanks, some letters, some the end of the text, and each has its own; the last ones are
# what this package writes for braces that are quoted.  Surrogates are bytes that are not UTF-8.
FORBIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ue000-\ue003]")
BLANKS: Final = re.compile(r"[ \t]*+")
BEGINNING: Final = re.compile(r"[\w./~'\"$*-]")  # how a word may begin that touches no operator
# Text in quotes that would run something if a shell read it once more: `eval`, arithmetic and `[[ -v … ]]` do.
INERT: Final = re.compile(r"`|\$(?:\(|\{[ \t\n|])|\\(?:x24|x60|0?44|0?140|u0*24|u0*60)")


class ReadingLimits:
    """The limits that a text and all texts inside it share: steps, depth, and text that may be evaluated again."""

    __slots__ = ("depth", "evaluating", "half", "inert", "other_half", "steps")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.depth = 0
        self.inert: list[tuple[str, int]] = []  # texts in quotes that would run something, and where they are
        self.half: str = ""  # text in quotes that ends with `$`
        self.other_half = False  # another one begins with what may follow it
        self.evaluating: str = ""  # what evaluates text once more


class TextCursor:
    """A place in a text, which refusals name and which moves over blanks and comments."""

    def __init__(self, text: str, language: ShellLanguage, limits: ReadingLimits, *, base: int = 0) -> None:
        if (forbidden := FORBIDDEN.search(text)) is not None:
            code_point = f"U+{ord(forbidden[0]):04X}"
            raise UnreadableCommandError(
                f"it has the character {code_point}, which shells read in different ways", base + forbidden.start(),
                text[forbidden.start() : forbidden.start() + MAX_PIECE],
            )  # fmt: skip
        self.text = text
        self.at: int = 0
        self.end = len(text)
        self.language = language
        self.limits = limits
        self._base = base  # where this text begins in the one around it

    def refuse(self, what: str, at: int | None = None) -> NoReturn:
        """Raise since something is not understood, here or at another place."""
        at = min(self.at if at is None else at, max(self.end - 1, 0))
        piece = self.text[at : at + MAX_PIECE].partition("\n")[0] or self.text[at : at + 1]
        raise UnreadableCommandError(f"{what} is not understood", self._base + at, piece)

    def step(self) -> None:
        """Take a step; refuse the text if it needs more than any that a person writes."""
        self.limits.steps -= 1
        if self.limits.steps < 0:
            raise UnreadableCommandError(
                "it is too large to be read: it has too many words and signs; write it to a file, or in parts",
                self._base + self.at, self.text[self.at : self.at + MAX_PIECE],
            )  # fmt: skip

    def open(self) -> None:
        """Note the beginning of a part that others may stand in; `close` notes its end."""
        self.limits.depth += 1
        if self.limits.depth > MAX_NESTED:
            raise UnreadableCommandError(
                f"its parts are nested more than {MAX_NESTED} deep", self._base + self.at,
                self.text[self.at : self.at + MAX_PIECE],
            )  # fmt: skip

    def close(self) -> None:
        self.limits.depth -= 1

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def skip_blanks(self) -> None:
        """Go over blanks, continued lines and a comment."""
        while True:
            self.at = self.past_blanks()
            if not self.text.startswith("\\\n", self.at):
                break
            self.at = self.past_joint()
        if self.text.startswith("#", self.at):
            if self.at and self.text[self.at - 1] not in " \t\n;&|()":
                self.refuse("a '#' behind a word")
            end = self.text.find("\n", self.at)
            self.at = self.end if end < 0 else end

    def past_blanks(self) -> int:
        match = BLANKS.match(self.text, self.at)
        return self.at if match is None else match.end()

    def past_joint(self) -> int:
        """Return where a line continues that ends with a backslash.

        Shells remove the backslash and the new line before they look for words and operators.  So both may stand only
        where they join nothing: before a blank, or between a blank or an operator and a word.
        """
        before, behind = self.text[self.at - 1 : self.at], self.text[self.at + 2 : self.at + 3]
        is_blank = before in (" ", "\t") and self.text[self.at - 2 : self.at - 1] != "\\"  # else a letter of a word
        is_apart = behind in (" ", "\t") or (is_blank and behind not in ("", "\n", "\\", "#"))
        if not is_apart and not (before in ("&", "|", ";") and BEGINNING.match(behind)):
            self.refuse("a line that is continued in the middle of a word or operator")
        return self.at + 2

    def note_inert(self, text: str) -> None:
        """Note a text in quotes that would run something if it were evaluated once more."""
        limits = self.limits
        if INERT.search(text) is not None:
            limits.inert.append((text, self._base + self.at))
        if text.endswith("$"):
            limits.half = text
        if text.startswith(("(", "{")):
            limits.other_half = True
        if limits.half and limits.other_half:
            limits.inert.append((limits.half, self._base + self.at))
            limits.half = ""

    def note_evaluating(self, what: str) -> None:
        """Note the name of a construct that evaluates the values of variables, or text, once more."""
        self.limits.evaluating = self.limits.evaluating or what

"""Reader of words as they are written: letters, quotes, expansions, braces."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

from hooklatch.shelltext.grammar.expansions import Expansions
from hooklatch.shelltext.grammar.tree import ShellWord
from hooklatch.shelltext.words import WordPiece

__all__ = ["WordReader"]

ENDING: Final = frozenset(" \t\n;&|()<>")
# All characters but signs and blanks; to some shells, blanks of Unicode are blanks.
PLAIN: Final = re.compile(r"""[^\s\\'"`$&|;()<>{}]++""")
IN_QUOTES: Final = re.compile(r'[^"\\$`]++')
IS_PLAIN: Final = re.compile(r"""[^\s\\'"`$&|;()<>{}]++(?=[ \t\n;]|[&|](?![>])|\)|\Z)""")
# Braces that mean the same to all versions of bash: names, and ranges without zeros in front.
IN_BRACES: Final = r"[\w./*~+@%:=-]*"
BRACES: Final = re.compile(
    rf"\{{(?:(?![^{{}}]*\.\.){IN_BRACES}(?:,{IN_BRACES})*"
    r"|(?:0|-?[1-9]\d{0,4})\.\.(?:0|-?[1-9]\d{0,4})|[a-z]\.\.[a-z])\}",
    re.ASCII,
)
EXTENDED: Final = re.compile(r"[@?*+!]\(")  # a pattern of bash


class WordReader(Expansions):
    """A reader of one word at a time."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """True while the body of a here-document begins with the next line."""

    def word(self) -> ShellWord | None:
        """Return the word at this place, None if there is none."""
        text, begin = self.text, self.at
        self.step()
        if (plain := IS_PLAIN.match(text, begin)) is not None:  # nearly all words: one match instead of a loop
            self.at = plain.end()
            return ShellWord((WordPiece(plain[0], is_quoted=False),), plain[0])
        pieces: list[WordPiece] = []
        around, self.inside = self.inside, []
        reads = False
        while self.at < self.end:
            if (plain := PLAIN.match(text, self.at)) is not None:
                pieces.append(WordPiece(plain[0], is_quoted=False))
                self.at = plain.end()
                continue
            character = text[self.at]
            if character in ENDING:
                if not self.is_substitution():
                    break
                if self.at != begin:
                    self.refuse("a substitution of a process in the middle of a word")
                reads = character == ">"
                self.process()
                pieces.append(WordPiece(text[begin : self.at], False, False))
            elif character == "\\" and text.startswith("\n", self.at + 1):
                self.past_joint()
                break
            else:
                pieces += self.read_quoted_or_expanded(character)
        inside, self.inside = tuple(self.inside), around
        if self.at == begin:
            return None
        if text[self.at - 1] in "@?*+!" and EXTENDED.match(text, self.at - 1):
            self.refuse("an extended pattern")
        bare = None
        if not any(piece.is_quoted or not piece.is_known for piece in pieces):
            bare = "".join(piece.text for piece in pieces)
        return ShellWord(tuple(pieces), bare, inside, self.braces(pieces, begin), reads)

    def read_quoted_or_expanded(self, character: str) -> list[WordPiece]:
        self.step()
        match character:
            case "\\":
                return [self.read_escape()]
            case "'":
                begin = self.at
                piece = WordPiece(self.single_quotes())
                self.refuse_lines(piece.text, begin)
                return [piece]
            case '"':
                return [WordPiece(""), *self.double_quotes()]
            case "$":
                return [self.dollar(is_quoted=False)]
            case "`":
                return [self.backticks(is_quoted=False)]
            case "{" | "}":
                self.at += 1
                return [WordPiece(character, is_quoted=False)]
            case _:
                self.refuse("a blank that is one to some shells only")

    def is_substitution(self) -> bool:
        return self.language.is_bash and self.text.startswith(("<(", ">("), self.at)

    def process(self) -> None:
        """Read `<(…)` or `>(…)`."""
        self.at += 2
        self.inside.append(self.substitution())

    def read_escape(self) -> WordPiece:
        """Read a letter behind a backslash."""
        after = self.text[self.at + 1 : self.at + 2]
        if not after:
            self.refuse("a backslash at the end")
        self.at += 2
        self.note_inert(after)
        return WordPiece(after)

    def refuse_lines(self, text: str, at: int) -> None:
        """Refuse a new line in quotes on the line of a here-document, whose body would begin at an unclear place."""
        if "\n" in text and self.waits:
            self.refuse("a new line in quotes, on the line of a here-document,", at)

    def double_quotes(self) -> list[WordPiece]:
        """Read the text in double quotes."""
        begin = self.at
        self.at += 1
        pieces: list[WordPiece] = []
        while True:
            if (plain := IN_QUOTES.match(self.text, self.at)) is not None:
                self.refuse_lines(plain[0], begin)
                self.note_inert(plain[0])
                pieces.append(WordPiece(plain[0]))
                self.at = plain.end()
            character, after = self.peek(), self.text[self.at + 1 : self.at + 2]
            if character == '"':
                self.at += 1
                return pieces
            self.step()
            if character == "\\":
                if after == "\n":
                    if self.text[self.at - 1] in "$\\{" or self.waits:
                        self.refuse("a line that is continued behind a '$'")
                elif after and after in '$`"\\':
                    pieces.append(WordPiece(after))
                    self.note_inert(after)
                else:
                    pieces.append(WordPiece(f"\\{after}"))
                    self.note_inert(f"\\{self.text[self.at + 1 : self.at + 7]}")
                self.at += 2
            elif character == "$":
                self.open()
                pieces.append(self.dollar(is_quoted=True))
                self.close()
            elif character == "`":
                pieces.append(self.backticks(is_quoted=True))
            else:
                self.refuse("a quote that is not closed", begin)

    def braces(self, pieces: list[WordPiece], begin: int) -> bool | None:
        """Return whether braces of a word mean a choice, None if only in some shells; refuse ambiguous ones."""
        if not any(piece.text in ("{", "}") and not piece.is_quoted and piece.is_known for piece in pieces):
            return False
        bare = "".join("\0" if piece.is_quoted or not piece.is_known else piece.text for piece in pieces)
        remainder = BRACES.sub("", bare)
        if ("{" in remainder or "}" in remainder) and bare not in ("{", "}"):
            self.refuse("a choice in braces of this form", begin)
        if remainder == bare or self.language.has_braces is False:
            return False
        is_choice = any("," in choice[0] or ".." in choice[0] for choice in BRACES.finditer(bare))
        return self.language.has_braces if is_choice else False

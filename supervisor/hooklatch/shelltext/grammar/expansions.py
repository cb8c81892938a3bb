"""Expansions, which begin with `$` or a backtick: variables, substitutions, arithmetic.  A subclass reads commands."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

from hooklatch.shelltext.grammar.characters import ReadingLimits, TextCursor
from hooklatch.shelltext.grammar.languages import ShellLanguage
from hooklatch.shelltext.grammar.tree import CommandList
from hooklatch.shelltext.words import WordPiece

__all__ = ["NAME", "SUBSCRIPT", "Expansions"]

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPECIAL: Final = frozenset("0123456789@*#?$!-")
COUNTED: Final = frozenset("#?$")  # numbers, which are one word
# What may stand in the brackets of an array, where quotes quote nothing and text is evaluated: names, numbers, values.
SUBSCRIPT: Final = re.compile(r'\[(?:[A-Za-z0-9_@*+-]*|\$[A-Za-z_]\w*|"\$[A-Za-z_]\w*"|\$\{[A-Za-z_]\w*\})\]', re.ASCII)
PLAIN_SUBSCRIPT: Final = re.compile(r"\[(?:[0-9]*|@|\*|-1)\]")  # in which nothing is evaluated
PARAMETER: Final = re.compile(r"\$\{(#?)(!?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])")
OPERATORS: Final = re.compile(r"}|:?[-=+?]|##?|%%?")
OF_BASH: Final = re.compile(r"/[/#%]?|\^\^?|,,?|:|@[QEAaKkuUL](?=\})")
# Letters in the word behind an operator that no shell takes for more than a letter, a pattern or its end.
IN_PARAMETER: Final = re.compile(r"(?:[A-Za-z0-9_./:=,+@%^*?~\[\] -]|\\[/.])++")
BRACKETED: Final = re.compile(r"(?<![@?*+!<>$=])\(|\)")
OF_ARITHMETIC: Final = re.compile(r"[A-Za-z0-9_ \t+*/%<>=!&|?:,~^-]++")
OF_BASH_ARITHMETIC: Final = re.compile(
    r"(?:[A-Za-z0-9_ \t+*/%<>=!&|?:,~^-]|(?<=\d)#|(?<=[A-Za-z0-9_])\[|(?<![\[ \t])\])++"
)
EVALUATED: Final = re.compile(r"[A-Za-z_$]")  # in arithmetic of which numbers alone are not evaluated once more
ESCAPE: Final = re.compile(
    r"\\(?:([abefnrtv\\'\"])|x([0-7][0-9a-fA-F])(?![0-9a-fA-F])|([01][0-7]{2})(?![0-7])"
    r"|u(00[2-7][0-9a-fA-F]|0[1-9a-f][0-9a-fA-F]{2}|[1-9a-c][0-9a-fA-F]{3})(?![0-9a-fA-F]))"
)  # that all versions of bash decode alike
LETTERS: Final = dict(zip("abefnrtv\\'\"", "\a\b\x1b\f\n\r\t\v\\'\"", strict=True))
PLAIN_OF_ANSI: Final = re.compile(r"[^'\\]++")


class Expansions(TextCursor):
    """A reader of expansions; `inside` collects the commands that the current word runs."""

    def __init__(self, text: str, language: ShellLanguage, limits: ReadingLimits, *, base: int = 0) -> None:
        super().__init__(text, language, limits, base=base)
        self.inside: list[CommandList] = []

    @abstractmethod
    def substitution(self) -> CommandList:
        """Read commands up to the parenthesis that closes them, and go past it."""

    @abstractmethod
    def read_inner(self, text: str, begin: int) -> CommandList:
        """Read a part of the text as commands of their own."""

    @abstractmethod
    def double_quotes(self) -> list[WordPiece]:
        """Read the text in double quotes."""

    def dollar(self, *, is_quoted: bool) -> WordPiece:
        """Read an expansion that begins with a dollar sign; a dollar sign that begins none is a letter."""
        self.step()
        begin, text = self.at, self.text
        after = text[begin + 1 : begin + 2]
        if after == "(":
            if text.startswith("$((", begin):
                self.at += 3
                self.arithmetic()
                return WordPiece(text[begin : self.at], False, is_quoted)
            self.at += 2
            self.inside.append(self.substitution())
            return WordPiece(text[begin : self.at], False, is_quoted, not is_quoted)
        if after == "{":
            return self.parameter(is_quoted=is_quoted)
        if after == "'" and not is_quoted:
            return self.ansi_quotes()
        if after == "[" or (after == '"' and not is_quoted):
            self.refuse(f"'${after}', which shells read in different ways,")
        if after == "\\" and text.startswith("\n", begin + 2):
            self.refuse("a line that is continued behind a '$'")
        if (name := NAME.match(text, begin + 1)) is not None:
            self.at = name.end()
            if text.startswith("[", self.at) and not is_quoted:
                self.refuse("'[' behind the name of a variable, which is a subscript to zsh,")
            return WordPiece(name[0].join(("$", "")), False, is_quoted, not is_quoted)
        if after and after in SPECIAL:
            self.at += 2
            splits = after == "@" or (not is_quoted and after not in COUNTED)
            return WordPiece(f"${after}", False, is_quoted, splits)
        self.at += 1
        self.note_inert("$")
        return WordPiece("$")

    def parameter(self, *, is_quoted: bool) -> WordPiece:
        """Read `${…}`: a name, one operator, and a word in which each letter has one meaning."""
        begin = self.at
        match = PARAMETER.match(self.text, begin)
        if match is None:
            self.refuse("an expansion of this form")
        length, indirect, name = match.groups()
        self.at = match.end()
        is_list = name == "@"
        if self.text.startswith("[", self.at):
            is_list = self.subscript() == "[@]" or is_list
        elif indirect:
            self.refuse("the value of a variable that another one names")
        if indirect and not is_list:
            self.refuse("the value of a variable that another one names")
        operator = OPERATORS.match(self.text, self.at)
        if operator is None and self.language.is_bash:
            operator = OF_BASH.match(self.text, self.at)
        if operator is None or ((length or indirect) and operator[0] != "}"):
            self.refuse("an expansion of this form", begin)
        self.at = operator.end()
        if operator[0] == ":":  # ${x:1:2} holds arithmetic
            self.note_evaluating("a part of a variable, such as ${x:1}")
        if operator[0] != "}":
            self.word_of_parameter(begin, is_quoted=is_quoted)
        splits = not length and (is_list or not is_quoted)
        return WordPiece(self.text[begin : self.at], False, is_quoted, splits)

    def subscript(self) -> str:
        """Read the brackets behind the name of an array."""
        match = SUBSCRIPT.match(self.text, self.at)
        if match is None or not self.language.is_bash:
            self.refuse("the text in the brackets of an array")
        if PLAIN_SUBSCRIPT.fullmatch(match[0]) is None:
            self.note_evaluating("the brackets of an array")
        self.at = match.end()
        return match[0]

    def word_of_parameter(self, begin: int, *, is_quoted: bool) -> None:
        """Read up to the brace that ends an expansion.

        Quotes are read only where no double quotes and no here-document are around it: shells differ about them there.
        """
        while True:
            self.step()
            if (plain := IN_PARAMETER.match(self.text, self.at)) is not None:
                self.at = plain.end()
            character, after = self.peek(), self.text[self.at + 1 : self.at + 2]
            if not character:
                self.refuse("an expansion that does not end", begin)
            if character == "}":
                self.at += 1
                return
            if character == "$" and after not in ("'", '"', "}", ""):
                self.open()
                self.dollar(is_quoted=True)
                self.close()
            elif self.language.is_bash and BRACKETED.match(self.text, self.at):
                self.at += 1
            elif character == after == "\\":  # to all shells it is one
                self.at += 2
            elif is_quoted:
                self.refuse("this character in an expansion in quotes")
            elif character == '"':
                self.double_quotes_in_parameter()
            elif character == "'":
                self.single_quotes()
            elif character == "\\" and after not in ("", "\n"):
                self.note_inert(after)
                self.at += 2
            else:
                self.refuse("this character in an expansion")

    def double_quotes_in_parameter(self) -> None:
        self.open()
        self.double_quotes()
        self.close()

    def single_quotes(self) -> str:
        """Read the text in single quotes."""
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.refuse("a quote that is not closed")
        text = self.text[self.at + 1 : end]
        self.note_inert(text)
        self.at = end + 1
        return text

    def ansi_quotes(self) -> WordPiece:
        r"""Read `$'…'`, of bash, where all its escapes are decoded alike by all versions."""
        if not self.language.is_bash:
            self.refuse('"$\'", which is not of every shell,')
        begin = self.at
        self.at += 2
        decoded: list[str] = []
        while not self.text.startswith("'", self.at):
            self.step()
            if (plain := PLAIN_OF_ANSI.match(self.text, self.at)) is not None:
                decoded.append(plain[0])
                self.at = plain.end()
            elif (escape := ESCAPE.match(self.text, self.at)) is not None:
                letter, short, octal, long = escape.groups()
                decoded.append(LETTERS[letter] if letter else chr(int(short or long or octal, 8 if octal else 16)))
                self.at = escape.end()
            elif self.at >= self.end:
                self.refuse("a quote that is not closed", begin)
            else:
                self.refuse("an escape that shells read in different ways")
        self.at += 1
        text = "".join(decoded)
        if "\0" in text:
            self.refuse("a null character in a word", begin)
        self.note_inert(text)
        return WordPiece(text)

    def arithmetic(self, ends: str = "))") -> None:
        """Read arithmetic up to its end.  It may not have quotes, since quotes in arithmetic quote nothing."""
        begin, depth = self.at, 0
        allowed = OF_BASH_ARITHMETIC if self.language.is_bash else OF_ARITHMETIC
        is_evaluated = False
        while True:
            self.step()
            if (plain := allowed.match(self.text, self.at)) is not None:
                is_evaluated = is_evaluated or EVALUATED.search(plain[0]) is not None
                self.at = plain.end()
            character = self.peek()
            if not depth and self.text.startswith(ends, self.at):
                break
            if character == "(":
                depth += 1
                self.at += 1
            elif character == ")" and depth:
                depth -= 1
                self.at += 1
            elif character == "$" and self.text[self.at + 1 : self.at + 2] not in ("'", '"', ""):
                is_evaluated = True
                self.open()
                self.dollar(is_quoted=True)
                self.close()
            else:
                self.refuse("this character in arithmetic" if character else "arithmetic that does not end", begin)
        self.at += len(ends)
        if is_evaluated:
            self.note_evaluating("arithmetic")

    def backticks(self, *, is_quoted: bool) -> WordPiece:
        r"""Read `…` in backticks, where a backslash has other meanings, and a here-document may end behind them."""
        self.step()
        begin, end = self.at, self.text.find("`", self.at + 1)
        if end < 0:
            self.refuse("a backtick that is not closed")
        text = self.text[begin + 1 : end]
        if "\\" in text or "<<" in text or (is_quoted and '"' in text):
            self.refuse("a backslash, a quote or a here-document in backticks; write $(…), which")
        self.inside.append(self.read_inner(text, begin + 1))
        self.at = end + 1
        return WordPiece(self.text[begin : self.at], False, is_quoted, not is_quoted)

"""A parser for expressions that select cases by their words: `-k "force and not mirror"`.

either    both ("or" both)*        both    term ("and" term)*        term    "not" term | "(" either ")" | WORD
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["ExpressionError", "parse_selection"]

Matches: TypeAlias = Callable[[str], bool]
MAX_WORDS = 200  # with parentheses: each may be a level of the parser's recursion
TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")
WORDS = ("and", "or", "not", "(", ")")


class ExpressionError(ValueError):
    """A text is not an expression; the message has the place of the error."""


def parse_selection(expression: str) -> Matches:
    """Return a test of whether a text has the words of an expression, as parts of its own words and in any case.

    Raises:
        ExpressionError: it is not an expression.
    """
    if len(tokens := TOKEN.findall(expression)) > MAX_WORDS:
        raise ExpressionError(f"-k has more than {MAX_WORDS} words and parentheses; write a shorter one")
    parser = SelectionParser(tokens, expression)
    matches = parser.parse_either()
    if parser.tokens:
        raise parser.make_error()
    return matches


class SelectionParser:
    """A parser by recursive descent, with a method for each rule of the grammar above."""

    def __init__(self, tokens: list[str], expression: str) -> None:
        self.tokens = tokens
        self._expression = expression

    def parse_either(self) -> Matches:
        terms = [self.parse_both()]
        while self.take("or"):
            terms.append(self.parse_both())
        return lambda text: any(matches(text) for matches in terms)

    def parse_both(self) -> Matches:
        terms = [self.parse_term()]
        while self.take("and"):
            terms.append(self.parse_term())
        return lambda text: all(matches(text) for matches in terms)

    def parse_term(self) -> Matches:
        if self.take("not"):
            inner = self.parse_term()
            return lambda text: not inner(text)
        if self.take("("):
            inner = self.parse_either()
            if not self.take(")"):
                raise self.make_error()
            return inner
        if not self.tokens or self.tokens[0] in WORDS:
            raise self.make_error()
        word = self.tokens.pop(0).lower()
        return lambda text: word in text.lower()

    def take(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False

    def make_error(self) -> ExpressionError:
        where = f"at {self.tokens[0]!r}" if self.tokens else "at its end"
        example = "write words joined by and, or, not and parentheses: -k 'force and not mirror'"
        return ExpressionError(f"-k {self._expression!r} cannot be read {where}; {example}")

"""Chooses cases by an expression over their words: `-k "force and not mirror"`.  Knows texts; knows no case.

either    both ("or" both)*        both    one ("and" one)*        one    "not" one | "(" either ")" | WORD
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["ExpressionError", "parse_selection"]

Matches: TypeAlias = Callable[[str], bool]
MOST_WORDS = 200  # with parentheses: each may be one level deeper
TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")
WORDS = ("and", "or", "not", "(", ")")


class ExpressionError(ValueError):
    """It is no expression; the text says where it goes wrong."""


def parse_selection(expression: str) -> Matches:
    """Return whether a text has the words of an expression, as parts of its own words, in upper case or lower.

    Raises:
        ExpressionError: it is none.
    """
    if len(tokens := TOKEN.findall(expression)) > MOST_WORDS:
        raise ExpressionError(f"-k has more than {MOST_WORDS} words and parentheses; write a shorter one")
    reader = SelectionParser(tokens, expression)
    matches = reader.either()
    if reader.tokens:
        raise reader.wrong()
    return matches


class SelectionParser:
    def __init__(self, tokens: list[str], expression: str) -> None:
        self.tokens = tokens
        self._expression = expression

    def either(self) -> Matches:
        found = [self.both()]
        while self.takes("or"):
            found.append(self.both())
        return lambda text: any(matches(text) for matches in found)

    def both(self) -> Matches:
        found = [self.one()]
        while self.takes("and"):
            found.append(self.one())
        return lambda text: all(matches(text) for matches in found)

    def one(self) -> Matches:
        if self.takes("not"):
            inner = self.one()
            return lambda text: not inner(text)
        if self.takes("("):
            inner = self.either()
            if not self.takes(")"):
                raise self.wrong()
            return inner
        if not self.tokens or self.tokens[0] in WORDS:
            raise self.wrong()
        word = self.tokens.pop(0).lower()
        return lambda text: word in text.lower()

    def takes(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False

    def wrong(self) -> ExpressionError:
        where = f"at {self.tokens[0]!r}" if self.tokens else "at its end"
        example = "write words joined by and, or, not and parentheses: -k 'force and not mirror'"
        return ExpressionError(f"-k {self._expression!r} cannot be read {where}; {example}")

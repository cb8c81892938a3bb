"""The words of a shell text, as the program would get them: quotes removed, braces expanded, the rest marked unknown.

Knows pieces of words, but not how they are written.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = [
    "GLOB", "ELSEWHERE", "WordPiece", "UnreadableCommandError", "Word", "expand_braces", "is_no_path", "make_words",
]  # fmt: skip

GLOB: Final = re.compile(r"[*?\[]")  # what makes a word a pattern of files
MAX_BRACES = 256  # words that a word may expand to; beyond that it is unknown
MAX_EXPANDED = 64 * 1024  # characters that they may have together
MAX_RANGE = 64  # characters; longer ones have numbers that no shell counts to
MARK = re.compile("[{},]")
RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")
ELSEWHERE = re.compile(r"~[-+0-9]")  # to bash a folder that it was in, or is in
# What stands for a character that has lost its meaning to the shell, while braces are expanded.  Text that has one of
# these is not read (`shell/characters.py`).
HIDDEN = {"{": "\ue000", "}": "\ue001", ",": "\ue002", "$": "\ue003"}
SHOWN = {hidden: plain for plain, hidden in HIDDEN.items()}


class UnreadableCommandError(ValueError):
    """A shell text is not understood as a whole, so it is unknown what it does.

    `offset` is where reading ended, in the text that was read then, and `piece` the text at that place.  They are None
    and empty if the error is not about a place.
    """

    def __init__(self, reason: str, offset: int | None = None, piece: str = "") -> None:
        super().__init__(reason if offset is None else f"{reason}, at character {offset + 1}: {piece!r}")
        self.offset = offset
        self.piece = piece


class Word(NamedTuple):
    """One word of a command.

    `text` is what it says.  `is_known` is false if its value is decided only when the command runs.  `is_one` is false
    if it may then be several words or none, so that the place of each word behind it is unknown.
    """

    text: str
    is_known: bool = True
    is_one: bool = True


class WordPiece(NamedTuple):
    """A part of a word: what it says, whether that is known, whether in quotes, and whether it may become several."""

    text: str
    is_known: bool = True
    is_quoted: bool = True
    splits: bool = False


def make_words(pieces: Sequence[WordPiece], *, has_braces: bool | None = False) -> list[Word]:
    """Return the words that pieces become; `has_braces` is about pieces that are not quoted, None if it is unknown."""
    is_known = all(piece.is_known for piece in pieces) and not (
        pieces and not pieces[0].is_quoted and ELSEWHERE.match(pieces[0].text)
    )
    is_one = not any(piece.splits for piece in pieces)
    text = "".join(piece.text for piece in pieces)
    if has_braces is None:
        return [Word(text, False, False)]
    if not has_braces:
        is_there = text or any(piece.is_quoted for piece in pieces)
        return [Word(text, is_known, is_one)] if is_there else []
    expanded = expand_braces(
        "".join(hide_marks(piece.text) if piece.is_quoted or not piece.is_known else piece.text for piece in pieces)
    )
    if expanded is None:
        return [Word(text, False, False)]
    is_there = any(piece.is_quoted for piece in pieces)
    return [Word(reveal_marks(word), is_known, is_one) for word in expanded if word or is_there]


def hide_marks(text: str) -> str:
    return "".join(HIDDEN.get(letter, letter) for letter in text) if any(letter in HIDDEN for letter in text) else text


def reveal_marks(text: str) -> str:
    return "".join(SHOWN.get(letter, letter) for letter in text) if any(letter in SHOWN for letter in text) else text


class BraceChoice(NamedTuple):
    """The words that braces stand for, and where the braces begin and end."""

    begin: int
    end: int
    words: list[str]


def expand_braces(text: str) -> list[str] | None:
    """Expand the braces that the shell would; None if that gives too many words.

    It takes one pass, however many braces the text opens and does not close.
    """
    opened: list[tuple[list[int], int]] = []  # of each: where it and its commas stand, how many choices come before it
    choices: list[BraceChoice] = []
    for mark in MARK.finditer(text):
        at = mark.start()
        if mark[0] == "{":
            opened.append(([at], len(choices)))
        elif mark[0] == "," and opened:
            opened[-1][0].append(at)
        elif mark[0] == "}" and opened:
            (begin, *commas), first = opened.pop()
            if text[begin - 1 : begin] == "$":
                continue
            if commas:
                words = split_choices(text, [begin, *commas, at], choices[first:])
                if words is None:
                    return None
                choices[first:] = [BraceChoice(begin, at + 1, words)]
            elif at - begin <= MAX_RANGE and (numbers := expand_range(text[begin + 1 : at])) is not None:
                choices.append(BraceChoice(begin, at + 1, numbers))
    return combine_choices(text, 0, len(text), choices)


def split_choices(text: str, marks: Sequence[int], choices: Sequence[BraceChoice]) -> list[str] | None:
    """Return the parts between some marks, each with the choices in it; None if there are too many."""
    words: list[str] = []
    first = 0
    for last, end in itertools.pairwise(marks):
        after = first
        while after < len(choices) and choices[after].begin < end:
            after += 1
        inside = combine_choices(text, last + 1, end, choices[first:after])
        if inside is None or len(words) + len(inside) > MAX_BRACES:
            return None
        words += inside
        first = after
    return words


def combine_choices(text: str, begin: int, end: int, choices: Sequence[BraceChoice]) -> list[str] | None:
    """Return each way of making the choices in a part of a text; None if there are too many, or they are too long."""
    words = [""]
    if len(choices) > MAX_BRACES:
        return None
    for choice in choices:
        if len(words) * len(choice.words) > MAX_BRACES:
            return None
        words = [word + text[begin : choice.begin] + other for word in words for other in choice.words]
        if sum(map(len, words)) > MAX_EXPANDED:
            return None
        begin = choice.end
    if len(words) > 1 and len(words) * (end - begin) > MAX_EXPANDED:
        return None
    return [word + text[begin:end] for word in words]


def expand_range(text: str) -> list[str] | None:
    """Return the words of {1..3} or {a..c}; None if it is neither, or too long: then it stays as it is written."""
    match = RANGE.fullmatch(text)
    if match is None:
        return None
    first, last, step = match.groups()
    is_numeric = not first.isalpha() and not last.isalpha()
    if not is_numeric and not (first.isalpha() and last.isalpha()):
        return None
    low, high = (int(first), int(last)) if is_numeric else (ord(first), ord(last))
    by = abs(int(step)) if step and int(step) else 1
    numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
    if len(numbers) > MAX_BRACES:
        return None
    return [str(number) if is_numeric else chr(number) for number in numbers]


def is_no_path(text: str) -> bool:
    """Return whether no file can have this path: it has a null, or half of a character."""
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)

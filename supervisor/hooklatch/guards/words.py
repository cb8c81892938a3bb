"""The words of a shell text, as the program would get them: quotes removed, braces expanded, the rest marked unknown.

Knows nodes of the grammar tree-sitter-bash; does not know programs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["UnreadableCommandError", "Word", "read_all", "read_words", "text_of"]

MAX_BRACES = 256  # words that one may expand to; beyond that it is unknown
MAX_EXPANDED = 64 * 1024  # characters that those may have together
MAX_RANGE = 64  # characters; longer ones have numbers that no shell counts to
MARK = re.compile("[{},]")
ANSI = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))", re.DOTALL)
ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.(-?\d+))?")
# What stands for a character that has lost its meaning to the shell, while braces are expanded.
OPENED, CLOSED, COMMA = "\ue000", "\ue001", "\ue002"
EMPTY = "\ue003"  # stands where quotes hold nothing: such a word stays, while one that expands to nothing goes
HIDDEN = {"{": OPENED, "}": CLOSED, ",": COMMA, "$": "\ue004"}
SHOWN = {hidden: plain for plain, hidden in HIDDEN.items()} | {EMPTY: ""}
BLANK = re.compile(r"(?<!\\)[ \t]")
BLANKS = re.compile(rb"[ \t\r\n](?<!\\\n)")  # a line that is continued has none
GAP = re.compile(r"(?P<blank>[ \t\r]+)|(?P<continued>\\\n)|(?P<end>\n)|(?:\\.|[^ \t\r\n\\])+", re.DOTALL)
DESCRIPTOR = re.compile(r"\d+|\{\w+\}")
REDIRECTING = re.compile(rb"(?:\\\n)*[<>](?!\()")  # directly behind a descriptor
GLUED = "a word that a redirection writes to goes on in the next line; put it in one line"
ONE_LINE = "two of its lines cannot be told apart; write `command NAME` for a name with a backslash before it"


class UnreadableCommandError(ValueError):
    """A shell text is not understood as a whole, so nobody can say what it does."""


class Word(NamedTuple):
    """One word of a command.  `text` is what it says; `is_known` is false if what it will be is decided only then."""

    text: str
    is_known: bool = True


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogateescape")


def read_words(node: Node) -> list[Word]:
    """Return what a word of the text becomes: several if it has braces."""
    return words_of(list(pieces_of(node)))


def read_all(nodes: Sequence[Node], source: bytes) -> list[Word]:
    """Return the words of neighbouring nodes of a whole text; the grammar ends some words too early.

    What stands between two nodes is blank, a continued line, or belongs to the word; a redirection ends one.
    """
    found: list[Word] = []
    pieces: list[tuple[str, bool]] = []
    end = nodes[0].start_byte if nodes else 0
    is_behind = False  # a redirection
    for node in nodes:
        is_redirect = node.type.endswith("_redirect")
        if is_behind and not is_redirect and not BLANKS.search(source, end, node.start_byte):
            raise UnreadableCommandError(GLUED)
        is_behind = is_redirect
        for gap in GAP.finditer(undollared(source[end : node.start_byte].decode("utf-8", "surrogateescape"), node)):
            if gap["blank"]:
                found += words_of(pieces) if pieces else []
                pieces = []
            elif gap["end"]:
                raise UnreadableCommandError(ONE_LINE)
            elif not gap["continued"]:
                pieces.append((unescaped(gap[0]), True))
        if is_redirect:
            found += words_of(pieces) if pieces else []
            pieces = []
        elif pieces or not is_descriptor(node, source):
            pieces += pieces_of(node)
        end = node.end_byte
    return found + (words_of(pieces) if pieces else [])


def is_descriptor(node: Node, source: bytes) -> bool:
    """Return whether a word names the descriptor of the redirection behind it: {log}>file, and 2>file in a new line."""
    word = text_of(node).replace("\\\n", "")
    return DESCRIPTOR.fullmatch(word) is not None and REDIRECTING.match(source, node.end_byte) is not None


def undollared(gap: str, node: Node) -> str:
    """Return what stands before a node, without the mark of a text that is translated: $"…"."""
    first = node.children[0] if node.type == "concatenation" else node
    return gap[:-1] if first.type == "string" and gap.endswith("$") and not gap.endswith("\\$") else gap


def words_of(pieces: Sequence[tuple[str, bool]]) -> list[Word]:
    is_known = all(known for _, known in pieces)
    joined = "".join(text for text, _ in pieces)
    expanded = expand(joined) if "{" in joined else [joined]
    if expanded is None:
        return [Word(shown(joined), False)]
    return [Word(shown(one), is_known) for one in expanded if one]


def pieces_of(node: Node) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a word: the text, and whether it is known."""
    match node.type:
        case (
            "word" | "number" | "extglob_pattern" | "regex" | "file_descriptor" | "variable_name" | "special_character"
        ):
            if text_of(node).startswith("\n"):
                raise UnreadableCommandError(ONE_LINE)
            if node.named_child_count and node.type != "extglob_pattern":  # a number in another base: 10#$x
                yield from inner_pieces(node)
            else:  # the grammar takes `{ {` for one word
                yield unescaped(text_of(node)), BLANK.search(text_of(node)) is None
        case "raw_string":
            yield hidden(text_of(node)[1:-1]) or EMPTY, True
        case "ansi_c_string":
            yield hidden(ANSI.sub(ansi, text_of(node)[2:-1])) or EMPTY, True
        case "translated_string":
            yield from pieces_of(node.children[-1])
        case "string":
            yield EMPTY, True
            yield from string_pieces(node)
        case "concatenation" | "command_name":
            yield from inner_pieces(node)
        case "brace_expression":
            yield text_of(node), True
        case "{" | "}" | "," | "..":
            yield node.type, True
        case "$":  # at the end of a word
            yield unescaped(text_of(node)), True
        case _:  # an expansion: decided when it runs
            yield hidden(text_of(node)), False


def inner_pieces(node: Node) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a word that has several, and what the grammar leaves out between them."""
    if not node.children:
        yield unescaped(text_of(node)), True
        return
    whole, end = node.text or b"", 0
    for child in node.children:
        gap = undollared(whole[end : child.start_byte - node.start_byte].decode("utf-8", "surrogateescape"), child)
        if gap:
            yield unescaped(gap), True
        if child.type == "$" and child.next_sibling is not None and child.next_sibling.type == "string":
            yield unescaped(text_of(child)[:-1]), True
        else:
            yield from pieces_of(child)
        end = child.end_byte - node.start_byte
    if end < len(whole):
        yield unescaped(whole[end:].decode("utf-8", "surrogateescape")), True


def string_pieces(node: Node) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text in double quotes; what stands between its named parts is text too."""
    whole, begin = node.text or b"", 1
    for child in node.named_children:
        if child.type == "string_content":
            continue
        at = child.start_byte - node.start_byte
        yield quoted(whole[begin:at]), True
        yield hidden(text_of(child)), False
        begin = child.end_byte - node.start_byte
    end = len(whole) - 1 if whole.endswith(b'"') and len(whole) > 1 else len(whole)
    yield quoted(whole[begin:end]), True


def quoted(data: bytes) -> str:
    text = data.decode("utf-8", "surrogateescape")
    return hidden(re.sub(r'\\([$`"\\\n])', lambda found: "" if found[1] == "\n" else found[1], text))


def unescaped(text: str) -> str:
    """Remove backslashes: what follows one has no meaning to the shell; a line that is continued is joined."""
    return re.sub(r"\\(.)", lambda found: "" if found[1] == "\n" else hidden(found[1]), text, flags=re.DOTALL)


def ansi(found: re.Match[str]) -> str:
    by_hex, octal, short, long, control, letter = found.groups()
    if (digits := by_hex or short or long) is not None:
        return character(int(digits, 16))
    if octal is not None:
        return character(int(octal, 8) & 0xFF)
    if control is not None:
        return chr(ord(control[0]) & 0x1F)
    return ANSI_LETTERS.get(letter, letter)


def character(number: int) -> str:
    return chr(number) if number < 0x110000 else "\ufffd"


def hidden(text: str) -> str:
    return "".join(HIDDEN.get(one, one) for one in text) if any(one in HIDDEN for one in text) else text


def shown(text: str) -> str:
    return "".join(SHOWN.get(one, one) for one in text) if any(one in SHOWN for one in text) else text


class Choice(NamedTuple):
    """What braces stand for that mean a choice, and where they begin and end."""

    begin: int
    end: int
    words: list[str]


def expand(text: str) -> list[str] | None:
    """Expand the braces that the shell would; None if that gives too many words.

    One pass, whatever the text opens and does not close.
    """
    opened: list[tuple[list[int], int]] = []  # of each: where it and its commas stand, how many choices come before it
    found: list[Choice] = []
    for mark in MARK.finditer(text):
        at = mark.start()
        if mark[0] == "{":
            opened.append(([at], len(found)))
        elif mark[0] == "," and opened:
            opened[-1][0].append(at)
        elif mark[0] == "}" and opened:
            (begin, *commas), first = opened.pop()
            if text[begin - 1 : begin] == "$":
                continue
            if commas:
                words = chosen(text, [begin, *commas, at], found[first:])
                if words is None:
                    return None
                found[first:] = [Choice(begin, at + 1, words)]
            elif at - begin <= MAX_RANGE and (numbers := ranged(text[begin + 1 : at])) is not None:
                found.append(Choice(begin, at + 1, numbers))
    return product(text, 0, len(text), found)


def chosen(text: str, marks: Sequence[int], found: Sequence[Choice]) -> list[str] | None:
    """Return what stands between some marks, each part with the choices in it; None if it is too much."""
    words: list[str] = []
    first = 0
    for last, end in itertools.pairwise(marks):
        after = first
        while after < len(found) and found[after].begin < end:
            after += 1
        inside = product(text, last + 1, end, found[first:after])
        if inside is None or len(words) + len(inside) > MAX_BRACES:
            return None
        words += inside
        first = after
    return words


def product(text: str, begin: int, end: int, found: Sequence[Choice]) -> list[str] | None:
    """Return each way of making the choices in a part of a text; None if there are too many, or they are too long."""
    words = [""]
    if len(found) > MAX_BRACES:
        return None
    for choice in found:
        if len(words) * len(choice.words) > MAX_BRACES:
            return None
        words = [one + text[begin : choice.begin] + other for one in words for other in choice.words]
        if sum(map(len, words)) > MAX_EXPANDED:
            return None
        begin = choice.end
    if len(words) > 1 and len(words) * (end - begin) > MAX_EXPANDED:
        return None
    return [one + text[begin:end] for one in words]


def ranged(text: str) -> list[str] | None:
    """Return what {1..3} or {a..c} stands for; None if it is neither, or too long: then it stays as it is written."""
    found = RANGE.fullmatch(text)
    if found is None:
        return None
    first, last, step = found.groups()
    is_numeric = not first.isalpha() and not last.isalpha()
    if not is_numeric and not (first.isalpha() and last.isalpha()):
        return None
    low, high = (int(first), int(last)) if is_numeric else (ord(first), ord(last))
    by = abs(int(step)) if step and int(step) else 1
    numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
    if len(numbers) > MAX_BRACES:
        return None
    return [str(number) if is_numeric else chr(number) for number in numbers]

"""A shell text as a tree of the grammar tree-sitter-bash, in time that is in proportion to the text.

The parser takes the square of a text that it has to mend, and a text that cannot be parsed is refused anyway: so it is
stopped at the first error, and where it works longer or reads more often than any text needs that a person writes.
Knows the grammar; knows neither words nor commands.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hooklatch.guards.command import UnreadableCommandError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Point

__all__ = ["MAX_TEXT", "tree_of"]

DOUBTFUL = re.compile(rb"\\\\'|\n[ \t]*\\\r?\n|\\\r\n")
LINE_END = re.compile(rb"(?<!\\)\n")  # of a line that is not continued
OF_ONE_LINE = {"command", "declaration_command", "unset_command", "redirected_statement", "file_redirect"}
CLOSED = re.compile(rb"\$'(?:\\.|[^'\\])*'", re.DOTALL)
# A here-document, then redirections, then a pipe: an error to the grammar, unless the redirections come first.
BEFORE_PIPE = re.compile(
    rb"""(?<=[ \t])(<<-?[ \t]*(?:'\w+'|"\w+"|\\?\w+))((?:[ \t]+(?:\d?>&\d|[12&]?>>?[ \t]*[\w./~-]+))+)(?=[ \t]*\|)"""
)
SLASHED = re.compile(rb"(?<!\\)(?:\\\\)*\n(?=\r?\\)")  # before a line that the grammar takes for a part of the last one
DATA = frozenset(
    {"string", "string_content", "raw_string", "ansi_c_string", "heredoc_body", "heredoc_content", "comment"}
)
MAX_MENDS = 8
MAX_TEXT = 1024 * 1024  # characters
SHORT = 2048  # bytes; such a text is parsed at once, since even the square of it is little
CHUNK = 256  # bytes that the parser is given at a time: so it shows how often it reads the same
MAX_READS = 64  # and for each chunk of a text
MAX_READS_EACH = 16  # scripts that people have written need 1 to 4
MAX_ROUNDS = 3_000  # of a hundred steps
MIN_ROUNDS = 200  # and one for so many characters, where such scripts need one for 100
ROUND = 50
MAX_TIME = 0.5  # seconds of this thread: the square of a few shapes that have no error hides in ever longer rounds


@functools.cache
def parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def tree_of(text: str, source: bytes) -> tuple[Node, bytes]:
    """Return the root of the tree of a text, and the bytes that were parsed.

    `source` is the text in bytes.  To the grammar a line that begins with a backslash is more words of the command
    before it, unless a blank stands there: so one is put there.

    Raises:
        UnreadableCommandError: it cannot be parsed, or not in a time that is in proportion to its length.
    """
    for _ in range(MAX_MENDS):
        try:
            root = parsed(text, source)
        except UnreadableCommandError:
            moved = BEFORE_PIPE.sub(rb"\2 \1", source)
            if moved == source:
                raise
            source = moved
            continue
        joined = [found.end() for found in SLASHED.finditer(source) if is_joined(root, source, found.end() - 1)]
        if not joined:
            break
        pieces = [source[begin:end] for begin, end in zip([0, *joined], [*joined, len(source)], strict=True)]
        source = b" ".join(pieces)
    else:
        raise unparsable(text)
    if DOUBTFUL.search(source) and not all(map(is_as_written, below(root))):
        raise unparsable(text)
    return root, source


def parsed(text: str, source: bytes) -> Node:
    if len(source) > SHORT:
        try_out(text, source)
    root = parser().parse(source).root_node
    if root.has_error:
        raise unparsable(text)
    return root


def is_joined(root: Node, source: bytes, at: int) -> bool:
    node = root.descendant_for_byte_range(at, at + 1)
    if node is None or node.type in DATA or source[at + 1 : at + 2] in (b" ", b"\t"):
        return False
    return node.type in ("word", "command", "declaration_command", "unset_command") or node.type.endswith("_redirect")


def below(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        yield (one := waiting.pop())
        waiting += one.named_children


def is_as_written(node: Node) -> bool:
    """Return whether a node ends where the shell ends it.

    To the grammar a quote behind a backslash never ends a text in $'…', and a line that has nothing but a backslash
    continues the one before.
    """
    if node.type == "ansi_c_string":
        return CLOSED.fullmatch(node.text or b"") is not None
    if node.type not in OF_ONE_LINE:
        return True
    whole = node.text or b""
    return not any(
        LINE_END.search(whole, one.end_byte - node.start_byte, other.start_byte - node.start_byte)
        for one, other in itertools.pairwise(node.children)
        if one.type != "heredoc_redirect"
    )


def try_out(text: str, source: bytes) -> None:
    """Parse a text as long as it has no error and the work is in proportion to its length."""
    rounds = reads = 0
    is_wrong = False
    most = MAX_READS + MAX_READS_EACH * (len(source) // CHUNK)
    most_rounds = min(MAX_ROUNDS, MIN_ROUNDS + len(source) // ROUND)

    def read(begin: int, _: Point) -> bytes:
        nonlocal reads
        reads += 1
        return source[begin : begin + CHUNK] if reads <= most else b""

    def is_too_much() -> bool:
        return rounds > most_rounds or reads > most or time.thread_time() - begun > MAX_TIME

    def is_over(_: int, has_error: bool) -> bool:
        nonlocal rounds, is_wrong
        rounds += 1
        is_wrong = is_wrong or has_error
        return is_wrong or is_too_much()

    begun = time.thread_time()
    try:
        root = parser().parse(read, progress_callback=is_over).root_node
    except ValueError:  # it was stopped
        parser().reset()
        if is_wrong:
            raise unparsable(text) from None
        raise too_much(text) from None
    if reads > most:  # it was given less than there is
        raise too_much(text)
    if root.has_error:
        raise unparsable(text)


def too_much(text: str) -> UnreadableCommandError:
    return UnreadableCommandError(f"it takes too long to parse; write it to a file, or in parts: {shortened(text)}")


def unparsable(text: str) -> UnreadableCommandError:
    return UnreadableCommandError(f"it cannot be parsed as shell text: {shortened(text)}")


def shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."

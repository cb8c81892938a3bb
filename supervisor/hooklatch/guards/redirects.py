"""The redirections of a command: where it writes, and what it reads.  Knows nodes of the grammar; no programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hooklatch.guards.command import Redirect, UnreadableCommandError
from hooklatch.guards.words import Word, read_words, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["behind", "expanded_in", "fed", "heredoc_of", "is_descriptor", "redirect_of", "unquoted"]

CLOSING = frozenset({">&-", "<&-"})  # they have no target
DESCRIPTOR = re.compile(r"\{\w+\}")
QUOTED = re.compile(r"\\.|`((?:[^`\\]|\\.)*)(`?)", re.DOTALL)  # in backticks; what a backslash precedes is not


def redirect_of(node: Node) -> Redirect:
    operator = next((child.type for child in node.children if not child.is_named), ">")
    if operator in CLOSING:
        return Redirect(operator, Word(operator, False))
    targets = [child for child in node.named_children if child.type != "file_descriptor"]
    words = read_words(targets[0]) if targets else []
    return Redirect(operator, words[0] if len(words) == 1 else Word(text_of(node), False))


def behind(node: Node) -> list[list[Node]]:
    """Return the words that stand behind a redirection, and are the command's: the grammar gives them to it."""
    if node.type == "heredoc_redirect":
        inner = [words for child in node.named_children if child.type == "file_redirect" for words in behind(child)]
        return [node.children_by_field_name("argument"), *inner]
    has_target = not any(child.type in CLOSING for child in node.children)
    return [node.children_by_field_name("destination")[has_target:]]


def is_descriptor(word: Node, source: bytes) -> bool:
    """Return whether a word is the variable for the descriptor of the redirection that follows it: {log}>file."""
    return source[word.end_byte : word.end_byte + 1] in (b"<", b">") and DESCRIPTOR.fullmatch(text_of(word)) is not None


def expanded_in(node: Node) -> Iterator[str]:
    """Yield what a here-document runs in backticks, in which the grammar finds nothing.

    Raises:
        UnreadableCommandError: one of them is not closed.
    """
    body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
    if body is None or is_quoted(node):
        return
    for found in QUOTED.finditer(text_of(body)):
        if found[1] is None:
            continue
        if not found[2]:
            raise UnreadableCommandError("a here-document has a backtick alone; quote its end, as in <<'END'")
        yield unquoted(found[1])


def unquoted(text: str) -> str:
    """Return what stands in backticks as the shell reads it."""
    return re.sub(r"\\([\\`$])", r"\1", text)


def is_quoted(node: Node) -> bool:
    """Return whether the end of a here-document is quoted, so that nothing in it is expanded."""
    start = next((text_of(child) for child in node.named_children if child.type == "heredoc_start"), "")
    return any(mark in start for mark in "'\"\\")


def heredoc_of(node: Node) -> Word:
    """Return the text of a here-document; it is known if nothing in it is expanded, or its end is quoted."""
    body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
    if body is None:
        return Word("")
    is_plain = all(child.type == "heredoc_content" for child in body.named_children) and "`" not in text_of(body)
    return Word(text_of(body), is_quoted(node) or is_plain)


def fed(redirects: Sequence[Redirect]) -> str | None:
    return "<" if any(one.operator in ("<", "<<", "<<<", "<<-") for one in redirects) else None

"""The redirections of a command: where it writes, and what it reads.  Knows nodes of the grammar; no programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hooklatch.guards.command import Redirect
from hooklatch.guards.words import Word, read_words, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["fed", "heredoc_of", "redirect_of"]


def redirect_of(node: Node) -> Redirect:
    operator = next((child.type for child in node.children if not child.is_named), ">")
    targets = [child for child in node.named_children if child.type != "file_descriptor"]
    words = read_words(targets[-1]) if targets else []
    return Redirect(operator, words[0] if len(words) == 1 else Word(text_of(node), False))


def heredoc_of(node: Node) -> Word:
    """Return the text of a here-document; it is known if nothing in it is expanded, or its end is quoted."""
    start = next((text_of(child) for child in node.named_children if child.type == "heredoc_start"), "")
    body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
    if body is None:
        return Word("")
    is_quoted = any(mark in start for mark in "'\"\\")
    return Word(text_of(body), is_quoted or not any(child.type != "heredoc_content" for child in body.named_children))


def fed(redirects: Sequence[Redirect]) -> str | None:
    return "<" if any(one.operator in ("<", "<<", "<<<", "<<-") for one in redirects) else None

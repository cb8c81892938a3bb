"""What a command reads: from which program, and the text itself where that is known.  Knows echo, printf and cat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hooklatch.guards.shell.languages import Language
from hooklatch.guards.shell.tree import Document, Node, Redirection, Simple, words_in
from hooklatch.guards.words import Word

__all__ = ["Flow", "feeding", "printed_by", "sent"]

ECHO_OPTION = re.compile(r"-[neE]+")
FORMAT = re.compile(r"[^%\\]+|%[s%]|\\[nt]")
ESCAPES: dict[str, str] = {"\\n": "\n", "\\t": "\t", "%%": "%"}
MAX_ROUNDS = 256  # of a format of printf over its words


class Flow(NamedTuple):
    """What reaches a command: the program that sends it, "?" if unknown, "<" for a file; and the text if known."""

    fed_by: str | None = None
    given: str | None = None


def feeding(redirections: Sequence[Redirection], flow: Flow) -> Flow:
    """Return what reaches a command with these redirections."""
    for one in redirections:
        if not one.operator.startswith("<") or one.number not in ("", "0"):
            if one.operator.startswith("<"):  # it may read that descriptor, too: bash /dev/fd/3
                flow = Flow(flow.fed_by or "<", flow.given)
            continue
        given: str | None = None
        if isinstance(one.target, Document):
            given = one.target.text if one.target.is_known else None
        elif one.operator == "<<<":
            words = one.target.words()
            given = f"{words[0].text}\n" if len(words) == 1 and words[0].is_known else None
        flow = Flow(flow.fed_by or "<", given)
    return flow


def printed_by(node: Node, flow: Flow, language: Language) -> str | None:
    """Return exactly what a command prints for the one that reads it; None if that is not known."""
    if not isinstance(node, Simple):
        return None
    words = list(words_in(node.words))
    texts = [word.text for word in words[1:]]
    if not words or not all(word.is_known for word in words):
        return None
    if words[0].text == "cat" and texts in ([], ["-"]):
        is_input = all(isinstance(one.target, Document) or one.operator == "<<<" for one in node.redirections)
        return feeding(node.redirections, flow).given if is_input else None
    if node.redirections:
        return None
    if words[0].text == "echo":
        return echoed(texts, language)
    if words[0].text == "printf" and texts:
        return formatted(texts[0], texts[1:])
    return None


def echoed(texts: list[str], language: Language) -> str | None:
    """Return what echo prints: to bash a backslash is a letter without -e, to others it begins an escape."""
    options = ""
    while texts and ECHO_OPTION.fullmatch(texts[0]):
        options += texts[0][1:]
        texts = texts[1:]
    if not language.is_bash and options not in ("", "n"):
        return None
    text = " ".join(texts)
    if "\\" in text and (not language.is_bash or "e" in options):
        pieces: list[str] = FORMAT.findall(text.replace("%", "%%"))
        if "".join(pieces) != text.replace("%", "%%"):
            return None
        text = "".join(ESCAPES.get(one, one) for one in pieces)
    return text if "n" in options else f"{text}\n"


def formatted(form: str, texts: Sequence[str]) -> str | None:
    """Return what printf prints, which repeats its format until all words are used; None for other conversions."""
    pieces: list[str] = FORMAT.findall(form)
    count = pieces.count("%s")
    if "".join(pieces) != form or (not count and texts) or len(texts) > MAX_ROUNDS or form.startswith("-"):
        return None
    found: list[str] = []
    for at in range(0, max(len(texts), 1), count or 1):
        values = iter([*texts[at : at + count], *[""] * count])
        found += [next(values) if one == "%s" else ESCAPES.get(one, one) for one in pieces]
    return "".join(found)


def sent(flow: Flow) -> Word:
    """Return what a shell reads as a text to be run."""
    return Word("what it reads", False) if flow.given is None else Word(flow.given)

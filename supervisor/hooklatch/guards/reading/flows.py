"""What a command reads: from which programs, and the text as far as it is known.  Knows echo, printf, cat and tee."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hooklatch.guards.command import Redirect
from hooklatch.guards.shell.languages import Language
from hooklatch.guards.shell.tree import Chain, Compound, Document, Node, Pipeline, Redirection, Simple, words_in
from hooklatch.guards.words import Word

__all__ = ["MAX_TEXT", "READ", "Flow", "feeding", "printed_by", "reads_before", "redirect_of", "sent"]

ECHO_OPTION = re.compile(r"-[neE]+")
FORMAT = re.compile(r"[^%\\]+|%[s%]|\\[nt]")
ESCAPES: dict[str, str] = {"\\n": "\n", "\\t": "\t", "%%": "%"}
MAX_ROUNDS = 256  # of a format of printf over its words
READ = "what it reads"
MAX_TEXT = 1 << 12  # characters of a text that is not wholly known


class Flow(NamedTuple):
    """What reaches a command.

    `fed_by` is the program that sends it, "?" if unknown, "<" for a file; `given` the text, which is known if it is
    exactly that, and else has what is known of it; `sources` are all programs that it has come through.
    """

    fed_by: str | None = None
    given: Word | None = None
    sources: tuple[str, ...] = ()

    def shared(self) -> Flow:
        """Return what reaches each of several commands, of which one reads what another has left."""
        return (
            self if self.given is None or not self.given.is_known else self._replace(given=Word(self.given.text, False))
        )


def feeding(redirections: Sequence[Redirection], flow: Flow) -> Flow:
    """Return what reaches a command with these redirections."""
    for one in redirections:
        if not one.operator.startswith("<") or one.number not in ("", "0"):
            if one.operator.startswith("<"):  # it may read that descriptor, too: bash /dev/fd/3
                flow = Flow(flow.fed_by or "<", flow.given, flow.sources)
            continue
        given: Word | None = None
        if isinstance(one.target, Document):
            given = Word(one.target.text, one.target.is_known)
        elif one.operator == "<<<":
            words = one.target.words()
            text = " ".join(word.text for word in words)
            given = Word(f"{text}\n", len(words) == 1 and words[0].is_known)
        elif any(word.text.startswith("<(") for word in one.target.words()):
            given = Word(one.target.words()[0].text, False)
        flow = Flow(flow.fed_by or "<", given)
    return flow


def printed_by(node: Node, flow: Flow, language: Language) -> Word:
    """Return what a command prints for the one that reads it: exactly, or else what is known of it."""
    exact = exactly(node, flow, language)
    if exact is not None:
        return Word(exact)
    before = flow.given.text if flow.given is not None else ""
    return Word(f"{before}\n{text_of(node)}"[-MAX_TEXT:], False)


def reads_before(node: Simple) -> bool:
    """Return whether a substitution in a command may read a part of what reaches it, before it begins."""
    values = [value for one in node.assignments for value in one.values]
    return any(word.inside for word in (*values, *node.words) if not isinstance(word, str))


def text_of(node: Node) -> str:
    """Return what is written in a part of a text, with its here-documents."""
    match node:
        case Simple():
            bodies = [one.target.text for one in node.redirections if isinstance(one.target, Document)]
            return "\n".join((node.text, *bodies))
        case Compound():
            return "\n".join((node.text, *(text_of(one) for body in node.bodies for one in body.nodes)))
        case Pipeline():
            return "\n".join(map(text_of, node.parts))
        case Chain():
            return "\n".join(map(text_of, (node.first, *(other for _, other in node.rest))))
        case _:
            return node.name


def exactly(node: Node, flow: Flow, language: Language) -> str | None:
    """Return exactly what a command prints; None if that is not known."""
    if isinstance(node, Compound) and node.kind in "({" and not node.redirections and not flow.fed_by:
        parts = [exactly(one, flow, language) for body in node.bodies for one in body.nodes]
        known = [one for one in parts if one is not None]
        return "".join(known) if len(known) == len(parts) else None
    if not isinstance(node, Simple):
        return None
    words = list(words_in(node.words))
    texts = [word.text for word in words[1:]]
    if not words or not all(word.is_known for word in words):
        return None
    if words[0].text == "cat" and texts in ([], ["-"]):
        is_input = all(isinstance(one.target, Document) or one.operator == "<<<" for one in node.redirections)
        return known_text(feeding(node.redirections, flow)) if is_input else None
    if words[0].text == "tee" and not any(text.startswith("-") and text != "-a" for text in texts):
        return known_text(feeding(node.redirections, flow))
    if any(not one.operator.startswith("<") and one.number in ("", "1") for one in node.redirections):
        return None
    if words[0].text == "echo":
        return echoed(texts, language)
    if words[0].text == "printf" and texts:
        return formatted(texts[0], texts[1:])
    return None


def known_text(flow: Flow) -> str | None:
    return flow.given.text if flow.given is not None and flow.given.is_known else None


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
    is_nothing = flow.given is None or not (flow.given.is_known or flow.given.text.strip())
    return Word(READ, False) if is_nothing or flow.given is None else flow.given


def redirect_of(one: Redirection) -> Redirect:
    if isinstance(one.target, Document):
        return Redirect(one.operator, Word(one.target.text, one.target.is_known))
    words = one.target.words()
    if len(words) == 1:
        return Redirect(one.operator, words[0])
    return Redirect(one.operator, Word(" ".join(word.text for word in words), False))

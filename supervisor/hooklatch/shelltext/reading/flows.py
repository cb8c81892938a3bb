"""The input of a command: from which programs, and the text as far as it is known.  Knows echo, printf, cat and tee."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from hooklatch.shelltext.command import Redirect
from hooklatch.shelltext.grammar.languages import ShellLanguage
from hooklatch.shelltext.grammar.tree import (
    CommandChain,
    CompoundCommand,
    HereDocument,
    Node,
    Pipeline,
    Redirection,
    SimpleCommand,
    make_shell_words,
)
from hooklatch.shelltext.words import Word

__all__ = [
    "MAX_TEXT", "READ", "InputFlow", "apply_redirections", "compute_output", "is_input", "may_read_before",
    "make_redirect", "make_input_word",
]  # fmt: skip

ECHO_OPTION = re.compile(r"-[neE]+")
FORMAT = re.compile(r"[^%\\]+|%[s%]|\\[nt]")
ESCAPES: dict[str, str] = {"\\n": "\n", "\\t": "\t", "%%": "%"}
MAX_ROUNDS = 256  # of a format of printf over its words
# Names that may be those of the standard input.
STDIN = re.compile(r"(?:/dev|/proc)(?:/.*)?|(?:.*/)?stdin|(?:.*/)?fd(?:/.*)?|\.\.?|/|[0-9]")
READ = "what it reads"
MAX_TEXT = 1 << 12  # characters of a text that is not wholly known


class InputFlow(NamedTuple):
    """The input that reaches a command.

    `fed_by` is the program that sends it, "?" if unknown, "<" for a file; `given` the text, which is known if it is
    exactly that, and else has what is known of it; `sources` are all programs that it has come through.
    """

    fed_by: str | None = None
    given: Word | None = None
    sources: tuple[str, ...] = ()

    def shared(self) -> InputFlow:
        """Return what reaches each of several commands, of which one reads what another has left."""
        return (
            self if self.given is None or not self.given.is_known else self._replace(given=Word(self.given.text, False))
        )


def is_input(path: str) -> bool:
    """Return whether a file may be what a shell reads, however it is written."""
    return STDIN.fullmatch(posixpath.normpath(path)) is not None


def apply_redirections(redirections: Sequence[Redirection], flow: InputFlow) -> InputFlow:
    """Return what reaches a command with these redirections."""
    for redirection in redirections:
        if not redirection.operator.startswith("<") or redirection.number not in ("", "0"):
            if redirection.operator.startswith("<"):  # it may read that descriptor, too: bash /dev/fd/3
                flow = InputFlow(flow.fed_by or "<", flow.given, flow.sources)
            continue
        given: Word | None = None
        if isinstance(redirection.target, HereDocument):
            given = Word(redirection.target.text, redirection.target.is_known)
        elif redirection.operator == "<<<":
            words = redirection.target.words()
            text = " ".join(word.text for word in words)
            given = Word(f"{text}\n", len(words) == 1 and words[0].is_known)
        elif any(word.text.startswith("<(") for word in redirection.target.words()):
            given = Word(redirection.target.words()[0].text, False)
        flow = InputFlow(flow.fed_by or "<", given)
    return flow


def compute_output(node: Node, flow: InputFlow, language: ShellLanguage) -> Word:
    """Return what a command prints for the one that reads it: exactly, or else what is known of it."""
    exact = compute_exact_output(node, flow, language)
    if exact is not None:
        return Word(exact)
    before = flow.given.text if flow.given is not None else ""
    return Word(f"{before}\n{read_node_text(node)}"[-MAX_TEXT:], False)


def may_read_before(node: SimpleCommand) -> bool:
    """Return whether a substitution in a command may read a part of what reaches it, before it begins."""
    values = [value for assignment in node.assignments for value in assignment.values]
    return any(word.inside for word in (*values, *node.words) if not isinstance(word, str))


def read_node_text(node: Node) -> str:
    """Return what is written in a part of a text, with its here-documents."""
    match node:
        case SimpleCommand():
            bodies = [
                redirection.target.text
                for redirection in node.redirections
                if isinstance(redirection.target, HereDocument)
            ]
            return "\n".join((node.text, *bodies))
        case CompoundCommand():
            return "\n".join((node.text, *(read_node_text(inner) for body in node.bodies for inner in body.nodes)))
        case Pipeline():
            return "\n".join(map(read_node_text, node.parts))
        case CommandChain():
            return "\n".join(map(read_node_text, (node.first, *(other for _, other in node.rest))))
        case _:
            return node.name


def compute_exact_output(node: Node, flow: InputFlow, language: ShellLanguage) -> str | None:
    """Return exactly what a command prints; None if that is not known."""
    if isinstance(node, CompoundCommand) and node.kind in "({" and not node.redirections and not flow.fed_by:
        parts = [compute_exact_output(inner, flow, language) for body in node.bodies for inner in body.nodes]
        known = [part for part in parts if part is not None]
        return "".join(known) if len(known) == len(parts) else None
    if not isinstance(node, SimpleCommand):
        return None
    words = list(make_shell_words(node.words))
    texts = [word.text for word in words[1:]]
    if not words or not all(word.is_known for word in words):
        return None
    if words[0].text == "cat" and texts in ([], ["-"]):
        is_input = all(
            isinstance(redirection.target, HereDocument) or redirection.operator == "<<<"
            for redirection in node.redirections
        )
        return find_known_text(apply_redirections(node.redirections, flow)) if is_input else None
    if words[0].text == "tee" and not any(text.startswith("-") and text != "-a" for text in texts):
        return find_known_text(apply_redirections(node.redirections, flow))
    if any(
        not redirection.operator.startswith("<") and redirection.number in ("", "1")
        for redirection in node.redirections
    ):
        return None
    if words[0].text == "echo":
        return compute_echo(texts, language)
    if words[0].text == "printf" and texts:
        return compute_printf(texts[0], texts[1:])
    return None


def find_known_text(flow: InputFlow) -> str | None:
    return flow.given.text if flow.given is not None and flow.given.is_known else None


def compute_echo(texts: list[str], language: ShellLanguage) -> str | None:
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
        text = "".join(ESCAPES.get(piece, piece) for piece in pieces)
    return text if "n" in options else f"{text}\n"


def compute_printf(form: str, texts: Sequence[str]) -> str | None:
    """Return what printf prints, which repeats its format until all words are used; None for other conversions."""
    pieces: list[str] = FORMAT.findall(form)
    count = pieces.count("%s")
    if "".join(pieces) != form or (not count and texts) or len(texts) > MAX_ROUNDS or form.startswith("-"):
        return None
    found: list[str] = []
    for at in range(0, max(len(texts), 1), count or 1):
        values = iter([*texts[at : at + count], *[""] * count])
        found += [next(values) if piece == "%s" else ESCAPES.get(piece, piece) for piece in pieces]
    return "".join(found)


def make_input_word(flow: InputFlow) -> Word:
    """Return what a shell reads as a text to be run."""
    is_nothing = flow.given is None or not (flow.given.is_known or flow.given.text.strip())
    return Word(READ, False) if is_nothing or flow.given is None else flow.given


def make_redirect(redirection: Redirection) -> Redirect:
    if isinstance(redirection.target, HereDocument):
        return Redirect(redirection.operator, Word(redirection.target.text, redirection.target.is_known))
    words = redirection.target.words()
    if len(words) == 1:
        return Redirect(redirection.operator, words[0])
    return Redirect(redirection.operator, Word(" ".join(word.text for word in words), False))

"""What a text is read into: words as they are written, and the commands that hold them.  Plain records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hooklatch.guards.words import ELSEWHERE, Piece, Word, words_of

__all__ = [
    "Assignment", "Chain", "Compound", "Document", "Function", "Node", "Pipeline", "Redirection", "Script", "Simple",
    "Written", "simples_of", "words_in",
]  # fmt: skip


class Script(NamedTuple):
    """Commands one after the other; `in_background` has the places of those that are followed by `&`."""

    nodes: tuple[Node, ...]
    in_background: frozenset[int] = frozenset()


class Written(NamedTuple):
    """A word as it is written: its pieces, what runs in it, and its text where nothing in it is quoted or expanded.

    `has_braces`: braces in it mean a choice, None where they do so in some shells.
    """

    pieces: tuple[Piece, ...]
    bare: str | None = None
    inside: tuple[Script, ...] = ()
    has_braces: bool | None = False
    reads: bool = False  # it is >(…), which reads what another command writes

    def words(self) -> list[Word]:
        """Return what the word becomes: several words if it has braces, none if it expands to nothing."""
        return words_of(self.pieces, has_braces=self.has_braces)


class Assignment(NamedTuple):
    """One assignment before a command; of an array the values are its items."""

    name: str
    values: tuple[Written, ...]


class Document:
    """A here-document, which is complete when the line has ended that names it."""

    __slots__ = ("inside", "is_known", "text")

    def __init__(self) -> None:
        self.text = ""
        self.is_known = True
        self.inside: tuple[Script, ...] = ()


class Redirection(NamedTuple):
    """One redirection: its operator, where it leads, and the number before it."""

    operator: str
    target: Written | Document
    number: str = ""


class Simple(NamedTuple):
    """A program with its words, assignments and redirections, each in its order; a plain word is just its text."""

    text: str
    assignments: tuple[Assignment, ...]
    words: Sequence[Written | str]
    redirections: tuple[Redirection, ...]


class Pipeline(NamedTuple):
    """Commands of which each reads what the one before it prints."""

    parts: tuple[Node, ...]
    is_negated: bool = False


class Chain(NamedTuple):
    """Commands with `&&` and `||` between them."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Compound(NamedTuple):
    """What stands between words of the language; `kind` is the first of them."""

    kind: str
    text: str
    words: tuple[Written, ...]
    bodies: tuple[Script, ...]
    redirections: tuple[Redirection, ...] = ()


class Function(NamedTuple):
    """A function, whose body runs wherever its name is called."""

    name: str
    body: Node


Node: TypeAlias = Simple | Pipeline | Chain | Compound | Function


def words_in(words: Sequence[Written | str]) -> Iterator[Word]:
    """Yield what words as they are written become."""
    for one in words:
        if isinstance(one, str):
            yield Word(one, not one.startswith("~") or ELSEWHERE.match(one) is None)
        else:
            yield from one.words()


def simples_of(script: Script) -> Iterator[Simple]:
    """Yield each program with its words, in the order of the text; those of substitutions in it come before it."""
    for node in script.nodes:
        yield from simples_below(node)


def simples_below(node: Node) -> Iterator[Simple]:
    match node:
        case Simple():
            values = [word for one in node.assignments for word in one.values]
            inside = [*values, *node.words, *(one.target for one in node.redirections)]
            yield from (one for word in inside if not isinstance(word, str) for one in within(word))
            yield node
        case Pipeline():
            yield from (one for part in node.parts for one in simples_below(part))
        case Chain():
            yield from simples_below(node.first)
            yield from (one for _, other in node.rest for one in simples_below(other))
        case Function():
            yield from simples_below(node.body)
        case Compound():
            targets = [one.target for one in node.redirections]
            yield from (one for word in (*node.words, *targets) for one in within(word))
            yield from (one for body in node.bodies for one in simples_of(body))


def within(word: Written | Document) -> Iterator[Simple]:
    return (one for script in word.inside for one in simples_of(script))

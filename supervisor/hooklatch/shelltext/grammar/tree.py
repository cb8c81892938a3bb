"""The tree of a shell text: words as they are written, and the commands that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from hooklatch.shelltext.words import ELSEWHERE, Word, WordPiece, make_words

__all__ = [
    "Assignment", "CommandChain", "CompoundCommand", "HereDocument", "Function", "Node", "Pipeline", "Redirection",
    "CommandList", "SimpleCommand", "ShellWord", "list_simple_commands", "make_shell_words",
]  # fmt: skip


class CommandList(NamedTuple):
    """Commands one after the other; `in_background` has the places of those that are followed by `&`."""

    nodes: tuple[Node, ...]
    in_background: frozenset[int] = frozenset()


class ShellWord(NamedTuple):
    """A word as it is written: its pieces, what runs in it, and its text where nothing in it is quoted or expanded.

    `has_braces`: braces in it mean a choice, None where they do so in some shells.
    """

    pieces: tuple[WordPiece, ...]
    bare: str | None = None
    inside: tuple[CommandList, ...] = ()
    has_braces: bool | None = False
    reads: bool = False  # it is >(…), which reads what another command writes

    def words(self) -> list[Word]:
        """Return what the word becomes: several words if it has braces, none if it expands to nothing."""
        return make_words(self.pieces, has_braces=self.has_braces)


class Assignment(NamedTuple):
    """One assignment before a command; of an array the values are its items."""

    name: str
    values: tuple[ShellWord, ...]


class HereDocument:
    """A here-document.  Its text is known when the line that names it has ended, so it is filled in then."""

    __slots__ = ("inside", "is_known", "text")

    def __init__(self) -> None:
        self.text = ""
        self.is_known = True
        self.inside: tuple[CommandList, ...] = ()


class Redirection(NamedTuple):
    """One redirection: its operator, where it leads, and the number before it."""

    operator: str
    target: ShellWord | HereDocument
    number: str = ""


class SimpleCommand(NamedTuple):
    """A program with its words, assignments and redirections, each in its order; a plain word is just its text."""

    text: str
    assignments: tuple[Assignment, ...]
    words: Sequence[ShellWord | str]
    redirections: tuple[Redirection, ...]


class Pipeline(NamedTuple):
    """Commands of which each reads what the one before it prints."""

    parts: tuple[Node, ...]
    is_negated: bool = False


class CommandChain(NamedTuple):
    """Commands with `&&` and `||` between them."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class CompoundCommand(NamedTuple):
    """A command that begins with a reserved word, such as `if`, which is its `kind`."""

    kind: str
    text: str
    words: tuple[ShellWord, ...]
    bodies: tuple[CommandList, ...]
    redirections: tuple[Redirection, ...] = ()


class Function(NamedTuple):
    """A function, whose body runs wherever its name is called."""

    name: str
    body: Node


Node: TypeAlias = SimpleCommand | Pipeline | CommandChain | CompoundCommand | Function


def make_shell_words(words: Sequence[ShellWord | str]) -> Iterator[Word]:
    """Yield the words that a program gets for words as they are written."""
    for word in words:
        if isinstance(word, str):
            yield Word(word, not word.startswith("~") or ELSEWHERE.match(word) is None)
        else:
            yield from word.words()


def list_simple_commands(script: CommandList) -> Iterator[SimpleCommand]:
    """Yield each program with its words, in the order of the text; those of substitutions in it come before it."""
    for node in script.nodes:
        yield from list_simple_commands_below(node)


def list_simple_commands_below(node: Node) -> Iterator[SimpleCommand]:
    match node:
        case SimpleCommand():
            values = [word for assignment in node.assignments for word in assignment.values]
            inside = [*values, *node.words, *(redirection.target for redirection in node.redirections)]
            yield from (
                command for word in inside if not isinstance(word, str) for command in list_simple_commands_within(word)
            )
            yield node
        case Pipeline():
            yield from (command for part in node.parts for command in list_simple_commands_below(part))
        case CommandChain():
            yield from list_simple_commands_below(node.first)
            yield from (command for _, other in node.rest for command in list_simple_commands_below(other))
        case Function():
            yield from list_simple_commands_below(node.body)
        case CompoundCommand():
            targets = [redirection.target for redirection in node.redirections]
            yield from (command for word in (*node.words, *targets) for command in list_simple_commands_within(word))
            yield from (command for body in node.bodies for command in list_simple_commands(body))


def list_simple_commands_within(word: ShellWord | HereDocument) -> Iterator[SimpleCommand]:
    return (command for script in word.inside for command in list_simple_commands(script))

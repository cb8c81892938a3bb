"""Shell text as the commands that it would run, those inside others too: sudo, bash -c, $(…), find -exec, pipes.

The text is parsed by tree-sitter-bash.  Nothing is run, no variable is looked up: what is decided only when it runs is
marked as unknown, and text that cannot be parsed raises, so that a guard which lets that error go denies.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hooklatch.guards.command import Command, Places, Redirect, UnreadableCommandError
from hooklatch.guards.inner import (
    folder_told,
    inner_words,
    name_of,
    printed_by,
    replaced_by_xargs,
    script_in_variable,
    scripts_of,
)
from hooklatch.guards.parsing import MAX_TEXT, shortened, tree_of
from hooklatch.guards.programs import KEYWORDS
from hooklatch.guards.redirects import NOTHING, Behind, behind, fed, unquoted
from hooklatch.guards.words import Word, read_all, read_words, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["commands"]

MAX_DEPTH = 8  # of texts within texts: bash -c "bash -c …"
MAX_INNER = 8  # times the length of a text: what the texts within it may have together
MAX_COMMANDS = 2000
MAX_WORDS = 50_000  # of all commands; words that several programs are given count for each
MAX_PATH = 4096  # characters; the kernel takes no longer ones
MAX_PLACES = 16  # folders that a command may run in; beyond that it is unknown
NO_WORDS = frozenset({"variable_assignment", "subshell"})  # `time (a)` has one
LATER = Word("what it is given when it runs", False)
BLANKS = b" \t\r\n"
BLANK = re.compile(rb"[ \t\r]")
# Between a command and its redirections; the grammar leaves the `-` of `python3 - <<E` out.
SKIPPED = re.compile(rb"(?:[ \t\r\n]|\\\r?\n)*(?:-(?:[ \t]|\\\n|(?=[<>])))?(?:[ \t\r\n]|\\\r?\n)*")
UNREAD = frozenset({"word", "regex", "extglob_pattern"})
HOLDING = re.compile(r"`|\$\(")  # in a word of an expansion, where the grammar finds no command
MOVING = frozenset({"cd", "chdir", "pushd", "popd"})
WORDS_OF_ITS_OWN = frozenset({"case", "esac", "for", "select", "fi", "done"})  # and no programs
LEAVING = frozenset({"exit", "return"})
KEEPING = KEYWORDS | {
    "eval",
    "command",
    "builtin",
    "source",
    ".",
    "time",
    "-",
}  # what these run is run by the shell itself
ITS_OWN = frozenset({"subshell", "command_substitution", "process_substitution"})  # a shell of its own: cd ends with it


def commands(text: str) -> list[Command]:
    """Return every command that a shell text would run, in the order of the text; functions' and branches' too.

    Raises:
        UnreadableCommandError: it cannot be parsed, or is too long or too deep.
    """
    try:
        found = Reading(MAX_INNER * (len(text) + 1024)).script(text, (), 0)
    except RecursionError:
        raise UnreadableCommandError("its parts are nested too deeply") from None
    if len(found) > MAX_COMMANDS:
        raise UnreadableCommandError(f"it has more than {MAX_COMMANDS} commands")
    return found


class Reading:
    """Reads one text, and those inside it."""

    def __init__(self, length: int) -> None:
        self._length = length  # characters that it and the texts inside it may yet have
        self._count = self._words = 0
        self._mark: str | None = None  # what xargs replaces by what it reads
        self._source = b""  # the text that is being read
        self._places: Places = ("",)  # where the next command may run
        self._moved: Places = ("",)  # and where, if the one before it succeeded

    def script(self, text: str, within: tuple[str, ...], depth: int) -> list[Command]:
        if depth > MAX_DEPTH:
            raise UnreadableCommandError(f"commands are nested more than {MAX_DEPTH} deep")
        if len(text) > MAX_TEXT:
            raise UnreadableCommandError(f"it is longer than {MAX_TEXT} characters")
        self._length -= len(text)
        if self._length < 0:
            raise UnreadableCommandError("the texts within it are too many times as long as it is")
        if "\0" in text:
            raise UnreadableCommandError("it has a null character")
        root, source = tree_of(text, text.encode("utf-8", "surrogateescape"))
        before, self._source = self._source, source
        try:
            return self._block(root, within, depth, None)
        finally:
            self._source = before

    def _block(self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        """Return the commands below a node."""
        match node.type:
            case "command_substitution" if (quoted := text_of(node)).startswith("`") and "\\" in quoted:
                before = self._places
                found = self.script(unquoted(quoted[1:-1], is_in_quotes=in_quotes(node)), within, depth + 1)
                self._stay(before)
                return found
            case kind if kind in ITS_OWN:
                reads = (node.text or b"").startswith(b">(")  # what another command writes, it reads
                return self._apart(node, within, depth, "?" if reads else fed_by)
            case "list":
                return self._list(node, within, depth, fed_by)
            case "negated_command":
                found = self._each(node, within, depth, fed_by)
                self._stay(self._places)
                return found
            case "function_definition" | "for_statement" | "while_statement" | "c_style_for_statement":
                before = self._places
                found = self._each(node, within, depth, fed_by)
                if redirects := node.children_by_field_name("redirect"):  # of a function: it has them whenever it runs
                    found += self._alone(behind(redirects, self._source), within, depth, text_of(node))
                self._stay(before if before == self._places else either(before, (*self._places, None)))
                return found
            case "command":
                return self._command(node, within, depth, fed_by, NOTHING)
            case "redirected_statement":
                return self._redirected(node, within, depth, fed_by)
            case "pipeline":
                return self._pipeline(node, within, depth, fed_by)
            case "comment" if is_escaped(self._source, node.start_byte):
                # To the shell that is a part of the word before it, and what follows runs.
                raise UnreadableCommandError("a '#' follows a backslash and a blank; put the word in quotes")
            case "expansion":
                if any(child.type in UNREAD and HOLDING.search(text_of(child)) for child in node.named_children):
                    raise UnreadableCommandError(f"what {shortened(text_of(node))} runs is not read; use $(…)")
                return self._each(node, within, depth, fed_by)
            case "variable_assignment":
                if not is_whole(node):
                    raise UnreadableCommandError(f"an empty value ends with its line: {shortened(text_of(node))}")
                return [*self._kept(node, within, depth), *self._each(node, within, depth, fed_by)]
            case "declaration_command":
                return [*self._declared(node, within), *self._nested(node, within, depth)]
            case _:
                return self._each(node, within, depth, fed_by)

    def _each(self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        return [one for child in node.named_children for one in self._block(child, within, depth, fed_by)]

    def _apart(self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        """Return the commands of a shell of its own, whose `cd` moves nothing outside."""
        before = self._places
        found = self._each(node, within, depth, fed_by)
        self._stay(before)
        return found

    def _list(
        self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None, added: Behind = NOTHING
    ) -> list[Command]:
        """Return the commands of `a && b` or `a || b`: b runs only where a succeeded, or failed.

        Redirections behind it are those of b; the grammar gives them to both.
        """
        first, *rest = node.named_children
        found = self._block(first, within, depth, fed_by)
        failed, moved = self._places, self._moved
        is_and = any(child.type == "&&" for child in node.children)
        if is_and:
            self._stay(moved)
        begun = len(found)
        for child in rest:
            found += self._with(child, within, depth, fed_by, added)
        if is_and:  # what comes after may run where the first one failed, too
            self._places = either(failed, self._places)
        elif any(one.program in LEAVING for one in found[begun:]):
            self._stay(moved)
        else:
            self._stay(either(moved, self._places))
        return found

    def _stay(self, places: Places) -> None:
        self._places = self._moved = places

    def _move(self, name: str, words: Sequence[Word]) -> None:
        """Note where the shell is after `cd`; it stays where it was if that fails."""
        named = [word for word in words if not word.text.startswith(("-", "+")) or word.text == "-"]
        target: str | None = "~"
        if name == "popd" or (name == "pushd" and not named):
            target = None
        elif named:
            word = named[-1]
            target = word.text if word.is_known and word.text != "-" and not set(word.text) & set("*?[") else None
        self._moved = tuple(dict.fromkeys(joined(place, target) for place in self._places))
        self._places = either(self._places, self._moved)

    def _nested(self, node: Node, within: tuple[str, ...], depth: int, but: Sequence[Node] = ()) -> list[Command]:
        """Return the commands of substitutions among a node's words, or of the one that it is; `but` were read."""
        if node.type in ITS_OWN or node.type in ("expansion", "variable_assignment"):
            return self._block(node, within, depth, None)
        inside = [child for child in node.named_children if child not in but]
        return [one for child in inside for one in self._block(child, within, depth, None)]

    def _declared(self, node: Node, within: tuple[str, ...]) -> list[Command]:
        self._counted()
        name = node.children[0].type if node.children else "declare"
        words = [word for child in node.named_children for word in self._assigned(child)]
        return [Command(program=name, arguments=tuple(words), within=within, text=text_of(node), places=self._places)]

    def _kept(self, node: Node, within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands in a variable that programs run: GIT_PAGER='less -R'."""
        value = node.named_children[-1]
        words = read_words(value)
        text = text_of(node).partition("=")[0] + "=" + " ".join(word.text for word in words)
        script = script_in_variable(text, is_known=all(word.is_known for word in words))
        if script is None:
            return []
        return self._script_of(script, within, depth, None)

    def _script_of(self, script: Word, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        if not script.is_known or (self._mark and script.text.lstrip().startswith(self._mark)):
            return [Command(program=None, within=within, fed_by=fed_by, text=script.text, places=self._places)]
        return self.script(script.text, within, depth + 1)

    def _assigned(self, node: Node) -> list[Word]:
        return [Word(text_of(node), False)] if node.type == "variable_assignment" else read_words(node)

    def _pipeline(
        self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None, added: Behind = NOTHING
    ) -> list[Command]:
        """Return the commands of `a | b`; redirections behind it are those of b."""
        found: list[Command] = []
        printed: str | None = None
        for child in node.named_children:
            before = self._places
            last = added if child == node.named_children[-1] else NOTHING
            if printed is not None and last.given is None:
                last = last._replace(given=printed)
            made = self._with(child, within, depth, fed_by, last)
            self._stay(before)
            found += made
            printed = printed_by(child)
            fed_by = next((one.program for one in made if not one.within), None) or "?"
        return found

    def _redirected(self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        body = node.child_by_field_name("body")
        nodes = [child for child in node.named_children if child != body]  # the grammar does not name each of them
        if not all(
            one.type == "heredoc_redirect" or SKIPPED.fullmatch(self._source, one.end_byte, other.start_byte)
            for one, other in itertools.pairwise(node.named_children)
        ):
            raise UnreadableCommandError("a word ends with its line before a redirection; put a blank behind it")
        added = behind(nodes, self._source)
        found = self._with(body, within, depth, fed_by, added) if body is not None else []
        if body is None:
            found = self._alone(added, within, depth, text_of(node))
        printed = added.given if body is not None and text_of(body) in ("cat", "cat -") else None
        for other in added.others:
            found += self._after_heredoc(other, within, depth, printed)
        for script in added.scripts:
            found += self.script(script, within, depth + 1)
        for child in nodes:
            found += self._nested(child, within, depth, added.others)
        return found

    def _alone(self, added: Behind, within: tuple[str, ...], depth: int, text: str) -> list[Command]:
        """Return the command that redirections are which stand alone, or before its words."""
        fed_by = fed(added.redirects)
        if added.words:
            return self._run(added.words, within, depth, added.redirects, fed_by, added.given, text)
        self._counted()
        return [Command(program="", redirects=added.redirects, within=within, text=text, places=self._places)]

    def _with(
        self, body: Node, within: tuple[str, ...], depth: int, fed_by: str | None, added: Behind
    ) -> list[Command]:
        """Return the commands of what has this behind it."""
        if body.type == "command":
            return self._command(body, within, depth, fed_by, added)
        if body.type == "list":
            return self._list(body, within, depth, fed_by, added)
        if body.type == "pipeline":
            return self._pipeline(body, within, depth, fed_by, added)
        inside = self._block(body, within, depth, fed_by or fed(added.redirects))
        if added.words and not body.type.startswith("variable_assignment"):
            raise UnreadableCommandError(
                f"words follow a redirection of what is no command: {shortened(text_of(body))}"
            )
        if added.words or (added.redirects and not inside):
            inside += self._alone(added, within, depth, text_of(body))
        elif added.redirects:  # they are those of a whole group
            inside[0] = msgspec.structs.replace(inside[0], redirects=(*inside[0].redirects, *added.redirects))
        return inside

    def _after_heredoc(self, node: Node, within: tuple[str, ...], depth: int, printed: str | None) -> list[Command]:
        """Return what stands on the line of a here-document, such as the `| sh` after `cat <<EOF`."""
        if node.type == "pipeline":
            first, *rest = node.named_children
            found = self._with(first, within, depth, "cat", Behind(given=printed))
            return [*found, *(one for child in rest for one in self._with(child, within, depth, "?", NOTHING))]
        return self._block(node, within, depth, None)

    def _command(
        self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None, added: Behind
    ) -> list[Command]:
        """Return a command, and those that it would run."""
        parts = [child for child in node.named_children if child.type not in NO_WORDS]
        if node.children[-1].type == "$":
            parts.append(node.children[-1])
        own = behind([child for child in parts if child.type.endswith("_redirect")], self._source)
        if own.others or own.scripts:
            raise UnreadableCommandError("a here-document stands before its command; put it behind")
        words = [*read_all(parts, self._source), *own.words, *added.words]
        redirects = (*added.redirects, *own.redirects)
        given = own.given if added.given is None and fed(added.redirects) is None else added.given
        nested = [one for child in node.named_children for one in self._nested(child, within, depth)]
        fed_by = fed_by or fed(redirects)
        text = " ".join((text_of(node), *(word.text for word in added.words)))
        return [*self._run(words, within, depth, redirects, fed_by, given, text), *nested]

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_COMMANDS:
            raise UnreadableCommandError(f"it has more than {MAX_COMMANDS} commands")

    def _run(
        self,
        words: Sequence[Word],
        within: tuple[str, ...],
        depth: int,
        redirects: tuple[Redirect, ...],
        fed_by: str | None,
        given: str | None,
        text: str,
        *,
        is_open: bool = False,
    ) -> list[Command]:
        """Return the command that these words are, and those that it runs; `is_open`: it is given more words then."""
        self._counted()
        self._words += len(words)
        if self._words > MAX_WORDS:
            raise UnreadableCommandError(f"its commands have more than {MAX_WORDS} words")
        if not words:
            is_later = is_open and within[-1] != "xargs"  # which by itself only shows what it reads
            return self._script_of(LATER, within, depth, fed_by) if is_later else []
        if len(within) > 4 * MAX_DEPTH:
            raise UnreadableCommandError("too many programs run one another")
        name = None if self._mark and self._mark in words[0].text else name_of(words[0])
        own = Command(
            program=name, arguments=tuple(words[1:]), within=within, redirects=redirects, fed_by=fed_by, text=text,
            places=self._places,
        )  # fmt: skip
        self._moved = self._places
        if name is None:
            return [own]
        if name in WORDS_OF_ITS_OWN:
            raise UnreadableCommandError(f"its {name!r} is not understood there; write it at the beginning of a line")
        if name in MOVING:
            self._move(name, words[1:])
            return [own]
        before = self._places
        if (told := folder_told(name, words[1:])) is not None:
            self._stay(tuple(joined(place, told.text if told.is_known else None) for place in before))
        below = (*within, name)
        found = [own]
        mark, rest = self._mark, words[1:]
        if name in ("xargs", "parallel"):
            replaced = replaced_by_xargs(rest) if name == "xargs" else None
            is_open = replaced is None
            self._mark = replaced or mark
        for run in inner_words(name, rest):
            shown = " ".join(word.text for word in run)
            found += self._run(run, below, depth + 1, (), fed_by, None, shown, is_open=is_open)
        for script in scripts_of(name, [*rest, LATER] if is_open and name != "parallel" else rest, given, fed_by):
            found += self._script_of(script, below, depth, fed_by)
        self._mark = mark
        if name not in KEEPING:
            self._stay(before)
        return found


def either(one: Places, other: Places) -> Places:
    found = tuple(dict.fromkeys((*one, *other)))
    return found if len(found) <= MAX_PLACES else (None,)


def is_whole(node: Node) -> bool:
    """Return whether the value of a variable follows its name: in `A=\\` and `ls` in the next line it is empty."""
    return not any(
        one.type in ("=", "+=")
        and BLANK.search(node.text or b"", one.end_byte - node.start_byte, other.start_byte - node.start_byte)
        for one, other in itertools.pairwise(node.children)
    )


def in_quotes(node: Node) -> bool:
    """Return whether a node stands in double quotes."""
    return node.parent is not None and node.parent.type == "string"


def joined(place: str | None, target: str | None) -> str | None:
    """Return the place that `cd` leads to from another one; None if either is unknown."""
    if target is None:
        return None
    if target.startswith(("/", "~")):
        return target
    whole = None if place is None else os.path.join(place, target)
    return whole if whole is None or len(whole) <= MAX_PATH else None


def is_escaped(source: bytes, begin: int) -> bool:
    """Return whether a backslash stands before the blanks before a place: it makes them a part of a word, or a line."""
    end = begin
    while end and source[end - 1] in BLANKS:
        end -= 1
    first = end
    while first and source[first - 1] == ord("\\"):
        first -= 1
    return end < begin and (end - first) % 2 == 1

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
from hooklatch.guards.inner import folder_told, inner_words, name_of, printed_by, script_in_variable, scripts_of
from hooklatch.guards.parsing import MAX_TEXT, mended, shortened
from hooklatch.guards.redirects import behind, expanded_in, fed, heredoc_of, is_descriptor, redirect_of, unquoted
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
BLANKS = b" \t\r\n"
HOLDING = re.compile(r"`|\$\(")  # in a word of an expansion, where the grammar finds no command
MOVING = frozenset({"cd", "chdir", "pushd", "popd"})
WORDS_OF_ITS_OWN = frozenset({"case", "esac", "for", "select", "function", "fi", "done"})  # and no programs
ASSIGNED = re.compile(r"\w+\+?=")
LEAVING = frozenset({"exit", "return"})
KEEPING = frozenset({"eval", "command", "builtin", "source", "."})  # what these run is run by the shell itself
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
        root, source = mended(text, text.encode("utf-8", "surrogateescape"))
        before, self._source = self._source, source
        try:
            return self._block(root, within, depth, None)
        finally:
            self._source = before

    def _block(self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        """Return the commands below a node."""
        match node.type:
            case "command_substitution" if "\\`" in (quoted := text_of(node)) and quoted.startswith("`"):
                before = self._places
                found = self.script(unquoted(quoted[1:-1]), within, depth + 1)
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
                self._stay(before if before == self._places else either(before, (*self._places, None)))
                return found
            case "command":
                return self._command(node, within, depth, (), fed_by, None)
            case "redirected_statement":
                return self._redirected(node, within, depth, fed_by)
            case "pipeline":
                return self._pipeline(node, within, depth, fed_by)
            case "comment" if is_escaped(self._source, node.start_byte):
                # To the shell that is a part of the word before it, and what follows runs.
                raise UnreadableCommandError("a '#' follows a backslash and a blank; put the word in quotes")
            case "expansion":
                if any(child.type == "word" and HOLDING.search(text_of(child)) for child in node.named_children):
                    raise UnreadableCommandError(f"what {shortened(text_of(node))} runs is not read; use $(…)")
                return self._each(node, within, depth, fed_by)
            case "variable_assignment":
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
        self,
        node: Node,
        within: tuple[str, ...],
        depth: int,
        fed_by: str | None,
        redirects: tuple[Redirect, ...] = (),
        given: str | None = None,
        more: Sequence[Word] = (),
    ) -> list[Command]:
        """Return the commands of `a && b` or `a || b`: b runs only where a succeeded, or failed.

        Redirections behind it, and the words (`more`) behind those, are those of b; the grammar gives them to both.
        """
        first, *rest = node.named_children
        found = self._block(first, within, depth, fed_by)
        failed, moved = self._places, self._moved
        is_and = any(child.type == "&&" for child in node.children)
        if is_and:
            self._stay(moved)
        begun = len(found)
        for child in rest:
            found += self._with(child, within, depth, fed_by, redirects, given, more)
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

    def _nested(self, node: Node, within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands of substitutions among a node's words, or of the one that it is."""
        if node.type in ITS_OWN or node.type in ("expansion", "variable_assignment"):
            return self._block(node, within, depth, None)
        return [one for child in node.named_children for one in self._block(child, within, depth, None)]

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
        if not script.is_known:
            return [Command(program=None, within=within, fed_by=fed_by, text=script.text, places=self._places)]
        return self.script(script.text, within, depth + 1)

    def _assigned(self, node: Node) -> list[Word]:
        return [Word(text_of(node), False)] if node.type == "variable_assignment" else read_words(node)

    def _pipeline(
        self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None, more: Sequence[Word] = ()
    ) -> list[Command]:
        found: list[Command] = []
        printed: str | None = None
        for child in node.named_children:
            before = self._places
            is_last = child == node.named_children[-1]
            made = self._fed(child, within, depth, fed_by, printed, more if is_last else ())
            self._stay(before)
            found += made
            printed = printed_by(child)
            fed_by = next((one.program for one in made if not one.within), None) or "?"
        return found

    def _fed(
        self,
        node: Node,
        within: tuple[str, ...],
        depth: int,
        fed_by: str | None,
        printed: str | None,
        more: Sequence[Word] = (),
    ) -> list[Command]:
        if node.type == "command":
            return self._command(node, within, depth, (), fed_by, printed, more)
        if more:
            raise UnreadableCommandError(f"{shortened(more[0].text)} stands behind a redirection; write it before")
        return self._block(node, within, depth, fed_by)

    def _redirected(self, node: Node, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        body = node.child_by_field_name("body")
        redirects: list[Redirect] = []
        given: str | None = None
        after: list[Command] = []
        more: list[Word] = []
        for child in node.children_by_field_name("redirect"):
            more += [word for nodes in behind(child) for word in read_all(nodes, self._source)]
            if child.type == "heredoc_redirect":
                text = heredoc_of(child)
                redirects.append(Redirect("<<", text))
                given = text.text if text.is_known else None
                printed = given if body is not None and text_of(body) in ("cat", "cat -") else None
                for below in child.named_children:
                    if below.type.endswith("_redirect"):
                        redirects.append(redirect_of(below))
                    elif any(below in nodes for nodes in behind(child)):
                        after += self._nested(below, within, depth)
                    elif below.type not in ("heredoc_start", "heredoc_body", "heredoc_end"):
                        after += self._after_heredoc(below, within, depth, printed)
                after += self._nested_heredoc(child, within, depth)
            else:
                redirects.append(redirect_of(child))
                if child.type == "herestring_redirect" and redirects[-1].target.is_known:
                    given = redirects[-1].target.text
                after += self._nested(child, within, depth)
        if body is None:
            self._counted()
            alone = Command(
                program="", redirects=tuple(redirects), within=within, text=text_of(node), places=self._places
            )
            run = list(itertools.dropwhile(lambda word: ASSIGNED.match(word.text), more))
            return [alone, *self._run(run, within, depth, (), fed_by, given, text_of(node)), *after]
        return [*self._with(body, within, depth, fed_by, tuple(redirects), given, more), *after]

    def _with(
        self,
        body: Node,
        within: tuple[str, ...],
        depth: int,
        fed_by: str | None,
        redirects: tuple[Redirect, ...],
        given: str | None,
        more: Sequence[Word],
    ) -> list[Command]:
        """Return the commands of what has these redirections, and `more` words behind them: rm >log -r x."""
        if body.type == "command":
            return self._command(body, within, depth, redirects, fed_by or fed(redirects), given, more)
        if body.type == "list":
            return self._list(body, within, depth, fed_by, redirects, given, more)
        if body.type == "pipeline":
            inside = self._pipeline(body, within, depth, fed_by or fed(redirects), more)
        else:
            inside = self._fed(body, within, depth, fed_by or fed(redirects), None, more)
        if redirects and inside:  # they are those of a whole group
            inside[0] = msgspec.structs.replace(inside[0], redirects=(*inside[0].redirects, *redirects))
        return inside

    def _after_heredoc(self, node: Node, within: tuple[str, ...], depth: int, printed: str | None) -> list[Command]:
        """Return what stands on the line of a here-document, such as the `| sh` after `cat <<EOF`."""
        if node.type == "pipeline":
            first, *rest = node.named_children
            found = self._fed(first, within, depth, "cat", printed)
            return [*found, *(one for child in rest for one in self._fed(child, within, depth, "?", None))]
        return self._fed(node, within, depth, None, None)

    def _nested_heredoc(self, node: Node, within: tuple[str, ...], depth: int) -> list[Command]:
        bodies = [child for child in node.named_children if child.type == "heredoc_body"]
        found = [one for body in bodies for one in self._nested(body, within, depth)]
        return found + [one for text in expanded_in(node) for one in self.script(text, within, depth + 1)]

    def _command(
        self,
        node: Node,
        within: tuple[str, ...],
        depth: int,
        redirects: tuple[Redirect, ...],
        fed_by: str | None,
        given: str | None,
        more: Sequence[Word] = (),
    ) -> list[Command]:
        """Return a command, and those that it would run; `given` is what it reads, if that is known.

        `more` are words of it that stand behind redirections.
        """
        nested: list[Command] = []
        parts: list[list[Node]] = [[]]  # of the words, between redirections
        own: list[Redirect] = []
        for child in node.named_children:
            if child.type.endswith("_redirect"):
                redirect = redirect_of(child)
                own.append(redirect)
                if child.type == "herestring_redirect" and redirect.target.is_known:
                    given = redirect.target.text
                parts += [*behind(child), []]
            elif child.type != "variable_assignment":
                parts[-1].append(child)
            nested += self._nested(child, within, depth)
        if parts[-1] and is_descriptor(parts[-1][-1], self._source):
            parts[-1].pop()
        words = [*(word for nodes in parts for word in read_all(nodes, self._source)), *more]
        redirects = (*redirects, *own)
        fed_by = fed_by or fed(redirects)
        text = " ".join((text_of(node), *(word.text for word in more)))
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
    ) -> list[Command]:
        """Return the command that these words are, and those that it runs."""
        self._counted()
        self._words += len(words)
        if self._words > MAX_WORDS:
            raise UnreadableCommandError(f"its commands have more than {MAX_WORDS} words")
        if not words:
            return []
        if len(within) > 4 * MAX_DEPTH:
            raise UnreadableCommandError("too many programs run one another")
        name = name_of(words[0])
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
        for run in inner_words(name, words[1:]):
            found += self._run(run, below, depth + 1, (), fed_by, None, " ".join(word.text for word in run))
        for script in scripts_of(name, words[1:], given, fed_by):
            found += self._script_of(script, below, depth, fed_by)
        if name not in KEEPING:
            self._stay(before)
        return found


def either(one: Places, other: Places) -> Places:
    found = tuple(dict.fromkeys((*one, *other)))
    return found if len(found) <= MAX_PLACES else (None,)


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

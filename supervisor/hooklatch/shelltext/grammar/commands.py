"""Parser of commands: lists, pipelines, programs with their words, functions.  A subclass reads compound commands."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Final

from hooklatch.shelltext.grammar.characters import ReadingLimits
from hooklatch.shelltext.grammar.documents import Documents
from hooklatch.shelltext.grammar.expansions import NAME, SUBSCRIPT
from hooklatch.shelltext.grammar.languages import ShellLanguage
from hooklatch.shelltext.grammar.tree import (
    Assignment,
    CommandChain,
    CommandList,
    Function,
    Node,
    Pipeline,
    Redirection,
    ShellWord,
    SimpleCommand,
)
from hooklatch.shelltext.words import WordPiece

__all__ = ["DECLARING", "Commands"]

RESERVED: Final = re.compile(
    r"(?:if|then|else|elif|fi|do|done|case|esac|while|until|for|in|function|select|coproc|time|\[\[|\]\]|[{}!])"
    r"(?=[ \t\n;&|()<>]|\Z)"
)
ASSIGNMENT: Final = re.compile(rf"([A-Za-z_][A-Za-z0-9_]*)({SUBSCRIPT.pattern})?(\+?=)", re.ASCII)
SUBSCRIPTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
NAMED_DESCRIPTOR: Final = re.compile(r"\{\w+\}[<>]")
# Plain words of a program, up to a word that is not plain; the last one may be a number before a redirection.
RUN: Final = re.compile(
    r"""(?:[ \t]++[^\s\\'"`$&|;()<>{}#][^\s\\'"`$&|;()<>{}]*+)++(?=[ \t]*+(?:[\n;]|[&|](?!>)|\)|\Z))"""
)
EMPTY: Final = re.compile(r"\n[ \t\n]*+\n")  # lines that have nothing, up to the end of the last one
FUNCTION: Final = re.compile(r"[ \t]*\([ \t]*\)")
FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][\w.:-]*", re.ASCII)
DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset"})
# Names that reading relies on: a function of that name would do something else.
KEPT: Final = frozenset({
    "cd", "chdir", "pushd", "popd", "exit", "return", "echo", "printf", "cat", "eval", "exec", "command", "builtin",
    "git", "set", "source", "test", "trap", "unset", "export", "sudo", "env", "xargs",
})  # fmt: skip


class Commands(Documents):
    """A recursive parser of commands, each up to the sign or word that ends it."""

    def __init__(self, text: str, language: ShellLanguage, limits: ReadingLimits, *, base: int = 0) -> None:
        super().__init__(text, language, limits, base=base)
        self._begun = 0  # commands so far
        self._documents: list[int] = []  # of each open substitution: which command its last here-document belongs to

    @abstractmethod
    def compound(self, word: str) -> Node:
        """Read a command that begins with a word of the language."""

    @abstractmethod
    def in_parentheses(self) -> Node:
        """Read a subshell, or arithmetic."""

    def program(self) -> CommandList:
        """Read the whole text."""
        script = self.sequence(())
        if self.at < self.end:
            self.refuse("the text here")
        if self.waits:
            self.refuse("a here-document without a body")
        return script

    def read_inner(self, text: str, begin: int) -> CommandList:
        self.open()
        script = type(self)(text, self.language, self.limits, base=self._base + begin).program()
        self.close()
        return script

    def substitution(self) -> CommandList:
        self._documents.append(0)
        script = self.in_shell()
        # bash 5.2 reads on in the line behind such a document as if it belonged to the command before.
        if self._documents.pop() not in (0, self._begun):
            self.refuse("a command behind a here-document in a substitution")
        return script

    def in_shell(self) -> CommandList:
        """Read commands up to a closing parenthesis, and go past it."""
        self.open()
        begin, around, self.inside = self.at, self.inside, []
        self._waiting.append([])
        script = self.sequence((")",))
        if self.peek() != ")":
            self.refuse("a parenthesis that is not closed", begin - 1)
        if self._waiting.pop():
            self.refuse("a here-document that waits at the end of a substitution")
        self.at += 1
        self.inside = around
        self.close()
        return script

    def note_document(self) -> None:
        self._documents = [document or self._begun for document in self._documents]

    # -- lists ----------------------------------------------------------------------------------------------------

    def skip_lines(self) -> None:
        """Move over blanks, comments and the ends of lines."""
        self.skip_blanks()
        if not self.waits and (empty := EMPTY.match(self.text, self.at)) is not None:
            self.at = empty.end() - 1
        while self.text.startswith("\n", self.at):
            self.newline()
            self.skip_blanks()

    def reserved_word(self) -> str | None:
        """Return the reserved word at this place, None if there is none."""
        match = RESERVED.match(self.text, self.at)
        return None if match is None else match[0]

    def is_at(self, until: tuple[str, ...]) -> bool:
        if ")" in until and self.text.startswith(")", self.at):
            return True
        if ";;" in until and self.text.startswith((";;", ";&"), self.at):
            return True
        return self.reserved_word() in until

    def take_word(self, word: str) -> None:
        self.skip_lines()
        if self.reserved_word() != word:
            self.refuse(f"the text here instead of {word!r}")
        self.at += len(word)

    def sequence(self, until: tuple[str, ...]) -> CommandList:
        """Read commands up to one of these: words of the language, `)` or `;;`."""
        nodes: list[Node] = []
        in_background: set[int] = set()
        while True:
            self.skip_lines()
            if self.at >= self.end or self.is_at(until):
                break
            nodes.append(self.chain())
            self.skip_blanks()
            if self.at >= self.end or self.is_at(until):
                break
            if self.peek(2) in (";;", ";&", "&&", "&>", "&|", "&!"):
                self.refuse("this sign")
            character = self.peek()
            if character in ("&", ";"):
                self.at += 1
                if character == "&":
                    in_background.add(len(nodes) - 1)
                self.skip_blanks()
                if self.peek() in ("&", ";") and self.at < self.end and not self.is_at(until):
                    self.refuse("a sign without a command before it")
            elif character != "\n":
                self.refuse("the text here")
        return CommandList(tuple(nodes), frozenset(in_background))

    def chain(self) -> Node:
        first = self.pipeline()
        following: list[tuple[str, Node]] = []
        self.skip_blanks()
        while (operator := self.peek(2)) in ("&&", "||"):
            self.at += 2
            self.skip_lines()
            following.append((operator, self.pipeline()))
            self.skip_blanks()
        return CommandChain(first, tuple(following)) if following else first

    def pipeline(self) -> Node:
        self._begun += 1
        is_negated = self.before_pipeline()
        parts = [self.command()]
        self.skip_blanks()
        while self.text.startswith("|", self.at) and not self.text.startswith("||", self.at):
            self.at += 1
            if self.text.startswith("&", self.at):
                if not self.language.is_bash:
                    self.refuse("'|&', which is not of every shell,")
                self.at += 1
            self.skip_lines()
            parts.append(self.command())
            self.skip_blanks()
        return Pipeline(tuple(parts), is_negated) if len(parts) > 1 or is_negated else parts[0]

    def before_pipeline(self) -> bool:
        """Read `!` and `time`; return whether what follows is negated."""
        is_negated = False
        while (word := self.reserved_word()) in ("!", "time"):
            if word == "time" and self.language.keeps_time is False:
                break
            begin = self.at
            self.at += len(word)
            self.skip_blanks()
            if word == "time" and self.text.startswith("-p ", self.at):
                self.at += 3
                self.skip_blanks()
            following = self.reserved_word()
            is_bare = self.peek() in ("", "\n", ";", "&", "|", ")") or self.text.startswith("(", begin + len(word))
            if is_bare or following in ("!", "time"):
                self.refuse(f"{word!r} before the text behind it", begin)
            if word == "time" and (
                self.peek() == "-" or (self.language.keeps_time is None and (following or self.peek() == "("))
            ):
                self.refuse("'time', which is a word of some shells and a program to others,", begin)
            is_negated = is_negated or word == "!"
        return is_negated

    def command(self) -> Node:
        self.step()
        if self.text.startswith("(", self.at):
            return self.in_parentheses()
        word = self.reserved_word()
        if word is not None and not (word == "time" and self.language.keeps_time is False):
            return self.compound(word)
        return self.simple()

    # -- programs -------------------------------------------------------------------------------------------------

    def simple(self) -> Node:
        """Read assignments and redirections in any order, and the words of a program, or a function."""
        begin = end = self.at
        assignments: list[Assignment] = []
        words: list[ShellWord | str] = []
        redirections: list[Redirection] = []
        is_declaring = False
        while True:
            if words and not is_declaring and (run := RUN.match(self.text, self.at)) is not None:
                words += run[0].split()
                self.at = end = run.end()
            self.skip_blanks()
            if (redirection := self.redirection()) is not None:
                redirections.append(redirection)
                continue
            # Behind the first word `a=b` is an argument, so it is asked for only while there are no words.
            if not words and (match := ASSIGNMENT.match(self.text, self.at)) is not None:
                assignments.append(self.assignment(match))
                end = self.at
                continue
            self.refuse_here(has_words=bool(words))
            word = self.word()
            if word is None:
                break
            if word.bare is not None and word.bare.isdigit() and self.peek() in ("<", ">"):
                self.refuse("a number before a redirection")
            if is_declaring and self.peek() == "(" and (word.bare or "").endswith("="):
                word = ShellWord((*word.pieces, WordPiece("()", False)), None, self.array())
            words.append(word)
            end = self.at
            if self.peek() == "(" or (len(words) == 1 and FUNCTION.match(self.text, self.at)):
                if len(words) > 1 or assignments or redirections:
                    self.refuse("'(' behind a word")
                return self.function(word)
            is_declaring = is_declaring or (len(words) == 1 and word.bare in DECLARING)
        if not (words or assignments or redirections):
            self.refuse("the text here, where a command is expected,")
        return SimpleCommand(self.text[begin:end], tuple(assignments), words, tuple(redirections))

    def refuse_here(self, *, has_words: bool) -> None:
        if NAMED_DESCRIPTOR.match(self.text, self.at):
            self.refuse("a redirection with a name")
        if not has_words and SUBSCRIPTED.match(self.text, self.at):
            self.refuse("'[' behind a name")
        if not has_words and self.reserved_word() not in (None, "time"):
            self.refuse("a word of the language behind an assignment or a redirection")

    def assignment(self, match: re.Match[str]) -> Assignment:
        name, subscript, operator = match.groups()
        if (subscript or operator == "+=") and not self.language.is_bash:
            self.refuse("an array or '+=', which is not of every shell,")
        self.at += len(name)
        if subscript:
            self.subscript()
        self.at = match.end()
        if self.peek() == "(":
            if not self.language.is_bash:
                self.refuse("an array, which is not of every shell,")
            return Assignment(name, (ShellWord((WordPiece("()", False),), None, self.array()),))
        word = None
        if self.at < self.end and self.peek() not in " \t\n;&|()<>":
            word = self.word()
        if self.text.startswith(("(", "<(", ">("), self.at):
            self.refuse("the text behind a value")
        return Assignment(name, () if word is None else (word,))

    def array(self) -> tuple[CommandList, ...]:
        """Read the items of an array, and return what runs in them."""
        self.open()
        begin = self.at
        self.at += 1
        inside: list[CommandList] = []
        while True:
            self.skip_lines()
            if self.text.startswith(")", self.at):
                self.at += 1
                break
            if self.peek() == "[":
                self.subscript()
                if self.peek() != "=":
                    self.refuse("an item of an array")
                self.at += 1
                if self.peek() in (" ", "\t", "\n", ")", ""):
                    continue
            word = self.word()
            if word is None or self.peek() == "(":
                self.refuse("an item of an array", self.at if self.at < self.end else begin)
            inside += word.inside
        if self.at < self.end and self.peek() not in " \t\n;&|)":
            self.refuse("the text behind an array")
        self.close()
        return tuple(inside)

    def function(self, word: ShellWord) -> Function:
        parentheses = FUNCTION.match(self.text, self.at)
        if parentheses is None or word.bare is None:
            self.refuse("'(' behind a word")
        pattern = FUNCTION_NAME if self.language.is_bash else NAME
        if pattern.fullmatch(word.bare) is None:
            self.refuse("the name of a function")
        self.at = parentheses.end()
        return self.body_of(word.bare)

    def body_of(self, name: str) -> Function:
        if name in KEPT:
            self.refuse(f"a function that takes the place of {name!r}")
        self.skip_lines()
        if self.reserved_word() != "{" and (self.peek() != "(" or self.peek(2) == "(("):
            self.refuse("the body of a function")
        return Function(name, self.command())

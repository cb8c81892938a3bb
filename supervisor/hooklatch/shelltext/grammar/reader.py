"""The whole parser of shell text: compound commands (branches, loops, groups, tests) over all others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from hooklatch.shelltext.grammar.characters import MAX_TEXT, ReadingLimits
from hooklatch.shelltext.grammar.commands import FUNCTION_NAME, Commands
from hooklatch.shelltext.grammar.expansions import NAME
from hooklatch.shelltext.grammar.languages import BASH, ShellLanguage
from hooklatch.shelltext.grammar.tree import CommandList, CompoundCommand, Node, Redirection, ShellWord
from hooklatch.shelltext.words import UnreadableCommandError

__all__ = ["ShellParser", "parse_script"]

# Signs of `[[` behind which a text is a number, or the name of a variable: both are evaluated.
EVALUATING: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R", "-o"})
IN_PATTERN: Final = re.compile(r"[\w^.*+?\[\]/{}:=@%,~-]++")
NUMBER: Final = re.compile(r"-?[0-9]+", re.ASCII)


def parse_script(text: str, language: ShellLanguage = BASH, limits: ReadingLimits | None = None) -> CommandList:
    """Return the commands of a text.

    Raises:
        UnreadableCommandError: it is not in the subset, with the place; or it is too large to be read.
    """
    if "\0" in text:
        raise UnreadableCommandError("it has a null character", text.index("\0"))
    if len(text) > MAX_TEXT:
        raise UnreadableCommandError(f"it is too large to be read: it is longer than {MAX_TEXT} characters")
    try:
        return ShellParser(text, language, limits or ReadingLimits()).program()
    except RecursionError:
        raise UnreadableCommandError("its parts are nested too deeply") from None


class ShellParser(Commands):
    """A parser for a text in one language."""

    def in_parentheses(self) -> Node:
        begin = self.at
        if not self.text.startswith("((", begin):
            self.at += 1
            return self.read_redirections("(", begin, (), (self.in_shell(),))
        if not self.language.is_bash:
            self.refuse("'((', which is arithmetic to some shells,")
        self.at += 2
        return self.read_redirections("((", begin, (self.collect_inside(self.arithmetic),), ())

    def compound(self, word: str) -> Node:
        """Read a command that begins with a word of the language."""
        begin = self.at
        self.at += len(word)
        self.open()
        command: Node
        match word:
            case "{":
                command = self.read_redirections(word, begin, (), self.parts(("}",)))
            case "if":
                command = self.read_redirections(word, begin, (), self.branches())
            case "while" | "until":
                command = self.read_redirections(word, begin, (), self.parts(("do",), ("done",)))
            case "for" | "select":
                command = self.loop(word, begin)
            case "case":
                command = self.cases(begin)
            case "[[":
                command = self.read_redirections(word, begin, self.test(begin), ())
            case "function" if self.language.is_bash:
                command = self.named_function()
            case _:
                self.refuse(f"{word!r}", begin)
        self.close()
        return command

    def collect_inside(self, read: Callable[..., object], *arguments: str) -> ShellWord:
        """Return a word with the commands that run in arithmetic or in a pattern."""
        around, self.inside = self.inside, []
        read(*arguments)
        inside, self.inside = tuple(self.inside), around
        return ShellWord((), None, inside)

    def read_redirections(
        self, kind: str, begin: int, words: Sequence[ShellWord], bodies: Sequence[CommandList]
    ) -> CompoundCommand:
        """Read the redirections behind a compound command, which no word follows."""
        end = self.at
        redirections: list[Redirection] = []
        while True:
            self.skip_blanks()
            if (redirection := self.redirection()) is None:
                break
            redirections.append(redirection)
        if self.at < self.end and self.text[self.at] not in "\n;&|)":
            self.refuse("a word behind the end of a compound command")
        return CompoundCommand(kind, self.text[begin:end], tuple(words), tuple(bodies), tuple(redirections))

    def part(self, until: tuple[str, ...]) -> CommandList:
        """Read one command or more, up to one of these words."""
        if self.at < self.end and self.text[self.at] not in " \t\n(":
            self.refuse("this sign behind a word of the language")
        script = self.sequence(until)
        if not script.nodes:
            self.refuse("the text here, where a command is expected,")
        return script

    def parts(self, *ends: tuple[str, ...]) -> list[CommandList]:
        """Read commands up to a first word, then those up to the next word, and so on; move past the last word."""
        scripts: list[CommandList] = []
        for until in ends:
            scripts.append(self.part(until))
            self.take_word(until[0])
        return scripts

    def branches(self) -> list[CommandList]:
        scripts = [*self.parts(("then",)), self.part(("elif", "else", "fi"))]
        while self.reserved_word() == "elif":
            self.at += 4
            scripts += [*self.parts(("then",)), self.part(("elif", "else", "fi"))]
        if self.reserved_word() == "else":
            self.at += 4
            scripts.append(self.part(("fi",)))
        self.take_word("fi")
        return scripts

    def loop(self, word: str, begin: int) -> CompoundCommand:
        """Read `for NAME in WORDS` and, of bash, `select` and `for ((…))`."""
        self.skip_blanks()
        words: list[ShellWord] = []
        if word == "select" and not self.language.is_bash:
            self.refuse("'select', which is not of every shell,", begin)
        if word == "for" and self.text.startswith("((", self.at):
            if not self.language.is_bash:
                self.refuse("'for ((', which is not of every shell,", begin)
            self.at += 2
            words = [self.collect_inside(self.arithmetic, ends) for ends in (";", ";", "))")]
            self.past_semicolon()
        else:
            name = NAME.match(self.text, self.at)
            if name is None:
                self.refuse("the name of a variable")
            self.at = name.end()
            if self.at < self.end and self.text[self.at] not in " \t\n;":
                self.refuse("the text behind the name of a variable")
            self.past_semicolon()
            if self.reserved_word() == "in":
                self.at += 2
                words = self.words_of_loop()
        self.take_word("do")
        return self.read_redirections(word, begin, words, self.parts(("done",)))

    def past_semicolon(self) -> None:
        self.skip_blanks()
        if self.text.startswith(";", self.at) and not self.text.startswith(";;", self.at):
            self.at += 1
        self.skip_lines()

    def words_of_loop(self) -> list[ShellWord]:
        words: list[ShellWord] = []
        while True:
            self.skip_blanks()
            word = self.word()
            if word is None:
                break
            words.append(word)
        if self.peek() not in ("\n", ";") or self.at >= self.end:
            self.refuse("the text among the words of a loop")
        self.past_semicolon()
        return words

    def cases(self, begin: int) -> CompoundCommand:
        self.skip_blanks()
        words = [self.require_word("the word of 'case'")]
        bodies: list[CommandList] = []
        self.skip_lines()
        self.take_word("in")
        while True:
            self.skip_lines()
            if self.reserved_word() == "esac":
                self.at += 4
                return self.read_redirections("case", begin, words, bodies)
            if self.text.startswith("(", self.at):
                self.at += 1
            while True:
                self.skip_blanks()
                if self.reserved_word() == "esac":
                    self.refuse("'esac' as a pattern")
                words.append(self.require_word("the pattern of a 'case'"))
                self.skip_blanks()
                if self.peek() != "|":
                    break
                self.at += 1
            if self.peek() != ")":
                self.refuse("the text behind a pattern")
            self.at += 1
            bodies.append(self.sequence((";;", "esac")))
            end = next((sign for sign in (";;&", ";&", ";;") if self.text.startswith(sign, self.at)), "")
            if end not in ("", ";;") and not self.language.is_bash:
                self.refuse(f"{end!r}, which is not of every shell,")
            self.at += len(end)

    def require_word(self, what: str) -> ShellWord:
        word = self.word()
        if word is None:
            self.refuse(f"the text here instead of {what}")
        return word

    def named_function(self) -> Node:
        self.skip_blanks()
        name = FUNCTION_NAME.match(self.text, self.at)
        if name is None:
            self.refuse("the name of a function")
        self.at = name.end()
        self.skip_blanks()
        if self.text.startswith("()", self.at):
            self.at += 2
        elif self.peek() not in ("{", "\n"):
            self.refuse("the body of a function")
        return self.body_of(name[0])

    # -- tests of bash ---------------------------------------------------------------------------------------------

    def test(self, begin: int) -> list[ShellWord]:
        """Read the words of `[[ … ]]`."""
        if not self.language.is_bash:
            self.refuse("'[[', which is a program to some shells,", begin)
        depth = 0
        words: list[ShellWord] = []
        while True:
            self.skip_lines()
            character = self.peek()
            if character in ("(", ")") and character:
                depth += 1 if character == "(" else -1
                if depth < 0:
                    self.refuse("this parenthesis")
                self.at += 1
            elif self.peek(2) in ("&&", "||"):
                self.at += 2
            elif character in ("<", ">") and self.peek(2)[1:] in (" ", "\t"):
                self.at += 1
            else:
                word = self.require_word("a word of '[['")
                if self.peek() in ("(", "<", ">") and self.at < self.end:
                    self.refuse("this sign behind a word")
                if word.bare == "]]":
                    if depth or not words:
                        self.refuse("the end of '[['")
                    return words
                words.append(word)
                if word.bare == "=~":
                    words.append(self.collect_inside(self.pattern))
                elif word.bare in EVALUATING:
                    self.note_operands(words, word.bare)

    def note_operands(self, words: Sequence[ShellWord], sign: str) -> None:
        """Note that operands of a sign are evaluated, unless its right one is a plain name, or both are numbers."""
        at = self.past_blanks()
        plain = NAME.match(self.text, at)
        is_name = sign in ("-v", "-o", "-R") and plain is not None and self.text[plain.end() : plain.end() + 1] in " \t"
        before = words[-2].bare if len(words) > 1 else None
        number = NUMBER.match(self.text, at)
        is_number = before is not None and NUMBER.fullmatch(before) is not None and number is not None
        if not is_name and not is_number:
            self.note_evaluating(f"'[[ … {sign}'")

    def pattern(self) -> None:
        """Read the pattern behind `=~`, in which parentheses and `|` are letters."""
        self.skip_blanks()
        depth, begin = 0, self.at
        while True:
            self.step()
            if (plain := IN_PATTERN.match(self.text, self.at)) is not None:
                self.at = plain.end()
            character, after = self.peek(), self.text[self.at + 1 : self.at + 2]
            if character in (" ", "\t") and not depth:
                if self.at == begin:
                    self.refuse("a pattern behind '=~'")
                return
            if character in ("(", ")") and character:
                depth += 1 if character == "(" else -1
                self.at += 1
            elif (character == "|" and depth) or (character == "\\" and after not in ("", "\n")):
                self.at += 1 if character == "|" else 2
                if character == "\\":
                    self.note_inert(after)
            elif character == "$" and after in (" ", "\t", ")", "|"):
                self.at += 1
            elif character == "$":
                self.dollar(is_quoted=True)
            elif character == '"':
                self.double_quotes_in_parameter()
            elif character == "'":
                self.single_quotes()
            else:
                self.refuse("this character in a pattern behind '=~'")
            if depth < 0:
                self.refuse("this parenthesis")

"""What a text runs, from its tree: each command with its words, where it runs, what it reads, what it runs itself.

Knows the tree and the tables of programs; parses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from hooklatch.guards.command import Command, Redirect, UnreadableCommandError
from hooklatch.guards.reading.builtins import Rules
from hooklatch.guards.reading.flows import Flow, feeding, printed_by
from hooklatch.guards.reading.inner import inner_words, name_of, replaced_by_xargs
from hooklatch.guards.reading.places import MOVING, Place, either, folders_told
from hooklatch.guards.reading.programs import KEEPING, LEAVING
from hooklatch.guards.reading.scripts import language_of, script_in_variable, scripts_of
from hooklatch.guards.shell.languages import BASH, COMMON, Language
from hooklatch.guards.shell.reader import read
from hooklatch.guards.shell.tree import (
    Chain,
    Compound,
    Document,
    Function,
    Node,
    Pipeline,
    Redirection,
    Script,
    Simple,
    Written,
    words_in,
)  # fmt: skip
from hooklatch.guards.words import Word

__all__ = ["MAX_COMMANDS", "Reading"]

MAX_DEPTH = 8  # of texts within texts: bash -c "bash -c …"
MAX_COMMANDS = 2000
MAX_WORDS = 50_000  # of all commands; words that several programs are given count for each
LATER = Word("what it is given when it runs", False)
LOOPS = frozenset({"while", "until", "for", "select"})
MOVES = re.compile(r"\b(?:cd|chdir|pushd|popd)\b")


class Reading:
    """Reads one text, and those inside it."""

    def __init__(self, length: int) -> None:
        self._length = length  # characters that it and the texts inside it may yet have
        self._count = self._words = 0
        self._mark: str | None = None  # what xargs replaces by what it reads
        self._language = BASH
        self._place = Place()
        self._rules = Rules()
        self._moves = False  # whether the text has a `cd` at all
        self._input: str | None = None  # what all commands read since `exec < file`

    def whole(self, text: str, language: Language) -> list[Command]:
        found = self.script(text, language, (), 0, None)
        self._rules.check()
        return found

    def script(
        self, text: str, language: Language, within: tuple[str, ...], depth: int, fed_by: str | None
    ) -> list[Command]:
        """Return the commands of a text of its own."""
        if depth > MAX_DEPTH:
            raise UnreadableCommandError(f"commands are nested more than {MAX_DEPTH} deep")
        self._length -= len(text)
        if self._length < 0:
            raise UnreadableCommandError("the texts within it are too many times as long as it is")
        before, self._language = self._language, language
        self._moves = self._moves or MOVES.search(text) is not None
        self._rules.begin(text)
        script = read(text, language, self._rules.limits)
        found = self._script(script, within, depth, fed_by)
        self._language = before
        return found

    def _script(self, script: Script, within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        found: list[Command] = []
        for at, node in enumerate(script.nodes):
            before = self._place.now
            found += self._block(node, within, depth, Flow(fed_by))
            if at in script.in_background:
                self._place.stay(before)
        return found

    def _block(self, node: Node, within: tuple[str, ...], depth: int, flow: Flow) -> list[Command]:
        """Return the commands of a node."""
        match node:
            case Simple():
                return self._simple(node, within, depth, flow)
            case Pipeline():
                return self._pipeline(node, within, depth, flow)
            case Chain():
                return self._chain(node, within, depth, flow)
            case Function():
                return self._function(node, within, depth)
            case Compound():
                return self._compound(node, within, depth, flow)

    # -- what holds commands -----------------------------------------------------------------------------------------

    def _apart(
        self, scripts: Iterable[Script], within: tuple[str, ...], depth: int, fed_by: str | None
    ) -> list[Command]:
        """Return the commands of shells of their own, whose `cd` moves nothing outside."""
        before, found = self._place.now, list[Command]()
        for script in scripts:
            found += self._script(script, within, depth, fed_by)
            self._place.stay(before)
        return found

    def _inside(self, words: Iterable[Written | str | Document], within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands of the substitutions in words."""
        found: list[Command] = []
        for word in words:
            if not isinstance(word, str) and word.inside:
                found += self._apart(
                    word.inside, within, depth, "?" if isinstance(word, Written) and word.reads else None
                )
        return found

    def _chain(self, node: Chain, within: tuple[str, ...], depth: int, flow: Flow) -> list[Command]:
        """Return the commands of `a && b || c`: each runs only where what stands before it succeeded, or failed."""
        place = self._place
        found = self._block(node.first, within, depth, flow)
        for operator, other in node.rest:
            failed, moved, begun = place.now, place.moved, len(found)
            if operator == "&&":
                place.stay(moved)
            found += self._block(other, within, depth, flow)
            if operator == "&&":  # what comes after may run where the first one failed, too
                place.now = either(failed, place.now)
            elif any(one.program in LEAVING for one in found[begun:]):
                place.stay(moved)
            else:
                place.stay(either(moved, place.now))
        return found

    def _pipeline(self, node: Pipeline, within: tuple[str, ...], depth: int, flow: Flow) -> list[Command]:
        found: list[Command] = []
        for part in node.parts:
            before = self._place.now
            made = self._block(part, within, depth, flow)
            if len(node.parts) > 1:
                self._place.stay(before)
            found += made
            program = next((one.program for one in made if not one.within), None) or "?"
            flow = Flow(program, printed_by(part, flow, self._language))
        self._place.stay(self._place.now)
        return found

    def _function(self, node: Function, within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands of a function, which runs wherever it is called, and reads what is sent there."""
        before = self._place.now
        if self._moves:
            self._place.stay(either(before, (None,)))
        found = self._block(node.body, within, depth, Flow("?"))
        self._place.stay(before if self._place.now == before else either(before, (*self._place.now, None)))
        return found

    def _compound(self, node: Compound, within: tuple[str, ...], depth: int, flow: Flow) -> list[Command]:
        place, before = self._place, self._place.now
        redirects = tuple(map(redirect_of, node.redirections))
        found = self._inside(node.words, within, depth)
        flow = feeding(node.redirections, Flow(flow.fed_by))
        begun = len(found)
        if node.kind == "(":
            found += self._apart(node.bodies, within, depth, flow.fed_by)
        elif node.kind in LOOPS:
            made = self._each(node.bodies, within, depth, flow.fed_by)
            if place.now != before:  # a later turn begins where an earlier one has led
                place.stay(either(before, (*place.now, None)))
                made = self._each(node.bodies, within, depth, flow.fed_by)
                place.stay(either(before, (*place.now, None)))
            found += made
        else:
            found += self._each(node.bodies, within, depth, flow.fed_by)
        if redirects and len(found) > begun:  # they are those of a whole group
            first = found[begun]
            found[begun] = msgspec.structs.replace(first, redirects=(*first.redirects, *redirects))
        elif redirects:
            found += self._alone(redirects, within, node.text)
        return found + self._inside((one.target for one in node.redirections), within, depth)

    def _each(self, bodies: Sequence[Script], within: tuple[str, ...], depth: int, fed_by: str | None) -> list[Command]:
        return [one for body in bodies for one in self._script(body, within, depth, fed_by)]

    def _alone(self, redirects: tuple[Redirect, ...], within: tuple[str, ...], text: str) -> list[Command]:
        """Return the command that redirections are which stand alone."""
        self._counted()
        return [Command(program="", redirects=redirects, within=within, text=text, places=self._place.now)]

    # -- one program -------------------------------------------------------------------------------------------------

    def _simple(self, node: Simple, within: tuple[str, ...], depth: int, flow: Flow) -> list[Command]:
        """Return a command, and those that it would run."""
        words = list(words_in(node.words))
        redirects = tuple(map(redirect_of, node.redirections)) if node.redirections else ()
        found: list[Command] = []
        for one in node.assignments:
            found += self._kept(one.name, list(words_in(one.values)), within, depth)
        if node.redirections:
            flow = feeding(node.redirections, flow)
        if words:
            found = self._run(words, within, depth, redirects, flow, node.text) + found
        elif node.words and not node.assignments:  # expansions may be nothing, or a program
            found += self._script_of(LATER, within, depth, flow.fed_by, self._language)
        elif redirects:
            found += self._alone(redirects, within, node.text)
        for one in node.assignments:
            found += self._inside(one.values, within, depth)
        found += self._inside(node.words, within, depth)
        if node.redirections:
            found += self._inside((one.target for one in node.redirections), within, depth)
        return found

    def _kept(self, name: str, values: Sequence[Word], within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands in a variable that programs run: GIT_PAGER='less -R'."""
        is_known = all(word.is_known for word in values)
        text = " ".join(word.text for word in values)
        self._rules.note_variable(name, text, is_known=is_known)
        script = script_in_variable(f"{name}={text}", is_known=is_known)
        return [] if script is None else self._script_of(script, within, depth, None, self._language)

    def _script_of(
        self, script: Word, within: tuple[str, ...], depth: int, fed_by: str | None, language: Language | None
    ) -> list[Command]:
        unknown = Command(program=None, within=within, fed_by=fed_by, text=script.text, places=self._place.now)
        if not script.is_known or (self._mark and script.text.lstrip().startswith(self._mark)):
            return [unknown]
        if language is None:  # of a shell whose language is not read: what it has in common with others is shown
            return [unknown, *self.script(script.text, COMMON, within, depth + 1, fed_by)]
        return self.script(script.text, language, within, depth + 1, fed_by)

    def _counted(self) -> None:
        self._count += 1
        if self._count > MAX_COMMANDS:
            raise UnreadableCommandError(f"it is too large to be read: it has more than {MAX_COMMANDS} commands")

    def _run(
        self,
        words: Sequence[Word],
        within: tuple[str, ...],
        depth: int,
        redirects: tuple[Redirect, ...],
        flow: Flow,
        text: str,
        *,
        is_open: bool = False,
    ) -> list[Command]:
        """Return the command that these words are, and those that it runs; `is_open`: it is given more words then."""
        self._counted()
        self._words += len(words)
        if self._words > MAX_WORDS:
            raise UnreadableCommandError(f"it is too large to be read: it has more than {MAX_WORDS} words")
        fed_by = flow.fed_by or self._input
        if not words:
            is_later = is_open and within[-1] != "xargs"  # which by itself only shows what it reads
            return self._script_of(LATER, within, depth, fed_by, self._language) if is_later else []
        if len(within) > 4 * MAX_DEPTH:
            raise UnreadableCommandError("too many programs run one another")
        name = None if self._mark and self._mark in words[0].text else name_of(words[0])
        own = Command(
            program=name, arguments=tuple(words[1:]), within=within, redirects=redirects, fed_by=fed_by, text=text,
            places=self._place.now,
        )  # fmt: skip
        self._place.moved = self._place.now
        if name is None:
            return [own]
        rest = words[1:]
        self._rules.judge(name, rest)
        if name in MOVING:
            self._place.move(name, rest)
            return [own]
        if name == "exec" and not rest and fed_by is not None:
            self._input = fed_by
        return [own, *self._run_by(name, rest, within, depth, flow._replace(fed_by=fed_by), is_open=is_open)]

    def _run_by(
        self, name: str, rest: Sequence[Word], within: tuple[str, ...], depth: int, flow: Flow, *, is_open: bool
    ) -> list[Command]:
        """Return the commands that a program runs by its words, its texts and its variables."""
        place, before, mark = self._place, self._place.now, self._mark
        place.stay(folders_told(name, rest, before))
        below = (*within, name)
        found: list[Command] = []
        if name in ("xargs", "parallel"):
            replaced = replaced_by_xargs(rest) if name == "xargs" else None
            is_open = replaced is None
            self._mark = replaced or mark
        for run in inner_words(name, rest):
            shown = " ".join(word.text for word in run)
            found += self._run(run, below, depth + 1, (), Flow(flow.fed_by), shown, is_open=is_open)
        told_words = [*rest, LATER] if is_open and name != "parallel" else rest
        for script in scripts_of(name, told_words, flow):
            language = language_of(name, rest)
            found += self._script_of(script, below, depth, flow.fed_by, self._language if name in KEEPING else language)
        self._mark = mark
        if name == "trap":
            place.trapped(before)
        if name not in KEEPING:
            place.stay(before)
        return found


def redirect_of(one: Redirection) -> Redirect:
    if isinstance(one.target, Document):
        return Redirect(one.operator, Word(one.target.text, one.target.is_known))
    words = one.target.words()
    if len(words) == 1:
        return Redirect(one.operator, words[0])
    return Redirect(one.operator, Word(" ".join(word.text for word in words), False))

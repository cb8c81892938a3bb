"""Commands of a text, from its tree: each with its words, where it runs, what it reads, what it runs itself.

Knows the tree and the tables of programs; parses nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import msgspec

from hooklatch.shelltext.command import Command, Redirect, UnreadableCommandError
from hooklatch.shelltext.grammar.languages import BASH, COMMON, ShellLanguage
from hooklatch.shelltext.grammar.reader import parse_script
from hooklatch.shelltext.grammar.tree import (
    CommandChain,
    CommandList,
    CompoundCommand,
    Function,
    HereDocument,
    Node,
    Pipeline,
    ShellWord,
    SimpleCommand,
    make_shell_words,
)  # fmt: skip
from hooklatch.shelltext.reading.bounds import MAX_DEPTH, MAX_GIVEN, Work
from hooklatch.shelltext.reading.builtins import BuiltinRules
from hooklatch.shelltext.reading.codes import CODES, is_reading_data, list_code_scripts, list_codes, strip_version
from hooklatch.shelltext.reading.containers import is_attended, list_contained_commands
from hooklatch.shelltext.reading.files import WrittenFiles, read_interpreter_line
from hooklatch.shelltext.reading.flows import READ, InputFlow, make_redirect, may_read_before
from hooklatch.shelltext.reading.inner import find_xargs_mark, list_inner_commands, name_of, reads_password_first
from hooklatch.shelltext.reading.places import HOME_IS_SET, MOVING, RunFolders, find_run_folders, merge_places
from hooklatch.shelltext.reading.programs import AWKS, KEEPING, LEAVING, PASSING, READING_FILES, SHELLS
from hooklatch.shelltext.reading.scripts import find_script_language, list_scripts, read_variable_script
from hooklatch.shelltext.words import Word

__all__ = ["ScriptReader"]

MAX_READS = 32  # of files that a text writes: what it runs beyond that is unknown
LATER = Word("what it is given when it runs", False)
LOOPS = frozenset({"while", "until", "for", "select"})
MOVES = re.compile(r"\b(?:cd|chdir|pushd|popd)\b")


class ScriptReader:
    """Reads one text, and those inside it."""

    def __init__(self, length: int) -> None:
        self._length = length  # characters that it and the texts inside it may yet have
        self._work = Work()
        self._mark: str | None = None  # what xargs replaces by what it reads
        self._language = BASH
        self._place = RunFolders()
        self._rules = BuiltinRules()
        self._home_is_set = False
        self._moves = False  # whether the text has a `cd` at all
        self._input = InputFlow()  # what all commands read since `exec < file`
        self._files = WrittenFiles()
        self._reads = 0  # of files that the text has written
        self._has_path = False  # whether programs may be found in other folders
        self._functions: dict[str, Function] = {}
        self._calling: list[str] = []  # functions that are read with what they are given

    def whole(self, text: str, language: ShellLanguage) -> list[Command]:
        found = self.script(text, language, (), 0, InputFlow())
        self._rules.check()
        return found

    def script(
        self, text: str, language: ShellLanguage, within: tuple[str, ...], depth: int, flow: InputFlow
    ) -> list[Command]:
        """Return the commands of a text of its own."""
        if depth > MAX_DEPTH:
            raise UnreadableCommandError(f"commands are nested more than {MAX_DEPTH} deep")
        self._length -= len(text)
        if self._length < 0:
            raise UnreadableCommandError("the texts within it are too many times as long as it is")
        before, self._language = self._language, language
        self._home_is_set = self._home_is_set or HOME_IS_SET.search(text) is not None
        self._moves = self._moves or MOVES.search(text) is not None
        self._rules.begin(text)
        script = parse_script(text, language, self._rules.limits)
        found = self._script(script, within, depth, flow)
        self._language = before
        return found

    def _script(self, script: CommandList, within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        found: list[Command] = []
        flow = flow if len(script.nodes) == 1 else flow.shared()
        for at, node in enumerate(script.nodes):
            before = self._place.now
            found += self._block(node, within, depth, flow)
            if at in script.in_background:
                self._place.stay(before)
        return found

    def _block(self, node: Node, within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        """Return the commands of a node."""
        match node:
            case SimpleCommand():
                return self._simple(node, within, depth, flow)
            case Pipeline():
                return self._pipeline(node, within, depth, flow)
            case CommandChain():
                return self._chain(node, within, depth, flow)
            case Function():
                return self._function(node, within, depth)
            case CompoundCommand():
                return self._compound(node, within, depth, flow)

    # -- what holds commands -----------------------------------------------------------------------------------------

    def _apart(
        self, scripts: Iterable[CommandList], within: tuple[str, ...], depth: int, flow: InputFlow
    ) -> list[Command]:
        """Return the commands of shells of their own, whose `cd` moves nothing outside."""
        before, found = self._place.now, list[Command]()
        for script in scripts:
            found += self._script(script, within, depth, flow)
            self._place.stay(before)
        return found

    def _inside(
        self, words: Iterable[ShellWord | str | HereDocument], within: tuple[str, ...], depth: int
    ) -> list[Command]:
        """Return the commands of the substitutions in words."""
        found: list[Command] = []
        for word in words:
            if not isinstance(word, str) and word.inside:
                is_fed = isinstance(word, ShellWord) and word.reads
                found += self._apart(word.inside, within, depth, InputFlow("?") if is_fed else InputFlow())
        return found

    def _chain(self, node: CommandChain, within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        """Return the commands of `a && b || c`: each runs only where what stands before it succeeded, or failed."""
        place, flow = self._place, flow.shared()
        found = self._block(node.first, within, depth, flow)
        for operator, other in node.rest:
            failed, moved, begun = place.now, place.moved, len(found)
            if operator == "&&":
                place.stay(moved)
            found += self._block(other, within, depth, flow)
            if operator == "&&":  # what comes after may run where the first one failed, too
                place.now = merge_places(failed, place.now)
            elif any(command.program in LEAVING for command in found[begun:]):
                place.stay(moved)
            else:
                place.stay(merge_places(moved, place.now))
        return found

    def _pipeline(self, node: Pipeline, within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        found: list[Command] = []
        for part in node.parts:
            before = self._place.now
            made = self._block(part, within, depth, flow)
            if len(node.parts) > 1:
                self._place.stay(before)
            found += made
            program = next((command.program for command in made if not command.within), None) or "?"
            sources = dict.fromkeys((*flow.sources, *(command.program or "?" for command in made)))
            flow = InputFlow(program, self._files.printed_by(part, flow, self._language), tuple(sources))
        self._place.stay(self._place.now)
        return found

    def _function(self, node: Function, within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands of a function, which runs wherever it is called, and reads what is sent there."""
        self._functions[node.name] = node
        before = self._place.now
        if self._moves:
            self._place.stay(merge_places(before, (None,)))
        found = self._block(node.body, within, depth, InputFlow("?"))
        self._place.stay(before if self._place.now == before else merge_places(before, (*self._place.now, None)))
        return found

    def _compound(self, node: CompoundCommand, within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        place, before = self._place, self._place.now
        redirects = tuple(map(make_redirect, node.redirections))
        found = self._inside(node.words, within, depth)
        flow = self._files.feeding(node.redirections, flow)
        flow = flow if node.kind in "({" else flow.shared()
        begun = len(found)
        if node.kind == "(":
            found += self._apart(node.bodies, within, depth, flow)
        elif node.kind in LOOPS:
            made = self._each(node.bodies, within, depth, flow)
            if place.now != before:  # a later turn begins where an earlier one has led
                place.stay(merge_places(before, (*place.now, None)))
                made = self._each(node.bodies, within, depth, flow)
                place.stay(merge_places(before, (*place.now, None)))
            found += made
        else:
            found += self._each(node.bodies, within, depth, flow)
        if redirects and len(found) > begun:  # they are those of a whole group
            first = found[begun]
            found[begun] = msgspec.structs.replace(first, redirects=(*first.redirects, *redirects))
        elif redirects:
            found += self._alone(redirects, within, node.text)
        if redirects:
            self._files.note(node, (), flow, self._language)
        return found + self._inside((redirection.target for redirection in node.redirections), within, depth)

    def _each(
        self, bodies: Sequence[CommandList], within: tuple[str, ...], depth: int, flow: InputFlow
    ) -> list[Command]:
        return [command for body in bodies for command in self._script(body, within, depth, flow)]

    def _alone(self, redirects: tuple[Redirect, ...], within: tuple[str, ...], text: str) -> list[Command]:
        """Return the command that redirections are which stand alone."""
        self._work.count()
        return [Command(program="", redirects=redirects, within=within, text=text, places=self._place.now)]

    # -- one program -------------------------------------------------------------------------------------------------

    def _simple(self, node: SimpleCommand, within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        """Return a command, and those that it would run."""
        words = list(make_shell_words(node.words))
        if self._home_is_set:
            words = [word._replace(is_known=False) if word.text.startswith("~") else word for word in words]
        redirects = tuple(map(make_redirect, node.redirections)) if node.redirections else ()
        found: list[Command] = []
        for assignment in node.assignments:
            found += self._kept(assignment.name, list(make_shell_words(assignment.values)), within, depth)
        if node.redirections:
            flow = self._files.feeding(node.redirections, flow)
        flow = flow.shared() if may_read_before(node) else flow
        if words:
            found = self._run(words, within, depth, redirects, flow, node.text) + found
            found += self._called(words, within, depth, flow)
        elif node.words and not node.assignments:  # expansions may be nothing, or a program
            found += self._script_of(LATER, within, depth, flow, self._language)
        elif redirects:
            found += self._alone(redirects, within, node.text)
        if redirects or flow.fed_by or not self._files.is_empty:
            self._files.note(node, words, flow, self._language)
        for assignment in node.assignments:
            found += self._inside(assignment.values, within, depth)
        found += self._inside(node.words, within, depth)
        if node.redirections:
            found += self._inside((redirection.target for redirection in node.redirections), within, depth)
        return found

    def _called(self, words: Sequence[Word], within: tuple[str, ...], depth: int, flow: InputFlow) -> list[Command]:
        """Return the commands of a function of the text that is called here, where it is given something to read."""
        node = self._functions.get(words[0].text)
        if node is None or flow.fed_by is None or node.name in self._calling:
            return []
        self._calling.append(node.name)
        found = self._block(node.body, within, depth, flow)
        self._calling.pop()
        return found

    def _kept(self, name: str, values: Sequence[Word], within: tuple[str, ...], depth: int) -> list[Command]:
        """Return the commands in a variable that programs run: GIT_PAGER='less -R'."""
        is_known = all(word.is_known for word in values)
        text = " ".join(word.text for word in values)
        self._has_path = self._has_path or name == "PATH"
        self._rules.note_variable(name, text, is_known=is_known)
        script = read_variable_script(f"{name}={text}", is_known=is_known)
        return [] if script is None else self._script_of(script, within, depth, InputFlow(), self._language)

    def _script_of(
        self, script: Word, within: tuple[str, ...], depth: int, flow: InputFlow, language: ShellLanguage | None
    ) -> list[Command]:
        is_read = flow.given is not None and script.text == flow.given.text
        unknown = Command(
            program=None, within=within, fed_by=flow.fed_by, text=READ if is_read else script.text,
            places=self._place.now, given=flow.given if is_read else None, sources=flow.sources,
        )  # fmt: skip
        flow = flow.shared() if is_read else flow  # what it runs may read the rest of it
        if not script.is_known or (self._mark and script.text.lstrip().startswith(self._mark)):
            return [unknown]
        if language is None:  # of a shell whose language is not read: what it has in common with others is shown
            return [unknown, *self.script(script.text, COMMON, within, depth + 1, flow)]
        return self.script(script.text, language, within, depth + 1, flow)

    def _run(
        self,
        words: Sequence[Word],
        within: tuple[str, ...],
        depth: int,
        redirects: tuple[Redirect, ...],
        flow: InputFlow,
        text: str,
        *,
        is_open: bool = False,
    ) -> list[Command]:
        """Return the command that these words are, and those that it runs; `is_open`: it is given more words then."""
        self._work.count(words)
        flow = flow if flow.fed_by else self._input
        if not words:
            is_later = is_open and within[-1] != "xargs"  # which by itself only shows what it reads
            return self._script_of(LATER, within, depth, flow, self._language) if is_later else []
        if len(within) > 4 * MAX_DEPTH:
            raise UnreadableCommandError("too many programs run one another")
        name = None if self._mark and self._mark in words[0].text else name_of(words[0])
        by_itself = self._files.makefile(name or "")
        written = next(self._files.among((*words, *by_itself)), None)
        own = Command(
            program=name, arguments=tuple(words[1:]), within=within, redirects=redirects, fed_by=flow.fed_by, text=text,
            places=self._place.now, given=written or flow.given, sources=flow.sources,
        )  # fmt: skip
        self._place.moved = self._place.now
        if name is None:
            return [own]
        rest = words[1:]
        self._rules.judge(name, rest)
        if name in MOVING:
            self._place.move(name, rest)
            return [own]
        if name == "exec" and not rest and flow.fed_by is not None:
            self._input = flow.shared()
        found = [own, *self._run_by(name, rest, within, depth, flow, is_open=is_open)]
        return found if written is None else [*found, *self._run_written(words, within, depth, flow)]

    def _run_written(
        self, words: Sequence[Word], within: tuple[str, ...], depth: int, flow: InputFlow
    ) -> list[Command]:
        """Return the commands of a file that the same text has written, where these words run it."""
        name = name_of(words[0]) or ""
        below = (*within, name)
        found: list[Command] = []
        for text in self._files.among(words[:1]):  # it is the program itself
            if "/" in words[0].text or self._has_path:
                line = read_interpreter_line(text.text)
                program = (name_of(line[0]) if line else "sh") or ""
                if program in SHELLS:
                    language = find_script_language(program, line[1:]) if line else self._language
                    found += self._read_file(text, below, depth, flow, language)
                else:
                    found += self._run([*line, *words], below, depth, (), flow, text.text.partition("\n")[0])
        if name in SHELLS or name in ("source", "."):
            language = find_script_language(name, words[1:]) if name in SHELLS else self._language
            for text in self._files.among(words[1:]):
                found += self._read_file(text, below, depth, flow, language)
        elif name in READING_FILES:
            for text in self._files.among([*words[1:], *self._files.makefile(name)]):
                for script in list_scripts(name, (), InputFlow("<", text)):
                    found += self._script_of(script, below, depth, InputFlow(), BASH)
        else:
            found += self._run_by_code(name, self._files.among(words[1:]), below, depth, flow)
        return found

    def _run_by_code(
        self, name: str, codes: Iterable[Word], within: tuple[str, ...], depth: int, flow: InputFlow
    ) -> list[Command]:
        """Return the commands that code in another language runs by calls, as far as these are shell text."""
        language = strip_version(name)
        if language not in CODES or language in AWKS:  # awk's are read as strictly as a shell's
            return []
        scripts = [script for code in codes for script in list_code_scripts(language, code.text)]
        return [
            command for script in scripts for command in self._try(script, within, depth, flow.shared(), COMMON) or ()
        ]

    def _read_file(
        self, text: Word, within: tuple[str, ...], depth: int, flow: InputFlow, language: ShellLanguage | None
    ) -> list[Command]:
        """Return the commands of a file; an unknown program, where it cannot be read."""
        here = self._place.now
        unknown = Word(text.text, False)
        self._reads += 1
        text = text if self._reads <= MAX_READS else unknown
        found = self._try(text, within, depth, flow if text.is_known else InputFlow("<", unknown), language)
        if found is None:
            found = self._script_of(unknown, within, depth, InputFlow("<", unknown), language)
        if within[-1] not in KEEPING:
            self._place.stay(here)
        return found

    def _try(
        self, script: Word, within: tuple[str, ...], depth: int, flow: InputFlow, language: ShellLanguage | None
    ) -> list[Command] | None:
        """Return the commands of a text that may be no shell text; None if it cannot be read as one."""
        rules, before, mark, calling = self._rules, self._language, self._mark, list(self._calling)
        self._rules = BuiltinRules()
        try:
            found = self._script_of(script, within, depth, flow, language)
            self._rules.check()
        except UnreadableCommandError:
            if self._work.is_over:
                raise
            found = None
            self._mark, self._calling = mark, calling
        self._rules, self._language = rules, before
        return found

    def _run_by(
        self, name: str, rest: Sequence[Word], within: tuple[str, ...], depth: int, flow: InputFlow, *, is_open: bool
    ) -> list[Command]:
        """Return the commands that a program runs by its words, its texts and its variables."""
        place, before, mark = self._place, self._place.now, self._mark
        place.stay(find_run_folders(name, rest, before))
        below = (*within, name)
        found: list[Command] = []
        replaced: str | None = None
        if name in ("xargs", "parallel"):
            replaced = find_xargs_mark(rest) if name == "xargs" else None
            is_open = replaced is None
            self._mark = replaced or mark
            passed = InputFlow(flow.fed_by, None, flow.sources)  # they take their words from it
        else:
            passed = flow if name in PASSING and not reads_password_first(name, rest) else flow.shared()
        for run in itertools.chain(list_inner_commands(name, rest), list_contained_commands(name, rest)):
            if name == "xargs" and replaced and flow.given is not None and flow.given.is_known:
                for line in flow.given.text.splitlines()[:MAX_GIVEN]:  # each is a command of its own
                    words = [word._replace(text=word.text.replace(replaced, line)) for word in run]
                    self._mark = mark
                    found += self._run(words, below, depth + 1, (), passed, " ".join(word.text for word in words))
                self._mark = replaced
            shown = " ".join(word.text for word in run)
            found += self._run(run, below, depth + 1, (), passed, shown, is_open=is_open)
            if name == "xargs" and run and is_open and flow.given is not None and flow.given.is_known:
                more = [*run, *map(Word, flow.given.text.split())]
                found += self._run(more, below, depth + 1, (), passed, " ".join(word.text for word in more))
        if name in SHELLS and within[-1:] and not flow.fed_by and is_attended(within[-1], rest):
            return found
        told_words = [*rest, LATER] if is_open and name != "parallel" else rest
        for script in list_scripts(name, told_words, flow):
            language = find_script_language(name, rest)
            found += self._script_of(script, below, depth, passed, self._language if name in KEEPING else language)
        given = [flow.given] if flow.given is not None and not is_reading_data(rest) else []
        found += self._run_by_code(name, (*list_codes(strip_version(name), rest), *given), below, depth, flow)
        self._mark = mark
        if name == "trap":
            place.trapped(before)
        if name not in KEEPING:
            place.stay(before)
        return found

"""Files that a text writes, so that the same text may run them: cat > x <<E, tee x, cp and mv, then sh x.

Files are told apart by their names without folders, so that no spelling of a path hides one.  Knows words; parses
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from hooklatch.shelltext.grammar.languages import ShellLanguage
from hooklatch.shelltext.grammar.tree import CompoundCommand, HereDocument, Node, Redirection, SimpleCommand
from hooklatch.shelltext.reading.flows import MAX_TEXT, InputFlow, apply_redirections, compute_output
from hooklatch.shelltext.reading.inner import name_of
from hooklatch.shelltext.reading.programs import MAKES
from hooklatch.shelltext.words import GLOB, Word

__all__ = ["WrittenFiles", "read_interpreter_line"]

CARRYING = frozenset({"cp", "mv", "ln", "install", "rsync"})
EDITING = frozenset({"sed", "gsed", "perl", "ruby", "ed", "ex", "patch", "awk", "gawk", "python", "python3", "sponge"})
FIRST_LINE = re.compile(r"#!\s*(\S+)(?:\s+(\S+))?")


class WrittenFiles:
    """The files that a text has written so far."""

    def __init__(self) -> None:
        self._texts: dict[str, Word] = {}

    @property
    def is_empty(self) -> bool:
        return not self._texts

    def note(
        self, node: SimpleCommand | CompoundCommand, words: Sequence[Word], flow: InputFlow, language: ShellLanguage
    ) -> None:
        """Note what a command writes, where the text itself says what that is."""
        name = (name_of(words[0]) if words else None) or ""
        for redirection in node.redirections:
            if redirection.operator[:1] in (">", "&") and redirection.number in ("", "1"):
                reading = tuple(other for other in node.redirections if other.operator.startswith("<"))
                bare = node._replace(redirections=reading)
                printed = compute_output(bare, flow, language)
                for target in () if isinstance(redirection.target, HereDocument) else redirection.target.words():
                    self._write(target, printed, is_added=redirection.operator.endswith(">>"))
        if name == "tee" and flow.given is not None:
            for word in words[1:]:
                self._write(word, flow.given, is_added=any(other.text in ("-a", "--append") for other in words))
        elif name == "dd" and flow.given is not None:
            for word in words[1:]:
                if word.text.startswith("of="):
                    self._write(Word(word.text[3:]), flow.given, is_added=False)
        elif self._texts and name in CARRYING:
            self._carry([word for word in words[1:] if not word.text.startswith("-")])
        elif self._texts and name in EDITING:
            for word in words[1:]:
                if (text := self._texts.get(last_name(word.text))) is not None:
                    self._texts[last_name(word.text)] = Word(f"{text.text}\n{node.text}", False)

    def _write(self, target: Word, text: Word, *, is_added: bool) -> None:
        name = last_name(target.text)
        before = self._texts.get(name) if is_added else None
        if name and target.text not in ("/dev/null", "/dev/stderr", "/dev/stdout"):
            self._texts[name] = (
                text if before is None else Word(before.text + text.text, before.is_known and text.is_known)
            )

    def _carry(self, words: Sequence[Word]) -> None:
        for word in words[:-1]:
            if (text := self._texts.get(last_name(word.text))) is not None and last_name(words[-1].text):
                self._texts[last_name(words[-1].text)] = text

    def makefile(self, name: str) -> list[Word]:
        """Return the makefile that make reads by itself, if the text has written it."""
        names = ("GNUmakefile", "makefile", "Makefile") if name in MAKES and self._texts else ()
        return [Word(file) for file in names if file in self._texts]

    def feeding(self, redirections: Sequence[Redirection], flow: InputFlow) -> InputFlow:
        """Return what reaches a command with these redirections, some of which may lead from files of the text."""
        flow = apply_redirections(redirections, flow)
        for redirection in redirections if self._texts else ():
            if redirection.operator == "<" and not isinstance(redirection.target, HereDocument):
                for text in self.among(redirection.target.words()):
                    flow = flow._replace(given=text)
        return flow

    def printed_by(self, node: Node, flow: InputFlow, language: ShellLanguage) -> Word:
        """Return what a command prints, with what stands in the files that it names."""
        printed = compute_output(node, flow, language)
        if printed.is_known or not self._texts:
            return printed
        texts = dict.fromkeys(word.text for word in self.among(list(map(Word, printed.text.split()))))
        return Word("\n".join((printed.text, *texts))[-MAX_TEXT:], False)

    def among(self, words: Sequence[Word]) -> Iterator[Word]:
        """Yield the texts of those files that words name, also as values: -fx, --file=x, @x."""
        if self._texts:
            for word in words:
                for name in (last_name(word.text), last_name(word.text.rpartition("=")[2]), word.text[2:]):
                    if (text := self._texts.get(name.lstrip("@"))) is not None:
                        yield text
                        break
                else:
                    if GLOB.search(pattern := last_name(word.text)):
                        yield from (text for name, text in self._texts.items() if fnmatchcase(name, pattern))


def last_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def read_interpreter_line(text: str) -> list[Word]:
    """Return the words before a file's name that its first line says it is run with; none if it does not say."""
    found = FIRST_LINE.match(text)
    if found is None:
        return []
    first, second = found.groups()
    if last_name(first) == "env":
        return [Word(second)] if second and not second.startswith("-") else [Word(first, False)]
    return [Word(first), *([Word(second)] if second else [])]

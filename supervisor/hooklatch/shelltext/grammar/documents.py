"""Redirections and here-documents.  The body of a here-document begins behind the line that names it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hooklatch.shelltext.grammar.characters import ReadingLimits
from hooklatch.shelltext.grammar.languages import ShellLanguage
from hooklatch.shelltext.grammar.tree import HereDocument, Redirection, ShellWord
from hooklatch.shelltext.grammar.words import WordReader

__all__ = ["Documents"]

OPERATOR: Final = re.compile(r"([0-9]*)(<<<|<<-|<<|<&|<>|>>|>&|>\||<|>)", re.ASCII)
BOTH: Final = re.compile(r"&>>?")
MARK: Final = re.compile(r"""(?:'([\w .+!-]+)'|"([\w .+!-]+)"|(\\?)([A-Za-z_][\w.-]*))(?=[ \t\n;&|)<>]|\Z)""", re.ASCII)
DESCRIPTOR: Final = re.compile(r"[0-9]|-")
A_FILE: Final = re.compile(r"[A-Za-z_./~][^-]*|[A-Za-z_./~].*[^-]")  # that `>&` does not take for a descriptor
TABS: Final = re.compile(r"^\t+", re.MULTILINE)
IN_BODY: Final = re.compile(r"[^\\$`]++")


class PendingDocument(NamedTuple):
    """A here-document whose body is not read yet."""

    mark: str
    is_quoted: bool
    has_tabs: bool  # those at the beginning of lines are taken away
    document: HereDocument


class Documents(WordReader):
    """A reader of redirections, and of the bodies of here-documents where a line ends."""

    def __init__(self, text: str, language: ShellLanguage, limits: ReadingLimits, *, base: int = 0) -> None:
        super().__init__(text, language, limits, base=base)
        self._waiting: list[list[PendingDocument]] = [[]]  # of the text, and of each substitution that is open

    @property
    def waits(self) -> bool:
        return any(self._waiting)

    def redirection(self) -> Redirection | None:
        """Return the redirection at this place, None if there is none."""
        begin, text = self.at, self.text
        match = OPERATOR.match(text, begin)
        if match is None:
            both = BOTH.match(text, begin)
            if both is None:
                return None
            if not self.language.is_bash:
                self.refuse("'&>', which is two signs to some shells,")
            self.at = both.end()
            return Redirection(both[0], self.target())
        number, operator = match.groups()
        if not number and self.language.is_bash and text.startswith(("<(", ">("), begin):
            return None
        self.step()
        if len(number) > (3 if self.language.is_bash else 1):
            self.refuse("a redirection with this number")
        self.at = match.end()
        if operator in ("<<", "<<-"):
            return Redirection("<<", self.here_document(operator), number)
        if operator == "<<<" and not self.language.is_bash:
            self.refuse("'<<<', which is not of every shell,", begin)
        target = self.target()
        if operator in ("<&", ">&") and not DESCRIPTOR.fullmatch(target.bare or ""):
            is_file = operator == ">&" and not number and self.language.is_bash
            if not is_file or A_FILE.fullmatch(target.bare or "") is None or target.has_braces is not False:
                self.refuse(f"{operator!r} with this word behind it")
        return Redirection(operator, target, number)

    def target(self) -> ShellWord:
        """Read the word that a redirection leads to, which stands on its line."""
        self.at = self.past_blanks()
        if self.peek() in ("#", "\n", "\\"):
            self.refuse("a redirection without a word behind it")
        word = self.word()
        if word is None or self.peek() == "(":
            self.refuse("a redirection without a word behind it")
        if word.bare is not None and word.bare.isdigit() and self.peek() in ("<", ">"):
            self.refuse("a number between two redirections")
        return word

    def here_document(self, operator: str) -> HereDocument:
        self.at = self.past_blanks()
        match = MARK.match(self.text, self.at)
        if match is None:
            self.refuse("this mark of a here-document")
        single, double, escape, bare = match.groups()
        self.at = match.end()
        document = HereDocument()
        is_quoted = bool(single or double or escape)
        self._waiting[-1].append(PendingDocument(single or double or bare, is_quoted, operator == "<<-", document))
        self.note_document()
        return document

    def note_document(self) -> None:
        """Note that a here-document has begun at this place."""

    def newline(self) -> None:
        """Move to the next line, behind the bodies of the here-documents that this line names."""
        if any(self._waiting[:-1]):
            self.refuse("the end of a line in a substitution, while a here-document waits outside of it,")
        self.at += 1
        for waiting in self._waiting[-1]:
            self.body(waiting)
        self._waiting[-1] = []

    def body(self, waiting: PendingDocument) -> None:
        """Read the body of a here-document, whose end stands alone on its line and is not part of another one."""
        # Lines that are nearly the end are found too: in a substitution bash ends at the mark and a parenthesis.
        begin, mark = self.at, re.escape(waiting.mark)
        near = re.compile(rf"^[ \t]*+{mark}[;)}}`'\"|& \t]*+$", re.MULTILINE)
        match = near.search(self.text, begin)
        if match is None or begin >= self.end:
            self.refuse("a here-document that does not end", min(begin, self.end - 1))
        line = match[0].lstrip("\t") if waiting.has_tabs else match[0]
        if line != waiting.mark:
            self.refuse("a line that is nearly the end of a here-document", match.start())
        self.at = min(match.end() + 1, self.end)
        text = self.text[begin : match.start()]
        if waiting.has_tabs:
            text = TABS.sub("", text)
        if waiting.is_quoted:
            self.note_inert(text)
            waiting.document.text = text
        else:
            self.read_expanded(text, begin, waiting.document)

    def read_expanded(self, text: str, begin: int, document: HereDocument) -> None:
        """Read a body in which `$`, backticks and the backslashes before them mean what they do in double quotes."""
        self.open()
        inner = type(self)(text, self.language, self.limits, base=self._base + begin)
        pieces: list[str] = []
        while inner.at < inner.end:
            if (plain := IN_BODY.match(text, inner.at)) is not None:
                inner.note_inert(plain[0])
                pieces.append(plain[0])
                inner.at = plain.end()
                continue
            inner.step()
            after = text[inner.at + 1 : inner.at + 2]
            if text[inner.at] == "\\":
                if after in ("", "\n"):
                    inner.refuse("a line of a here-document that ends with a backslash")
                pieces.append(after if after in "$`\\" else f"\\{after}")
                inner.note_inert(after)
                inner.at += 2
                continue
            piece = inner.dollar(is_quoted=True) if text[inner.at] == "$" else inner.backticks(is_quoted=True)
            document.is_known = document.is_known and piece.is_known
            pieces.append(piece.text)
        self.close()
        document.text = "".join(pieces)
        document.inside = tuple(inner.inside)

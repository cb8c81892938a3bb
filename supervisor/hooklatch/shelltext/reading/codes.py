"""The shell texts that code of other languages runs: os.system("…"), execSync('…'), `…`, awk's system().

A call is read whose program is written out in it, in the value of the variable that it is given, or in texts that are
joined for it.  What else code puts together is not seen, so what is read here never shows that the rest of the code is
harmless.

No pattern here may look far for an end that is missing: of each place in hostile code that would be a look at the rest.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from hooklatch.shelltext.reading.programs import AWKS
from hooklatch.shelltext.words import Word

__all__ = ["CODES", "is_reading_data", "list_code_scripts", "list_codes", "strip_version", "write_out"]

# Interpreters whose code is read for the calls by which it runs shell text.
CODES: Final = AWKS | {
    "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "php", "lua",
    "luajit", "tclsh", "expect", "R", "Rscript", "julia", "elixir", "osascript", "emacs", "guile", "racket", "raku",
    "iex", "erl", "irb", "pry", "rake", "sage", "zx", "vim", "nvim", "vi", "gvim", "gdb", "lldb", "gnuplot", "octave",
    "jshell", "scala", "kotlin", "groovy", "clj", "clojure", "bb", "sbcl", "ocaml", "ghci", "crystal",
}  # fmt: skip
VERSION: Final = re.compile(r"(?<=[a-z])[\d.]+\Z")  # python3.12
CALL: Final = re.compile(
    r"(?i)(?<![\w$@-])(?:system\w*|popen\w*|exec\w*|(?:posix_)?spawn\w*|shell_exec|shell-command[\w-]*|shell|passthru|proc_open"
    r"|getoutput|getstatusoutput|check_output|check_call|create_subprocess_\w+|run(?:-program)?|call|cmd|sh|capture\w*|command"
    r"|do\s+(?:shell\s+)?script|(?:call|start)-process[\w-]*)(?![\w-])(?:['\"][\])])?[\s(\[{]*(?:\w+=\w+,\s*)*"
    r"(?:args\s*=[\s\[(]*|shlex\.split\(\s*|(?:os\.)?P_\w+\s*,[\s\[(]*)?"
)
LITERAL: Final = re.compile(
    r"""(?s)([fF]?)(?:[bBrRuU]|~[cs])?(?:\"{3}(.*?)\"{3}|'{3}(.*?)'{3}|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`([^`]*)`)"""
    r"""|(?<=\[\[)([^\]]*)\]\]|[*]?(?:q[qw]?|%w)\s*(?:\(([^()]*)\)|\{([^{}]*)\}|\[([^\]]*)\]|/([^/]*)/)"""
)
BETWEEN: Final = re.compile(r"(?:[\s,\[({]|\bc(?=\()|(?:#|//)[^\n]*\n)+(?:args\s*[:=]>?[\s\[({]*|(?:nil\s+|t\s+)+)?")
JOINING: Final = re.compile(r"\s*(?:([+%]|\.(?=\s*[$@])|\.format\b)|\.(?!\w*\()|\|\|)")  # behind a text that goes on
QUOTED: Final = re.compile(r"`|(?:\bqx|%x)\s*([^\s\w,;=])")
ENDS: Final = {"{": "}", "(": ")", "[": "]", "<": ">"}
QUOTING: Final = frozenset({"perl", "ruby", "php", "raku"})
OF_SCRIPTS: Final = re.compile(r"\$`([^`]*)`")  # of zx and bun
OF_PERL: Final = re.compile(  # open(F, "cmd|"), open(F, "-|", "cmd"), open(F, "|cmd"), also of Ruby
    r"""\bopen\b[^"'\n]{0,64}["'](?:(?:-\||\|-)["']\s*,\s*["']([^"'\n]+)|\|([^"'\n-]+)|([^"'|\n-][^"'|\n]*)\|)["']"""
)
OF_OBJECTS: Final = re.compile(r'"\s*\.\s*(?:!|execute\b)')  # of Scala and Groovy
LINES: Final = re.compile(r"(?m)^[ \t]*:?!(.+)$")
WITH_LINES: Final = frozenset({"ipython", "sage", "ghci", "vim", "nvim", "vi", "gvim", "gdb", "octave"})
OF_TCL: Final = re.compile(r"\b(?:exec|spawn)\s+([^\s;\]\"'][^;\]\n]*)")
OF_AWK: Final = re.compile(r'"\s*\|&?\s*getline|\|&?\s*"((?:[^"\\]|\\.)*+)"')
SYSTEM: Final = re.compile(r'\bsystem\s*\(\s*(?:"((?:[^"\\]|\\.)*)"\s*(\))?)?')
FILLED: Final = re.compile(r"[#$]\{[^}]{0,200}\}")  # which a language fills in
FILLED_BY_PYTHON: Final = re.compile(r"\{[^{}]*\}")
FORMATTED: Final = re.compile(r"%\w|\{[^{}]*\}")
OTHER: Final = re.compile(r"\*?[\w.$@]+(?:\([^()'\"]*\))?(?=\s*[,\])])")  # a word of a list that is not a text
NAMED: Final = re.compile(r"[$@]?(\w+)(?:\.split\(\))?\s*[,;)\]}\n]")
ASSIGNED: Final = re.compile(r"(?<![\w.])(\w+)\s*=\s*[\[({]*(?=[fFbBrR]?[\"'`])")
ITSELF: Final = re.compile(r"(?:sys\.executable|process\.(?:execPath|argv0|argv\[0\])|RbConfig\.ruby|\$\^X)\s*,[\s\[]*")
OF_SQL: Final = re.compile(
    r"\s*(?:SELECT|INSERT\s+INTO|UPDATE\s+[\w.$]+\s+SET|DELETE\s+FROM|WITH\s+\w+\s+AS|(?:CREATE|ALTER|DROP)\s+[A-Z]+)\s"
)
DATA_FOLLOWS: Final = re.compile(r"[\w./-]+\.(?:py|js|mjs|cjs|ts|pl|rb|php)|-[nplaw0-9i]*[np][nplaw0-9i]*[eE]")
A_SCRIPT: Final = re.compile(r"[\w@./~+][\w@./~+-]*\.\w{1,4}")
MAX_WORDS: Final = 64  # of one call
MAX_GROWTH: Final = 4096  # characters by which code may grow beyond twice its length
# A text without escapes, and what code makes of texts: joined ones, paths, and the values of variables.
TEXT: Final = r"""(?:'([^'\\\n]{0,300})'|"([^"\\\n]{0,300})")"""
PATH: Final = r"(?<![\w.])(?:\w+\.)*path\.join\("
JOINED: Final = (
    (re.compile(rf"{TEXT}\s*+(?:(?:\+|\.\.?)\s*+)?{TEXT}"), "{}"),
    (re.compile(rf"\bPath\(\s*{TEXT}\s*\)\s*/\s*{TEXT}"), "Path({})"),
    (re.compile(rf"{PATH}\s*{TEXT}\s*,\s*{TEXT}\s*(?=[,)])"), "path.join({}"),
    (re.compile(rf"{PATH}\s*{TEXT}()()\s*\)"), "{}"),
)
VALUED: Final = re.compile(
    rf"(?<![\w.])(?P<given>[$@]?\w+)\s*=\s*(?P<value>{TEXT})\s*(?=[;\n]|\Z)"
    r"|(?P<before>[(,+/]\s*)(?P<used>[$@]?\w+)(?=\s*[,)+/])"
)
RENAMED: Final = re.compile(  # import run as r, const {exec: e} = …, r = os.system
    r"\b(\w+)(?:\s+as\s+(\w+)|\s*:\s*(\w+)(?=[\w\s,:]{0,200}\}\s*=))"
    r"|(?<![\w.])(?:\w+\s+)?(\w+)\s*=\s*(?:\w+\.)*(\w+)\s*(?=[;\n]|\Z)"
)
CALLED: Final = re.compile(r"\b\w+(?=\s*\()")
ROUNDS: Final = 8  # of joining, each of which joins pairs
ESCAPED: Final = re.compile(r"(?s)\\(.)")
CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}


def strip_version(program: str) -> str:
    """Return the name of a program without its version: python of python3.12, but m4 has none."""
    return VERSION.sub("", program) if program != "m4" else program


def is_reading_data(words: Sequence[Word]) -> bool:
    """Return whether an interpreter with these words reads no code, but data: python3 FILE, perl -ne."""
    is_named = bool(words) and DATA_FOLLOWS.fullmatch(words[0].text) is not None
    return is_named and not any("eval" in word.text or "exec" in word.text for word in words)


def list_codes(name: str, words: Sequence[Word]) -> Sequence[Word]:
    """Return the words that may be code: none behind a file that an interpreter runs, since they are that program's."""
    is_script = bool(words) and A_SCRIPT.fullmatch(words[0].text) is not None
    return () if is_script and name not in WITH_LINES else words


def list_code_scripts(name: str, code: str) -> Iterator[Word]:
    """Yield the shell texts that an interpreter's code runs by calls; of awk also those that are not known."""
    if name in AWKS:
        for match in SYSTEM.finditer(code):
            yield Word(unescape(match[1]) if match[1] is not None else "what system() is given", match[2] is not None)
        for match in OF_AWK.finditer(code):
            yield Word(unescape(match[1] if match[1] is not None else read_back(code, match.start())))
        return
    yield from map(Word, dict.fromkeys(call for form in write_out(code) for call in list_calls(name, form)))
    if name in QUOTING:
        yield from (Word(FILLED.sub("$X", text)) for text in list_quoted(code))
    if name in ("tclsh", "expect"):
        yield from (Word(text) for text in OF_TCL.findall(code))
    if name in ("scala", "groovy"):
        yield from (Word(read_back(code, match.start())) for match in OF_OBJECTS.finditer(code))
    for pattern in (OF_SCRIPTS, *([LINES] if name in WITH_LINES else ())):
        yield from (Word(FILLED.sub("$X", text)) for text in pattern.findall(code))
    if name in ("perl", "ruby"):
        yield from (Word("".join(texts)) for texts in OF_PERL.findall(code))


def write_out(code: str) -> Iterator[str]:
    """Yield code, and also with calls by their own names, joined texts as one, and values in place of their variables.

    The second form is only read beside the first, so no text can hide a call from both.
    """
    yield code
    found = RENAMED.findall(code)
    pairs = ((imported or given, new or taken or own) for imported, new, taken, own, given in found)
    names = {new: old for old, new in pairs if CALL.fullmatch(old)}
    written = CALLED.sub(lambda match: names.get(match[0], match[0]), code)
    values = ValuesInCode(len(code) + MAX_GROWTH)
    for _ in range(ROUNDS):
        before, written = written, VALUED.sub(values.fill_in, written)
        for pattern, joined in JOINED:
            written = pattern.sub(partial(join_texts, joined), written)
        if written == before:
            break
    if written != code:
        yield written


class ValuesInCode:
    """The values of variables while code is read from its beginning; `room`: how many characters they may add to it."""

    def __init__(self, room: int) -> None:
        self._values: dict[str, str] = {}
        self._room = room

    def fill_in(self, match: re.Match[str]) -> str:
        """Take the value that a variable is given, or put it in place of the variable."""
        if match["given"] is not None:
            self._values[match["given"]] = match["value"]
            return match[0]
        value = self._values.get(match["used"], match["used"])
        self._room -= len(value) - len(match["used"])
        return match["before"] + value if self._room > 0 else match[0]


def join_texts(joined: str, match: re.Match[str]) -> str:
    """Return two texts as one, put into `joined`; or as they are, if there are no quotation marks left for it."""
    first, second = (match[1] or match[2] or ""), (match[3] or match[4] or "")
    text = first + ("/" if second and "(" in joined else "") + second
    mark = next((mark for mark in "'\"" if mark not in text), None)
    return joined.format(f"{mark}{text}{mark}") if mark is not None else match[0]


def list_calls(name: str, code: str) -> Iterator[str]:
    """Yield what calls are given to run, each variable of theirs once."""
    values: dict[str, list[int]] = {}
    for match in ASSIGNED.finditer(code):
        values.setdefault(match[1], []).append(match.end())
    for call in CALL.finditer(code):
        itself = ITSELF.match(code, call.end())
        at = itself.end() if itself is not None else call.end()
        named = NAMED.match(code, at)
        begins = [at] if named is None else values.pop(named[1], ())
        for begin in begins:
            before = code[call.start() : begin] if named is None else code[max(begin - MAX_WORDS, 0) : begin]
            text = read_words(code, begin, [name] if itself is not None else [], before)
            if text and not (call[0].lower().startswith("execute") and OF_SQL.match(text)):
                yield text.removeprefix("!")  # of vim: execute '!ls'


def list_quoted(code: str) -> Iterator[str]:
    """Yield what quotes that run are put around: `ls`, qx(ls), %x{ls}."""
    at, missing = 0, set[str]()
    while (begin := QUOTED.search(code, at)) is not None:
        at = begin.end()
        mark = ENDS.get(begin[1], begin[1]) if begin[1] else "`"
        end = -1 if mark in missing else code.find(mark, at)
        if end < 0:
            missing.add(mark)
            continue
        yield code[at:end]
        at = end + 1


def read_back(code: str, end: int) -> str:
    """Return the text in quotation marks that ends here."""
    begin = code.rfind('"', 0, end)
    while begin > 0 and code[begin - 1] == "\\":
        begin = code.rfind('"', 0, begin)
    return unescape(code[begin + 1 : end])


def read_words(code: str, at: int, words: list[str], before: str) -> str | None:
    """Return the text, or the words as one, that a call is given here; None if the program is not written out."""
    last, is_list = len(words), "[" in before
    while len(words) < MAX_WORDS:
        literal = LITERAL.match(code, at)
        if literal is not None:
            text = unescape(next((group for group in literal.groups()[1:] if group is not None), ""))
            text = FILLED.sub("$X", FILLED_BY_PYTHON.sub("$X", text) if literal[1] else text)
            at = literal.end()
            if (joining := JOINING.match(code, at)) is not None:  # what it goes on with is not known
                if joining[1] is None:
                    return None
                if words or " " in text.lstrip():
                    words.append(FORMATTED.sub("$X", text) + "$X")
                    last = len(words)
                break
            words.append(text)
            last = len(words)
        elif is_list and words and (other := OTHER.match(code, at)) is not None:
            words.append("$X")
            at = other.end()
        else:
            break
        between = BETWEEN.match(code, at)
        if between is None:
            break
        is_list = is_list or "[" in between[0]
        at = between.end()
    del words[last:]
    if len(words) > 1 and words[0] == words[1]:  # execvp("git", ["git", "push"])
        del words[0]
    if not words:
        return None
    first, *rest = words
    first = first if not rest or " " in first else quote(first)  # popen("git push", "r")
    return " ".join([first, *map(quote, rest)])


def quote(word: str) -> str:
    return word if word == "$X" else shlex.quote(word)


def unescape(text: str) -> str:
    return ESCAPED.sub(lambda match: CONTROLS.get(match[1], match[1]), text)

"""The shell texts that code of other languages runs: os.system("…"), execSync('…'), `…`, awk's system().

A call is read whose words are all written out in it.  What code puts together, or keeps in a variable, is not seen, so
what is read here never shows that the rest of the code is harmless.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

from hooklatch.shelltext.reading.programs import AWKS
from hooklatch.shelltext.words import Word

__all__ = ["CODES", "list_code_scripts", "strip_version"]

# Interpreters whose code is read for the calls by which it runs shell text.
CODES: Final = AWKS | {
    "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "php", "lua",
    "luajit", "tclsh", "expect", "R", "Rscript", "julia", "elixir", "osascript", "emacs", "guile", "racket", "raku",
    "iex", "erl", "irb", "pry", "rake", "sage", "zx", "vim", "nvim", "vi", "gvim", "gdb", "lldb", "gnuplot", "octave",
    "jshell", "scala", "kotlin", "groovy", "clj", "clojure", "bb", "sbcl", "ocaml", "ghci", "crystal",
}  # fmt: skip
VERSION: Final = re.compile(r"(?<=[a-z])[\d.]+\Z")  # python3.12
CALL: Final = re.compile(
    r"(?i)(?<![\w$@-])(?:system\w*|popen\w*|exec\w*|spawn\w*|shell_exec|shell-command[\w-]*|shell|passthru|proc_open"
    r"|getoutput|getstatusoutput|check_output|check_call|create_subprocess_\w+|run(?:-program)?|call|cmd|sh|capture\w*|command|do\s+shell\s+script"
    r"|(?:call|start)-process[\w-]*)(?![\w-])[\s(\[{]*(?:args\s*=[\s\[(]*)?"
)
LITERAL: Final = re.compile(
    r"""(?s)([fF]?)(?:[bBrRuU]|~[cs])?(?:\"{3}(.*?)\"{3}|'{3}(.*?)'{3}|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`([^`]*)`)"""
)
BETWEEN: Final = re.compile(r"[\s,\[({]+(?:args\s*[:=]>?[\s\[({]*|(?:nil\s+|t\s+)+)?")
JOINING: Final = re.compile(r"\s*(?:[+%]|\.(?!\w*\()|\.format\b|\|\|)")  # behind a text that goes on
QUOTED: Final = re.compile(r"""`([^`]+)`|(?:\bqx|%x)\s*(?:\{([^}]*)\}|\(([^)]*)\)|/([^/]*)/|\|([^|]*)\||!([^!]*)!)""")
QUOTING: Final = frozenset({"perl", "ruby", "php", "raku"})
OF_SCRIPTS: Final = re.compile(r"\$`([^`]*)`")  # of zx and bun
OF_PERL: Final = re.compile(  # open(F, "cmd|"), open(F, "-|", "cmd"), open(F, "|cmd")
    r"""\bopen\b[^"'\n]*["'](?:(?:-\||\|-)["']\s*,\s*["']([^"'\n]+)|\|([^"'\n-]+)|([^"'|\n-][^"'|\n]*)\|)["']"""
)
OF_OBJECTS: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*\.\s*(?:!|execute\b)')  # of Scala and Groovy
LINES: Final = re.compile(r"(?m)^\s*:?!(.+)$")
WITH_LINES: Final = frozenset({"ipython", "sage", "ghci", "vim", "nvim", "vi", "gvim", "gdb", "octave"})
OF_TCL: Final = re.compile(r"\b(?:exec|spawn)\s+([^\s;\]\"'][^;\]\n]*)")
OF_AWK: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*\|&?\s*getline|\|&?\s*"((?:[^"\\]|\\.)*)"')
SYSTEM: Final = re.compile(r'\bsystem\s*\(\s*(?:"((?:[^"\\]|\\.)*)"\s*(\))?)?')
FILLED: Final = re.compile(r"[#$]\{[^}]*\}")  # which a language fills in
FILLED_BY_PYTHON: Final = re.compile(r"\{[^{}]*\}")
MAX_WORDS: Final = 64  # of one call
ESCAPED: Final = re.compile(r"(?s)\\(.)")
CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}


def strip_version(program: str) -> str:
    """Return the name of a program without its version: python of python3.12, but m4 has none."""
    return VERSION.sub("", program) if program != "m4" else program


def list_code_scripts(name: str, code: str) -> Iterator[Word]:
    """Yield the shell texts that an interpreter's code runs by calls; of awk also those that are not known."""
    if name in AWKS:
        for match in SYSTEM.finditer(code):
            yield Word(unescape(match[1]) if match[1] is not None else "what system() is given", match[2] is not None)
        for match in OF_AWK.finditer(code):
            yield Word(unescape(match[1] or match[2] or ""))
        return
    for call in CALL.finditer(code):
        if (text := read_words(code, call.end())) is not None:
            yield Word(text)
    if name in QUOTING:
        for match in QUOTED.finditer(code):
            yield Word(FILLED.sub("$X", next(filter(None, match.groups()), "")))
    if name in ("tclsh", "expect"):
        yield from (Word(text) for text in OF_TCL.findall(code))
    for pattern in (OF_SCRIPTS, OF_OBJECTS, *([LINES] if name in WITH_LINES else ())):
        yield from (Word(FILLED.sub("$X", text)) for text in pattern.findall(code))
    if name == "perl":
        yield from (Word("".join(texts)) for texts in OF_PERL.findall(code))


def read_words(code: str, at: int) -> str | None:
    """Return the text, or the words as one, that a call is given here; None if the first of them is not written out."""
    words: list[str] = []
    while len(words) < MAX_WORDS and (literal := LITERAL.match(code, at)) is not None:
        at = literal.end()
        if JOINING.match(code, at):
            return None
        text = next((group for group in literal.groups()[1:] if group is not None), "")
        words.append(FILLED.sub("$X", FILLED_BY_PYTHON.sub("$X", unescape(text)) if literal[1] else unescape(text)))
        between = BETWEEN.match(code, at)
        if between is None:
            break
        at = between.end()
    if len(words) > 1 and words[0] == words[1]:  # execvp("git", ["git", "push"])
        del words[0]
    if not words:
        return None
    return words[0] if len(words) == 1 else " ".join(word if word == "$X" else shlex.quote(word) for word in words)


def unescape(text: str) -> str:
    return ESCAPED.sub(lambda match: CONTROLS.get(match[1], match[1]), text)

"""Texts for the sandbox, each of which a seed and a number decide.

They are frames, mutations of them and of everyday commands, those of a small grammar, and soup.

They are data: no shell gets one but in the sandbox.  Knows no reader and no shell.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Shape", "everyday", "frames", "generated", "mutated", "shapes", "spliced"]

HERE = Path(__file__).parent
SIGNS = str.maketrans(
    {"⏎": "\n", "⇥": "\t", "␍": "\r", "␌": "\f", "␋": "\v", "⍽": "\u00a0", "⍰": "\ufeff"}
)  # so that no line can be pasted
PLACE = "§"
CHOICE = re.compile(r"⟦([^⟦⟧]*)⟧|⟨(\d)⟩")
HIDDEN = (
    "prog7 -x /M", "rm -rf /M", "git push -f", "pro\\g7 -x '/M'", '"prog7" -x "/M"', "prog7 -x /M >o",
    "X=1 prog7 -x /M",
)  # fmt: skip
HARMLESS = (":", "echo a", "prog1 b", "true", "prog2 'c d' \"$x\"", "ls")
PIECES = (
    *"'\"`\\$(){}<>|&;#!*=~[]\n\t\r \f\v\u00a0-,.:/0", "$(", "${", "<<E\n", "\nE\n", "\\\n", ">a ", "2>&1 ", "X=1 ",
    "$x ", "$'", '$"', "<(", ">(", "((", "))", "[[ ", " ]]", "if ", "; then ", "; fi", "{ ", "; }", "do ", "done",
    "esac", "case x in ", "x) ", ";; ", " # ", "-f", "--", "{a,b}", "1", "''", "&& ", "| ", "|| ", "time ", "! ",
    "eval ", "&>a ", "|& ", "<<<a ", "$((", "${x:-", "${x#", "in ", "f() ", "a[", "]=", "+=", "@(", "<<-E\n",
    "<<'E'\n", "$[", "${!", "@P}", "exec ", "sh -c ", "coproc ", "function ", ";& ", "$\\\n", "\x85", "\udcff",
    "\x01", "\u2028", "\ufeff", "\x7f", "é",
)  # fmt: skip
AROUND = (
    "'%s'", '"%s"', "$(echo %s)", "{%s,}", "\\%s", "$'%s'", "%s\\\n", " %s >a", "%s<<E\nx\nE\n", "${x:-%s}",
    "\"${x:-'%s'}\"", "`%s`", "$((%s))", "a[%s]=1", "<(%s)", '"$(%s)"', "%s#", "(%s)", "{ %s; }", "[[ %s ]]", "$%s",
    "''%s", "2>%s", "%s=1",
)  # fmt: skip
WORDS = (
    "a", "-x", "/M", "'b c'", '"d"', "$x", '"$x"', "${x:-e}", "$(%s)", "`%s`", '"$(%s)"', "\\f", "a\\\nb", "{g,h}",
    "''", "~", "*", "1", "$'\\x41'", '"${x:-$(%s)}"', "$((1+1))", "<(%s)", "a=b", "i#j", "'$(k)'", "\"'$(%s)'\"", "[",
    "!", "{}", "if", "é",
)  # fmt: skip
REDIRECTIONS = (
    ">a", "2>&1", "<a", ">>a", "<<<b", "2>/dev/null", ">&2", "&>a", "3>&-", "> a", "<>a", ">|a", "{v}>a", "10>a",
    ">&-",
)  # fmt: skip
ASSIGNMENTS = (
    "X=1", "X=", "X=$(%s)", 'X="$(%s)"', "X='a b'", "X+=1", "a[1]=2", "X=(b c)", "X=$x", "X=\\\n", "X=a\\\nb",
)  # fmt: skip
PROGRAMS = (
    "prog1", "prog2", "prog3", "prog7", "rm", "git", "ls", "echo", ":", "cat", "true", "eval", "printf", "test", "[",
    "export",
)  # fmt: skip
CONTROLS = (
    "if %s; then %s; fi", "if %s; then %s; else %s; fi", "while %s; do %s; break; done",
    "until %s; do %s; break; done", "for i in a b; do %s; done", "for i; do %s; done",
    "case x in a) %s;; x) %s;; esac", "case $x in (*) %s; esac", "{ %s; }", "(%s)", "f() { %s; }; f", "f() (%s)\nf",
    "function f { %s; }; f", "{ %s; } >a", "(%s) | %s", "! %s", "time %s", "[[ a && $(%s) ]]", "((1)) && %s",
    "for ((i=0;i<1;i++)); do %s; done", "{\n%s\n%s\n}", "cat <<E\n$(%s)\nE\n%s", "cat <<'E'\n%s\nE\n%s",
    "%s <<E\nx\nE\n%s", "coproc %s",
)  # fmt: skip
BETWEEN = ("; ", " && ", " || ", " | ", "\n", " & ", "\n\n", "; # c\n", " |\n", " && \\\n", "|& ")


class Shape(NamedTuple):
    """A shape in which readers were wrong: what a text hides, and the shells that run it."""

    name: str
    shells: tuple[str, ...]
    hides: tuple[str, ...]
    text: str


@functools.cache
def frames() -> tuple[str, ...]:
    lines = (HERE / "frames.txt").read_text().partition("\n== ")[2].split("\n")[1:]
    return tuple(line for line in lines if line and not line.startswith("== "))


@functools.cache
def shapes() -> tuple[Shape, ...]:
    known = {"rm": ("rm", "-rf", "/"), "git": ("git", "push", "-f"), "reboot": ("reboot",)}
    letters = {"b": "bash", "d": "dash", "p": "posix"}
    found: list[Shape] = []
    for line in (HERE / "shapes.txt").read_text().partition("\n\n")[2].splitlines():
        name, where, hides, text = line.split(" ", 3)
        number = sum(one.name.startswith(f"{name}-") for one in found) + 1
        shells = tuple(letters[letter] for letter in where if letter != "-")
        words = known.get(hides) or tuple(hides.split("_"))
        found.append(Shape(f"{name}-{number}", shells, words, text.translate(SIGNS)))
    return tuple(found)


@functools.cache
def everyday() -> tuple[str, ...]:
    """Return the commands of the gallery's cases: what guards stop, and what they let pass."""
    from hooklatch.guards.catalogue import list_gallery, read_guard_cases

    lines = [
        json.loads(line)
        for entry in list_gallery()
        for line in read_guard_cases(entry.name).splitlines()
        if line.strip()
    ]
    given = [line.get("payload", {}).get("tool_input", {}) for line in lines]
    found = (one.get("command") for one in given if isinstance(one, dict))
    return tuple(dict.fromkeys(text for text in found if isinstance(text, str) and text and "\0" not in text))


def chosen(pick: random.Random, frame: str) -> str:
    """Make the choices of a frame."""
    made: list[str] = []

    def choose(found: re.Match[str]) -> str:
        if found[2]:
            return made[int(found[2]) - 1]
        made.append(pick.choice(found[1].split("¦")))
        return made[-1]

    return CHOICE.sub(choose, frame)


def framed(pick: random.Random, depth: int) -> str:
    """Return a frame with a command in one of its places, or another frame; what stands in the others is harmless."""
    before, *rest = chosen(pick, pick.choice(frames())).split(PLACE)
    if not rest:
        return before
    inner = framed(pick, depth - 1) if depth else pick.choice(HIDDEN)
    place = pick.randrange(len(rest))
    return before + "".join((inner if at == place else pick.choice(HARMLESS)) + part for at, part in enumerate(rest))


def grown(pick: random.Random, depth: int) -> str:
    """Return a text of the small grammar."""
    return pick.choice(BETWEEN).join(command(pick, depth) for _ in range(pick.choice((1, 1, 2, 3))))


def command(pick: random.Random, depth: int) -> str:
    if depth and pick.random() < 0.4:
        return filled(pick, pick.choice(CONTROLS), depth)
    before = [pick.choice((*ASSIGNMENTS, *REDIRECTIONS)) for _ in range(pick.choice((0, 0, 0, 1, 2)))]
    after = [pick.choice((*WORDS, *WORDS, *REDIRECTIONS)) for _ in range(pick.randrange(4))]
    return " ".join(filled(pick, part, depth) for part in (*before, pick.choice(PROGRAMS), *after))


def filled(pick: random.Random, text: str, depth: int) -> str:
    first, *rest = text.split("%s")
    return first + "".join((grown(pick, depth - 1) if depth > 0 else pick.choice(HIDDEN)) + part for part in rest)


def mutated(pick: random.Random, text: str, count: int) -> str:
    for _ in range(count):
        at, kind = pick.randrange(len(text) + 1), pick.random()
        if kind < 0.45:
            text = text[:at] + pick.choice(PIECES) + text[at:]
        elif kind < 0.6:
            text = text[:at] + text[at + pick.choice((1, 1, 1, 2, 4)) :]
        elif kind < 0.7:
            end = at + pick.randrange(1, 12)
            text = text[:end] + text[at:end] + text[end:]
        elif kind < 0.8:
            text = text[:at] + pick.choice(PIECES) + text[at + 1 :]
        else:
            words = text.split(" ")
            which = pick.randrange(len(words))
            words[which] = pick.choice(AROUND).replace("%s", words[which])
            text = " ".join(words)
    return text


def spliced(pick: random.Random, first: str, second: str) -> str:
    """Return a text with another one put in: between two words, in place of one, or in front."""
    words = first.split(" ")
    at = pick.randrange(len(words) + 1)
    inner = pick.choice(("%s", "$(%s)", "`%s`", "; %s; ", "\n%s\n", '"%s"', "{ %s; }", "%s")).replace("%s", second)
    return " ".join((*words[:at], inner, *words[at + pick.choice((0, 1)) :]))


def plain(text: str) -> str:
    """Return a text that can be an argument: without NUL, and in what can be encoded."""
    return text.translate(SIGNS).replace("\0", "").encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def generated(seed: int, number: int, commands: Sequence[str]) -> str:
    """Return the text of this number: of a frame, a mutated one, a mutated command, the grammar, or soup."""
    pick = random.Random(f"{seed}:{number}")
    kind = pick.random()
    if kind < 0.32:
        text = framed(pick, pick.choice((0, 0, 0, 1, 1, 2)))
    elif kind < 0.58:
        text = mutated(pick, framed(pick, pick.choice((0, 0, 1))).translate(SIGNS), pick.choice((1, 1, 2, 3)))
    elif kind < 0.76:
        text = mutated(pick, pick.choice(commands), pick.choice((1, 1, 2, 3)))
    elif kind < 0.94:
        text = grown(pick, pick.choice((0, 1, 1, 2)))
    else:
        text = "".join(pick.choice((*PIECES, *HIDDEN, *HARMLESS)) for _ in range(pick.randrange(2, 9)))
    return plain(text)

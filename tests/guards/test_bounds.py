"""Work on a shell text, and of guards on what it says, is in proportion to it, whatever it nests or leaves open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import process_time
from typing import Any, TypeAlias

import pytest

from guards.calls_of_tools import GUARDS, verdict
from hooklatch.guards import Command, UnreadableCommandError, Word, commands
from hooklatch.guards.hosts import hosts_reached
from hooklatch.guards.interpreters import paths_in_code
from hooklatch.shelltext import words
from hooklatch.shelltext.grammar.characters import MAX_TEXT
from hooklatch.shelltext.reading.bounds import MAX_WORDS
from hooklatch.shelltext.reading.codes import list_code_scripts
from support.tables import table
from support.work import work_of

Guard: TypeAlias = Callable[[Any], Any]
SMALL, LARGE = 1_500, 6_000  # characters
MAX_RATIO = 8.0  # of work, where the text is 4 times as long: what is quadratic has 16


def repeated(unit: str, size: int, before: str = "", after: str = "") -> str:
    return before + unit * (size // len(unit)) + after


def reading(text: str) -> int:
    """Return the work of reading a text; what the parser reads and how long it works is some of it."""

    def read() -> None:
        with suppress(UnreadableCommandError):
            commands(text)

    return work_of(read)


@table(
    "make",
    [
        lambda n: repeated("{a,", n, "echo ") + "}" * (n // 3),
        lambda n: repeated("{", n, "echo ", "a,b") + "}" * n,
        lambda n: repeated("-exec a ", n, "find . "),
        lambda n: repeated("-x ", n, "uv run ", "ls"),
        lambda n: repeated("-c a.pager=x ", n, "git ", "log"),
        lambda n: repeated("# x\n", n),
        lambda n: repeated("<<<a ", n, "cat "),
        lambda n: repeated("cd a;", n),
        lambda n: repeated(")", n),
        lambda n: repeated("<", n),
        lambda n: repeated("a|", n, "", "a"),
    ],
    ids=range(11),
)
def test_work_grows_no_faster_than_the_text(make: Callable[[int], str]) -> None:
    with suppress(UnreadableCommandError):
        commands(make(SMALL))  # what is compiled or filled once is there

    small, large = (reading(make(size)) for size in (SMALL, LARGE))

    assert large < MAX_RATIO * max(small, 500)


@pytest.mark.parametrize("begin", ["cat > f.py <<'E'\n", "cd a && cat > f.py <<'E'\n"])
def test_a_long_file_in_a_here_document_is_read(begin: str) -> None:
    text = repeated('x = f(a) # it\'s `$HOME` "${y}" {a,b} | <<B\n', 300_000, begin, "E\nls")

    *_, cat, last = commands(text)

    assert (cat.program, last.program) == ("cat", "ls")
    assert len(cat.redirects[-1].target.text) + len(cat.redirects[0].target.text) > 299_000
    assert reading(text) < 20_000


def judging(guard: Guard, text: str) -> int:
    """Return the work of a guard on a text."""
    return work_of(lambda: verdict(guard, text))


@table(
    ("guard", "make"),
    [
        (guard, make)
        for guard in GUARDS
        for make in (
            lambda n: "rm -f " + " ".join(f"a/f{at}" for at in range(n // 8)),
            lambda n: "rm -f " + " ".join(f"../f{at}" for at in range(n // 8)),
            lambda n: "touch " + " ".join(f"f{at}*" for at in range(n // 8)),
            lambda n: repeated("-x ", n, "ls "),
            lambda n: repeated("--long ", n, "tool "),
            lambda n: repeated("-e A=1 ", n, "docker run ", "alpine ls"),
            lambda n: repeated("print(1);", n, "python3 -c '", "'"),
            lambda n: repeated("*** Update File: a.py\n", n, "apply_patch <<'E'\n", "E"),
            lambda n: repeated("cd a && ", n, "", "ls"),
            lambda n: repeated("find . -name '*.pyc' -delete; ", n),
            lambda n: repeated("~ ", n, "ls "),
            lambda n: repeated("claude x ", 8 * n, "python3 -c 'os.x; ", "'"),
        )
    ],
)
def test_work_of_a_guard_grows_no_faster_than_the_text(guard: Guard, make: Callable[[int], str]) -> None:
    verdict(guard, make(SMALL))  # what is compiled or filled once is there

    small, large = (judging(guard, make(size)) for size in (SMALL, LARGE))

    assert large < MAX_RATIO * max(small, 500)


@table(
    ("text", "bound"),
    [
        ("\n" * 2**20, MAX_TEXT),
        ("ls " + "a " * MAX_WORDS, MAX_WORDS),
        ("xargs " * 1365 + "ls", MAX_WORDS),
        ("foo " + "bash -c " * 1000, MAX_WORDS),
    ],
)
def test_what_is_beyond_a_bound_is_refused_before_much_is_done(text: str, bound: int) -> None:
    with pytest.raises(UnreadableCommandError, match=f"too large to be read.* {bound} "):
        commands(text)
    assert reading(text) < 100_000


@table(
    ("before", "unit"),
    [
        *(
            ("f = '", unit)
            for unit in (
                "\n",
                '\\"',
                "qx{",
                "${",
                "open ",
                "ftp",
                "connection",
                "socket.newopen",
                "system(",
                "`",
                "copy",
            )
        ),
        ("f = ''", " "),
        ("open(f, '>", " "),
    ],
    ids=range(13),
)
def test_code_is_searched_in_time_in_proportion_to_it(before: str, unit: str) -> None:
    code = repeated(unit, 20_000, before)
    begin = process_time()

    for name in ("perl", "vim", "groovy", "awk"):
        list(list_code_scripts(name, code))
    list(hosts_reached(Command(program="perl", arguments=(Word("-e"), Word(code)))))
    list(paths_in_code(code))

    assert process_time() - begin < 0.8


def test_what_braces_may_become_is_bounded() -> None:
    assert words.expand_braces("{1..2}" * 8) is not None
    assert words.expand_braces("{1..2}" * 9) is None
    assert words.expand_braces("{a,b}" + "x" * 40_000) is None
    assert words.expand_braces("{1.." + "9" * 5000 + "}") == ["{1.." + "9" * 5000 + "}"]

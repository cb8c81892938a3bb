"""The rule by which a reader is judged, and the texts: what counts as shown, and that a seed decides all."""

from __future__ import annotations

import re

from guards.oracle.rule import judged, shows
from guards.oracle.texts import CHOICE, PLACE, frames, generated, shapes
from hooklatch.guards import Command, Redirect, Word
from support.tables import table

ANY = Word("$x", False)


@table(
    ("known", "ran", "is_shown"),
    [
        ("rm -rf a", "rm -rf a", True),
        ("rm -rf a", "/bin/rm -rf a", True),
        ("rm -rf a", "rm -rf", False),
        ("rm -rf", "rm -rf a", False),
        ("rm -rf a", "git -rf a", False),
        ("rm $x a", "rm a", True),
        ("rm $x a", "rm b c a", True),
        ("rm $x a", "rm b c", False),
        ("rm $x $x", "rm", True),
        ("rm *", "rm a b", True),
        ("rm *", "rm *", True),
        ("rm *", "rm", False),
        ("rm a* b", "rm a1 a2 b", True),
        ("rm a* b", "rm a1 b2 b", False),
        ("rm ~/a b=~", "rm /w/a b=/w", True),
        ("rm a~", "rm a/w", False),
        ("rm a b", "rm a \0", True),
        ("rm a b", "rm c \0", False),
        ("rm a* b", "rm a1 \0", True),
    ],
)
def test_a_command_shows_the_words_that_ran(known: str, ran: str, is_shown: bool) -> None:
    program, *words = known.split()
    command = Command(program=program, arguments=tuple(ANY if word == "$x" else Word(word) for word in words))

    assert shows(command, ran.encode().split()) is is_shown


def test_what_is_not_shown_is_missed_unless_a_program_is_unknown_or_a_file_of_the_text_runs() -> None:
    echo = Command(program="echo", redirects=(Redirect(">", Word("./x.sh")),))
    shell = Command(program="sh", arguments=(Word("x.sh"),))

    assert judged([[b"rm", b"a"]], [echo]) == ([[b"rm", b"a"]], "")
    assert judged([[b"rm", b"a"]], [echo, Command(program=None)]).outcome == "unknown program"
    assert judged([[b"rm", b"a"]], [echo, shell]).outcome == "own file"
    assert judged([], [echo]).outcome == "shown"


def test_a_seed_and_a_number_decide_a_text() -> None:
    texts = [generated(1, number, ("ls",)) for number in range(300)]

    assert texts == [generated(1, number, ("ls",)) for number in range(300)]
    assert len(set(texts)) > 250
    assert texts != [generated(2, number, ("ls",)) for number in range(300)]
    assert not [text for text in texts if re.search("[\0⏎⇥␍␌␋⍽⍰⟦⟧¦§]", text)]


@table("frame", frames())
def test_a_frame_is_whole(frame: str) -> None:
    choices = [found[1] for found in CHOICE.finditer(frame) if found[1]]
    left = CHOICE.sub("", frame)

    assert PLACE in frame or choices
    assert not set(left) & set("⟦⟧⟨⟩")
    assert all(int(found[2]) <= len(choices) for found in CHOICE.finditer(frame) if found[2])


def test_each_shape_of_the_pages_is_there() -> None:
    names = {one.name.partition("-")[0] for one in shapes()}

    assert names >= {*(f"H{number}" for number in range(1, 15)), *(f"O{number}" for number in range(1, 19))}

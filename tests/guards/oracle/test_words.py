"""Words as the shell would hand them over, compared with a real bash.

Slow: each of some hundred words runs in a sandbox of its own.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guards.oracle.sandbox import Sandbox
from hooklatch.guards import UnreadableCommandError, commands
from support.profiles import examples

PIECES = [
    "a", "-", "/", "1", "..", ",", "{", "}", "{a,b}", "{1..3}", "{a..c}", "{,z}", "{a,{b,c}}", "\\x", "\\ ", "\\\\",
    "\\{", "'q r'", "'{x,y}'", '"d e"', '"\\$z"', '"a\\"b"', "$'\\x41'", "$'it\\'s'", "''", '""', "=", "é", "\\\n",
    "[x]", "!", "#", '$"t"', "\\$",
]  # fmt: skip
WORDS = st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join), min_size=1, max_size=12)


@pytest.mark.slow
@examples(60)
@example(words=["\\ \\\na"])
@given(words=WORDS)
def test_words_are_those_that_bash_makes_of_them(sandbox: Sandbox, words: list[str]) -> None:
    for text in (f"prog1 q{word}" for word in words):
        try:
            (found, *more) = commands(text)
        except UnreadableCommandError:
            continue  # a guard denies it
        if all(word.is_known for word in found.arguments):
            ran = sandbox.run("bash", f"set -f; {text}".encode())
            shown = [word.text.encode("utf-8", "surrogateescape") for word in found.arguments]
            assert ran.status != 0 or (ran.words, more) == ([[b"prog1", *shown]], [])

"""Words as the shell would hand them over, compared with a real bash."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PIECES = [
    "a", "-", "/", "1", "..", ",", "{", "}", "{a,b}", "{1..3}", "{a..c}", "{,z}", "{a,{b,c}}", "\\x", "\\ ", "\\\\",
    "\\{", "'q r'", "'{x,y}'", '"d e"', '"\\$z"', '"a\\"b"', "$'\\x41'", "$'it\\'s'", "''", '""', "=", "é", "\\\n",
    "[x]", "!", "#", '$"t"', "\\$",
]  # fmt: skip
WORDS = st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join), min_size=1, max_size=12)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here to compare with")
@settings(max_examples=60, deadline=None)
@given(words=WORDS)
def test_words_are_those_that_bash_makes_of_them(words: list[str]) -> None:
    from hooklatch.guards import UnreadableCommandError, commands

    for text in (f"printf '%s\\0' x{word}" for word in words):
        try:
            (found, *more) = commands(text)
        except UnreadableCommandError:
            continue  # a guard denies it
        done = subprocess.run(["bash", "-c", f"set -f; {text}"], capture_output=True, check=False)
        if done.returncode == 0 and all(word.is_known for word in found.arguments):
            expected = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
            assert ([word.text for word in found.arguments[1:]], more) == (expected, [])

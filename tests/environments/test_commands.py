"""A program that is run to its end: what it says is kept, the end of it, and never more than there is room for."""

from __future__ import annotations

import os

from hooklatch.environments.interpreter import MAX_OUTPUT, run_program
from support.daemons import nothing_left


async def test_what_a_program_says_is_kept_in_its_order() -> None:
    with nothing_left():
        ended = await run_program(
            ["/bin/sh", "-c", "echo one; echo two >&2; exit 3"], os.environ, folder="/", timeout=20.0
        )

    assert (ended.code, ended.output) == (3, b"one\ntwo\n")


async def test_a_program_that_says_too_much_fails_and_takes_no_more_memory() -> None:
    with nothing_left():
        ended = await run_program(["/bin/cat", "/dev/zero"], {}, folder="/", timeout=20.0)

    assert ended.code == 1
    assert len(ended.output) == MAX_OUTPUT
    assert b"write error" in ended.output or b"\0" in ended.output

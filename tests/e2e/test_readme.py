"""README as somebody pastes it: its blocks in their order, into one shell, with a home that nobody has used.

Slow: it runs a daemon and a dozen commands as a person would.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pasted import blocks_of, new_home, paste, save
from support.repository import ROOT

pytestmark = pytest.mark.slow

BLOCKS = blocks_of((ROOT / "README.md").read_text())
FIRST = ["pipx install .", "hooklatch setup", "hooklatch try 'rm -rf ~'"]
DONE = "pipx install "  # what it brings is what the tests run on
SETUP = "hooklatch setup --yes --service none"  # nobody can be asked here
TRY_AGAIN = """hooklatch reload
git init --quiet --initial-branch=main .
hooklatch fire pre_tool_use --payload - <<'JSON'
{"tool_name": "Edit", "tool_input": {"file_path": "a.py", "old_string": "a", "new_string": "b"}}
JSON"""


def pasted(home: Path) -> Iterator[str]:
    """Yield what is typed: blocks for a shell as they are, others as the files that the text says they are."""
    for language, text in BLOCKS:
        match language:
            case "sh":
                lines = [line for line in text.splitlines() if not line.startswith(DONE)]
                yield from (re.sub("^hooklatch setup .*", SETUP, line) for line in lines)
            case "python" if "@hook" in text:
                yield save(text, home / ".config/hooklatch/hooks.d/mine.py")
            case "python":
                yield save(text, home / "agent.py") + f"\n{shlex.quote(sys.executable)} agent.py && echo the agent may"
            case "toml":
                yield save(text, home / ".config/hooklatch/hooks.toml") + "\n" + TRY_AGAIN
    yield "hooklatch stop"
    yield "hooklatch status"


def test_the_blocks_of_readme_do_what_it_says_one_after_another() -> None:
    assert [line.split("  #")[0].rstrip() for line in BLOCKS[0][1].splitlines()] == FIRST
    assert BLOCKS[0][1].endswith("  # deny\n")

    with new_home() as (home, environment):
        told, everything = paste(pasted(home), home, environment)

    assert [code for _, code in told] == [0, 2, 0, 2, 0, 0, 0, 69], everything
    start, first, _, removal, agent, bare, stop, status = (text for text, _ in told)
    assert re.search(r"^done  hooklatch serve --detach$", start, re.MULTILINE)
    assert first == (
        "verdict deny\nguard   global/destructive_commands\n"
        "reason  'rm -rf ~' would lose or change ~, which cannot be had back\n"
    )
    assert "make a branch first" in removal
    assert agent == "the agent may\n"
    assert '"verdict":"pass"' in bare
    assert stop.startswith("stopped (pid ")
    assert status.startswith("health      stopped\n")

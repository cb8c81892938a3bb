"""Tables of options say what the installed programs say of themselves: each option, and whether it takes a value."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hooklatch.guards.git_commands import OPTIONS
from hooklatch.shelltext.option_syntax import SYNTAX, Syntax

# A line of help: a letter, a long option with what takes it back, and how its value is written.
LINE = re.compile(r"\s{2,8}(?:(-\w),? *)?(?:--(\[no-\])?([\w][\w-]*))?(\[=|=| )?(<|\(|\[|\.|[A-Z])?")
GNU = [
    "rm", "rmdir", "shred", "cp", "mv", "ln", "install", "chmod", "chown", "chgrp", "mkdir", "touch", "tee", "truncate",
    "sed", "sort", "gzip", "tar",
]  # fmt: skip


def missing(text: str, how: Syntax) -> list[str]:
    """Return the long options in a text of help that a table lacks, or has with a value where there is none."""
    found: list[str] = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match is None or not match[3]:
            continue
        name, takes = f"--{match[3]}", match[4] == "=" or bool(match[4] == " " and match[5])
        if name not in how.valued | how.optional | how.flags or (name in how.valued and not takes):
            found.append(name)
    return found


def helped(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_each_option_of_git_is_in_its_table(tmp_path: Path) -> None:
    helped(["git", "init", "-q", "."], tmp_path)

    lacking = {verb: missing(helped(["git", verb, "-h"], tmp_path), how) for verb, how in OPTIONS.items()}
    assert {verb: names for verb, names in lacking.items() if names} == {}


def test_each_option_of_the_tools_of_gnu_is_in_its_table(tmp_path: Path) -> None:
    texts = {name: helped([name, "--help"], tmp_path) for name in GNU if shutil.which(name)}
    lacking = {name: missing(text, SYNTAX[name]) for name, text in texts.items() if "GNU" in text or "gnu" in text}

    assert {name: names for name, names in lacking.items() if names} == {}

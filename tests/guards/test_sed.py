"""What scripts of sed run and write is read as the installed sed reads it: its sandbox refuses what we must see."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from guards.calls_of_tools import verdict
from hooklatch.guards.gallery import destructive_commands, protected_paths
from hooklatch.shelltext.reading.sed import read_sed
from support.tables import table

SCRIPTS = 400
# Commands, and pieces of some.  None reads a file: the sandbox refuses that too, and guards need not see it.
PIECES = [
    "s/a/b/", "s/a/b/g", "s|x|e|", r"s,/,\,,e", "s/[/]/x/", "s/[^]e/]/x/e", "s/a/b/w f", "y/ab/cd/", "e ls", "e", "1e",
    "p", "d", "$!N", "1,3p", "/e/d", "/a/,/b/p", r"\,e,p", r"\,x\,e,d", "1~2p", "1,+3d", "2,~4p", "{", "}", "a foo",
    "a\\\nfoo", "i\\", "c bar e", "w f", "W y", ":a", "ba", "t;", "q", "q5", "l 3", "=", "n;e", "# e", "#e\n",
    "/x/{s/a/b/;p}", "$!{$!N}", r"s/\//e/", "s/a/\\\n/e", "s/a/b/2", "s/a/b/2e", "s/a/b/Ie", "F", "h;G", "/a/I,/b/Md",
    "s/[[:alpha:]/]/x/e", "y,/,e,", "ae", "1!e", "1 ! p", "/[/]/e ls", "/[/]e/p", "T x", "}e", "s e e e e", "sxaxbxe",
    "s/a/b/ e", "s/[[:alpha:]/]/g;a /", "s/[^[:space:]e]/x/e", "p e", "{s/a/b/}", "s/a/b",
    "e\\\nx", ":as/a/b/ e", "s/a/b[/Ie", "\n", ";", " ",
]  # fmt: skip
HAS_GNU = shutil.which("sed") is not None and b"GNU" in subprocess.run(["sed", "--version"], capture_output=True).stdout


@pytest.mark.skipif(not HAS_GNU, reason="there is no GNU sed here")
def test_no_script_runs_or_writes_what_is_not_seen(tmp_path: Path) -> None:
    chance, script = random.Random(1), tmp_path / "script"
    unseen: list[str] = []
    acting = 0
    for _ in range(SCRIPTS):
        text = "".join(
            chance.choice(PIECES) + chance.choice([";", "\n", "", " ", "; "])
            for _ in range(chance.choice([1, 1, 2, 3]))
        )
        script.write_text(text)
        command = ["sed", "--sandbox", "-n", "-f", str(script), "/dev/null"]
        refused = b"sandbox" in subprocess.run(command, capture_output=True, check=False).stderr
        acting += refused
        read = read_sed(text)
        if refused and not read.runs and not read.files:
            unseen.append(text)

    assert unseen == []
    assert acting > SCRIPTS / 10  # else the sandbox says nothing


@table(
    ("guard", "text", "expected"),
    [
        (destructive_commands.destructive_commands, "sed -ne '1e rm -rf /' f", "deny"),
        (destructive_commands.destructive_commands, "sed --expr='1!e rm -rf /' f", "deny"),
        (destructive_commands.destructive_commands, "sed -i.bak -e p -e '/a/e rm -rf /' f", "deny"),
        (destructive_commands.destructive_commands, "sed -i '' '1e rm -rf /' f", "deny"),
        # The text of `e` is not what sed's shell gets, where it has a backslash.
        (destructive_commands.destructive_commands, "sed '1e r\\x6d -rf /' f", "ask"),
        (destructive_commands.destructive_commands, "sed '1e \"r\\m\" -rf /' f", "ask"),
        (destructive_commands.destructive_commands, "sed '1e echo \\\n rm -rf /' f", "ask"),
        # Classes in brackets, what is quoted beside a variable, and flags by a variable.
        (destructive_commands.destructive_commands, "sed 's/[[:alpha:]/]/g;a /;1e rm -rf /' f", "deny"),
        (destructive_commands.destructive_commands, "sed 's/a/`/;1e rm -rf ~\ns/b/`/'$x f", "deny"),
        (destructive_commands.destructive_commands, 'X=e; sed "s/.*/rm -rf ~/$X" f', "ask"),
        (destructive_commands.destructive_commands, "sed -f <(echo '1e rm -rf /') f", "ask"),
        (destructive_commands.destructive_commands, "make -f <(printf 'a:\\n\\trm -rf /\\n')", "ask"),
        (destructive_commands.destructive_commands, "socat - \"EXEC:'rm -rf /'\"", "deny"),
        (destructive_commands.destructive_commands, "socat -!!SYSTEM:'rm -rf /' -", "deny"),
        (destructive_commands.destructive_commands, "sftp -b - h <<< '-!rm -rf /'", "deny"),
        (destructive_commands.destructive_commands, "nc -c localhost 6379", "pass"),
        (destructive_commands.destructive_commands, "nc -c 'rm -rf /' h 1", "deny"),
        (destructive_commands.destructive_commands, "sed 's/[^[:alnum:]/_-]/_/g' f", "pass"),
        (destructive_commands.destructive_commands, "sed -E 's@[[:punct:]@]@x@g' f", "pass"),
        (destructive_commands.destructive_commands, "sed -f /dev/stdin f <<< '1e rm -rf /'", "deny"),
        (destructive_commands.destructive_commands, "cat x | sed -f - f", "ask"),
        (destructive_commands.destructive_commands, "sed '1{e' f", "ask"),
        (destructive_commands.destructive_commands, "cat x | xargs sed", "ask"),
        (protected_paths.protected_paths, "sed -n -f - f <<< 'w .env'", "deny"),
        (protected_paths.protected_paths, "sed 's/a/b/gw .env' f", "deny"),
    ],
)
def test_it_is_found_however_sed_is_told(guard: Any, text: str, expected: str) -> None:
    assert verdict(guard, text) == expected

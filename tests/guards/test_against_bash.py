"""What bash runs, `commands` names: shapes that readers of shell text have taken for something else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hooklatch.guards import commands
from hooklatch.guards.command import UnreadableCommandError
from support.tables import table

PROGRAM = '#!/bin/sh\necho "$@" >> "$RAN"\n'
RUN_BY_BASH = [
    # words behind a redirection are the command's
    "runs >/dev/null -r x",
    "runs 2>&1 -r x",
    "runs >/dev/null -r 2>&1 x",
    "runs <<END -r x\nEND",
    "cat <<END >/dev/null && runs </dev/null -r x\nEND",
    "cat <<'END' 2>&1 | runs -r x\nEND",
    "runs -r x <<END >a 2>&1 | cat\nEND",
    "true | runs </dev/null -r x",
    "true && runs </dev/null -r x",
    ">a >b runs -r x",
    "runs <<<y -r x",
    "runs -r <<<y x 2>a",
    "runs\\\n 2>a -r x",
    "A='x y'\\\n 3<a runs -r x",
    "runs -r\\\n 2>&1 x",
    "runs >a -r\\\n 2>&1 x",
    "A=\\\n runs -r x",
    # a line that begins with a backslash is no part of the one before it
    "echo a\n\\runs -r x",
    "echo '#'\n\n\\runs -r x",
    "bash <<END\n\\runs -r x\nEND",
    "echo a # b\n\\runs -r x",
    "export A=1\n\\runs -r x",
    "unset A\n\\runs -r x",
    "echo >a\n\\runs -r x",
    "if true; then echo a\n\\runs -r x\nfi",
    # what a here-document runs
    "cat <<END\n`runs -r x`\nEND",
    "while :; do break; done <<<$(runs -r x)",
    # words of the shell, which are no programs
    "time { runs -r x; }",
    "time A=1 runs -r x",
    "env -- A=1 runs -r x",
    "PS4='$(runs -r x)'; set -x; :",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bash")
    (folder / "runs").write_text(PROGRAM)
    (folder / "runs").chmod(0o755)
    return folder


@table("text", RUN_BY_BASH)
def test_what_bash_runs_is_found(folder: Path, text: str) -> None:
    ran = folder / "ran"
    ran.write_text("")
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "RAN": str(ran)}
    subprocess.run(["bash", "-c", text], cwd=folder, env=environment, capture_output=True, timeout=30, check=False)
    found = [one for one in commands(text) if one.program == "runs"]

    assert ran.read_text().splitlines()[0] == "-r x"
    assert any(one.has_option("-r") and "-r" in one.text for one in found)
    assert any([word.text for word in one.arguments][:1] == ["-r"] and len(one.arguments) == 2 for one in found)


@table(
    "text",
    [
        "cat <<END\na ` b\nEND",
        "runs >/dev/null -\\\nr x",
        "runs {log}>a -r x",
        "echo a\n\\\nruns -r x",
        "export a\n\\\nruns -r x",
        "echo > a\n\\\nruns -r x",
        "cat <<END\n`runs \\\n-r x`\nEND",
        "cat <<END\n\\` `runs -r \\`echo x\\``\nEND",
        "echo `echo \\`runs -r x\\``",
        "echo `runs \\\\\n -r x`",
        "true && runs {log}>a -r x",
        "! ! runs -r x",
        "time ! runs -r x",
        'echo "`runs \\"-r\\" x`"',
        ">'a'\\\n\\\" runs -r x",
    ],
)
def test_what_cannot_be_told_is_not_read(text: str) -> None:
    with pytest.raises(UnreadableCommandError):
        commands(text)


@table(
    ("text", "words"),
    [
        ("cat <<'END'\n`a` \\b\n\\c\nEND", []),
        ("cat <<END\n\\`a\\`\nEND", []),
        ('commit -m "a\n\\b"', ["-m", "a\n\\b"]),
        ("commit -m 'a\n\\b' \\\n  -q", ["-m", "a\n\\b", "-q"]),
        ("runs 2>&- x", ["x"]),
        ("PS1='(a) $ '", None),
    ],
)
def test_what_only_looks_like_it_is_left_as_it_is(text: str, words: list[str] | None) -> None:
    found = [[word.text for word in one.arguments] for one in commands(text)]

    assert found == ([] if words is None else [words])

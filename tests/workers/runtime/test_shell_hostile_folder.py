"""A command runs nothing that an agent has put into the folder in which it works: with real shells, Python and git."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tables import table
from workers.runtime.shell_driven import PATH, Driven

PYTHON = sys.executable
PASSES = "import os; os._exit(0)\n"
DENIES = "sys.exit(2)"
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": PATH}


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    """Return a worker whose session is in a folder full of traps; `operator/` beside it is the operator's."""
    session, operator = tmp_path / "session", tmp_path / "operator"
    for folder in (session, session / "bin", operator, operator / "bin"):
        folder.mkdir()
    for name in ("json.py", "re.py", "sitecustomize.py", "usercustomize.py", "encodings.py", "site.py"):
        (session / name).write_text(PASSES)
    write(session / "check.sh", "exit 0")
    write(session / "bin/check", "exit 0")
    write(session / "check", "exit 0")
    write(operator / "check.sh", "pwd; echo $HOOKLATCH_CWD; exit 2")
    write(operator / "bin/check", "exit 2")
    driven = Driven(str(session))
    yield driven
    driven.close()


def write(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@table(
    "command",
    [
        f"{PYTHON} -c 'import json, sys; json.load(sys.stdin); {DENIES}'",
        f"echo 'import json, sys; {DENIES}' | {PYTHON}",
        f"{PYTHON} -m json.tool >/dev/null && exit 2",
        [PYTHON, "-c", f"import re, sys; {DENIES}"],
    ],
)
def test_python_imports_nothing_from_where_the_agent_works(driven: Driven, command: str | list[str]) -> None:
    assert driven.run(command).word == "deny"


@table("path", [".:{}", ":{}", "bin:{}", "{}:", "{}::.:bin", "./bin:{}"])
def test_programs_are_looked_up_in_absolute_folders_alone(driven: Driven, path: str, tmp_path: Path) -> None:
    whole = path.format(f"{tmp_path}/operator/bin:{PATH}")

    assert driven.run("check", path=whole).word == "deny"
    assert driven.run(["check"], path=whole).word == "deny"
    assert driven.run("check", env={"PATH": whole}).word == "deny"


def test_a_path_without_an_absolute_folder_is_the_systems(driven: Driven) -> None:
    assert driven.run("check", path=".:bin").cause == "crash"
    assert driven.run("echo $PATH", path=".").stdout == b"/bin:/usr/bin\n"


@table("program", ["./check.sh", "../operator/check.sh"])
def test_a_relative_program_is_that_of_the_declaring_file(driven: Driven, program: str, tmp_path: Path) -> None:
    reply = driven.run([program], folder=f"{tmp_path}/operator")

    assert reply.word == "deny"
    assert reply.stdout.decode().splitlines() == [f"{tmp_path}/session"] * 2


@table("command", ["./check.sh", ["./check.sh"], ["/bin/sh", "check.sh"], ". ./check.sh"])
def test_a_command_can_run_beside_its_file(driven: Driven, command: str | list[str], tmp_path: Path) -> None:
    reply = driven.run(command, run_in="file", folder=f"{tmp_path}/operator")

    assert reply.word == "deny"
    assert reply.stdout.decode().splitlines() == [f"{tmp_path}/operator", f"{tmp_path}/session"]


def test_beside_its_file_a_relative_cwd_is_below_that(driven: Driven, tmp_path: Path) -> None:
    reply = driven.run("pwd", run_in="file", folder=f"{tmp_path}/operator", cwd="bin")

    assert reply.stdout.decode() == f"{tmp_path}/operator/bin\n"


def test_what_was_written_for_another_system_runs_as_it_does_there(driven: Driven) -> None:
    assert driven.run(["./check.sh"], payload="claude").word == "pass"
    assert driven.run(f"{PYTHON} -c 'import json, sys; {DENIES}'", payload="claude").word == "pass"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_runs_nothing_of_the_repository(tmp_path: Path) -> None:
    """A guard that asks git for the branch or the changes runs neither a monitor nor a hook of the repository."""
    marker, folder = tmp_path / "marker", tmp_path / "repository"
    write(tmp_path / "run", f"echo $0 >>{marker}")
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    (folder / "file").write_text("1\n")
    git(folder, "add", "file")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1")
    for key in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand"):
        git(folder, "config", key, str(tmp_path / "run"))
    git(folder, "config", "core.hooksPath", str(tmp_path / "hooks"))
    git(folder, "config", "log.showSignature", "true")
    (tmp_path / "hooks").mkdir()
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        write(tmp_path / "hooks" / name, f"echo {name} >>{marker}")
    (folder / "file").write_text("2\n")
    driven = Driven(str(folder))
    try:
        reply = driven.run(
            "git branch --show-current; git status --porcelain; git log -1 --format=%s; "
            "git update-index --refresh; exit 2"
        )
    finally:
        driven.close()

    assert reply.word == "deny"
    assert reply.stdout.decode().splitlines()[:3] == ["main", " M file", "1"]
    assert not marker.exists(), marker.read_text()
    git(folder, "status", "--porcelain")
    assert marker.exists()  # without protection it would have run


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=GIT, check=True, capture_output=True)

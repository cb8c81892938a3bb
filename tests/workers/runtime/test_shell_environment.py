"""The environment of a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.runtime.shell_driven import PATH, Driven


def variables(driven: Driven, **config: object) -> dict[str, str]:
    reply = driven.run(["/usr/bin/env", "-0"], **config)  # type: ignore[arg-type]
    pairs = (part.partition("=") for part in reply.stdout.decode().split("\0") if part)
    return {name: value for name, _, value in pairs}


def test_the_environment_is_clean(shared: Driven) -> None:
    found = variables(shared)

    assert {name: value for name, value in found.items() if not name.startswith("GIT_CONFIG_")} == {
        "PATH": PATH,
        "HOME": "/home/someone",
        "LC_ALL": "C.UTF-8",
        "PYTHONSAFEPATH": "1",
        "HOOKLATCH_EVENT": "pre_tool_use",
        "HOOKLATCH_SESSION_ID": "s1",
        "HOOKLATCH_HOOK_ID": "h1",
        "HOOKLATCH_CWD": shared.folder,
    }


def test_what_was_written_for_another_system_keeps_its_variables(shared: Driven) -> None:
    found = variables(shared, payload="claude")

    assert not [name for name in found if name.startswith(("GIT_", "PYTHON"))]


def test_its_own_table_is_added_and_may_replace_what_is_not_ours(shared: Driven) -> None:
    found = variables(shared, env={"HOME": "/else", "TOKEN": "t=1\nä", "EMPTY": "", "HOOKLATCH_EVENT": "lie"})

    assert (found["HOME"], found["TOKEN"], found["EMPTY"]) == ("/else", "t=1\nä", "")
    assert found["HOOKLATCH_EVENT"] == "pre_tool_use"


def test_without_a_captured_path_the_workers_own_is_used(shared: Driven) -> None:
    assert variables(shared, path=None)["PATH"] == "/nowhere"


def test_programs_are_looked_up_in_the_captured_path(shared: Driven, tmp_path: Path) -> None:
    guard = tmp_path / "my-guard"
    guard.write_text("#!/bin/sh\nprintf found\n")
    guard.chmod(0o755)

    assert shared.run(["my-guard"], path=str(tmp_path)).stdout == b"found"
    assert shared.run("my-guard", path=str(tmp_path)).stdout == b"found"


def test_hooks_made_for_claude_code_know_their_project(shared: Driven) -> None:
    assert variables(shared, payload="claude")["CLAUDE_PROJECT_DIR"] == shared.folder


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        pytest.param(None, "{session}", id="RX-21-the-sessions"),
        pytest.param("{own}", "{own}", id="RX-21-its-own"),
        pytest.param("sub", "{session}/sub", id="relative-to-the-sessions"),
    ],
)
def test_it_runs_in_the_sessions_folder_or_its_own(own: Driven, tmp_path: Path, cwd: str | None, expected: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "own").mkdir()
    places = {"session": str(tmp_path), "own": str(tmp_path / "own")}

    reply = own.run("pwd -P", cwd=cwd and cwd.format(**places))

    assert reply.stdout.decode() == expected.format(**places) + "\n"


def test_without_a_sessions_folder_it_runs_at_the_root(shared: Driven) -> None:
    assert shared.run("pwd", envelope={"cwd": None}).stdout == b"/\n"


def test_it_leads_a_session_of_its_own_without_our_descriptors(shared: Driven) -> None:
    # Without a pipe, which the shell would have for a moment; and `ls` is not the last, which may replace the shell.
    reply = shared.run("cut -d' ' -f1,5,6 /proc/$$/stat; ls /proc/$$/fd; true")
    identity, *descriptors = reply.stdout.decode().splitlines()

    assert len(set(identity.split())) == 1  # process, group and session
    assert descriptors == ["0", "1", "2"]


def test_signals_have_their_default_meaning(shared: Driven) -> None:
    ignored = shared.run("grep SigIgn /proc/self/status").stdout.split()[1]

    standard = int(ignored, 16) & 0x7FFFFFFF  # 1 to 31; those above belong to the C library
    assert standard & ~(1 << 1) == 0  # of all that a worker ignores, SIGINT alone is inherited


def test_files_that_it_writes_can_be_read_as_usual(own: Driven, tmp_path: Path) -> None:
    own.run("touch written")

    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o644

"""The C form: built once, checked before it is used, and left out where it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hooklatch.entry import building
from hooklatch.entry.commands import ENTRY, make_entry_command
from support.entries import HAS_COMPILER

needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C compiler")


@needs_compiler
def test_it_compiles_without_a_warning(tmp_path: Path) -> None:
    building.compile_entry(tmp_path / "entry", "-Werror", "-Wconversion", "-Wshadow", "-Wundef", "-Wstrict-prototypes")


@needs_compiler
def test_it_is_built_once_for_its_user_alone(tmp_path: Path) -> None:
    first = building.build_program(tmp_path)
    inode = first.stat().st_ino

    assert building.build_program(tmp_path) == first
    assert (first.stat().st_ino, first.stat().st_mode & 0o777) == (inode, 0o700)
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


@needs_compiler
def test_builds_at_the_same_moment_do_not_disturb_each_other(tmp_path: Path) -> None:
    threads = [threading.Thread(target=building.build_program, args=(tmp_path,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [path.name for path in tmp_path.iterdir()] == [building.build_program(tmp_path).name]


@needs_compiler
def test_another_interpreter_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = building.build_program(tmp_path)

    monkeypatch.setattr(sys, "executable", "/other/python")

    assert building.build_program(tmp_path) != first


def fake_compiler(folder: Path, program: str) -> str:
    """Make a compiler that makes this of everything; return a PATH that has it first."""
    folder.mkdir()
    script = folder / "cc"
    script.write_text(
        f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf "%s" "{program}" > "$2"\nchmod 700 "$2"\n'
    )
    script.chmod(0o700)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("#!/bin/sh\nexit 0\n", "does not answer as it should"),
        ("no program", "cannot be run"),
        ("#!/nowhere/ld.so\n", "cannot be run"),
    ],
)
def test_a_program_that_does_not_do_its_work_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    monkeypatch.setenv("PATH", fake_compiler(tmp_path / "bin", program))

    with pytest.raises(building.BuildError, match=why):
        building.build_program(tmp_path / "out")

    assert list((tmp_path / "out").iterdir()) == []


def test_a_compiler_that_fails_is_an_error_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake_compiler(tmp_path / "bin", "")
    (tmp_path / "bin/cc").write_text("#!/bin/sh\necho no space >&2\nexit 1\n")
    monkeypatch.setenv("PATH", path)

    with pytest.raises(building.BuildError, match="failed: no space"):
        building.build_program(tmp_path / "out")


def test_without_a_compiler_the_best_form_is_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    with pytest.raises(building.BuildError, match="no C compiler"):
        make_entry_command("codex", "Stop", "context", 5, form="c")
    assert make_entry_command("codex", "Stop", "context", 5, form="best")[:4] == [
        sys.executable,
        "-I",
        "-S",
        str(ENTRY),
    ]


def test_a_place_that_cannot_be_written_is_no_form_in_c(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(building.BuildError, match="File exists"):
        building.build_program(tmp_path / "file")
    assert building.find_or_build_program(tmp_path / "file") is None


def test_the_header_keeps_what_c_would_misread(tmp_path: Path) -> None:
    text = 'a"b\\c??/\n\x01é0'
    (tmp_path / "t.c").write_text(
        f"#include <stdio.h>\nint main(void) {{ fputs({building.format_c_string(text)}, stdout); }}\n"
    )
    if not HAS_COMPILER:
        pytest.skip("there is no C compiler")

    subprocess.run(["cc", "-trigraphs", "-o", tmp_path / "t", tmp_path / "t.c"], check=True)

    assert subprocess.run([tmp_path / "t"], stdout=subprocess.PIPE, check=True).stdout == text.encode()


@pytest.mark.parametrize(
    ("wait", "said"), [(0, "0"), (5, "5"), (0.5, "0.5"), (605, "605"), (1.23456, "1.235"), (600.0, "600"), (100, "100")]
)
def test_the_command_says_seconds_as_the_entry_reads_them(wait: float, said: str) -> None:
    assert make_entry_command("codex", "Stop", "context", wait)[4:] == [
        "codex",
        "Stop",
        "--kind",
        "context",
        "--wait",
        said,
    ]


def test_the_command_names_a_whole_path_and_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    words = make_entry_command("codex", "Stop", "gate", 5, runtime_dir="run", daemon_uid=998, start=True)

    assert words[-5:] == ["--runtime-dir", str(tmp_path / "run"), "--daemon-uid", "998", "--start"]

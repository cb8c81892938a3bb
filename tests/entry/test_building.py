"""The C form: built once, checked before it is used, and left out where it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hooklatch.entry import building
from hooklatch.entry.commands import make_entry_command
from hooklatch.entry.header import FLAGS, MARK, MAX_PATH, SOURCE, format_c_string
from support import compilers
from support.entries import HAS_COMPILER

ROOM = MARK.encode() + bytes(1 + 2 * MAX_PATH)  # for the paths of an installation
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


def fake_compiler(folder: Path, program: bytes) -> str:
    """Make a compiler that makes this of everything; return a PATH that has it first."""
    folder.mkdir()
    (folder / "program").write_bytes(program)
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nexec cp {folder}/program "$2"\n')
    script.chmod(0o700)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (b"#!/bin/sh\nexit 0\n" + ROOM, "does not answer as it should"),
        (b"no program\n" + ROOM, "cannot be run"),
        (b"#!/nowhere/ld.so\n" + ROOM, "cannot be run"),
        (b"#!/bin/sh\nexit 0\n", "has no room"),
        (ROOM + ROOM, "has no room"),
    ],
)
def test_a_program_that_does_not_do_its_work_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: bytes, why: str
) -> None:
    monkeypatch.setenv("PATH", fake_compiler(tmp_path / "bin", program))

    with pytest.raises(building.BuildError, match=why):
        building.build_program(tmp_path / "out")

    assert list((tmp_path / "out").iterdir()) == []


def test_a_compiler_that_fails_is_an_error_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake_compiler(tmp_path / "bin", b"")
    (tmp_path / "bin/cc").write_text("#!/bin/sh\necho no space >&2\nexit 1\n")
    monkeypatch.setenv("PATH", path)

    with pytest.raises(building.BuildError, match="failed: no space"):
        building.build_program(tmp_path / "out")


@pytest.mark.parametrize("dry_run", [True, False])
def test_without_a_compiler_there_is_no_form_in_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(building.BuildError, match="no C compiler"):
        building.build_program(tmp_path / "out", dry_run=dry_run)


@needs_compiler
@pytest.mark.parametrize("damage", [b"", b"#!/bin/sh\nexit 0\n", b"\x7fELF"])
def test_a_program_that_was_damaged_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    program = building.build_program(tmp_path)
    whole = program.read_bytes()
    program.write_bytes(damage)

    assert building.build_program(tmp_path) == program
    assert program.read_bytes() == whole


@needs_compiler
def test_the_program_of_a_wheel_is_taken_where_there_is_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    building.compile_entry(tmp_path / "shipped")
    monkeypatch.setattr(building, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("PATH", str(tmp_path))

    foreseen = building.build_program(tmp_path / "out", dry_run=True)
    assert not (tmp_path / "out").exists()

    assert building.build_program(tmp_path / "out") == foreseen
    assert os.fsencode(sys.executable) in foreseen.read_bytes()


@pytest.mark.parametrize(("shipped", "why"), [(b"no program", "has no room"), (None, "Is a directory")])
def test_a_wheels_program_that_is_none_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: bytes | None, why: str
) -> None:
    place = tmp_path / "shipped"
    place.mkdir() if shipped is None else place.write_bytes(shipped)
    monkeypatch.setattr(building, "SHIPPED", place)

    with pytest.raises(building.BuildError, match=why):
        building.build_program(tmp_path / "out")

    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_path_that_does_not_fit_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/" + "p" * (MAX_PATH - 2))
    assert b"pp\0/" in building.write_paths(ROOM)

    monkeypatch.setattr(sys, "executable", "/" + "p" * (MAX_PATH - 1))
    with pytest.raises(building.BuildError, match="no room"):
        building.write_paths(ROOM)


def test_a_place_that_cannot_be_written_is_no_form_in_c(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(building.BuildError, match="File exists"):
        building.build_program(tmp_path / "file")


def test_the_header_keeps_what_c_would_misread(tmp_path: Path) -> None:
    text = 'a"b\\c??/\n\x01é0'
    (tmp_path / "t.c").write_text(f"#include <stdio.h>\nint main(void) {{ fputs({format_c_string(text)}, stdout); }}\n")
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


@needs_compiler
def test_the_tests_compiler_makes_what_the_machines_does_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = building.find_compiler()
    (log := tmp_path / "log").touch()
    (counted := tmp_path / "bin").mkdir()
    (counted / "cc").write_text(f'#!/bin/sh\necho >>{log}\nexec {own} "$@"\n')
    (counted / "cc").chmod(0o755)
    monkeypatch.setattr(compilers, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("PATH", compilers.with_kept_programs(f"{counted}:{os.environ['PATH']}"))

    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        building.compile_entry(tmp_path / name / "entry")
    building.compile_entry(tmp_path / "entry", "-DOTHER")

    assert log.read_text() == "\n\n"
    subprocess.run([own, *FLAGS, "-I", tmp_path, "-o", tmp_path / "plain", SOURCE], check=True)
    made = [(tmp_path / name).read_bytes() for name in ("first/entry", "second/entry", "plain")]
    assert made == made[:1] * 3

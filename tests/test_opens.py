"""Files are opened so that a pipe in their place holds nobody up, and so is whatever else is no file."""

from __future__ import annotations

import ast
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.files import create_anew, open_regular, open_regular_file
from support.daemons import nothing_left
from support.repository import ROOT

# Flags with which opening waits for nobody: it makes the file, takes a directory alone, only looks, or does not wait.
PATIENT = {"O_EXCL", "O_DIRECTORY", "O_PATH", "O_NONBLOCK"}
# A person has just named these, or they are ours or the kernel's: a pipe is welcome, as in `--payload <(make-one)`.
NAMED = {
    "cli/schema.py", "cli/fleet/access.py", "cli/fleet/enrolment.py", "cli/fleet/keys.py",
    "cli/hooks/guard_files.py", "cli/terminal/inputs.py",
    "cli/hosts/plugin.py", "cli/terminal/requests.py", "cli/testing/fire.py", "cli/testing/payloads.py",
    "cli/testing/policy_tests.py", "environments/making.py", "fleet/engine/opening.py",
    "systems/linux.py", "systems/linux_disks.py", "version.py",
}  # fmt: skip


def opens(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that open a file and may wait for whoever is at its other end."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open"), args=[ast.Name(id="fd") | ast.Call() | ast.Constant(), *_]):
                pass  # a descriptor, which is another call's
            case ast.Call(func=ast.Name(id="open"), args=[ast.JoinedStr(values=[ast.Constant(value=place), *_]), *_]):
                if not str(place).startswith("/proc/"):
                    yield node
            case ast.Call(func=ast.Name(id="open")):
                yield node
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os" | "posix"), attr="open"), args=[place, flags, *_]):
                names = {one.attr for one in ast.walk(flags) if isinstance(one, ast.Attribute)}
                names |= {one.id for one in ast.walk(flags) if isinstance(one, ast.Name)}
                is_null = "devnull" in ast.unparse(place) or "/dev/null" in ast.unparse(place)
                if not (names & (PATIENT | {"LOOK"}) or is_null):
                    yield node
            case _:
                pass


def test_files_are_opened_by_what_waits_for_nobody() -> None:
    found: list[str] = []
    for folder in ("supervisor/hooklatch", "workers/hooklatch_worker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT / folder).as_posix()
            if name not in NAMED and not name.startswith(
                ("guards/gallery", "guards/git_")
            ):  # those run in workers, which have deadlines
                found += [f"{name}:{call.lineno}" for call in opens(ast.parse(path.read_text()))]

    assert not found, f"open them by open_regular or reading of hooklatch/files.py: {found}"
    assert len([*opens(ast.parse("open(path)\nos.open(path, os.O_RDONLY)\nopen('/proc/x')"))]) == 2


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
def test_what_is_no_file_is_not_opened_and_nobody_waits_for_it(tmp_path: Path, flags: int) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with nothing_left(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "folder", tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(OSError, match=r"not a regular file|[Ii]s a directory|[Nn]o such device"):
                open_regular(str(path), flags)


def test_a_new_file_takes_the_place_of_whatever_had_its_name(tmp_path: Path) -> None:
    kept, name = tmp_path / "kept", tmp_path / "state.new"
    kept.write_text("kept")
    for put in (lambda: os.mkfifo(name), lambda: name.symlink_to(kept), lambda: name.write_text("old")):
        put()
        with os.fdopen(create_anew(str(name)), "wb") as file:
            file.write(b"new")
        with open_regular_file(str(name)) as file:
            assert file.read() == b"new"
        assert name.stat().st_mode & 0o777 == 0o600
        name.unlink()

    assert kept.read_text() == "kept"

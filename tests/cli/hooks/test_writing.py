"""New files of hooks are written whole, all of them or none: half a guard guards nothing, and looks like one."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hooklatch.cli.hooks import guard_files
from hooklatch.cli.hooks.guard_files import write_new
from hooklatch.cli.terminal.parser import CommandError, Exit
from support.tables import table

# It is killed when all drafts are written, and no file has its name.
KILLED = """
import os, signal, sys
from hooklatch.cli.hooks.guard_files import write_new
os.link = lambda *words: os.kill(os.getpid(), signal.SIGKILL)
write_new(dict.fromkeys(sys.argv[1:], "old"))
"""


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@table("step, count", [("os.fsync", 1), ("os.fsync", 2), ("os.link", 1), ("os.link", 2)])
def test_nothing_is_left_of_what_could_not_be_written(
    step: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "config"
    done, real = [0], {"os.fsync": os.fsync, "os.link": os.link}[step]

    def until_the_disk_is_full(*words: Any) -> None:
        done[0] += 1
        if done[0] >= count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*words)

    monkeypatch.setattr(step, until_the_disk_is_full)
    if step == "os.link":
        monkeypatch.setattr("os.rename", until_the_disk_is_full)  # what is tried where there are no links
    files = {str(home / "hooks.d/a.py"): "a", str(home / "hooks.toml"): "b"}

    with pytest.raises(
        CommandError, match=r"cannot be created: No space left on device; nothing was written"
    ) as raised:
        write_new(files)

    assert raised.value.code is Exit.CANNOT_CREATE
    assert str(home) in str(raised.value)
    assert names_in(tmp_path) == []


def test_what_somebody_else_writes_just_now_is_left_to_them(tmp_path: Path) -> None:
    theirs = tmp_path / "hooks.d/.b.py.new"
    theirs.parent.mkdir(mode=0o700)
    theirs.write_text("theirs")
    files = {str(tmp_path / "hooks.d/a.py"): "a", str(tmp_path / "hooks.d/b.py"): "b"}
    folder = os.open(theirs.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)

    with pytest.raises(CommandError, match=r"another process writes files in .*hooks\.d just now"):
        write_new(files)

    assert names_in(tmp_path) == ["hooks.d", "hooks.d/.b.py.new"]
    assert theirs.read_text() == "theirs"
    os.close(folder)
    write_new(files)
    assert names_in(tmp_path) == ["hooks.d", "hooks.d/a.py", "hooks.d/b.py"]


def test_a_draft_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "hooks.d"
    paths = [str(folder / "a.py"), str(folder / "b.py")]
    assert subprocess.run([sys.executable, "-c", KILLED, *paths], check=False).returncode == -signal.SIGKILL
    assert names_in(folder) == [".a.py.new", ".b.py.new"]

    write_new(dict.fromkeys(paths, "new"))

    assert names_in(folder) == ["a.py", "b.py"]
    assert (folder / "b.py").read_text() == "new"


def test_where_links_are_not_supported_nothing_is_overwritten_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(written: str, path: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)

    monkeypatch.setattr("os.link", no_links)
    write_new({str(tmp_path / "hooks.d/a.py"): "a"})
    (tmp_path / "new").write_text("other")

    with pytest.raises(FileExistsError):
        guard_files.publish_file(str(tmp_path / "new"), str(tmp_path / "hooks.d/a.py"))
    assert names_in(tmp_path) == ["hooks.d", "hooks.d/a.py", "new"]
    assert (tmp_path / "hooks.d/a.py").read_text() == "a"

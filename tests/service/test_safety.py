"""A file that somebody else could have written is not run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.service.safety import MAX_FILE, UnsafeFileError, read_safely
from support import running_daemon

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to somebody else")


@pytest.fixture
def guards(tmp_path: Path) -> Path:
    """A file two folders down, all of them ours."""
    path = tmp_path / "outer" / "inner" / "guards.py"
    path.parent.mkdir(parents=True, mode=0o755)
    path.write_text("x = 1\n")
    return path


def refused(path: Path) -> str:
    with pytest.raises(UnsafeFileError) as caught:
        read_safely(str(path))
    return str(caught.value)


def test_a_file_of_ours_is_read(guards: Path) -> None:
    assert read_safely(str(guards)) == b"x = 1\n"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
@pytest.mark.parametrize("pick", [lambda p: p, lambda p: p.parent, lambda p: p.parent.parent])
def test_what_others_may_write_is_refused_with_what_mends_it(
    guards: Path, mode: int, pick: Callable[[Path], Path]
) -> None:
    open_to_others = pick(guards)
    open_to_others.chmod(mode | (0o111 if open_to_others.is_dir() else 0))

    assert refused(guards) == f"{open_to_others} is writable by others; mend it with: chmod go-w {open_to_others}"

    open_to_others.chmod(open_to_others.stat().st_mode & ~0o022)
    assert read_safely(str(guards))


def test_a_sticky_folder_is_accepted_above_and_not_as_the_files_own(guards: Path) -> None:
    guards.parent.parent.chmod(0o1777)
    assert read_safely(str(guards))

    guards.parent.chmod(0o1777)
    assert "chmod go-w" in refused(guards)


@as_root
@pytest.mark.parametrize("pick", [lambda p: p, lambda p: p.parent, lambda p: p.parent.parent])
def test_what_belongs_to_somebody_else_is_refused(guards: Path, pick: Callable[[Path], Path]) -> None:
    os.chown(pick(guards), NOBODY, NOBODY)

    assert refused(guards) == (
        f"{pick(guards)} belongs to user {NOBODY}; mend it with: chown {os.geteuid()} {pick(guards)}"
    )


@as_root
def test_a_sticky_folder_of_somebody_else_is_refused(guards: Path) -> None:
    guards.parent.parent.chmod(0o1777)
    os.chown(guards.parent.parent, NOBODY, NOBODY)

    assert "belongs to user" in refused(guards)


def test_a_link_is_held_to_the_rule_at_both_ends(guards: Path, tmp_path: Path) -> None:
    link = tmp_path / "links" / "guards.py"
    link.parent.mkdir()
    link.symlink_to(guards)
    assert read_safely(str(link))

    link.parent.chmod(0o777)
    assert f"chmod go-w {link.parent}" in refused(link)

    link.parent.chmod(0o755)
    guards.parent.chmod(0o777)
    assert f"chmod go-w {guards.parent}" in refused(link)


def test_what_is_no_file_is_refused(guards: Path) -> None:
    os.mkfifo(guards.parent / "pipe.py")

    assert "is no regular file" in refused(guards.parent)
    assert "is no regular file" in refused(guards.parent / "pipe.py")
    assert "is no path" in refused(guards.parent / "nul\0l.py")


def test_a_file_may_be_so_large_and_no_larger(guards: Path) -> None:
    guards.write_bytes(b"#" * MAX_FILE)
    assert len(read_safely(str(guards))) == MAX_FILE

    guards.write_bytes(b"#" * (MAX_FILE + 1))
    assert "is over 4 MiB" in refused(guards)


@pytest.mark.parametrize("name", ["guards.py", "hooks.toml", "."])
async def test_gates_deny_for_an_unsafe_file_and_name_the_chmod(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "config"
    (folder).mkdir()
    (folder / "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')
    (folder / "guards.py").write_text("from hooklatch_worker import hook\n@hook('stop')\ndef f(event): pass\n")
    (folder / name).chmod(0o777)
    async with running_daemon(folder) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert f"chmod go-w {(folder / name)}" in decision["reason"]


async def test_a_client_cannot_register_an_unsafe_file(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"guards.py": "def f(event): pass\n"}) as daemon:
        (tmp_path / "guards.py").chmod(0o666)
        async with daemon.session(cwd=str(tmp_path)) as client:
            with pytest.raises(Exception, match=r"load_failed.*chmod go-w"):
                await client.call("register", hooks=[{"event": "stop", "run": "guards.py:f"}])

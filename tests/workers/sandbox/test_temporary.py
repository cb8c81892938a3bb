"""The permissions of a temporary folder come back before it is removed, and those of what a link leads to stay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker.sandbox import temporary
from systems.stand_in import LinuxKernel, StandInSystem

CHMOD = os.chmod


def change_mode(path: Any, mode: int, *, follow_symlinks: bool = True) -> None:
    """Change a mode as macOS does: there is no /proc, and the mode of a link can be changed itself (fchmodat(2))."""
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(path)
    if follow_symlinks or not os.path.islink(path):
        CHMOD(path, mode)


@pytest.fixture(params=["here", "as on macOS"])
def _system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "here":
        monkeypatch.setattr(temporary, "system", StandInSystem(LinuxKernel()))
        monkeypatch.setattr(os, "chmod", change_mode)


@pytest.mark.usefixtures("_system")
def test_a_folder_is_opened_up_and_what_a_link_leads_to_is_not(tmp_path: Path) -> None:
    closed, elsewhere, link = tmp_path / "closed", tmp_path / "elsewhere", tmp_path / "link"
    closed.mkdir(mode=0)
    elsewhere.mkdir(mode=0o500)
    link.symlink_to(elsewhere)

    for path in (closed, link):
        temporary.open_up(str(path))

    assert closed.stat().st_mode & 0o777 == 0o700
    assert elsewhere.stat().st_mode & 0o777 == 0o500


@pytest.mark.usefixtures("_system")
def test_what_a_hook_has_closed_is_removed_and_what_it_linked_to_is_kept(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").touch()
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (root / "a" / "link").symlink_to(elsewhere)
    for folder in (root / "a" / "b", root / "a", root):
        folder.chmod(0)

    temporary.remove_tree(str(root))

    assert not root.exists()
    assert os.listdir(elsewhere) == ["kept"]

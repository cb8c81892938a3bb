"""What is read of installed packages, and what is not read again: any change that could bring or hide a guard shows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.service.loading.plugins import Discovery, discover_plugins
from support.packages import install, uninstall

FIRST = "acme-1.0.dist-info"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of the import path, with two packages; only one of them has entry points."""
    folder = tmp_path / "packages"
    folder.mkdir()
    install(folder, "acme", "acme")
    (folder / "plain-1.0.dist-info").mkdir()
    (folder / "plain-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: plain\nVersion: 1.0\n")
    monkeypatch.setattr("sys.path", [str(folder)])
    return folder


@pytest.fixture
def exact_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each file at rest as soon as it is written: no test here writes one twice in a tick without a new size."""
    monkeypatch.setattr("hooklatch.path_lookup.TICK_NS", 0)


def modules(found: Discovery) -> dict[str, str]:
    return {name: plugin.module for name, plugin in found.plugins.items()}


def point(folder: Path, module: str) -> None:
    (folder / FIRST / "entry_points.txt").write_text(f"[hooklatch.plugins]\nacme = {module}\n")


def point_elsewhere_at_the_same_time(folder: Path) -> None:
    path = folder / FIRST / "entry_points.txt"
    before = path.stat()
    point(folder, "ecma")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def give_entry_points(folder: Path) -> None:
    (folder / "plain-1.0.dist-info/entry_points.txt").write_text("[hooklatch.plugins]\nplain = plain\n")


def replace_metadata(folder: Path) -> None:
    shutil.copytree(folder / FIRST, folder / "new")
    (folder / "new/entry_points.txt").write_text("[hooklatch.plugins]\nacme = third\n")
    shutil.rmtree(folder / FIRST)
    (folder / "new").rename(folder / FIRST)


CHANGES: list[tuple[Callable[[Path], object], dict[str, str]]] = [
    (lambda folder: install(folder, "more", "more"), {"acme": "acme", "more": "more"}),
    (lambda folder: uninstall(folder, "acme"), {}),
    (lambda folder: point(folder, "another"), {"acme": "another"}),
    (point_elsewhere_at_the_same_time, {"acme": "ecma"}),
    (give_entry_points, {"acme": "acme", "plain": "plain"}),
    (replace_metadata, {"acme": "third"}),
    (lambda folder: (folder / FIRST / "entry_points.txt").unlink(), {}),
]


@pytest.mark.usefixtures("exact_clock")
@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_a_change_of_installed_packages_shows(
    folder: Path, change: Callable[[Path], object], expected: dict[str, str]
) -> None:
    before = discover_plugins({})
    assert modules(before) == {"acme": "acme"}
    assert before.folders[str(folder)].stamps

    change(folder)

    assert modules(discover_plugins(before.folders)) == expected


@pytest.mark.usefixtures("exact_clock")
@pytest.mark.parametrize("name", [FIRST, f"{FIRST}/entry_points.txt"])
def test_metadata_that_becomes_a_dangling_link_is_a_fault_and_not_a_package_less(folder: Path, name: str) -> None:
    before = discover_plugins({})
    (folder / name).rename(folder / "away")
    (folder / name).symlink_to("nowhere")

    after = discover_plugins(before.folders)

    assert f"{name} is a link that leads nowhere" in str(after.faults)
    assert after.folders[str(folder)].stamps == {}  # it may end without a change here


@pytest.mark.usefixtures("exact_clock")
def test_a_folder_that_appears_or_vanishes_shows(folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    absent = discover_plugins({})
    folder.with_name("away").rename(folder)
    there = discover_plugins(absent.folders)
    folder.rename(folder.with_name("away"))

    assert [modules(found) for found in (absent, there, discover_plugins(there.folders))] == [{}, {"acme": "acme"}, {}]


@pytest.mark.usefixtures("exact_clock")
def test_packages_that_are_as_they_were_are_not_read_again(folder: Path) -> None:
    before = discover_plugins({})

    assert discover_plugins(before.folders).folders[str(folder)] is before.folders[str(folder)]


def test_what_was_written_just_now_is_read_again_since_its_stamp_may_be_that_of_the_next_write(folder: Path) -> None:
    now = (folder / FIRST / "entry_points.txt").stat().st_ctime_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hooklatch.service.loading.plugins.time.time_ns", lambda: now)
        before = discover_plugins({})

    assert before.folders[str(folder)].stamps == {}
    assert discover_plugins(before.folders).folders[str(folder)] is not before.folders[str(folder)]


@pytest.mark.usefixtures("exact_clock")
@pytest.mark.parametrize("name", [FIRST, f"{FIRST}/entry_points.txt"])
def test_what_lies_behind_a_link_is_read_again(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / "target")
    (folder / name).symlink_to(tmp_path / "target")

    found = discover_plugins({})

    assert modules(found) == {"acme": "acme"}
    assert found.folders[str(folder)].stamps == {}

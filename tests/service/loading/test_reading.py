"""What is read, and what is not read again: files of projects and of sources, without a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hooklatch.service.loading.see import ProjectFiles, read_project
from hooklatch.service.loading.sources import SourceBuild, UnitError, read_source_version
from hooklatch.service.loading.trust import Pins, pin_files
from hooklatch_worker.wire import BuildFiles, Source, SourceLoaded
from support.fake_pool import FakePool

HOOKS = '[[hook]]\nid = "no"\nevent = "pre_tool_use"\ncommand = "exit 2"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".hooklatch" / "hooks.d").mkdir(parents=True)
    (tmp_path / ".hooklatch" / "hooks.toml").write_text(HOOKS)
    (tmp_path / ".hooklatch" / "hooks.d" / "guards.py").write_text("")
    return tmp_path


def first_read(project: Path) -> tuple[Pins, ProjectFiles]:
    pins = pin_files(str(project))
    return pins, read_project(str(project), pins, None)


def test_a_project_as_it_was_is_not_read_again(project: Path) -> None:
    pins, before = first_read(project)

    assert read_project(str(project), pins, before) is before
    assert [os.path.basename(file.path) for file in before.files] == ["hooks.toml", "guards.py"]


def test_a_project_that_was_trusted_again_is_read_again(project: Path) -> None:
    pins, before = first_read(project)

    assert read_project(str(project), dict(pins), before) is not before


def test_a_project_with_another_content_declares_nothing_but_its_fault(project: Path) -> None:
    pins, before = first_read(project)
    (project / ".hooklatch" / "hooks.toml").write_text(HOOKS.replace("no", "another"))

    after = read_project(str(project), pins, before)

    assert (after.files, "changed hooks.toml" in str(after.fault)) == ([], True)


def test_a_project_with_a_broken_file_is_read_again_although_it_is_as_it_was(project: Path) -> None:
    (project / ".hooklatch" / "hooks.toml").write_text("broken")
    pins, before = first_read(project)

    after = read_project(str(project), pins, before)

    assert after is not before
    assert after.files[0].fault is not None


def unit_of(folder: Path, helper: bytes) -> SourceBuild:
    """Return a build of what is in a folder, but for its helper."""
    for name in ("guards.py", "helper.py"):
        (folder / name).write_text("OLD = 1\n")
    version = read_source_version(Source("file", str(folder / "guards.py")))
    build = BuildFiles({str(folder / "helper.py"): helper})
    return SourceBuild(version, FakePool({}, version.source), SourceLoaded(0, [], [], {}, build=build))


@pytest.fixture
async def unit(tmp_path: Path) -> SourceBuild:
    return unit_of(tmp_path, b"OLD = 1\n")


async def test_a_build_of_files_that_were_swapped_under_it_is_not_taken_for_what_is_there(tmp_path: Path) -> None:
    unit = unit_of(tmp_path, b"SWAPPED = 1\n")  # and put back with its directory, so that no time tells

    assert unit.is_behind
    assert unit.read_newer() is not None


async def test_a_file_that_was_gone_for_a_moment_may_be_another_one_than_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guards.py").write_text("OLD = 1\n")
    (tmp_path / "package.py").write_text("NEW = 1\n")

    def not_yet(path: str) -> os.stat_result:
        raise FileNotFoundError(path)

    version = read_source_version(Source("file", str(tmp_path / "guards.py")))
    loaded = SourceLoaded(0, [], [], {str(tmp_path / "package.py"): ""})
    with monkeypatch.context() as patched:
        patched.setattr("hooklatch.service.loading.sources.status_at", not_yet)  # as an installer has it for a moment
        unit = SourceBuild(version, FakePool({}, version.source), loaded)

    assert str(tmp_path / "package.py") not in unit.digests
    assert not unit.is_behind
    assert not unit.is_like(unit)


async def test_a_source_that_was_only_touched_has_no_newer_version(unit: SourceBuild) -> None:
    os.utime(unit.source.location, (1, 1))

    assert unit.read_newer() is None
    assert unit.stamps == unit.read_stamps()


async def test_the_bytes_that_were_compared_are_those_to_build(unit: SourceBuild, tmp_path: Path) -> None:
    (tmp_path / "guards.py").write_text("NEW = 1\n")

    version = unit.read_newer()

    assert version is not None
    assert version.code == b"NEW = 1\n"
    assert version.source.digest != unit.source.digest


async def test_another_content_of_an_imported_module_is_a_newer_version(unit: SourceBuild, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NEW = 1\n")

    version = unit.read_newer()

    assert version is not None
    assert version.source == unit.source


async def test_a_source_that_is_gone_is_an_error_and_no_version(unit: SourceBuild) -> None:
    os.unlink(unit.source.location)

    with pytest.raises(UnitError, match="there is no such file"):
        unit.read_newer()


@pytest.fixture(autouse=True)
def exact_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written right before they are read here: none of them changes meanwhile."""
    monkeypatch.setattr("hooklatch.service.loading.sources.TICK_NS", 0)

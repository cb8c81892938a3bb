"""A file of hooks that is as it was is not read again, and every change of it, or of who may write it, shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.path_lookup import PathAbsent, PathFault, stamp_path
from hooklatch.service.config.configuration import Diagnostic, FileConfig
from hooklatch.service.loading.see import ObservedFiles, SeenFile, read_files

HOOK = '[[hook]]\nid = "{}"\nevent = "pre_tool_use"\ncommand = "exit 2"\n'


@pytest.fixture
def main(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "hooks.toml"
    path.parent.mkdir()
    path.write_text(HOOK.format("one"))
    return path


@pytest.fixture
def exact_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each file at rest as soon as it is written."""
    monkeypatch.setattr("hooklatch.path_lookup.TICK_NS", 0)


def read(main: Path, before: ObservedFiles) -> ObservedFiles:
    return read_files(str(main), str(main.parent / "hooks.d"), (), before)


def describe(seen: ObservedFiles, main: Path) -> str:
    return describe_file(seen.files[str(main)])


def describe_file(file: SeenFile) -> str:
    match file:
        case FileConfig():
            return ",".join(hook.id for hook in file.hooks)
        case Diagnostic():
            return file.message
        case PathFault():
            return file.reason
        case PathAbsent():
            return "absent"


def write_in_place_at_the_same_time(path: Path) -> None:
    before = path.stat()
    path.write_text(HOOK.format("two"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_at_the_same_time(path: Path) -> None:
    before, new = path.stat(), path.with_name("new")
    new.write_text(HOOK.format("two"))
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def link_elsewhere(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.symlink_to("nowhere")


CHANGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda path: path.write_text(HOOK.format("two")), "two"),
    (write_in_place_at_the_same_time, "two"),
    (replace_at_the_same_time, "two"),
    (lambda path: path.write_text("[["), "not TOML"),
    (lambda path: path.unlink(), "absent"),
    (lambda path: path.chmod(0o666), "writable by others"),
    (lambda path: path.parent.chmod(0o777), "writable by others"),
    (lambda path: path.parent.rename(path.parent.with_name("away")), "absent"),
    (link_elsewhere, "leads nowhere"),
]


@pytest.mark.usefixtures("exact_clock")
@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_a_change_shows(main: Path, change: Callable[[Path], object], expected: str) -> None:
    before = read(main, ObservedFiles())
    assert (describe(before, main), set(before.stamps)) == ("one", {str(main)})

    change(main)

    assert expected in describe(read(main, before), main)


@pytest.mark.usefixtures("exact_clock")
def test_a_file_that_is_as_it_was_is_not_read_again(main: Path) -> None:
    before = read(main, ObservedFiles())
    marked = ObservedFiles(files={str(main): FileConfig(str(main))}, stamps=before.stamps)

    assert describe(read(main, marked), main) == ""  # what was there before the stamp, and not what the bytes say


@pytest.mark.usefixtures("exact_clock")
def test_a_file_with_a_fault_is_read_again(main: Path) -> None:
    main.write_text("[[")

    assert read(main, ObservedFiles()).stamps == {}


def test_a_file_that_was_written_in_this_tick_is_read_again(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.loading.see.time.time_ns", lambda: main.stat().st_ctime_ns)

    assert read(main, ObservedFiles()).stamps == {}


def test_a_file_of_the_future_is_read_again(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.loading.see.time.time_ns", lambda: main.stat().st_ctime_ns - 10**12)

    assert read(main, ObservedFiles()).stamps == {}


@pytest.mark.usefixtures("exact_clock")
@pytest.mark.parametrize("name", ["config", "config/hooks.toml"])
def test_a_file_behind_a_link_is_read_again_since_its_folders_have_other_owners(main: Path, name: str) -> None:
    place = main.parents[1] / name
    place.rename(main.parents[1] / "target")
    place.symlink_to(main.parents[1] / "target")

    seen = read(main, ObservedFiles())

    assert (describe(seen, main), seen.stamps) == ("one", {})


def test_the_watch_sees_who_may_write_behind_a_link(main: Path) -> None:
    above = main.parent.parent / "above"
    above.mkdir()
    main.parent.rename(above / "config")
    main.parent.symlink_to(above / "config")
    before = stamp_path(str(main))

    above.chmod(0o777)
    unsafe = stamp_path(str(main))
    above.chmod(0o755)

    assert before == stamp_path(str(main)) != unsafe

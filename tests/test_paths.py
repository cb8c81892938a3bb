"""Where clients look for the daemon, and where nobody may look."""

import os
from pathlib import Path

import pytest

from hooklatch import paths
from support.tables import table


@pytest.fixture
def session_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def test_a_flag_stands_alone() -> None:
    environ = {"HOOKLATCH_RUNTIME_DIR": "/elsewhere", "HOME": "/home/dev"}

    assert paths.list_runtime_dirs("/flag", environ) == ["/flag"]


def test_the_environment_stands_alone_where_there_is_no_flag() -> None:
    environ = {"HOOKLATCH_RUNTIME_DIR": "/elsewhere", "HOME": "/home/dev"}

    assert paths.list_runtime_dirs(None, environ) == ["/elsewhere"]


def test_the_session_folder_comes_before_the_home_folder(session_folder: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(session_folder), "HOME": "/home/dev"}

    found = paths.list_runtime_dirs(None, environ)

    assert found == [f"{session_folder}/hooklatch", "/home/dev/.local/state/hooklatch/run"]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o711, 0o1777])
def test_a_session_folder_that_others_can_enter_is_ignored(session_folder: Path, mode: int) -> None:
    session_folder.chmod(mode)

    found = paths.list_runtime_dirs(None, {"XDG_RUNTIME_DIR": str(session_folder), "HOME": "/home/dev"})

    assert found == ["/home/dev/.local/state/hooklatch/run"]


@pytest.mark.parametrize("value", ["", "relative", "/nonexistent/run", "/dev/null", "/a\0b"])
def test_a_session_folder_that_is_none_is_ignored(value: str) -> None:
    found = paths.list_runtime_dirs(None, {"XDG_RUNTIME_DIR": value, "HOME": "/home/dev"})

    assert found == ["/home/dev/.local/state/hooklatch/run"]


def test_without_a_home_the_user_database_is_asked() -> None:
    (found,) = paths.list_runtime_dirs(None, {})

    assert found.startswith("/")
    assert found.endswith("/.local/state/hooklatch/run")


def test_the_temporary_folder_is_never_chosen() -> None:
    assert not any(found.startswith("/tmp") for found in paths.list_runtime_dirs(None, {"TMPDIR": "/tmp"}))


@pytest.mark.parametrize(
    ("flag", "environ", "expected"),
    [
        ("mine.toml", {"HOOKLATCH_CONFIG": "/c.toml", "HOME": "/h"}, "mine.toml"),
        (None, {"HOOKLATCH_CONFIG": "/c.toml", "HOME": "/h"}, "/c.toml"),
        (None, {"XDG_CONFIG_HOME": "/x/", "HOME": "/h"}, "/x/hooklatch/hooks.toml"),
        (None, {"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/hooklatch/hooks.toml"),
        (None, {"HOOKLATCH_CONFIG": "", "HOME": "/h"}, "/h/.config/hooklatch/hooks.toml"),
    ],
)
def test_the_configuration_is_where_the_nearest_word_says(
    flag: str | None, environ: dict[str, str], expected: str
) -> None:
    assert paths.find_config_file(flag, environ) == expected


def test_the_state_folder_follows_the_base_directory_specification() -> None:
    assert paths.state_dir({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == "/s/hooklatch"
    assert paths.state_dir({"HOME": "/h"}) == "/h/.local/state/hooklatch"


@pytest.fixture
def pointer(tmp_path: Path) -> Path:
    path = tmp_path / ".local/state/hooklatch" / paths.POINTER
    path.parent.mkdir(parents=True)
    path.touch(0o600)
    path.write_text("/run/there\n")
    return path


def pointed(pointer: Path, flag: str | None = None, **more: str) -> str:
    return paths.read_pointed_dir(flag, {"HOME": str(pointer.parents[3]), **more})


def test_the_daemons_pointer_names_a_directory(pointer: Path) -> None:
    assert pointed(pointer) == "/run/there"


def test_the_pointer_is_not_asked_where_a_directory_is_named(pointer: Path) -> None:
    assert pointed(pointer, "/flag") == ""
    assert pointed(pointer, HOOKLATCH_RUNTIME_DIR="/elsewhere") == ""


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602, 0o620])
def test_a_pointer_that_others_could_read_or_write_is_not_followed(pointer: Path, mode: int) -> None:
    pointer.chmod(mode)

    assert pointed(pointer) == ""


def test_a_pointer_that_is_a_link_or_no_file_is_not_followed(pointer: Path, tmp_path: Path) -> None:
    target = pointer.rename(tmp_path / "target")

    pointer.symlink_to(target)
    assert pointed(pointer) == ""
    pointer.unlink()
    pointer.hardlink_to(target)
    assert pointed(pointer) == ""
    pointer.unlink()
    os.mkfifo(pointer, 0o600)
    assert pointed(pointer) == ""
    pointer.unlink()
    assert pointed(pointer) == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_pointer_of_another_user_is_not_followed(pointer: Path) -> None:
    os.chown(pointer, 12345, -1)

    assert pointed(pointer) == ""


@table("line", [b"", b"\n", b"/run", b"run\n", b"/run\n/other\n", b"/ru\0n\n", b"/" + b"a" * 5000 + b"\n"])
def test_a_pointer_that_holds_no_whole_path_is_not_followed(pointer: Path, line: bytes) -> None:
    pointer.write_bytes(line)

    assert pointed(pointer) == ""

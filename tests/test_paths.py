"""Where clients look for the daemon, and where nobody may look."""

from pathlib import Path

import pytest

from hooklatch import paths


@pytest.fixture
def session_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def test_a_flag_stands_alone() -> None:
    environ = {"HOOKLATCH_RUNTIME_DIR": "/elsewhere", "HOME": "/home/dev"}

    assert paths.runtime_dirs("/flag", environ) == ["/flag"]


def test_the_environment_stands_alone_where_there_is_no_flag() -> None:
    environ = {"HOOKLATCH_RUNTIME_DIR": "/elsewhere", "HOME": "/home/dev"}

    assert paths.runtime_dirs(None, environ) == ["/elsewhere"]


def test_the_session_folder_comes_before_the_home_folder(session_folder: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(session_folder), "HOME": "/home/dev"}

    found = paths.runtime_dirs(None, environ)

    assert found == [f"{session_folder}/hooklatch", "/home/dev/.local/state/hooklatch/run"]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o711, 0o1777])
def test_a_session_folder_that_others_can_enter_is_ignored(session_folder: Path, mode: int) -> None:
    session_folder.chmod(mode)

    found = paths.runtime_dirs(None, {"XDG_RUNTIME_DIR": str(session_folder), "HOME": "/home/dev"})

    assert found == ["/home/dev/.local/state/hooklatch/run"]


@pytest.mark.parametrize("value", ["", "relative", "/nonexistent/run", "/dev/null", "/a\0b"])
def test_a_session_folder_that_is_none_is_ignored(value: str) -> None:
    found = paths.runtime_dirs(None, {"XDG_RUNTIME_DIR": value, "HOME": "/home/dev"})

    assert found == ["/home/dev/.local/state/hooklatch/run"]


def test_without_a_home_the_user_database_is_asked() -> None:
    (found,) = paths.runtime_dirs(None, {})

    assert found.startswith("/")
    assert found.endswith("/.local/state/hooklatch/run")


def test_the_temporary_folder_is_never_chosen() -> None:
    assert not any(found.startswith("/tmp") for found in paths.runtime_dirs(None, {"TMPDIR": "/tmp"}))


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
    assert paths.config_file(flag, environ) == expected


def test_the_state_folder_follows_the_base_directory_specification() -> None:
    assert paths.state_dir({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == "/s/hooklatch"
    assert paths.state_dir({"HOME": "/h"}) == "/h/.local/state/hooklatch"

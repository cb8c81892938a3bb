"""Files: installing and uninstalling gives the bytes back, keeps what was edited, and leaves nothing but backups."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.cli.hosts import settings_files
from hooklatch.cli.hosts.changing import (
    FileEdit,
    apply_edit,
    diff_edit,
    plan_install,
    plan_plugin_install,
    plan_plugin_uninstall,
    plan_settings_uninstall,
)
from hooklatch.cli.hosts.editing import parse_jsonc
from hooklatch.cli.hosts.entries import SettingsShape, find_entries
from hooklatch.cli.hosts.plugin import make_plugin
from hooklatch.cli.hosts.settings_files import FileError
from support.profiles import examples

SHAPE = SettingsShape()
LINE = "/py -I -S /x/hooklatch/entry/entry.py codex Stop --kind gate --wait 605"
HANDLERS: dict[str, dict[str, Any]] = {
    event: {"type": "command", "command": LINE, "timeout": 610} for event in ("PreToolUse", "Stop")
}
GAPS = st.sampled_from(["", " ", "\n", "\n    ", "\r\n", "/* } */", " // ]\n"])
PIECES = st.sampled_from(
    ['"a": [1, {"b": 2}]', '"hooks": {}', '"hooks": {"Stop": []}', '"hooks": {"Stop": [1,], "X": []}']
)


class Home:
    """A folder of settings, and the environment that its record is found by."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.environ = {"HOME": folder}
        self.path = str(self.folder / "conf" / "settings.json")

    def write(self, data: bytes) -> None:
        Path(self.path).parent.mkdir(exist_ok=True)
        Path(self.path).write_bytes(data)

    @property
    def data(self) -> bytes | None:
        return Path(self.path).read_bytes() if os.path.exists(self.path) else None

    def install(self, handlers: dict[str, dict[str, Any]] = HANDLERS) -> FileEdit:
        change = plan_install(self.path, SHAPE, handlers, self.environ)
        if not change.is_none:
            apply_edit(change, "codex", self.environ)
        return change

    def uninstall(self) -> str | None:
        return apply_edit(plan_settings_uninstall(self.path, SHAPE, self.environ), "codex", self.environ)

    def tree(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


@pytest.fixture
def home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as folder:
        yield Home(folder)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    piece = draw(st.one_of(st.just(""), PIECES))
    inner = f"{draw(GAPS)}{piece}{draw(GAPS)}" + ("," + draw(GAPS) if piece and draw(st.booleans()) else "")
    mark = "\ufeff" if draw(st.booleans()) else ""
    return f"{mark}{draw(GAPS)}{{{inner}}}{draw(GAPS)}".encode()


@examples(40)
@given(texts())
def test_uninstalling_gives_back_the_bytes_and_installing_twice_changes_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(folder)
        home.write(data)
        before = home.tree()

        home.install()
        once = home.data
        assert home.install().is_none
        assert home.data == once
        assert once != data
        home.uninstall()

        assert home.data == data
        assert home.tree() == before


@examples(40)
@given(texts(), st.integers(1, 5))
def test_what_was_edited_meanwhile_is_kept_and_nothing_of_ours_is_left(data: bytes, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(folder)
        home.write(data)
        home.install()
        text = (home.data or b"").decode()
        place = text.index("{") + 1
        edited = f'{text[:place]}\n"edited": {number}, // mine\n{text[place:]}'
        home.write(edited.encode())

        home.uninstall()

        assert home.data is not None
        rest = home.data.decode().removeprefix("\ufeff")
        original = parse_jsonc(data.decode().removeprefix("\ufeff"))
        assert original is not None
        root = parse_jsonc(rest)
        assert root is not None
        assert root.value == {"edited": number, **original.value}
        assert "// mine" in rest
        assert not list(find_entries(rest))


def test_what_install_made_is_gone_afterwards(home: Home) -> None:
    home.install()
    assert home.data is not None

    home.uninstall()

    assert home.tree() == set()


def test_a_folder_that_was_there_stays(home: Home) -> None:
    Path(home.path).parent.mkdir()

    home.install()
    home.uninstall()

    assert home.tree() == {"conf"}


def test_a_new_version_of_the_entries_replaces_the_old_one_and_all_comes_out_again(home: Home) -> None:
    home.write(b'{"a": 1}')
    home.install()

    home.install({"PreToolUse": {**HANDLERS["Stop"], "timeout": 5}})

    text = (home.data or b"").decode()
    assert [(one.event, one.handler["timeout"]) for one in find_entries(text)] == [("PreToolUse", 5)]
    home.uninstall()
    assert (home.data, home.tree()) == (b'{"a": 1}', {"conf", "conf/settings.json"})


def test_installing_again_after_an_edit_keeps_the_edit_then_and_later(home: Home) -> None:
    home.write(b'{\n  "a": 1\n}\n')
    home.install()
    home.write((home.data or b"").replace(b'"a": 1', b'"a": 2'))

    home.install({"Stop": HANDLERS["Stop"]})
    home.uninstall()

    assert home.data == b'{\n  "a": 2\n}\n'
    assert "conf/settings.json.hooklatch-backup" in home.tree()  # the first one, which is the person's to delete


def test_the_mode_and_a_link_stay(home: Home) -> None:
    real = home.folder / "dotfiles.json"
    real.write_bytes(b"{}")
    real.chmod(0o640)
    Path(home.path).parent.mkdir()
    Path(home.path).symlink_to(real)

    home.install()

    assert Path(home.path).is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert b"hooklatch" in real.read_bytes()
    assert (home.folder / "dotfiles.json.hooklatch-backup").read_bytes() == b"{}"
    home.uninstall()
    assert real.read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'{\n "a" 1}', r"settings\.json:2:6: expected ':', found '1'; nothing was changed: fix the file"),
        (b'{"hooks": 1}', r"expected an object for hooks"),
        (b'{"a": "\xff"}', r"is not UTF-8 \(line 1\)"),
    ],
)
def test_what_cannot_be_read_is_refused_and_left_alone(home: Home, data: bytes, what: str) -> None:
    home.write(data)

    with pytest.raises(FileError, match=what):
        home.install()

    assert (home.data, home.tree()) == (data, {"conf", "conf/settings.json"})


def test_a_file_that_changes_under_our_hands_is_not_overwritten(home: Home) -> None:
    home.write(b"{}")
    change = plan_install(home.path, SHAPE, HANDLERS, home.environ)
    home.write(b'{"a": 1}')

    with pytest.raises(FileError, match="was changed by another program"):
        apply_edit(change, "codex", home.environ)

    assert (home.data, home.tree()) == (b'{"a": 1}', {"conf", "conf/settings.json"})


def test_a_folder_in_the_place_of_the_file_is_named(home: Home) -> None:
    Path(home.path).mkdir(parents=True)

    with pytest.raises(FileError, match="is not a regular file"):
        home.install()


def test_a_link_to_nothing_is_named(home: Home) -> None:
    Path(home.path).parent.mkdir()
    Path(home.path).symlink_to("/nowhere/at/all")

    with pytest.raises(FileError, match="is a link to /nowhere/at/all, which does not exist"):
        home.install()


def test_without_the_record_our_entries_still_come_out(home: Home) -> None:
    home.write(b'{\n  "a": 1\n}\n')
    home.install()
    (home.folder / ".local/state/hooklatch/installed.json").write_bytes(b"rubbish")

    home.uninstall()

    assert home.data == b'{\n  "a": 1\n}\n'


def test_a_backup_that_somebody_changed_is_not_trusted(home: Home) -> None:
    home.write(b'{"a": 1}')
    home.install()
    Path(f"{home.path}.hooklatch-backup").write_bytes(b"evil")

    home.uninstall()

    assert home.data == b'{"a": 1}'
    assert Path(f"{home.path}.hooklatch-backup").read_bytes() == b"evil"


def test_a_diff_shows_what_changes(home: Home) -> None:
    home.write(b'{"a": 1}')

    diff = diff_edit(plan_install(home.path, SHAPE, {"Stop": {"command": LINE}}, home.environ))

    assert '-{"a": 1}\n\\ No newline at end of file\n+{"a": 1, "hooks": {"Stop": ' in diff


def test_a_plugin_of_somebody_else_is_left_alone_and_an_edited_one_is_kept(home: Home) -> None:
    text = make_plugin({"tool.execute.before": ["x"]}, 610)
    home.write(b"// mine")
    with pytest.raises(FileError, match="is not hooklatch's"):
        plan_plugin_install(home.path, text, home.environ)
    home.write(b"")
    os.unlink(home.path)
    apply_edit(plan_plugin_install(home.path, text, home.environ), "opencode", home.environ)
    home.write((home.data or b"") + b"// edited")

    backup = apply_edit(plan_plugin_uninstall(home.path, home.environ), "opencode", home.environ)

    assert home.data is None
    assert backup is not None
    assert Path(backup).read_bytes().endswith(b"// edited")


def test_what_cannot_be_written_leaves_no_trace(home: Home) -> None:
    home.write(b"{}")
    change = plan_install(home.path, SHAPE, HANDLERS, home.environ)

    with pytest.raises(FileError, match="cannot be made"):
        settings_files.make_folders("/proc/nowhere/at/all")
    assert change.old == b"{}"
    assert home.tree() == {"conf", "conf/settings.json"}

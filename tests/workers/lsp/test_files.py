"""Which file a tool wrote, its content, and the server for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hooklatch_worker.lsp.files import MAX_SOURCE, find_project_root, locate_file, read_source
from hooklatch_worker.lsp.table import BY_EXTENSION, LANGUAGES, find_language_id, find_server


@pytest.mark.parametrize(
    ("tool_input", "shown"),
    [
        pytest.param({"file_path": "a.py"}, "a.py", id="Claude Code, Gemini"),
        pytest.param({"path": "sub/a.py"}, "sub/a.py", id="XA-50 Copilot, Goose"),
        pytest.param({"filePath": "./sub/../a.py"}, "a.py", id="OpenCode"),
        pytest.param({"notebook_path": "a.ipynb"}, "a.ipynb", id="NotebookEdit"),
        pytest.param({"file_path": "{cwd}/sub/a.py"}, "sub/a.py", id="XA-50 absolute"),
        pytest.param({"file_path": "", "path": "a.py"}, "a.py", id="an empty one before it"),
        pytest.param({"command": "*** Begin Patch"}, None, id="XA-42 apply_patch"),
        pytest.param({"file_path": 1}, None, id="XA-42 no text"),
        pytest.param(None, None, id="XA-43"),
        pytest.param("a.py", None, id="XA-43 a string"),
        pytest.param({"file_path": "../a.py"}, None, id="outside"),
        pytest.param({"file_path": "/etc/hostname"}, None, id="outside, absolute"),
        pytest.param({"file_path": "."}, None, id="the directory itself"),
        pytest.param({"file_path": "a\0.py"}, None, id="NUL"),
        pytest.param({"file_path": "a\udc80.py"}, None, id="lone surrogate"),
        pytest.param({"file_path": "..a/b.py"}, "..a/b.py", id="inside, with two dots"),
    ],
)
def test_the_file_is_found_in_a_tools_input(tmp_path: Path, tool_input: object, shown: str | None) -> None:
    if isinstance(tool_input, dict):
        tool_input = {
            key: value.replace("{cwd}", str(tmp_path)) if isinstance(value, str) else value
            for key, value in tool_input.items()
        }

    location = locate_file(tool_input, str(tmp_path))

    assert (location.shown if location else None) == shown


@pytest.mark.parametrize("cwd", [None, "", "relative", 7])
def test_without_a_working_directory_there_is_no_file(cwd: object) -> None:
    assert locate_file({"file_path": "/etc/hostname"}, cwd) is None


def test_a_link_that_leads_outside_is_outside(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.py").write_text("x")
    (tmp_path / "work" / "a.py").symlink_to(tmp_path / "secret.py")

    assert locate_file({"file_path": "a.py"}, str(tmp_path / "work")) is None


def test_a_working_directory_behind_a_link_is_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work")

    location = locate_file({"file_path": str(tmp_path / "link" / "a.py")}, str(tmp_path / "work"))

    assert location is not None
    assert location.shown == "a.py"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xfe", id="no UTF-8"),
        pytest.param(b"a\0b", id="binary"),
        pytest.param(b"#" * (MAX_SOURCE + 1), id="too large"),
    ],
)
def test_what_is_no_source_is_not_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.py").write_bytes(data)

    assert read_source(str(tmp_path / "a.py")) is None


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")

    assert [read_source(str(tmp_path / name)) for name in ("missing.py", "pipe.py", "")] == [None] * 3


def test_the_largest_file_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbf" + b"#" * (MAX_SOURCE - 3))

    source = read_source(str(tmp_path / "a.py"))

    assert source is not None
    assert len(source[0]) == MAX_SOURCE - 3


@pytest.mark.parametrize(
    ("marked", "root"),
    [([], "."), (["."], "."), (["packages/a"], "packages/a"), (["packages", "packages/a"], "packages/a")],
)
def test_the_root_is_the_nearest_marked_folder(tmp_path: Path, marked: list[str], root: str) -> None:
    (tmp_path / "packages" / "a" / "src").mkdir(parents=True)
    for folder in marked:
        (tmp_path / folder / "go.mod").touch()
    location = locate_file({"path": "packages/a/src/x.go"}, str(tmp_path))

    assert location is not None
    assert Path(find_project_root(location, ("go.mod",))) == (tmp_path / root).resolve()


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


@pytest.mark.parametrize(
    ("extension", "overrides", "found"),
    [
        (".py", {}, ["ruff", "server"]),
        (".pyi", {}, ["ruff", "server"]),
        (".go", {}, ["gopls"]),
        (".exs", {}, ["lexical"]),
        (".py", {".py": ["gopls", "-x"]}, ["gopls", "-x"]),
        (".xyz", {".xyz": ["gopls"]}, ["gopls"]),
        (".py", {".py": ["absent"]}, None),
        (".py", {".py": []}, None),
        (".rs", {}, None),
        (".xyz", {}, None),
        ("", {}, None),
    ],
)
def test_the_first_server_on_the_path_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    extension: str,
    overrides: dict[str, Any],
    found: list[str] | None,
) -> None:
    put(tmp_path, "ruff", "pylsp", "gopls", "lexical")
    monkeypatch.setenv("PATH", str(tmp_path))

    command = find_server(extension, overrides)

    assert command == (found and (str(tmp_path / found[0]), *found[1:]))


def test_each_extension_stands_once_in_the_table() -> None:
    assert len(BY_EXTENSION) == sum(len(language.ids) for language in LANGUAGES)
    assert all(type(command) is tuple for language in LANGUAGES for command in language.servers)


@pytest.mark.parametrize(("extension", "name"), [(".tsx", "typescriptreact"), (".h", "c"), (".xyz", "xyz")])
def test_the_language_has_its_name_in_the_protocol(extension: str, name: str) -> None:
    assert find_language_id(extension) == name

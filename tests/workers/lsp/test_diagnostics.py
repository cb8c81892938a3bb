"""The built-in hook with ruff's own language server, and without any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch_worker.lsp import diagnostics
from workers.lsp.workspace import Workspace

BROKEN = "import os\n\nprint(missing)\n"
FIXED = "print(1)\n"
MISSING = "error: Undefined name `missing` at {}:3:7"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param("a.py", "a.py", id="XA-46"),
        pytest.param("sub/dir/a.py", "sub/dir/a.py", id="XA-50"),
        pytest.param("with space/ä [1].py", "with space/ä [1].py", id="XA-50 odd names"),
    ],
)
def test_errors_and_warnings_are_appended_with_the_relative_path(workspace: Workspace, name: str, path: str) -> None:
    text = workspace.edit(name, BROKEN)

    assert text is not None
    heading, *lines = text.splitlines()
    assert heading == "[lsp diagnostics]"
    assert MISSING.format(path) in lines
    assert any(line.startswith("warning: `os` imported but unused") and line.endswith(f"{path}:1:8") for line in lines)


def test_a_relative_path_is_relative_to_the_sessions_directory(workspace: Workspace) -> None:
    workspace.write("sub/a.py", BROKEN)

    text = workspace.call({"path": "sub/a.py"})

    assert text is not None
    assert MISSING.format("sub/a.py") in text


def test_a_file_without_a_fault_is_silent(workspace: Workspace) -> None:
    assert workspace.edit("a.py", FIXED) is None


def test_the_next_edit_uses_the_same_server(workspace: Workspace) -> None:
    first, pids = workspace.edit("a.py", BROKEN), workspace.pids
    second = workspace.edit("a.py", FIXED)
    third = workspace.edit("a.py", BROKEN)

    assert (first is None, second is None, third is None) == (False, True, False)
    assert workspace.pids == pids
    assert len(pids) == 1


def test_a_warm_answer_is_quick(workspace: Workspace) -> None:
    workspace.edit("a.py", FIXED)
    took: list[float] = []

    for _ in range(5):
        workspace.edit("a.py", BROKEN)
        took.append(workspace.seconds)

    assert min(took) < 0.25, "the others may have been held up by the machine"


def test_a_syntax_error_is_an_error(workspace: Workspace) -> None:
    text = workspace.edit("a.py", "def f(:\n    pass\n")

    assert text is not None
    assert "\nerror: " in text


def test_columns_count_characters_whole(workspace: Workspace) -> None:
    text = workspace.edit("a.py", "x = '🦀🦀' + missing\n")

    assert text is not None
    assert "at a.py:1:12" in text


@pytest.mark.parametrize(
    ("severities", "words"),
    [
        pytest.param(["error"], {"error"}, id="XA-47 errors"),
        pytest.param(["warning"], {"warning"}, id="XA-47 warnings"),
        pytest.param(["information", "hint"], set[str](), id="XA-47 nothing left"),
        pytest.param([], set[str](), id="XA-47 none wanted"),
    ],
)
def test_only_the_configured_severities_are_shown(workspace: Workspace, severities: list[str], words: set[str]) -> None:
    workspace.config["severities"] = severities

    text = workspace.edit("a.py", BROKEN)

    assert {line.partition(":")[0] for line in (text or "").splitlines()[1:]} == words


@pytest.mark.parametrize(
    ("name", "config"),
    [
        pytest.param("a.py", {"enabled": False}, id="XA-41"),
        pytest.param("a.xyz", {}, id="XA-44"),
        pytest.param("Makefile", {}, id="XA-44 none"),
        pytest.param("a.rs", {}, id="XA-45"),
        pytest.param("a.py", {"servers": {".py": ["no-such-program"]}}, id="XA-45 by configuration"),
        pytest.param("a.py", {"servers": {".py": []}}, id="XA-45 turned off"),
    ],
)
def test_without_a_server_it_is_silent_and_starts_nothing(
    workspace: Workspace, name: str, config: dict[str, Any]
) -> None:
    workspace.config.update(config)

    assert workspace.edit(name, BROKEN) is None
    assert workspace.pids == []


@pytest.mark.parametrize(
    "tool_input",
    [
        pytest.param({}, id="XA-42"),
        pytest.param({"command": "*** Begin Patch"}, id="XA-42 apply_patch"),
        pytest.param(None, id="XA-43"),
        pytest.param("a.py", id="XA-43 no table"),
        pytest.param({"path": "a.py", "command": "view"}, id="only shown"),
        pytest.param({"file_path": "missing.py"}, id="missing"),
        pytest.param({"file_path": "../outside.py"}, id="outside"),
        pytest.param({"file_path": "binary.py"}, id="binary"),
        pytest.param({"file_path": "."}, id="a folder"),
    ],
)
def test_without_a_readable_file_it_is_silent_and_starts_nothing(workspace: Workspace, tool_input: object) -> None:
    workspace.write("a.py", BROKEN)
    workspace.write("../outside.py", BROKEN)
    (workspace.folder / "binary.py").write_bytes(b"\0\1\2")

    assert workspace.call(tool_input) is None
    assert workspace.pids == []


def test_without_a_path_variable_it_is_silent(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace.folder))

    assert workspace.edit("a.py", BROKEN) is None


@pytest.mark.parametrize(
    ("text", "count", "had_errors"),
    [
        pytest.param("print(missing)\n", 1, True, id="XA-49"),
        pytest.param("import os\n", 1, False, id="XA-49 warnings alone"),
        pytest.param(FIXED, 0, False, id="XA-49 nothing"),
    ],
)
def test_start_and_stop_are_told(workspace: Workspace, text: str, count: int, had_errors: bool) -> None:
    workspace.write("sub/a.py", text)

    workspace.call({"file_path": "sub/a.py"}, "Write")

    [(_, start), (_, stop)] = workspace.emitted
    assert [name for name, _ in workspace.emitted] == ["lsp_diagnostics_start", "lsp_diagnostics_stop"]
    assert start == {"tool_name": "Write", "path": "sub/a.py"}
    assert isinstance(stop.pop("duration_ms"), int)
    assert stop == {"tool_name": "Write", "count": count, "had_errors": had_errors}


def test_nothing_is_told_of_an_edit_that_no_server_is_for(workspace: Workspace) -> None:
    workspace.edit("a.xyz", BROKEN)

    assert workspace.emitted == []


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"timeout": 0}, r"Expected `float` > 0.* at `\$\.timeout`"),
        ({"timeout": 1500}, r"Expected `float` <= 60.* at `\$\.timeout`"),
        ({"timeout": "1"}, "Expected `float`"),
        ({"severities": ["fatal"]}, "Invalid enum value 'fatal'"),
        ({"servers": {"py": ["ruff"]}}, r"matching regex .* at `key` in `\$\.servers`"),
        ({"servers": {".py": "ruff server"}}, "Expected `array`"),
        ({"severity": ["error"]}, "unknown field `severity`"),
    ],
)
def test_a_bad_setting_is_named(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        msgspec.convert(table, diagnostics.Config)


@pytest.mark.parametrize("tool", ["Edit", "Write", "MultiEdit", "NotebookEdit", "edit", "write", "write_file"])
def test_the_matcher_knows_the_tools_by_their_real_names(tool: str) -> None:
    assert tool in diagnostics.TOOLS


def test_the_matcher_names_no_tool_twice_and_none_that_reads() -> None:
    assert len(set(diagnostics.TOOLS)) == len(diagnostics.TOOLS)
    assert not {"Read", "read", "view", "Bash", "apply_patch"} & set(diagnostics.TOOLS)


def test_one_server_serves_each_project_below_the_directory(workspace: Workspace) -> None:
    for project in ("one", "two"):
        workspace.write(f"{project}/pyproject.toml", "")
        workspace.edit(f"{project}/src/a.py", FIXED)
    workspace.edit("one/b.py", FIXED)

    assert [Path(root).name for _, root in diagnostics.SERVERS.pids] == ["two", "one"]

"""What a guard reads of a tool's input, whoever fired; what could be read in two ways is not read."""

from __future__ import annotations

from typing import Any

import pytest

from hooklatch_worker.author.events import ToolEvent, build_event
from hooklatch_worker.author.tools import UnclearToolError
from support.tables import table


def event(name: str, tool_input: dict[str, Any], **more: Any) -> ToolEvent:
    made = build_event("pre_tool_use", {"tool_name": name, "tool_input": tool_input, **more}, {}, None, None, False)
    assert isinstance(made, ToolEvent)
    return made


@table(
    ("name", "tool_input", "kind", "command", "path", "url"),
    [
        ("Bash", {"command": "ls"}, "shell", "ls", None, None),
        ("exec_command", {"cmd": ["rm", "a b"]}, "shell", "rm 'a b'", None, None),
        ("Write", {"file_path": "a", "content": "x"}, "write", None, "a", None),
        ("WebFetch", {"url": "https://a.example"}, "fetch", None, None, "https://a.example"),
        ("WebSearch", {"query": "trio"}, "fetch", None, None, None),
        ("mcp__memory__write", {"path": "a"}, "mcp", None, None, None),
        ("their_own", {"command": "x"}, "other", "x", None, None),
    ],
)
def test_a_tool_is_read_by_its_name_where_nobody_has_read_it(
    name: str, tool_input: dict[str, Any], kind: str, command: str | None, path: str | None, url: str | None
) -> None:
    made = event(name, tool_input)

    assert (made.tool_kind, made.command, made.path, made.url) == (kind, command, path, url)
    assert made.paths == ([] if path is None else [path])


def test_what_a_hosts_adapter_has_read_counts() -> None:
    made = event("Edit", {}, tool_kind="read", tool_args={"path": "b"})

    assert (made.tool_kind, made.path) == ("read", "b")


def test_a_patch_of_several_files_has_paths_and_no_path() -> None:
    made = event("apply_patch", {"patch": "*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** End Patch"})

    assert made.paths == ["a", "b"]
    with pytest.raises(UnclearToolError, match="several files"):
        assert made.path


@table(
    ("name", "tool_input"),
    [("Bash", {}), ("Read", {"path": "a", "file_path": "b"}), ("Write", {"path": ["a"]}), ("Bash", "rm -rf /")],
)
def test_an_unclear_input_is_not_read_as_none(name: str, tool_input: Any) -> None:
    with pytest.raises(UnclearToolError):
        assert event(name, tool_input).tool_args


def test_a_text_is_not_guessed_from_another_value() -> None:
    made = event("their_own", {"command": ["rm"]})

    with pytest.raises(UnclearToolError, match="not text"):
        assert made.command

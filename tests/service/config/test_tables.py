"""What may be written in hooks.toml is described once: the structs, their JSON Schema, the pages."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest

from hooklatch.lsp import LspTable
from hooklatch.service.config.configuration import PROJECT_TABLES, TABLES, ConfigFile, SourceTable, WorkersTable
from hooklatch.service.config.settings import IsolationTable, Level, OverrideTable, StateTable
from hooklatch.service.config.toml_document import TomlDocument
from hooklatch_worker.wire import ISOLATION_LEVELS
from support.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "hooks.md").read_text()


def test_a_schema_can_be_made_of_the_whole_file() -> None:
    schema: dict[str, Any] = msgspec.json.schema(ConfigFile)
    hook = schema["$defs"]["HookTable"]

    assert set(schema["$defs"]["ConfigFile"]["properties"]) > set(TABLES)
    assert hook["required"] == ["event"]
    assert (hook["additionalProperties"], hook["properties"]["priority"]["default"]) == (False, 100)
    assert len(hook["properties"]["match"]["anyOf"]) == 4
    assert schema["$defs"]["RecordTable"]["properties"]["keep_days"]["default"] == 30
    msgspec.json.encode(schema)


def test_a_project_may_write_some_of_what_a_user_may() -> None:
    assert set(PROJECT_TABLES) < set(TABLES)


def test_the_levels_are_those_of_the_workers() -> None:
    assert get_args(Level) == ISOLATION_LEVELS


@pytest.mark.parametrize(("table", "struct"), [("lsp", LspTable), ("override", OverrideTable)])
def test_a_row_of_the_page_names_each_key_of_its_table(table: str, struct: type[msgspec.Struct]) -> None:
    (row,) = re.findall(rf"^\| `\[+{table}\]+` \|.*", PAGE, re.MULTILINE)

    assert set(re.findall(r"`(\w+)`", row)) == set(struct.__struct_fields__)


@pytest.mark.parametrize(
    ("header", "struct"),
    [
        ("[[source]]", SourceTable),
        ("[workers]", WorkersTable),
        ("[isolation]", IsolationTable),
        ("[state]", StateTable),
    ],
)
def test_the_page_shows_each_key_of_a_table(header: str, struct: type[msgspec.Struct]) -> None:
    shown = PAGE.partition(f"\n{header}")[2].partition("\n\n")[0]

    assert set(re.findall(r"(\w+) = ", shown.partition("```")[0])) == set(struct.__struct_fields__)


TEXT = b"""\
top = 1
# timeout = 1
[[hook]]
id = "a"
[[hook]] # the second
id = "b"
[hook.env]
timeout = "x"
[personality."a b"]
plugins = []
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 1),
        (("hook", 0), 3),
        (("hook", 0, "id"), 4),
        (("hook", 1, "id"), 6),
        (("hook", 1, "timeout"), 5),
        (("hook", 1, "env"), 7),
        (("hook", 1, "env", "timeout"), 8),
        (("hook",), 3),
        (("personality", "a b", "plugins"), 10),
        (("nothing",), 0),
    ],
)
def test_a_path_leads_to_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert TomlDocument("/h/hooks.toml", TEXT).line_of(path) == line

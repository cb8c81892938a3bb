"""A name or a pattern that no known tool has is told, and nothing is told of names that may well be."""

from __future__ import annotations

from typing import Any

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.conditions import compile_where
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.service.loading.tool_names import list_unknown_tools
from hooklatch_worker.wire import Source
from support.tables import table

TARGET = PythonTarget(Source("file", "/g.py"), 1, "guard")


def said(match: Any, where: Any = None, event: str = "pre_tool_use") -> str:
    matcher, condition = compile_matcher(match), compile_where(where)
    hook = Hook(id="a", event=event, layer=Layer.GLOBAL, matcher=matcher, where=condition, target=TARGET)
    return "; ".join(list_unknown_tools(hook, Catalogue.standard()[event]))


@table(
    ("match", "where", "words"),
    [
        ("shells", None, "called 'shells'; did you mean 'shell'?"),
        (["Bash", "Rede"], None, "called 'Rede'"),
        ({"regex": "^bsh$"}, None, "matches regex ^bsh$"),
        ({"glob": "Bosh*"}, None, "matches glob Bosh*"),
        (None, {"tool_name": "shells"}, "called 'shells', as where says"),
        (None, {"tool_name": ["Bash", {"glob": "shells*"}]}, "called 'shells*', as where says"),
    ],
)
def test_what_no_tool_is_called_is_told(match: Any, where: Any, words: str) -> None:
    assert words in said(match, where)


@table(
    ("match", "where"),
    [
        (None, None), ("*", None), ("shell", None), ("mcp", None), (["Bash", "edit", "TodoWrite"], None),
        ("mcp__files__read", None), ({"glob": "mcp__*"}, None), ({"regex": "^mcp__(a|b)__.*"}, None),
        ({"regex": "Edit|Write"}, None), ({"regex": ".*(?i:bash)", "search": True}, None),
        (None, {"tool_name": "Bash"}), (None, {"tool_name": "mcp__a__b"}), (None, {"command": "shells"}),
    ],
)  # fmt: skip
def test_what_some_tool_is_called_or_may_be_is_not(match: Any, where: Any) -> None:
    assert said(match, where) == ""


def test_what_is_matched_on_something_else_than_a_tool_is_no_name_of_one() -> None:
    assert said("clear", event="session_start") == ""

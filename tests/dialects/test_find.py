"""Dialects are found by name, and custom ones are checked before use."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dialects.judges import of_ethos
from dialects.samples import dialects, label
from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition
from hooklatch.dialects import installed
from hooklatch.dialects.custom import build_dialect
from hooklatch.dialects.dialect import Dialect, InvalidDialectError, validate_dialect
from hooklatch.dialects.find import find_dialect, list_dialects
from hooklatch.dialects.installed import load_entry_points
from hooklatch.dialects.rendering import render_decision
from hooklatch.dialects.translation import translate_to_canonical
from support.tables import table

MINE: dict[str, Any] = {
    "name": "mine",
    "style": "merged",
    "matcher": "full",
    "events": {
        "beforeTool": {
            "feeds": [{"event": "pre_tool_use", "keys": {"tool": "tool_name", "input": "tool_input"}}],
            "answers": {"words": {"deny": "refused"}, "patch": {"tool_input": "input"}},
        },
        "done": "stop",
    },
}


def mine(event: str, **changes: Any) -> dict[str, Any]:
    return {**MINE, "events": {event: changes}}


def test_there_are_five() -> None:
    assert list_dialects() == ("ethos", "exathena", "reasonix", "radium", "beam")
    assert find_dialect("claude") is None


def test_a_dialect_of_a_table_works_as_ours_do() -> None:
    dialect = build_dialect(MINE)

    (fed,) = translate_to_canonical(dialect, "beforeTool", {"tool": "Bash", "input": {}})
    rendered = render_decision(dialect, "beforeTool", {"event": "pre_tool_use", "verdict": "ask", "reason": "sure?"})

    assert (fed.event, fed.payload) == ("pre_tool_use", {"tool_name": "Bash", "tool_input": {}})
    assert rendered.value == {"refused": "sure?"}
    assert find_dialect("mine", {"mine": dialect}) is dialect
    assert list_dialects({"mine": dialect})[-1] == "mine"


@pytest.mark.parametrize("dialect", dialects(), ids=label)
def test_our_own_can_be_written_as_tables(dialect: Dialect) -> None:
    table = msgspec.to_builtins(msgspec.structs.replace(dialect, name="copy"))
    for event in table["events"].values():
        for feed in event["feeds"]:
            del feed["verdicts"], feed["match"]

    assert build_dialect(table) == msgspec.structs.replace(dialect, name="copy")


def test_a_custom_event_can_be_fed() -> None:
    catalogue = Catalogue.standard().with_custom(
        [EventDefinition(name="deploy_requested", model="gate", verdicts=["deny"])]
    )
    table = mine("deploy", feeds=["deploy_requested"], answers={"words": {"deny": "error"}})

    dialect = build_dialect(table, catalogue)
    rendered = render_decision(dialect, "deploy", {"event": "deploy_requested", "verdict": "deny", "reason": ""})

    assert of_ethos("deploy", rendered.value)[0].word == "stops"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({**MINE, "name": ""}, "it has no name"),
    ({**MINE, "name": "beam"}, "there is a dialect of that name"),
    ({**MINE, "stile": "merged"}, "no key 'stile'; did you mean 'style'"),
    (
        {**MINE, "style": "merge"},
        "not 'merge'; did you mean 'merged'",
    ),
    ({**MINE, "matcher": "glob"}, "matcher is one of 'none', 'search', 'full', 'exact_or_search', not 'glob'"),
    ({**MINE, "events": {}}, "it has no events"),
    ({**MINE, "events": []}, "events is a table"),
    (mine("t", feed=["stop"]), "no key 'feed'; did you mean 'feeds'"),
    (mine("t", feeds="stop"), "feeds is a list of tables, not 'stop'"),
    (mine("t", feeds=[]), "it feeds no event"),
    (mine("t", feeds=["stopp"]), "did you mean 'stop'"),
    (mine("t", feeds=[{"event": "stop", "flows": "sequential"}]), "no key 'flows'; did you mean 'flow'"),
    (
        mine("t", feeds=[{"event": "stop", "flow": "parallel"}]),
        "flow is one of 'sequential', 'concurrent', not",
    ),
    (mine("t", feeds=[{"event": "stop", "ends_at": ["stop"]}]), "the unknown verdict 'stop'"),
    (mine("t", feeds=[{"event": "stop", "when": "passed"}]), "cannot depend on feeds before it"),
    (mine("t", feeds=[{"event": "stop", "verdicts": []}]), "no key 'verdicts'"),
    (mine("t", feeds=[{"event": "stop", "model": "gate"}]), "no key 'model'"),
    (mine("t", feeds=[{"event": "stop", "keys": {"a": "x", "b": "x"}}]), "occurs twice"),
    (mine("t", feeds=[{"event": "stop", "keys": {"a": "x", "b": "x.y"}}]), "contains another path"),
    (mine("t", feeds=[{"event": "stop", "keys": {"a": "x..y"}}]), "an empty part"),
    (mine("t", feeds=[{"event": "pre_tool_use", "keys": {"a": "x"}, "gathers": "x"}]), "gathers the other keys"),
    (mine("t", feeds=["pre_tool_use"]), "need a word for deny or halt"),
    (mine("t", feeds=["pre_tool_use"], answers={"words": {"ask": "ask"}}), "need a word for deny or halt"),
    (mine("t", feeds=["stop", "pre_tool_use"]), "need a word for deny or halt"),
    (mine("t", feeds=["stop", "pre_tool_use"], answers={"words": {"deny": "e"}}), "a gate must come first"),
    (
        mine("t", feeds=["pre_tool_use", "permission_request"], answers={"words": {"deny": "e"}}),
        "a gate must come first",
    ),
    (
        mine("t", feeds=[{"event": "pre_tool_use", "flow": "concurrent"}], answers={"words": {"deny": "e"}}),
        "only a notify event can be concurrent",
    ),
    (mine("t", feeds=["pre_tool_use"], answers={"words": {"deny": "ok"}}), "means that all is well"),
    (mine("t", feeds=["pre_tool_use"], answers={"words": {"denny": "e"}}), "did you mean 'deny'"),
    (mine("t", feeds=["pre_tool_use"], answers={"words": {"deny": "e"}, "patch": {"tool_name": "n"}}), "cannot change"),
    (
        mine("t", feeds=["pre_tool_use"], answers={"words": {"deny": "e"}, "patch": {"tool_input": "e"}}),
        "would have two meanings",
    ),
    (mine("t", feeds=["stop"], answers={"outputs": {"injekt": "i"}}), "unknown output 'injekt'"),
    (mine("t", feeds=["stop"], answers={"outputs": {"inject": "i"}}), "cannot answer with inject"),
    (
        {**MINE, "events": {"a": {"feeds": ["stop"], "aliases": ["b"]}, "b": "stop"}},
        "two of its events are called 'b'",
    ),
]


@table(("table", "text"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_table_that_cannot_stand_is_refused(table: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidDialectError, match=text.replace("(", r"\(")):
        build_dialect(table)


@pytest.mark.parametrize("dialect", dialects(), ids=label)
def test_a_gate_cannot_be_passed_off_as_something_else(dialect: Dialect) -> None:
    name, event = next((n, e) for n, e in dialect.events.items() if e.feeds[0].fails_closed)
    forged = msgspec.structs.replace(event.feeds[0], verdicts=frozenset({"halt"}))
    events = {**dialect.events, name: msgspec.structs.replace(event, feeds=(forged,))}

    with pytest.raises(InvalidDialectError, match="has other verdicts"):
        validate_dialect(msgspec.structs.replace(dialect, events=events))


def point(name: str, value: object) -> object:
    def load() -> object:
        if isinstance(value, Exception):
            raise value
        return value

    return SimpleNamespace(name=name, value=f"acme:{name}", load=load)


def test_entry_points_that_cannot_be_used_are_told_and_the_rest_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        point("good", MINE),
        point("object", build_dialect({**MINE, "name": "other"})),
        point("twice", MINE),
        point("broken", ImportError("no module")),
        point("number", 7),
        point("ours", find_dialect("beam")),
    ]
    monkeypatch.setattr(installed, "entry_points", lambda group: points if group == "hooklatch.dialects" else [])

    found, problems = load_entry_points()

    assert list(found) == ["mine", "other"]
    assert [problem.split("'")[1] for problem in problems] == ["twice", "broken", "number", "ours"]

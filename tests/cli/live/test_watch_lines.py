"""A line of `watch`: each announcement in words, and columns that fit."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from hooklatch.cli.live.watch import format_announcement, is_wanted, layout_for_width, list_titles
from hooklatch.record.storage.reading import Filters
from support.tables import table

DECISION = {
    "event": "pre_tool_use", "verdict": "deny", "cause": "policy", "reason": "no force pushes 雪 on this branch",
    "layer": "global", "hook": "git-rules:no_force_push", "duration_ms": 12.345,
    "outcomes": [{"layer": "global", "hook": "earlier"}],
}  # fmt: skip
DECIDED: dict[str, Any] = {
    "topic": "decisions", "at": "2026-01-31T12:00:00.000Z", "session_id": None, "host": "claude-code", "tool": "Bash",
    "decision": DECISION,
}  # fmt: skip
CHANGE = {"topic": "registry", "revision": 7, "added": ["a", "b"], "removed": [], "changed": ["c"]}


def operation(kind: str, **fields: Any) -> dict[str, Any]:
    return {"topic": "operations", "at": "2026-01-31T12:00:00.000Z", "kind": kind, **fields}


def text_of(announcement: dict[str, Any], width: int | None = None) -> list[str]:
    return ["".join(pieces) for pieces in format_announcement(announcement, layout_for_width(width))]


def test_elsewhere_than_at_a_terminal_nothing_is_cut() -> None:
    (line,) = text_of(DECIDED | {"session_id": "1f2e3d4c-0000-4000-8000-000000000000"})

    assert line.split(maxsplit=8)[1:] == [
        "1f2e3d4c-0000-4000-8000-000000000000", "pre_tool_use", "Bash", "deny", "global/git-rules:no_force_push",
        "policy", "12.3", "no force pushes 雪 on this branch",
    ]  # fmt: skip


@table("width", [20, 40, 79, 80, 100, 119, 120, 200])
def test_at_a_terminal_the_line_fits_and_stands_below_its_titles(width: int) -> None:
    lines, title = text_of(DECIDED, width), "".join(list_titles(layout_for_width(width)))
    line = lines[0]

    assert max(map(cell_len, lines)) <= width
    assert cell_len(title) <= width
    assert line.index("deny") == title.index("VERDICT")
    if width >= 80:
        assert line.index("Bash") == title.index("TOOL")
        assert line.index("claude") == title.index("SESSION")


@table("width", [40, 80, 120])
def test_a_reason_that_has_no_room_beside_the_rest_is_below_it(width: int) -> None:
    _, *below = text_of(DECIDED, width)

    assert " ".join(line.strip() for line in below) == DECISION["reason"]


def test_a_reason_without_end_takes_three_lines() -> None:
    _, *below = text_of({**DECIDED, "decision": {**DECISION, "reason": "word " * 10_000}}, 80)

    assert len(below) == 3
    assert below[-1].endswith("…")


def test_a_wide_terminal_has_room_for_the_reason_and_a_long_operation_is_wrapped() -> None:
    (line,) = text_of(DECIDED, 180)
    lines = text_of(operation("suspended", hook="global/a", until=1.0, reason="a word " * 20), 80)

    assert "no force pushes" in line
    assert max(map(len, lines)) <= 80
    assert all(line.startswith((" " * 21 + "a word", " " * 21 + "word")) for line in lines[1:])


@pytest.mark.parametrize(
    ("announcement", "text"),
    [
        (CHANGE, "hooks       revision 7: added a, b; changed c"),
        (
            {"topic": "registry", "resync": 9},
            "missed      changes of the hooks: this reader was too slow; now they are at 9",
        ),
        ({"topic": "decisions", "missed": 12}, "missed      12 of decisions: this reader was too slow"),
        (operation("suspended", hook="*", until=1.0, reason="fire"), "suspended   every hook until "),
        (operation("resumed", hook="global/a", why="by an operator"), "resumed     global/a: by an operator"),
        (operation("quarantined", hook="global/a", why="killed"), "quarantined global/a: killed"),
        (operation("fault", text="the disk is full"), "fault       the disk is full"),
        (operation("mended", text="the disk is full"), "mended      the disk is full"),
        (operation("invented", by="Ada", count=3), "invented    by Ada, count 3"),
    ],
)
def test_what_is_no_decision_is_a_word_and_its_facts(announcement: dict[str, Any], text: str) -> None:
    (line,) = text_of(announcement)

    assert line[9:].startswith(text)


def test_a_reload_has_a_line_for_each_thing_that_is_wrong() -> None:
    wrong = [{"file": "/x/hooks.toml", "line": 3, "message": "it has no id"}]
    reloaded = operation("reloaded", revision=8, added=[], removed=["a"], changed=[], diagnostics=wrong)

    first, second = text_of(reloaded)

    assert first[9:] == "reloaded    revision 8: removed a; 1 wrong"
    assert second[9:] == "wrong       /x/hooks.toml:3: it has no id"


@pytest.mark.parametrize(
    ("announcement", "filters", "expected"),
    [
        (DECIDED, Filters(verdict="deny", cause="policy", event="pre_tool_use", kind="decision"), True),
        (DECIDED, Filters(verdict="allow"), False),
        (DECIDED, Filters(hook="global/earlier"), True),  # called, though another one decided
        (DECIDED, Filters(hook="later"), False),
        (DECIDED | {"session_id": "s-1"}, Filters(session="s-1"), True),
        (DECIDED, Filters(session="s-1"), False),
        (CHANGE, Filters(kind="registry"), True),
        (CHANGE, Filters(verdict="deny"), False),
        (operation("suspended", hook="global/a"), Filters(hook="global/a"), True),
        (operation("suspended", hook="global/a"), Filters(kind="fault"), False),
        ({"topic": "decisions", "missed": 1}, Filters(verdict="deny"), True),  # they may have matched
    ],
)
def test_the_filters_are_those_of_the_record(announcement: dict[str, Any], filters: Filters, *, expected: bool) -> None:
    assert is_wanted(announcement, filters) is expected


def test_nothing_that_a_hook_says_can_command_the_terminal() -> None:
    (line,) = text_of(DECIDED | {"tool": "Ba\x1b[31msh", "decision": DECISION | {"reason": "a\nb\x9b2J"}})

    assert line.isprintable()

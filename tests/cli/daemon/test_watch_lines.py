"""A line of `watch`: each announcement in words, and columns that fit."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from hooklatch.cli.daemon.watch import is_wanted, list_announcement_lines
from hooklatch.record.storage.reading import Filters
from support.tables import table

DECISION = {
    "event": "pre_tool_use", "verdict": "deny", "cause": "policy", "reason": "no force pushes 雪 on this branch",
    "layer": "global", "hook": "git-rules:no_force_push", "duration_ms": 12.345, "decision_id": "d-1",
    "outcomes": [{"layer": "global", "hook": "earlier"}],
}  # fmt: skip
DECIDED: dict[str, Any] = {
    "topic": "decisions", "at": "2026-01-31T12:00:00.000Z", "session_id": None, "host": "claude-code", "tool": "Bash",
    "subject": "git push --force origin main", "decision": DECISION,
}  # fmt: skip
CHANGE = {"topic": "registry", "revision": 7, "added": ["a", "b"], "removed": [], "changed": ["c"]}


def operation(kind: str, **fields: Any) -> dict[str, Any]:
    return {"topic": "operations", "at": "2026-01-31T12:00:00.000Z", "kind": kind, **fields}


def text_of(announcement: dict[str, Any], width: int | None = None) -> list[str]:
    return ["".join(pieces) for pieces in list_announcement_lines(announcement, width)]


def test_elsewhere_than_at_a_terminal_nothing_is_cut() -> None:
    (line,) = text_of(DECIDED | {"session_id": "1f2e3d4c-0000-4000-8000-000000000000"})

    assert line == (
        "2026-01-31T12:00:00.000Z  deny   git push --force origin main  by git-rules:no_force_push:"
        " no force pushes 雪 on this branch  Bash  12.3 ms  d-1  1f2e3d4c-0000-4000-8000-000000000000"
    )


@table("width", [60, 79, 80, 100, 119, 120, 200])
def test_at_a_terminal_a_decision_is_one_line_that_fits_and_begins_with_what_was_judged(width: int) -> None:
    (line,) = text_of(DECIDED, width)

    assert cell_len(line) <= width
    assert line[24:].startswith("  deny   git push")
    assert ("git push --force origin main  by git-rules:no_force_push" in line) is (width >= 100)
    assert ("no force pushes 雪 on this branch  Bash  12.3 ms  d-1  claude-code" in line) is (width >= 200)


def test_a_wide_command_and_a_wide_reason_share_the_line() -> None:
    long = {**DECIDED, "subject": "echo 雪 " * 60, "decision": {**DECISION, "reason": "雪 word " * 1000}}

    (line,) = text_of(long, 120)

    assert cell_len(line) <= 120
    assert line.count("…") == 2
    assert "  by git-rules:no_force_push: 雪" in line


def test_another_event_than_that_before_a_tool_is_named() -> None:
    prompt = {**DECIDED, "subject": "delete all", "tool": None, "decision": {**DECISION, "event": "user_prompt_submit"}}

    (line,) = text_of(prompt, 120)

    assert "delete all  user_prompt_submit, by git-rules:no_force_push: no force" in line


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

    assert line.partition("  ")[2].startswith(text)


def test_a_reload_has_a_line_for_each_thing_that_is_wrong() -> None:
    wrong = [{"file": "/x/hooks.toml", "line": 3, "message": "it has no id"}]
    reloaded = operation("reloaded", revision=8, added=[], removed=["a"], changed=[], diagnostics=wrong)

    first, second = text_of(reloaded)

    assert first[26:] == "reloaded    revision 8: removed a; 1 wrong"
    assert second[26:] == "wrong       /x/hooks.toml:3: it has no id"


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
    (line,) = text_of(
        DECIDED | {"tool": "Ba\x1b[31msh", "subject": "\x1b[2J", "decision": DECISION | {"reason": "a\nb\x9b2J"}}
    )

    assert line.isprintable()

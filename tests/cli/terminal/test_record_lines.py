"""Records as lines: whose hook it was, by the name that commands accept."""

from __future__ import annotations

import pytest

from hooklatch.cli.terminal.records import format_record, list_record_details

NAMED = {"layer": "project", "hook": "no_rm", "name": "project:/srv/my app/no_rm"}


def test_a_hook_is_named_as_commands_know_it() -> None:
    failed = {"outcome": "failed", "cause": "crash", "message": "it died", **NAMED}
    record = {"seq": 1, "at": "", "kind": "decision", "verdict": "deny", "event": "stop", "outcomes": [failed], **NAMED}

    assert "by project:/srv/my app/no_rm" in format_record(record)
    assert dict(list_record_details(record)) == {
        "entry": "1",
        "event": "stop",
        "by": "no_rm",
        "layer": "project",
        "asked": "project:/srv/my app/no_rm failed (crash: it died), 0.0 ms",
        "see": "hooklatch hooks show 'project:/srv/my app/no_rm'",
    }


def test_a_record_that_names_no_hook_and_one_of_other_types_are_shown_all_the_same() -> None:
    assert " by " not in format_record({"seq": 1, "at": "", "kind": "decision", "verdict": "pass", "event": "stop"})
    odd = {"layer": 5, "hook": "no_rm", "name": []}
    assert "by no_rm" in format_record({"seq": 1, "at": "", "kind": "decision", "verdict": "deny", **odd})


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"hook": "*", "until": 0.0, "reason": "fire"}, "noted: hook *, until 1970-01-01T00:00:00.000Z, reason fire"),
        ({"previous": None, "added": ["a:b", "c d"], "removed": []}, "noted: added a:b 'c d'"),
        ({"previous": {"name": "x"}, "path": "/srv/x"}, 'noted: previous {"name":"x"}, path /srv/x'),
        ({}, "noted"),
    ],
)
def test_what_is_no_decision_is_told_in_words(record: dict[str, object], told: str) -> None:
    assert format_record({"seq": 1, "at": "now", "kind": "noted", **record}).partition("  ")[2] == told

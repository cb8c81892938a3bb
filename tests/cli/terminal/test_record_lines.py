"""Records as lines: whose hook it was, by the name that commands accept."""

from __future__ import annotations

from hooklatch.cli.terminal.record_lines import details_of, line_of

NAMED = {"layer": "project", "hook": "no_rm", "name": "project:/srv/my app/no_rm"}


def test_a_hook_is_named_as_commands_know_it() -> None:
    failed = {"outcome": "failed", "cause": "crash", "message": "it died", **NAMED}
    record = {"seq": 1, "at": "", "kind": "decision", "verdict": "deny", "event": "stop", "outcomes": [failed], **NAMED}

    assert "by project:/srv/my app/no_rm" in line_of(record)
    assert dict(details_of(record)) == {
        "asked": "project:/srv/my app/no_rm failed (crash: it died), 0.0 ms",
        "see": "hooklatch hooks show 'project:/srv/my app/no_rm'",
    }


def test_a_record_that_names_no_hook_and_one_of_other_types_are_shown_all_the_same() -> None:
    assert " by " not in line_of({"seq": 1, "at": "", "kind": "decision", "verdict": "pass", "event": "stop"})
    odd = {"layer": 5, "hook": "no_rm", "name": []}
    assert "by no_rm" in line_of({"seq": 1, "at": "", "kind": "decision", "verdict": "deny", **odd})

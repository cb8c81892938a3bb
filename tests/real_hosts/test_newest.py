"""Names of events in a program's strings, which `make hosts-newest` compares with the tables.  No program is run."""

from __future__ import annotations

from real_hosts.newest import list_around, list_names

KNOWN = {"PreToolUse", "PostToolUse", "SessionStart", "SessionEnd", "Stop", "Notification"}


def names(data: bytes) -> set[str]:
    return {name for text in list_around(data, KNOWN) for name in list_names(text, KNOWN)} - KNOWN


def test_a_name_in_a_list_of_events_is_found_quoted_or_in_a_row() -> None:
    quoted = (
        b"x=['Other','Thing'];" + b'E=["PreToolUse","PostToolUse","TodoCreated","SessionStart","Stop"];f("Another")'
    )
    in_a_row = b"..PreToolUsePermissionRequestPostToolUsePreModelRequestSessionStartStopSessionEnd.."

    assert names(quoted) == {"TodoCreated"}
    assert names(in_a_row) == {"PermissionRequest", "PreModelRequest"}


def test_a_text_that_only_speaks_of_events_has_none() -> None:
    assert names(b'"PreToolUse" and "PostToolUse" hooks, with a "Matcher"') == set()

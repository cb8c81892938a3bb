"""Which hooks a tool's kind selects, and what becomes of both when a hook changes the tool."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.snapshots import EventHooks, HookSelection
from hooklatch.core.payload import Payload
from hooklatch_worker import amend, deny
from hooklatch_worker.author.tools import KINDS, UnclearToolError, arguments, find_tool_kind_by_name
from support.plays import hook, play
from support.tables import table

SPEC = Catalogue.standard()["pre_tool_use"]
MATCHES: dict[str, object] = {
    "kind": "shell",
    "name": "Bash",
    "names": ["edit", "shell"],
    "regex": {"regex": "shell|[^B].*"},
    "glob": {"glob": "[!B]*"},
    "search": {"regex": "hel", "search": True},
    "all": None,
}


def chain() -> EventHooks:
    return EventHooks(SPEC, [hook(name, match=match) for name, match in MATCHES.items()])


def selected(payload: object, among: EventHooks | None = None) -> HookSelection:
    return (among or chain()).select(Payload(msgspec.json.encode(payload)))


def ids(selection: HookSelection) -> list[str]:
    return [one.id for one in selection.hooks]


@table(
    ("name", "kind", "expected"),
    [
        ("Bash", "shell", ["kind", "name", "names", "all"]),
        ("run_shell_command", "shell", ["kind", "names", "regex", "glob", "search", "all"]),
        ("Bash", "read", ["kind", "name", "names", "all"]),
        ("mine", "database", ["regex", "glob", "all"]),
        ("shell", "other", ["kind", "names", "regex", "glob", "search", "all"]),
        ("Edit", "edit", ["names", "regex", "glob", "all"]),
    ],
)
def test_a_name_is_compared_with_the_kind_and_a_pattern_is_not(name: str, kind: str, expected: list[str]) -> None:
    assert ids(selected({"tool_name": name, "tool_kind": kind})) == expected


@table(("name", "expected"), [("Bash", ["kind", "name", "names", "all"]), ("unknown", ["regex", "glob", "all"])])
def test_a_tool_that_is_known_has_its_kind_without_being_told(name: str, expected: list[str]) -> None:
    assert ids(selected({"tool_name": name})) == expected


def test_a_selection_is_kept_for_a_name_and_a_kind_together() -> None:
    one = chain()
    for _ in range(2):
        assert "kind" in ids(selected({"tool_name": "x", "tool_kind": "shell"}, one))
        assert "kind" not in ids(selected({"tool_name": "x", "tool_kind": "read"}, one))
        assert "kind" not in ids(selected({"tool_name": "x"}, one))
    assert selected({"tool_name": "x", "tool_kind": "read"}, one) is selected(
        {"tool_name": "x", "tool_kind": "read"}, one
    )


@table(
    "payload", [{"tool_name": "Bash", "tool_kind": 7}, {"tool_name": 7, "tool_kind": "shell"}, {"tool_kind": "shell"}]
)
def test_a_tool_whose_kind_or_name_cannot_be_read_is_matched_by_nothing(payload: dict[str, Any]) -> None:
    selection = selected(payload)

    assert selection.fault
    assert ids(selection) == ["all"]


def test_a_kind_means_nothing_where_no_tool_is_matched() -> None:
    spec = Catalogue.standard()["session_start"]
    one = EventHooks(spec, [hook("a", "session_start", match="shell")])

    assert ids(one.select(Payload(b'{"source":"startup","tool_kind":"shell"}'))) == []


def test_a_guard_of_a_kind_judges_what_a_rewrite_made_of_the_call() -> None:
    payload = {
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_kind": "shell",
        "tool_args": {"command": "ls"},
    }

    played = play(
        "pre_tool_use", payload=payload, marks={"a": {"amends": True}, "b": {"match": "shell"}},
        a=amend(tool_input={"command": "rm"}), b=deny("no"),
    )  # fmt: skip

    assert played.shown[-1]["tool_args"] == {"command": "rm"}
    assert played.decision.verdict == "deny"


def test_a_rewrite_that_nobody_can_judge_is_a_deny() -> None:
    payload = {
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_kind": "shell",
        "tool_args": {"command": "ls"},
    }

    played = play(
        "pre_tool_use", payload=payload, marks={"a": {"amends": True}},
        a=amend(tool_input={"command": "ls", "cmd": "rm"}),
    )  # fmt: skip

    assert played.decision.verdict == "deny"


# --- words for tools


def test_each_kind_is_one_that_the_page_names() -> None:
    assert {
        find_tool_kind_by_name(name) for name in ("Bash", "Read", "Write", "Edit", "Grep", "WebFetch", "Agent")
    } < KINDS
    assert (find_tool_kind_by_name("mcp__a__b"), find_tool_kind_by_name("what")) == ("mcp", "other")


@table(
    ("kind", "given", "expected"),
    [
        ("shell", {"command": ["ls", "a b"]}, {"command": "ls 'a b'"}),
        ("shell", {"cmd": "ls", "workdir": "/"}, {"command": "ls", "cwd": "/"}),
        ("read", {"file_path": "/f", "limit": 3}, {"path": "/f", "limit": 3}),
        ("read", {"file_path": "/f", "path": "/f"}, {"path": "/f"}),
        ("edit", {"filePath": "/f", "oldString": "a", "newString": "b"},
         {"path": "/f", "paths": ["/f"], "old": "a", "new": "b"}),
        ("edit", {"path": "/f", "patch": "*** Update File: /g"},
         {"paths": ["/f", "/g"], "patch": "*** Update File: /g"}),
        ("other", {"a": 1}, {"a": 1}),
        ("mcp", {"a": 1}, {"arguments": {"a": 1}}),
    ],
)  # fmt: skip
def test_arguments_have_canonical_keys(kind: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert arguments(kind, given) == expected


@table(
    ("kind", "given"),
    [
        ("shell", {}), ("shell", {"command": []}), ("shell", {"command": ["ls", 1]}), ("shell", {"command": None}),
        ("read", {"path": "/f", "file_path": "/g"}), ("write", {"path": "/f", "content": 1}),
        ("edit", {"command": "*** Begin Patch\n*** End Patch"}), ("fetch", {}), ("shell", {"command": 1, "cmd": True}),
    ],
)  # fmt: skip
def test_an_input_that_says_two_things_or_nothing_is_unclear(kind: str, given: dict[str, Any]) -> None:
    with pytest.raises(UnclearToolError):
        arguments(kind, given)


def test_what_no_table_has_is_of_the_kind_other_which_hooks_match() -> None:
    one = EventHooks(SPEC, [hook("mine", match="other")])

    assert ids(one.select(Payload(b'{"tool_name":"database"}'))) == ["mine"]
    assert ids(one.select(Payload(b'{"tool_name":"database","tool_kind":"other"}'))) == ["mine"]
    assert ids(one.select(Payload(b'{"tool_name":"database","tool_kind":"a kind of its own"}'))) == ["mine"]
    assert ids(one.select(Payload(b'{"tool_name":"fs-read","tool_kind":"mcp"}'))) == []
    assert ids(one.select(Payload(b'{"tool_name":"Bash","tool_kind":"shell"}'))) == []


@table(
    ("given", "command"),
    [
        ({"input": "echo x > .env{enter}"}, "echo x > .env\n"),
        ({"input": "a{Enter}b{ENTER}"}, "a\nb\n"),
        ({"chars": "echo x > .env\r"}, "echo x > .env\n"),
        ({"chars": "a\r\nb\n"}, "a\nb\n"),
        ({"chars": "\x03ls\n"}, "ls\n"),
        ({"input": "{ctrl+c}ls{enter}"}, "ls\n"),
        ({"input": "{down}{down}{enter}"}, "\n"),
        ({"chars": "\x1b[A\r"}, "\n"),
        ({"input": "{a,b}"}, "{a,b}"),
        ({"command": "echo {enter}"}, "echo {enter}"),
    ],
)
def test_keys_of_a_terminal_are_read_as_it_reads_them(given: dict[str, Any], command: str) -> None:
    assert arguments("shell", given) == {"command": command}


@table("text", ["rm -rf /x{backspace}", "cat .en{tab}{enter}", "rm -rf x{left}/{enter}", "ls\x7f", "ls \x1b[D/"])
def test_keys_that_change_what_is_typed_make_it_unclear(text: str) -> None:
    with pytest.raises(UnclearToolError, match="keys"):
        arguments("shell", {"input": text})

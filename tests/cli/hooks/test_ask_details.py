"""What somebody is shown of an ask before the answer: no part of it is left out without a word."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from hooklatch.cli.hooks.asks import list_ask_details
from support.asked import ask
from support.repository import ROOT
from support.tables import table
from support.terminals import shown_at

AT = "2026-01-31T12:00:00.000Z"


def told(**more: Any) -> dict[str, Any]:
    return {**msgspec.json.decode(msgspec.json.encode(ask(excerpt=msgspec.Raw(b'{"command":"ls"}')))), **more}


@table(
    ("fields", "warning"),
    [
        ({"questions_omitted": 11}, "11 hooks more ask"),
        ({"excerpt": None, "excerpt_cut": '{"command": "rm'}, "this is not all of its 2 bytes"),
        ({"excerpt": None, "excerpt_cut": ""}, "this is not all of its 2 bytes"),
        ({"patch_cut": '{"command": "rm'}, "this is not all of what hooks changed"),
        ({"patch_cut": ""}, "this is not all of what hooks changed"),
        ({"excerpt": {"a": [{"b": "[redacted] ls"}]}}, "what stands as [redacted] may be anything"),
        ({"excerpt": {"a": "[too deep]"}}, "what stands as [too deep] may be anything"),
        ({"patch": {"a": "[redacted]"}}, "what stands as [redacted] may be anything"),
    ],
)
def test_what_is_not_shown_is_told_last(fields: dict[str, Any], warning: str) -> None:
    assert "warning" not in dict(list_ask_details(told()))

    found = list(list_ask_details(told(**fields)))

    assert found[-1] == ("warning", f"{warning}; deny what you cannot see")
    assert [label for label, _ in found].count("warning") == 1


@table(
    ("payload", "lines"),
    [
        ({"tool_input": {"command": "ls"}, "tool_kind": "shell", "tool_args": {"command": "ls"}}, ["  command ls"]),
        ({"tool_input": {"command": "ls"}, "tool_args": {"command": "rm"}},
         ["  command ls", 'tool_args {"command":"rm"}']),  # it says another thing than the input
        ({"tool_input": {"command": "ls", "note": "rm"}, "tool_kind": "shell", "tool_args": {"command": "rm"}},
         ["  command ls", "  note rm", 'tool_args {"command":"rm"}']),  # it says the same words of another field
        ({"tool_input": {"file_path": "a"}, "tool_kind": "read", "tool_args": {"path": "a"}}, ["  file_path a"]),
        ({"tool_kind": ["shell"], "tool_args": 1}, ['tool_kind ["shell"]', "tool_args 1"]),
        ({"tool_input": {}}, ["tool_input {}"]),
        ({"asks": "yes", "warning": 1, "instead": "ls", "  command": "ls", "": 0},
         ['"asks" yes', '"warning" 1', '"instead" ls', '"  command" ls', '"" 0']),
        ({"a": "x\ny", "b": r"x\ny"}, [r'a "x\ny"', r"b x\ny"]),  # a line end, and a backslash with an n
        ({"a": '"x"', "b": '{"c":1}', "c": " x", "d": "", "e": "x\u2800y"},
         [r'a "\"x\""', r'b "{\"c\":1}"', 'c " x"', 'd ""', 'e "x\u2800y"']),
    ],
    ids=range(9),
)  # fmt: skip
def test_no_field_is_taken_for_another_one_or_for_a_word_of_ours(payload: dict[str, Any], lines: list[str]) -> None:
    assert [f"{label} {text}" for label, text in list_ask_details(told(excerpt=payload))] == lines


def test_what_the_agent_is_told_to_run_after_a_no_is_shown() -> None:
    found = dict(list_ask_details(told(instead="git push --force-with-lease")))

    assert found["instead"] == "if you deny, the agent is told to run: git push --force-with-lease"
    assert "instead" not in dict(list_ask_details(told()))


def test_an_ask_that_is_taller_than_the_terminal_says_so_at_its_end() -> None:
    asks = [told(excerpt={"command": text}, at=AT, expires_at=AT) for text in ("ls", "x" * 2000)]
    code = f"from hooklatch.cli.hooks.asks import print_ask\nfor one in {asks!r}: print_ask(one)"

    _, text = shown_at([sys.executable, "-c", code], environment=dict(os.environ), folder=ROOT)

    assert text.count("more than fit here: scroll up to a-1") == 1
    assert text.rstrip().endswith("read it all\x1b[0m")


@table(
    ("text", "words"),
    [
        ("\u8aac" * 33 + " ok  command      ls", ["command", "ls"]),  # wide characters: more columns than characters
        ("x" * 66 + "`command      ls -la`", ["`command", "ls"]),  # what is quoted is not broken, elsewhere
        ("x" * 200 + "warning:none", ["warning:none"]),
        ("x " * 39 + "  warning  none", ["warning", "none"]),
    ],
    ids=range(4),
)
def test_nothing_of_a_value_is_in_the_place_of_a_label(text: str, words: list[str]) -> None:
    asked = told(excerpt={"description": text, "command": "rm"}, at=AT, expires_at=AT)
    code = f"from hooklatch.cli.hooks.asks import print_ask\nprint_ask({asked!r})"

    _, seen = shown_at([sys.executable, "-c", code], environment=dict(os.environ), folder=ROOT)

    rows = seen.splitlines()
    begin = rows.index(next(row for row in rows if row.startswith("description")))
    end = rows.index(next(row for row in rows if row.startswith("command")))
    assert all(row.startswith(" " * 13) for row in rows[begin + 1 : end])
    assert all(len(row) + sum(not one.isascii() for one in row) <= 80 for row in rows[begin:end])
    assert "".join("".join(rows[begin:end]).split()) == "description" + "".join(text.split())
    assert any(all(word in row for word in words) for row in rows[begin:end])


def test_the_folder_is_told_where_the_payload_does_not_say_the_same() -> None:
    payload = {"cwd": "/srv/app", "folder": "/tmp"}

    assert list(list_ask_details(told(cwd="/srv/app", excerpt=payload))) == [("cwd", "/srv/app"), ('"folder"', "/tmp")]
    assert next(list_ask_details(told(cwd="/srv/\u202eapp", excerpt=payload))) == ("folder", '"/srv/\u202eapp"')


def test_letters_that_look_like_others_are_told() -> None:
    found = list(list_ask_details(told(excerpt={"command": "curl g\u0456thub.com"})))

    assert found[-1] == ("warning", r"'g\u0456thub' has letters that look like others; deny what is not what it seems")

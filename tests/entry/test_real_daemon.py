"""Each form of the entry with a real daemon and a real guard."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.commands import Place, new_place, serving
from support.entries import FORMS, run

pytestmark = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place() as place, serving(place):
        yield place


def document(name: str, **more: object) -> bytes:
    return json.dumps({"hook_event_name": name, "session_id": "s", "cwd": "/", **more}).encode()


def test_a_guard_refuses_in_the_hosts_own_words(form: str, place: Place) -> None:
    call = document("PreToolUse", tool_name="Bash", tool_input={"command": "rm -r x"})

    for host in ("claude-code", "codex"):
        code, stdout, stderr = run(form, str(place.runtime), call, host=host)
        said = json.loads(stdout)["hookSpecificOutput"]
        assert (code, stderr, said["permissionDecision"]) == (0, b"", "deny")
        assert said["permissionDecisionReason"].startswith("no rm here ☃")


def test_what_no_guard_minds_leaves_nothing(form: str, place: Place) -> None:
    call = document("PreToolUse", tool_name="Bash", tool_input={"command": "ls"})

    assert run(form, str(place.runtime), call) == (0, b"", b"")


def test_a_guard_that_fails_refuses(form: str, place: Place) -> None:
    call = document("PreToolUse", tool_name="Crash", tool_input={})

    stdout = run(form, str(place.runtime), call)[1]

    assert json.loads(stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_what_names_a_key_twice_is_refused(form: str, place: Place) -> None:
    call = b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_name":"Bash","tool_input":{}}'

    code, stdout, _ = run(form, str(place.runtime), call)

    assert code == 2 or json.loads(stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_text_that_holds_a_document_is_refused(form: str, place: Place) -> None:
    call = json.dumps(document("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}).decode()).encode()

    code, stdout, stderr = run(form, str(place.runtime), call)

    assert (code, stderr) == (0, b"")
    assert "it is not a JSON object" in json.loads(stdout)["hookSpecificOutput"]["permissionDecisionReason"]


@pytest.mark.parametrize(
    "call",
    [
        b'{}},"params":{"host":"claude-code","event":"Stop","document":{"hook_event_name":"Stop"}',
        b'{}},"method":"fire","params":{"event":"stop"',
    ],
)
def test_a_document_that_ends_early_is_refused_beside_a_variable_that_is_too_long(
    form: str, place: Place, call: bytes
) -> None:
    fires = fires_of(place, "stop")

    code, stdout, stderr = run(
        form, str(place.runtime), call, environ={"HOME": "/none", "CLAUDE_PROJECT_DIR": "/" * 5000}
    )

    assert (code, stdout) == (2, b"")
    assert b"occurs twice in one object" in stderr
    assert fires_of(place, "stop") == fires


def test_an_event_that_nobody_waits_for_reaches_the_daemon(form: str, place: Place) -> None:
    before = fires_of(place, "session_end")

    done = run(form, str(place.runtime), document("SessionEnd", reason="other"), event="SessionEnd", kind="notify")

    assert done == (0, b"", b"")
    assert fires_of(place, "session_end") == before + 1


def fires_of(place: Place, event: str) -> int:
    done = place.run("log", "--json")
    return sum(json.loads(line).get("event") == event for line in done.stdout.splitlines())

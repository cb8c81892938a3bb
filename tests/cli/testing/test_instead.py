"""A denial that names the command to run instead: at each command that shows it, on the wire, on record, and counted.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hooklatch import connect_sync, deny
from hooklatch.entry.commands import make_entry_command
from support.commands import Place, new_place, payload, serving

pytestmark = pytest.mark.slow

GUARDS = """
from hooklatch import ask, deny, hook

@hook("pre_tool_use", match="shell")
def pushes(event):
    if event.command.startswith("git push -f"):
        return deny("it overwrites", instead="git push --force-with-lease")
    if event.command.startswith("git push"):
        return None
    if event.command == "number":
        return deny("no", instead=5)
    if event.command == "long":
        return deny("no", instead="x" * 501)
    if event.command == "asked":
        return ask("sure?", instead="ls -l")
"""
SCRIPT = """
[[hook]]
id = "script"
event = "pre_tool_use"
command = '''if grep -q bad-shell; then echo '{"verdict": "deny", "reason": "no", "instead": ""}'; fi'''
output = "json"
"""
GENTLE = "git push --force-with-lease"
PUSH = "git push -f origin x"


@pytest.fixture
def guarded() -> Iterator[Place]:
    with new_place({"hooks.d/guards.py": GUARDS, "hooks.toml": SCRIPT}) as place, serving(place):
        yield place


def told_by_claude_code(place: Place, document: dict[str, Any]) -> str:
    """Return what the entry of Claude Code answers it."""
    words = make_entry_command("claude-code", "PreToolUse", "gate", 60, runtime_dir=str(place.runtime))
    return subprocess.run(words, input=json.dumps(document), capture_output=True, text=True, check=True).stdout


def test_it_is_shown_told_recorded_and_counted_when_it_is_taken(guarded: Place) -> None:
    watching = guarded.begin("watch", "--count", "1")
    watching.wait_for("watching")
    shown = guarded.run("try", PUSH).stdout
    fired = guarded.fire_tool("Bash", "--json", command=PUSH)
    claude = {
        "hook_event_name": "PreToolUse", "session_id": "of-claude", "cwd": str(guarded.folder), "tool_name": "Bash",
        "tool_input": {"command": PUSH},
    }  # fmt: skip
    told = told_by_claude_code(guarded, claude)
    passed = told_by_claude_code(guarded, {**claude, "tool_input": {"command": f" {GENTLE}\n"}})
    _, watched, _ = watching.end()
    listed = guarded.run("log", "--verdict", "deny").stdout
    whole = guarded.run("log", "--decision", json.loads(fired.stdout)["decision_id"]).stdout
    stats, table = guarded.json("stats"), guarded.run("stats").stdout

    assert f"instead {GENTLE}\n" in shown
    assert json.loads(fired.stdout)["instead"] == GENTLE
    assert json.loads(told)["hookSpecificOutput"]["permissionDecisionReason"].endswith(f"\nInstead, run: {GENTLE}")
    assert "deny" not in passed
    for text in (watched, listed, whole):
        assert f": it overwrites; instead: {GENTLE}" in text
    assert f"instead   {GENTLE}\n" in whole
    (guard,) = [one for one in stats["guards"] if one["name"] == "global/guards:pushes"]
    assert guard["instead"] == {"offered": 3, "taken": 1, "unknown": 1}  # one was made without a session
    assert "1 of 3 taken, 1 unknown" in table


@pytest.mark.parametrize(
    ("command", "cause", "text"),
    [
        ("number", "crash", "deny(instead=...) takes a str, not a 'int'"),
        ("long", "crash", "instead has 501 characters; write a command of 1 to 500"),
        ("bad-shell", "protocol", "$.instead"),
    ],
)
def test_one_that_cannot_be_run_is_told_its_author_and_is_still_a_denial(
    guarded: Place, command: str, cause: str, text: str
) -> None:
    done = guarded.run("fire", "pre_tool_use", "--payload", "-", "--json", stdin=payload("Bash", command=command))
    decision = json.loads(done.stdout)

    assert (decision["verdict"], decision["cause"], "instead" in decision) == ("deny", cause, False)
    assert text in decision["reason"]


def test_a_served_hook_has_one_which_the_record_compares_within_its_session(guarded: Place) -> None:
    def guard(event: Any) -> Any:
        return deny("no", instead="git push") if event.tool_input["command"] == "make release" else None

    path = str(guarded.runtime / "agent.sock")
    with connect_sync(path, hooks=[("pre_tool_use", guard, {"id": "served"})]) as session:
        refused = session.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "make release"})
        session.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "ls"})
        before = guarded.json("stats")
        session.fire("pre_tool_use", tool_name="Bash", tool_input={"command": "git push"})
        after = guarded.json("stats")

    assert refused.for_model == "no\nInstead, run: git push"
    for stats, taken in ((before, 0), (after, 1)):
        (counts,) = [one["instead"] for one in stats["guards"] if one["name"].endswith("/served")]
        assert counts == {"offered": 1, "taken": taken, "unknown": 0}


def test_an_ask_has_one_too(guarded: Place) -> None:
    done = guarded.fire_tool("Bash", command="asked")

    assert "ask" in done.stdout
    assert "ls -l" in done.stdout

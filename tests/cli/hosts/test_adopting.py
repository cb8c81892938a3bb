"""install --adopt: other hooks run in the daemon before the guards, do what they did, and come back to the byte.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hooklatch.cli.hosts.entries import find_entries
from hooklatch.cli.hosts.layouts import LAYOUTS
from support.commands import Place, new_place, serving
from support.tables import table

pytestmark = pytest.mark.slow

GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use")
def no_forbidden(event):
    if "FORBIDDEN" in str(event.tool_input):
        return deny("not that")
"""
GUARDS = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARD}
DOCUMENTS: Mapping[str, dict[str, Any]] = {
    "claude-code": {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t"},
    "codex": {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "turn_id": "t"},
    "gemini": {"session_id": "s", "hook_event_name": "BeforeTool", "tool_name": "run_shell_command"},
    "copilot": {"sessionId": "s", "toolName": "bash"},
}
FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".copilot/hooks/first.json",
}


def rewriting(name: str, command: str) -> dict[str, Any]:
    """Return the answer by which a hook of this host makes another command of any."""
    changed = {"command": command}
    match name:
        case "gemini":
            return {"decision": "allow", "hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": changed}}
        case "copilot":
            return {"permissionDecision": "allow", "modifiedArgs": changed}
        case _:
            specific = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": changed}
            return {"hookSpecificOutput": specific}


def settings(name: str, command: str) -> str:
    gate = LAYOUTS[name].gate
    if name == "copilot":
        return json.dumps({"version": 1, "hooks": {gate: [{"type": "command", "bash": command}]}}, indent=1)
    hooks = {gate: [{"matcher": ".*", "hooks": [{"type": "command", "command": command}]}]}
    return json.dumps({"model": "x", "hooks": hooks}, indent=3)


def ask(place: Place, name: str, command: str) -> str:
    """Send a call through our entry as it is installed, and return what the host gets."""
    layout = LAYOUTS[name]
    path = place.folder / layout.folder / layout.user
    entry = next(entry for entry in find_entries(path.read_text()) if entry.event == layout.gate)
    key = "toolArgs" if name == "copilot" else "tool_input"
    document = {**DOCUMENTS[name], "cwd": str(place.folder), key: {"command": command}}
    done = subprocess.run(
        ["/bin/sh", "-c", str(entry.handler[layout.command])], input=json.dumps(document), capture_output=True,
        text=True, check=False, cwd=place.folder, env=place.environment,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.fixture(params=["claude-code", "codex", "gemini", "copilot"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answering(place: Place, answer: object, more: str = "") -> str:
    (place.folder / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    return f"cat > {shlex.quote(str(place.folder / 'seen'))}; {more} cat {shlex.quote(str(place.folder / 'answer'))}"


def write(place: Place, name: str, command: str) -> Path:
    path = place.folder / FILES[name]
    path.parent.mkdir(parents=True)
    path.write_text(settings(name, command))
    return path


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place(GUARDS) as place, serving(place):
        yield place


def test_the_guards_judge_what_an_adopted_hook_has_made(name: str, place: Place) -> None:
    path = write(place, name, answering(place, rewriting(name, "touch FORBIDDEN")))
    before = path.read_bytes()
    adopted = place.run("install", name, "--adopt")
    assert adopted.returncode == 0, adopted.stderr

    said = ask(place, name, "touch HARMLESS")
    found = json.loads(place.run("doctor", "--json").stdout)["problems"]
    again = place.run("install", name)
    undone = place.run("uninstall", name)

    assert "not that" in said
    assert found == []
    assert "nothing was changed" in again.stdout
    assert undone.returncode == 0, undone.stderr
    assert path.read_bytes() == before
    assert list(place.folder.rglob("adopted_*")) == []
    assert place.fire_tool("Bash", command="true").returncode == 0


def test_what_an_adopted_hook_changes_runs_if_the_guards_let_it(name: str, place: Place) -> None:
    write(place, name, answering(place, rewriting(name, "touch OTHER")))
    place.run("install", name, "--adopt")

    assert "touch OTHER" in ask(place, name, "touch HARMLESS")

    key = "toolArgs" if name == "copilot" else "tool_input"
    seen = json.loads((place.folder / "seen").read_text())
    assert {**DOCUMENTS[name], "cwd": str(place.folder), key: {"command": "touch HARMLESS"}} == seen


@table(
    ("answer", "more", "is_refused"),
    [
        ("", "", False),
        ("a line of text\n", "", False),
        ("", "echo why >&2; exit 1;", False),
        ("", "echo why >&2; exit 2;", True),
        ("", "exec no-such-program-here", True),
        ('{"hookSpecificOutput": {"hookEventName', "", True),
        ('{"continue": false, "stopReason": "enough"}', "", True),
        ('{"systemMessage": "hello"}', "", False),
    ],
)
def test_an_adopted_hook_that_answers_otherwise_does_what_it_did(answer: str, more: str, is_refused: bool) -> None:
    with new_place(GUARDS) as place, serving(place):
        write(place, "claude-code", answering(place, answer, more))
        place.run("install", "claude-code", "--adopt")

        said = ask(place, "claude-code", "touch HARMLESS")

    assert ('"permissionDecision":"deny"' in said or '"continue":false' in said) == is_refused, said


def test_edits_made_since_stay_and_the_adopted_hook_comes_back(place: Place) -> None:
    path = write(place, "codex", answering(place, ""))
    before = json.loads(path.read_text())
    place.run("install", "codex", "--adopt")
    path.write_text(path.read_text().replace('"x"', '"y"'))

    place.run("uninstall", "codex")

    assert json.loads(path.read_text()) == {**before, "model": "y"}


def test_a_later_hook_is_adopted_beside_the_first(place: Place) -> None:
    path = write(place, "claude-code", answering(place, rewriting("claude-code", "touch OTHER")))
    project = place.folder / "work/.claude/settings.json"
    project.parent.mkdir(parents=True)
    before = path.read_bytes()
    place.run("install", "claude-code", "--adopt")
    project.write_text(settings("claude-code", "true"))

    adopted = place.run("install", "claude-code", "--adopt", folder=project.parents[1])
    ids = [hook["id"] for hook in place.json("hooks")["hooks"] if hook["amends"]]
    taken = json.loads(project.read_text())
    undone = place.run("uninstall", "claude-code")

    assert (adopted.returncode, undone.returncode) == (0, 0), adopted.stderr + undone.stderr
    assert len(ids) == 2
    assert taken["hooks"] == {"PreToolUse": []}
    assert project.read_text() == settings("claude-code", "true")
    assert path.read_bytes() == before


def test_nothing_is_taken_out_if_the_daemon_does_not_read_the_file(place: Place) -> None:
    path = write(place, "codex", answering(place, ""))
    before = path.read_bytes()

    done = place.run("install", "codex", "--adopt", "--config", str(place.folder / "elsewhere/hooks.toml"))

    assert done.returncode == 73
    assert "nothing was adopted" in done.stderr
    assert path.read_bytes() == before


def test_a_dry_run_adopts_nothing(place: Place) -> None:
    path = write(place, "gemini", answering(place, ""))
    before = path.read_bytes()

    said = place.run("install", "gemini", "--adopt", "--dry-run").stdout

    assert "adopted: " in said
    assert path.read_bytes() == before
    assert list(place.folder.rglob("adopted_*")) == []


def merged(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with one more hook."""
    more = {"matcher": "Bash", "hooks": [{"type": "command", "command": "rtk hook"}]}
    return {"hooks": {**settings["hooks"], "PreToolUse": [*settings["hooks"]["PreToolUse"], more]}}


def change(place: Place, path: Path) -> str:
    """Return what Claude Code gets when it tells of changed settings."""
    entry = next(entry for entry in find_entries(path.read_text()) if entry.event == "ConfigChange")
    document = {
        "session_id": "s",
        "hook_event_name": "ConfigChange",
        "source": "user_settings",
        "cwd": str(place.folder),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", str(entry.handler["command"])], input=json.dumps({**document, "file_path": str(path)}),
        capture_output=True, text=True, check=False, cwd=place.folder, env=place.environment,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_hook_that_arrives_later_is_refused_as_claude_code_tells_of_it(place: Place) -> None:
    path = place.folder / ".claude/settings.json"
    place.run("install", "claude-code", "--adopt")
    text = path.read_text()

    harmless = change(place, path)
    path.write_text(json.dumps(merged(json.loads(text))))
    refused = change(place, path)

    assert "block" not in harmless
    assert '"decision":"block"' in refused
    assert "rtk hook" in refused

"""doctor: a canary goes through every installed program's real settings, and what is dead is found.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.cli.hosts.layouts import LAYOUTS
from support.commands import Daemon, Place, list_own_problems, new_place, serving
from support.tables import table

pytestmark = pytest.mark.slow

NAMES = [name for name in LAYOUTS if name != "opencode" or shutil.which("node")]


@pytest.fixture(scope="module")
def installed() -> Iterator[Daemon]:
    with new_place() as place, serving(place) as daemon:
        for name in NAMES:
            assert place.run("install", name).returncode == 0
        yield daemon


@pytest.fixture(scope="module")
def few() -> Iterator[Daemon]:
    """Those with which one is damaged: a canary goes through each program at each look."""
    with new_place() as place, serving(place) as daemon:
        for name in ("claude-code", "gemini", "opencode"):
            if name in NAMES:
                assert place.run("install", name).returncode == 0
        yield daemon


def settings(place: Place, name: str) -> Path:
    return Path(LAYOUTS[name].file("user", {}, "/").replace(str(Path.home()), str(place.folder)))


def found(place: Place) -> dict[str, Any]:
    done = place.run("doctor", "--json")
    said: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if said["problems"] else 0)
    return said


def whats(found: dict[str, Any]) -> str:
    return "\n".join(one["what"] for one in found["problems"])


def test_a_canary_is_refused_by_the_daemon_in_every_program(installed: Daemon) -> None:
    said = found(installed.place)

    assert {one["host"]: (one["canary"], one["without_daemon"]) for one in said["hosts"]} == dict.fromkeys(
        NAMES, ("refused by the daemon", "refused")
    )
    assert list_own_problems(said) == []


def test_the_canary_is_no_fire_and_counts_nowhere(few: Daemon) -> None:
    before = few.place.json("status")["fired"]

    found(few.place)

    assert few.place.json("status")["fired"] == before


def test_a_person_reads_what_would_happen(few: Daemon) -> None:
    said = few.place.run("doctor").stdout

    assert (
        "Claude Code: a canary was refused by the daemon; if the daemon died now, a tool call would be refused" in said
    )


def test_hooks_that_no_installed_program_ever_reaches_are_named() -> None:
    hooks = '[[hook]]\nid = "late"\nevent = "subagent_start"\ncommand = "true"\n'
    with new_place({"hooks.toml": hooks}) as place, serving(place):
        place.run("install", "claude-code")
        hints = {one["what"]: one["do"] for one in found(place)["hints"]}

    assert (
        hints["subagent_start is never fired by Claude Code, and global/late waits for it"]
        == "these do: Cursor, the agent"
    )


def test_hooks_that_are_off_or_double_are_named() -> None:
    hook = '[[hook]]\nid = "{}"\nevent = "stop"\ncommand = "true"\nenabled = {}\n'
    text = hook.format("a", "true") + hook.format("b", "true") + hook.format("c", "false")
    with new_place({"hooks.toml": text}) as place, serving(place):
        hints = "\n".join(one["what"] for one in found(place)["hints"])

    assert "global/c is off" in hints
    assert "global/b does the same as global/a" in hints


def test_a_dead_daemon_is_a_problem_for_each_program() -> None:
    with new_place() as place:
        place.run("install", "claude-code")
        said = found(place)

    (host,) = said["hosts"]
    assert (host["canary"], host["without_daemon"]) == ("refused, but not by the daemon", "refused")
    assert "DEAD: every tool call is refused, since no daemon answers" in whats(said)


def test_a_call_that_only_claude_code_itself_blocks_did_not_go_through() -> None:
    with new_place() as place, serving(place):
        place.run("install", "claude-code", "--form", "python")
        path = settings(place, "claude-code")
        path.write_text(path.read_text().replace(sys.executable, "/gone/python"))
        said = found(place)

    (host,) = said["hosts"]
    assert host["canary"] == "refused, but only by Claude Code itself"
    assert host["without_daemon"] == "refused by Claude Code itself"
    assert "DEAD: every tool call is refused, by Claude Code itself (onFailure)" in whats(said)
    assert "went through" not in whats(said)


def test_entries_that_are_older_than_their_program_are_a_problem_where_it_has_another_way_to_run_commands() -> None:
    with new_place() as place, serving(place):
        path = place.folder / "programs" / "claude"
        path.parent.mkdir()
        place.environment["PATH"] = f"{path.parent}:{place.environment['PATH']}"
        said: dict[str, dict[str, Any]] = {}
        for version in ("2.1.330", "2.1.332"):
            path.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
            path.chmod(0o755)
            if not said:
                place.run("install", "claude-code")
            said[version] = found(place)

    hints = [one["what"] for one in said["2.1.330"]["hints"]]
    assert "PreSkillShellCommand" not in whats(said["2.1.330"])
    assert "Claude Code: its version is too old for PreSkillShellCommand: such calls are not guarded" in hints
    assert "has no entry for PreSkillShellCommand: such calls are not guarded" in whats(said["2.1.332"])


@table(
    ("damage", "what"),
    [
        (("--kind gate", "--kind notify"), "DEAD: a call that has to be refused went through"),
        (('"command": "', '"command": "true '), "DEAD: a call that has to be refused went through"),
        (("/entry", "/entry-gone"), "which is gone"),
        (('"PreToolUse"', '"Stop2"'), "has no entry for PreToolUse: tool calls are not guarded"),
        (('{\n  "hooks"', '{\n  "disableAllHooks": true,\n  "hooks"'), "disableAllHooks: none of its hooks runs"),
        (('{\n  "hooks"', '{ // mine\n  "hooks"'), "DEAD: Claude Code does not read a comment"),
        (("}\n}", "}\n"), "a file that cannot be read has no hooks"),
    ],
)
def test_a_damaged_installation_is_found(damage: tuple[str, str], what: str, few: Daemon) -> None:
    path = settings(few.place, "claude-code")
    text = path.read_text()
    path.write_text(text.replace(*damage))
    try:
        said = found(few.place)
    finally:
        path.write_text(text)

    assert what in whats(said)


LEFT = {"claude-code": '{"hooks": {', "gemini": "{}", "cursor": None, "kimi": ""}  # of the file of each


def test_programs_whose_entries_are_gone_are_not_passed_over() -> None:
    with new_place() as place, serving(place):
        paths = {name: settings(place, name) for name in LEFT}
        for name, left in LEFT.items():
            place.run("install", name)
            paths[name].unlink() if left is None else paths[name].write_text(left)

        before = found(place)
        for name in ("gemini", "cursor", "kimi"):
            uninstalled = place.run("uninstall", name)
            assert uninstalled.returncode == 0, uninstalled.stderr
        after = whats(found(place))

    for name, path in paths.items():
        text = f"DEAD: {path} has no entry any more, and one was installed there, so no guard is asked"
        assert text in whats(before)
        assert any(one["do"].startswith(f"hooklatch install {name}; or") for one in before["problems"])
        assert (text in after) is (name == "claude-code")


def test_an_entry_for_another_daemon_is_found(few: Daemon) -> None:
    path = settings(few.place, "gemini")
    text = path.read_text()
    path.write_text(text.replace(str(few.place.runtime), f"{few.place.runtime}2"))
    try:
        said = found(few.place)
    finally:
        path.write_text(text)

    assert "Gemini CLI: DEAD: every tool call is refused, since no daemon answers" in whats(said)


@pytest.mark.skipif(not shutil.which("node"), reason="OpenCode's plugin is tried in node")
def test_a_plugin_that_refuses_nothing_is_found(few: Daemon) -> None:
    path = settings(few.place, "opencode")
    text = path.read_text()
    path.write_text(text.replace('answer.verdict !== "pass"', "false").replace("if (code === 0)", "if (true)"))
    try:
        said = found(few.place)
    finally:
        path.write_text(text)

    assert "OpenCode: DEAD: a call that has to be refused went through" in whats(said)


@pytest.fixture
def guarded_project(place: Place) -> Iterator[Place]:
    with serving(place):
        assert place.run("install", "claude-code", "--project").returncode == 0
        yield place


@table(
    "line",
    [
        "touch ran; hooklatch/entry --kind gate --wait 1",
        "{entry}; touch ran",
        "{entry} $(touch ran)",
        "/bin/sh -c 'touch ran' hooklatch/entry --kind gate --wait 1",
    ],
)
def test_looking_at_a_project_does_not_run_what_it_holds(guarded_project: Place, line: str) -> None:
    place = guarded_project
    path = place.folder / ".claude/settings.local.json"
    before = path.read_text()
    settings = json.loads(before)
    handler = settings["hooks"]["PreToolUse"][0]["hooks"][0]
    handler["command"] = line.format(entry=handler["command"])
    path.write_text(json.dumps(settings))

    said = found(place)
    path.write_text(before)

    assert "starts something other than this installation's entry, so it was not tried" in whats(said)
    assert not list(place.folder.rglob("ran"))


def test_a_projects_entries_are_tried_too() -> None:
    with new_place() as place, serving(place):
        place.run("install", "gemini", "--project", "--start")
        (host,) = found(place)["hosts"]

    assert (host["file"], host["canary"]) == (str(place.folder / ".gemini/settings.json"), "refused by the daemon")


def test_entries_in_two_places_that_both_run_are_named() -> None:
    with new_place() as place, serving(place):
        (place.folder / "project").mkdir()
        for scope in ("--user", "--project"):
            done = place.run("install", "qwen", scope, folder=place.folder / "project")
            assert done.returncode == 0, done.stderr
        done = place.run("doctor", "--json", folder=place.folder / "project")
        hints = [one["what"] for one in json.loads(done.stdout)["hints"]]

    assert any("both have its entries, so each event asks twice" in hint for hint in hints)

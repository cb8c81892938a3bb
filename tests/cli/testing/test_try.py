"""try: what the guards say of a command, a path or a URL; and what `fire` takes of a person's first words.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.cli.testing.fire import GATE
from hooklatch.guards.catalogue import list_gallery, read_guard_source
from support.commands import Daemon, new_place, serving

pytestmark = pytest.mark.slow

GUARDS = """
from hooklatch import amend, deny, hook

@hook("pre_tool_use", match="shell")
def commands(event):
    if "rm" in event.command:
        return deny("no rm here; name what has to go \\x1b[2J")
    if event.command.startswith("git push"):
        return amend(tool_input={"command": "git push --dry-run"})

@hook("pre_tool_use", match="write")
def paths(event):
    return deny("not there") if event.path.startswith("/etc") else None

@hook("pre_tool_use", match="fetch")
def addresses(event):
    return deny("not that host") if "evil" in event.url else None
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Daemon]:
    with new_place({"hooks.d/guards.py": GUARDS}) as place, serving(place) as daemon:
        yield daemon


def test_no_guard_of_the_gallery_fails_where_one_tries_it() -> None:
    names = [guard.name for guard in list_gallery() if not guard.is_missing]
    with new_place({f"hooks.d/{name}.py": read_guard_source(name) for name in names}) as place, serving(place):
        loaded = {hook["id"].partition(":")[0] for hook in place.json("hooks")["hooks"] if hook["event"] == GATE}
        tried = [
            json.loads(place.run("try", *words, "--json").stdout)
            for words in (["git status"], ["--write", "notes.txt"], ["--fetch", "https://pypi.org/"])
        ]

    assert {"ceilings", "git_rules", "network_egress"} <= loaded
    assert [one for one in tried if one["cause"] not in (None, "policy", "unanswered")] == []


@pytest.mark.parametrize(
    ("words", "code", "lines"),
    [
        (["rm -rf ~"], 2, ["verdict deny", "guard   global/guards:commands", "reason  no rm here;"]),
        (["git push --force"], 0, ["verdict pass", "instead git push --dry-run", "asked   global/guards:commands"]),
        (["--write", "/etc/passwd"], 2, ["verdict deny", "guard   global/guards:paths", "reason  not there"]),
        (["--fetch", "https://evil.example"], 2, ["guard   global/guards:addresses"]),
        (["--fetch", "https://good.example"], 0, ["verdict pass"]),
    ],
)
def test_what_the_guards_say(guarded: Daemon, words: list[str], code: int, lines: list[str]) -> None:
    done = guarded.place.run("try", *words)

    assert done.returncode == code, done.stderr
    printed = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in lines:
        assert any(one.startswith(" ".join(line.split())) for one in printed), done.stdout
    assert "\x1b" not in done.stdout


def test_without_a_daemon_it_denies() -> None:
    with new_place({}) as place:
        done = place.run("try", "ls")

    assert (done.returncode, "no_daemon" in done.stdout) == (4, True), done.stdout


def test_json_may_stand_on_the_command_line(guarded: Daemon) -> None:
    payload = json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm x"}})

    assert guarded.place.run("fire", "pre_tool_use", "--payload", payload).returncode == 2
    broken = guarded.place.run("fire", "pre_tool_use", "--payload", payload[:-1])
    assert (broken.returncode, "--payload: not JSON" in broken.stderr) == (65, True), broken.stderr


@pytest.mark.parametrize("option", ["--host", "--dialect"])
def test_an_agents_own_document_is_fired(guarded: Daemon, option: str) -> None:
    payload = json.dumps({"tool_name": "Bash", "tool_input": {"command": "rm x"}})

    done = guarded.place.json("fire", "PreToolUse", option, "claude-code", "--payload", payload, code=2)
    other = guarded.place.run("fire", "Nothing", option, "claude-code", "--payload", payload)

    assert (done["event"], done["verdict"], done["hook"]) == ("pre_tool_use", "deny", "guards:commands")
    assert (other.returncode, "Claude Code has no event 'Nothing'; it has SessionStart" in other.stderr) == (64, True)


def test_an_agents_name_of_an_event_is_told_as_that_agents(guarded: Daemon) -> None:
    done = guarded.place.run("fire", "PreToolUse", "--payload", "{}")

    assert done.returncode == 64
    assert "there is no event 'PreToolUse'; Claude Code's PreToolUse is 'pre_tool_use' here" in done.stderr


def test_hooks_of_a_project_that_is_not_trusted_are_told(guarded: Daemon, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".hooklatch").mkdir(parents=True)
    (project / ".hooklatch" / "hooks.toml").touch()
    (project / "below").mkdir()

    untrusted = guarded.place.run("try", "ls", "--cwd", str(project / "below"))
    assert f"{project}/.hooklatch is not trusted, so its hooks were not asked" in untrusted.stderr
    assert guarded.place.run("trust", str(project)).returncode == 0
    assert guarded.place.run("try", "ls", "--cwd", str(project / "below")).stderr == ""


def test_an_unknown_option_is_named_and_not_its_value(guarded: Daemon) -> None:
    done = guarded.place.run("log", "--grep", "x")

    assert done.returncode == 64
    assert "there is no option '--grep'" in done.stderr


@pytest.mark.parametrize("short", ["commands", "guards:commands", "global/guards:commands"])
def test_a_short_name_is_enough(guarded: Daemon, short: str) -> None:
    run = guarded.place.run

    assert "global/guards:commands" in run("hooks", "show", short).stdout
    assert run("suspend", short, "--reason", "a test").stdout.startswith("suspended global/guards:commands")
    assert run("resume", short).returncode == 0
    assert run("hooks", "disable", short).returncode == 0
    assert run("hooks", "enable", short).returncode == 0


def test_a_short_name_of_several_lists_them(guarded: Daemon) -> None:
    done = guarded.place.run("suspend", "guards", "--reason", "a test")

    assert done.returncode == 64
    assert "global/guards:addresses, or global/guards:commands, or global/guards:paths" in done.stderr


def test_a_suspension_without_a_reason_says_what_to_type(guarded: Daemon) -> None:
    done = guarded.place.run("suspend", "commands")

    assert done.returncode == 64
    assert 'hooklatch suspend commands --reason "…"' in done.stderr


def test_a_new_guard_is_in_force_and_its_cases_pass(guarded: Daemon, tmp_path: Path) -> None:
    created = guarded.place.json("new", "guard", "stay-on", "--to", str(tmp_path / "guards"))
    again = guarded.place.run("new", "guard", "stay-on", "--to", str(tmp_path / "guards"))
    tested = guarded.place.run("guards", "test", "stay_on", "--in", str(tmp_path / "guards"))
    bad = guarded.place.run("new", "guard", "class")

    assert created["created"] == [
        str(tmp_path / "guards" / name) for name in ("policy-tests/stay_on.jsonl", "stay_on.py")
    ]
    assert (again.returncode, bad.returncode) == (73, 64)
    assert (tested.returncode, "2 passed" in tested.stdout) == (0, True), tested.stdout + tested.stderr


@pytest.mark.parametrize("event", ["pre_tool_use", "user_prompt_submit", "stop"])
def test_the_example_of_an_event_can_be_fired(guarded: Daemon, event: str) -> None:
    line = guarded.place.run("events", event).stdout.splitlines()[-1]

    done = guarded.place.run(*shlex.split(line)[1:])

    assert line.startswith(f"  hooklatch fire {event} --payload ")
    assert (done.returncode, done.stderr) == (0, "")

"""why --last, stats --session and status --line: what an agent's own commands show of its session.

Slow: the daemon and each command are processes of their own.
"""

from __future__ import annotations

import os
import sys

import pytest

from support.commands import Place, serving

pytestmark = pytest.mark.slow

AWAY = "hooklatch: no daemon; gates are refused\n"
HOSTILE = "rm -rf `touch pwned` $(touch pwned) !`touch pwned` @/etc/hostname \x1b[31m\n!`touch pwned`"
COMMANDS = (("why", "--last"), ("stats", "--session"), ("status", "--line"))
PROJECT_GUARD = """
from hooklatch import hook

@hook("pre_tool_use", match="Write")
def of_project(event):
    return None

@hook("post_tool_use_failure")
def no_guard(event):
    return None
"""


def test_a_session_shows_its_own_last_refusal_its_guards_and_one_line(place: Place) -> None:
    with serving(place):
        place.fire_tool("Bash", "--session", "s-1", command=HOSTILE)
        place.fire_tool("Bash", "--session", "s-1", command="ls")
        place.fire_tool("Crash", "--session", "s-2", session="s-1")
        why, stats, line = (place.run(*words, CLAUDE_CODE_SESSION_ID="s-1") for words in COMMANDS)
        crash, newest = place.run("why", "--last", "--session", "s-2"), place.run("why", "--last")
        nothing = [place.run(*words, CLAUDE_CODE_SESSION_ID="s-3") for words in COMMANDS]
        refusal, said = place.json("why", "--last", "--session", "s-1"), place.json("status", "--line")

    assert [done.returncode for done in (why, stats, line, crash, *nothing)] == [0] * 7
    rows = dict(row.split(maxsplit=1) for row in why.stdout.splitlines())
    assert rows["refused"] == HOSTILE.replace("\x1b", r"\x1b").replace("\n", r"\n").replace("@", r"\x40")
    assert (rows["tool"], rows["guard"]) == ("Bash", "global/guards:judge")
    assert rows["reason"].startswith("no rm here")
    assert rows["do"] == "Choose another way, or ask the person whose rule this is."
    assert stats.stdout.startswith("1 guard in session s-1\n2 decisions since ")
    assert "guards:judge  2      1 " in stats.stdout
    assert "@" not in why.stdout + stats.stdout
    assert line.stdout == "hooklatch: 1 guard, 1 refused\n"
    assert "hooklatch hooks show global/guards:judge has the traceback" in crash.stdout
    assert newest.stdout == crash.stdout, "without a session it is the newest in this folder"
    assert [done.stdout for done in nothing] == [
        "hooklatch refused nothing in this session\n",
        "1 guard in session s-3\n0 decisions\nnever called: global/guards:judge\n",
        "hooklatch: 1 guard, 0 refused\n",
    ]
    assert refusal["refusal"]["session"] == "s-1"
    assert said == {"line": "hooklatch: 1 guard, 1 refused"}


def test_a_trusted_project_has_its_guards_counted_in_its_folders_alone(place: Place) -> None:
    hooks = place.folder / "project/.hooklatch"
    inside = place.folder / "project/inside"
    hooks.mkdir(parents=True, mode=0o700)
    inside.mkdir()
    (hooks / "hooks.toml").write_text('[[source]]\npath = "own.py"\n')
    (hooks / "own.py").write_text(PROJECT_GUARD)
    with serving(place):
        trusted = place.run("trust", str(hooks.parent))
        lines = [
            place.shell(f"{sys.executable} -m hooklatch status --line", folder).stdout
            for folder in (inside, place.folder)
        ]

    assert trusted.returncode == 0, trusted.stderr
    assert lines == ["hooklatch: 2 guards, 0 refused\n", "hooklatch: 1 guard, 0 refused\n"]


def test_without_a_daemon_each_is_one_line_and_no_error(place: Place) -> None:
    done = [place.run(*words) for words in COMMANDS]

    assert [(one.returncode, one.stdout, one.stderr) for one in done] == [(0, AWAY, "")] * 3
    assert [place.run(*words, "--json").returncode for words in COMMANDS] == [69] * 3


def test_a_session_is_refused_where_it_would_mean_nothing(place: Place) -> None:
    done = [place.run(*words) for words in (("why", "--session", "x"), ("status", "--session", "x"))]

    assert [one.returncode for one in done] == [64, 64]
    assert os.listdir(place.folder) == ["config"]

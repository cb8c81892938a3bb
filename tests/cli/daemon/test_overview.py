"""`hooklatch` alone: six lines at most, what is wrong first, the next step, and 0.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import pytest

from support.commands import Place, new_place, serving

pytestmark = pytest.mark.slow


def lines_of(place: Place) -> list[str]:
    done = place.run()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 6
    return lines


def test_who_has_nothing_yet_is_sent_to_setup() -> None:
    with new_place({}) as place:
        lines = lines_of(place)

    assert lines[0] == "health      no daemon runs, and no agent asks it yet"
    assert lines[-1].startswith("next        hooklatch setup ")


def test_without_a_daemon_it_says_what_agents_meet_and_how_to_start_one(place: Place) -> None:
    place.run("install", "claude-code")

    lines = lines_of(place)

    assert lines[0] == "health      no daemon runs, so every tool call of theirs is refused"
    assert "agents      claude-code" in lines
    assert lines[-1].startswith("next        hooklatch serve --detach; at each login: hooklatch service install")


def test_what_is_wrong_comes_first_and_the_rest_is_counted(place: Place) -> None:
    place.write({f"hooks.d/{name}.py": "import nothing_of_that_name\n" for name in ("one", "two", "three")})
    with serving(place):
        lines = lines_of(place)
        status = place.run("status")
        data = place.run("--json").stdout

    assert lines[0] == "health      red"
    assert lines[1].startswith("wrong       ")
    assert "ModuleNotFoundError" in lines[1]
    assert lines[2].startswith("do          ")
    assert lines[3].endswith(" more: hooklatch status -v")
    assert lines[-1].startswith("next        do what is said above")
    assert (status.returncode, len(status.stdout.splitlines())) == (1, 6)
    assert '"health":"red"' in data


def test_a_daemon_that_no_agent_asks_is_sent_to_setup_and_else_to_watch() -> None:
    guard = "from hooklatch import hook\n@hook('pre_tool_use')\ndef f(event): ...\n"
    with new_place({"hooks.d/guard.py": guard}) as place, serving(place):
        alone = lines_of(place)
        place.run("install", "claude-code")
        asked = lines_of(place)

    assert alone[0] == asked[0] == "health      green"
    assert alone[-1].startswith("next        hooklatch setup ")
    assert asked[-1].startswith("next        hooklatch watch ")

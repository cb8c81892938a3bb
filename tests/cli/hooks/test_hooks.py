"""hooks and events: what they show, what they change, and how they refuse.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import pytest

from support.commands import Daemon, Place, payload

pytestmark = pytest.mark.slow


def test_the_table_shows_hooks_with_their_timings(shared: Daemon) -> None:
    shared.place.fire_tool("Crash")

    done = shared.place.run("hooks")

    title, row, last = done.stdout.splitlines()[:3]
    assert title.split()[:6] == ["LAYER", "ID", "EVENT", "#", "MATCH", "STATE"]
    assert row.split()[:6] == ["global", "guards:judge", "pre_tool_use", "1", "Ask|Bash|Crash|Halt|Slow", "active"]
    assert "crash 1" in row
    assert "guards.py:4 " in row
    assert "guards.py:judge" in row
    assert last.startswith("revision ")


def test_list_is_the_default_and_gives_json(shared: Daemon) -> None:
    listed, again = shared.place.json("hooks", "list"), shared.place.json("hooks")

    for (hook,) in (listed["hooks"], again["hooks"]):
        assert set(hook.pop("load")) == {"workers", "busy", "memory_bytes", "waiting", "in_flight"}  # of that moment
    assert listed == again
    assert [hook["id"] for hook in listed["hooks"]] == ["guards:judge"]


def test_a_filter_that_finds_nothing_says_so(shared: Daemon) -> None:
    assert shared.place.run("hooks", "--event", "stop").stdout.startswith("no hooks for stop\n")


def test_a_misspelt_filter_does_not_look_like_an_empty_list(shared: Daemon) -> None:
    done = shared.place.run("hooks", "list", "--event", "pre_tool_us")

    assert done.returncode == 64
    assert "did you mean 'pre_tool_use'?" in done.stderr


def test_a_session_that_is_not_there_is_named(shared: Daemon) -> None:
    done = shared.place.run("hooks", "--session", "nobody")

    assert done.returncode == 66
    assert "there is no live session 'nobody'" in done.stderr


def test_a_hook_is_added_listed_and_removed(shared: Daemon) -> None:
    place = shared.place
    place.write({"more.py": "def no(event):\n    return {'verdict': 'deny', 'reason': 'added'}\n"})

    added = place.json(
        "hooks", "add", "pre_compact", "--run", "config/more.py:no", "--match-regex", "manual|auto", "--priority", "7",
        "--timeout", "3", "--description", "text", "--observe", "--only-judges",
    )  # fmt: skip
    (hook,) = place.json("hooks", "--event", "pre_compact")["hooks"]
    table = place.run("hooks", "--event", "pre_compact")
    removed = place.run("hooks", "remove", "more:no")

    assert added["ids"] == ["more:no"]
    assert (hook["match"], hook["priority"], hook["timeout"], hook["observe"]) == ("regex manual|auto", 7, 3.0, True)
    assert hook["target"] == f"{place.config.parent}/more.py:no"
    assert hook["only_judges"]
    assert "active only_judges observe" in table.stdout
    assert removed.stdout.startswith("removed more:no (revision ")
    assert place.json("hooks", "--event", "pre_compact")["hooks"] == []


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--match", "a"], "a"),
        (["--match", "a", "--match", "b"], "a|b"),
        (["--match-glob", "m*"], "glob m*"),
        ([], "*"),
    ],
)
def test_each_kind_of_matcher_can_be_given(shared: Daemon, words: list[str], match: str) -> None:
    place = shared.place
    place.write({"other.py": "def no(event): ...\n"})

    place.json("hooks", "add", "pre_compact", "--run", "config/other.py:no", "--id", "mine", *words)

    (hook,) = place.json("hooks", "--event", "pre_compact")["hooks"]
    assert hook["match"] == match
    place.json("hooks", "remove", "mine")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["pre_compact", "--run", "nowhere.py:no"], 65, "nowhere.py"),
        (["pre_compact", "--run", "config/guards.py:nobody"], 65, "has no function 'nobody'"),
        (["pre_compac", "--run", "config/guards.py:judge", "--id", "x"], 64, "did you mean 'pre_compact'?"),
        (["pre_compact", "--run", "config/guards.py"], 64, "run is"),
        (["pre_compact", "--run", "config/guards.py:judge", "--match-regex", "(?=a)", "--id", "x"], 64, "RE2"),
        (["pre_compact", "--run", "config/guards.py:judge", "--timeout", "5000", "--id", "x"], 64, "not milliseconds"),
        (["pre_tool_use", "--run", "config/guards.py:judge"], 77, "is declared in"),
    ],
)
def test_a_hook_that_cannot_be_added_is_explained(shared: Daemon, words: list[str], code: int, text: str) -> None:
    done = shared.place.run("hooks", "add", *words)

    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_removing_what_is_not_there_is_no_error_but_said(shared: Daemon) -> None:
    done = shared.place.run("hooks", "remove", "guards:judg")

    assert done.returncode == 0
    assert "there was no hook 'guards:judg'; did you mean 'guards:judge'?" in done.stderr


def test_a_hook_of_a_file_is_removed_there(shared: Daemon) -> None:
    done = shared.place.run("hooks", "remove", "guards:judge")

    assert done.returncode == 77
    assert "hooklatch hooks disable global/guards:judge" in done.stderr


def test_a_disabled_hook_is_asked_no_more_until_it_is_enabled(shared: Daemon) -> None:
    place = shared.place

    place.write({"more.py": "def note(event): ..."})
    place.json("hooks", "add", "notification", "--run", "config/more.py:note")
    disabled = place.run("hooks", "disable", "guards:judge")
    passed = place.fire_tool("Bash", command="rm x")
    state, warned = place.json("hooks")["hooks"][0]["state"], place.json("status")["warned"]
    place.json("hooks", "enable", "guards:judge")
    place.json("hooks", "remove", "more:note")

    assert disabled.stdout.startswith("disabled guards:judge (revision ")
    assert passed.returncode == 0
    assert state == "disabled"
    assert [one["reason"] for one in warned] == ["hooks"], "every gate passes, and nobody says so"
    assert place.fire_tool("Bash", command="rm x").returncode == 2


def test_switching_a_hook_that_is_not_there_is_an_error(shared: Daemon) -> None:
    assert shared.place.run("hooks", "enable", "nobody").returncode == 66


def test_explain_says_who_would_fire_and_why_others_would_not(shared: Daemon) -> None:
    words = ("hooks", "explain", "pre_tool_use", "--payload", "-")

    matching = shared.place.run(*words, stdin=payload("Bash"))
    other = shared.place.run(*words, stdin=payload("Read"))
    blind = shared.place.json("hooks", "explain", "pre_tool_use")

    assert matching.stdout.startswith("1. global/guards:judge (match ")
    assert other.stdout.startswith("no hook would be asked about this pre_tool_use\nnot global/guards:judge")
    assert "denied (cause payload)" in blind["refusal"]


def test_explain_refuses_what_is_no_object(shared: Daemon) -> None:
    assert shared.place.run("hooks", "explain", "pre_tool_use", "--payload", "-", stdin="[]").returncode == 65


def test_explain_leads_a_command_to_try(shared: Daemon) -> None:
    done = shared.place.run("hooks", "explain", "rm -rf ~")

    assert done.returncode == 64
    assert "for what the guards say of a command: hooklatch try 'rm -rf ~'" in done.stderr


def test_the_catalogue_is_shown_whole_and_one_by_one(shared: Daemon) -> None:
    table = shared.place.run("events").stdout
    one = shared.place.run("events", "pre_tool_use").stdout
    data = shared.place.json("events", "pre_tool_use")

    assert table.splitlines()[0].split()[:3] == ["EVENT", "WHEN", "MODEL"]
    assert one.startswith("pre_tool_use: A tool is about to run")
    assert "  tool_name: str" in one
    assert data["live"] is True
    assert data["events"][0]["hooks"] == 1


def test_the_catalogue_is_known_without_a_daemon(place: Place, shared: Daemon) -> None:
    done = place.run("events", "--json")
    live = shared.place.json("events")["events"][0]
    standard = place.json("events")

    assert "the standard catalogue" in done.stderr
    assert standard["live"] is False
    assert standard["events"][0].keys() == live.keys()


def test_an_unknown_event_of_the_catalogue_is_misuse(place: Place) -> None:
    done = place.run("events", "pre_tool_us")

    assert done.returncode == 64
    assert "did you mean 'pre_tool_use'?" in done.stderr


@pytest.mark.parametrize(
    "words", [["hooks"], ["hooks", "disable", "x"], ["reload"], ["sessions"], ["status"], ["watch"]]
)
def test_without_a_daemon_commands_say_how_to_start_one(place: Place, words: list[str]) -> None:
    done = place.run(*words)

    assert done.returncode == 69
    assert "start one with: hooklatch serve --detach" in done.stderr
    assert done.stdout == ""

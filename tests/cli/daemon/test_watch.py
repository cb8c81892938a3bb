"""watch: a real command beside a real daemon.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import json
import re
import signal

import pytest

from support.commands import Daemon, Place, Started, serving
from support.screens import terminal

pytestmark = pytest.mark.slow


def watching(place: Place, *words: str) -> Started:
    watch = place.begin("watch", *words)
    watch.wait_for("watching")
    return watch


def test_watch_shows_decisions_changes_and_operations(shared: Daemon) -> None:
    place = shared.place
    watch, machine = watching(place, "--count", "4"), watching(place, "--json", "--count", "4")

    place.fire_tool("Bash", "--session", "s-1", command="rm x")
    place.run("hooks", "disable", "guards:judge")
    place.run("hooks", "enable", "guards:judge")
    place.run("suspend", "guards:judge", "--for", "5m", "--reason", "too strict")
    code, out, _ = watch.end()
    decided, _, changed, suspended = (json.loads(line) for line in machine.end()[1].splitlines())
    place.run("resume", "guards:judge")

    first, _, third, fourth = out.splitlines()
    assert code == 0
    assert first.split(maxsplit=1)[1].startswith(r"deny   rm x  by guards:judge: no rm here ☃ \x1b[31m  Bash  ")
    assert first.endswith("  s-1")
    assert re.match(r"\S+T\S+Z  hooks       revision \d+: changed guards:judge$", third)
    assert "suspended   global/guards:judge until " in fourth
    assert fourth.endswith(": too strict")
    assert (decided["topic"], decided["tool"], decided["decision"]["verdict"]) == ("decisions", "Bash", "deny")
    assert (changed["topic"], changed["changed"]) == ("registry", ["guards:judge"])
    assert (suspended["topic"], suspended["kind"]) == ("operations", "suspended")


def test_watch_shows_only_what_its_filters_choose(shared: Daemon) -> None:
    watch = watching(shared.place, "--verdict", "deny", "--hook", "guards:judge", "--count", "1")

    shared.place.fire_tool("Bash", command="ls")
    shared.place.fire_tool("Ask", command="ls")
    shared.place.fire_tool("Bash", command="rm x")
    _, out, _ = watch.end()

    assert len(out.splitlines()) == 1
    assert " deny " in out
    event = shared.place.run("watch", "--event", "pre_tool_usr")
    assert (event.returncode, "did you mean 'pre_tool_use'?" in event.stderr) == (64, True)


def test_at_a_terminal_a_line_begins_with_the_command_and_colours_say_what_is_good(shared: Daemon) -> None:
    with terminal(shared.place, "watch", TZ="Asia/Tokyo") as seen:
        seen.until_seen("watching")
        shared.place.fire_tool("Bash", "--session", "1f2e3d4c-0000-4000", command="rm x")
        shared.place.fire_tool("Crash", command="make")
        seen.until_seen(" JST  deny   rm x  by guards:judge: no rm", " JST  deny   ")
        seen.until_seen("cause crash")
        assert seen.colour_at("deny ") == "red"
        seen.press("\x03")

        assert seen.end() == 0


def test_watch_ends_quietly_on_ctrl_c(shared: Daemon) -> None:
    watch = watching(shared.place)

    watch.signal(signal.SIGINT)
    code, out, err = watch.end()

    assert (code, out) == (0, "")
    assert err.count("\n") == 1


def test_at_a_terminal_watch_goes_on_with_the_next_daemon(place: Place) -> None:
    with serving(place) as first, terminal(place, "watch") as seen:
        seen.until_seen("watching")
        first.stop()
        seen.until_seen("gone ")
        with serving(place):
            seen.until_seen("back ")
            place.fire_tool("Crash")
            seen.until_seen("cause crash")
            seen.press("\x03")

            assert seen.end() == 0


def test_watch_ends_after_a_number_of_lines_over_zero(place: Place) -> None:
    assert place.run("watch", "--count", "0").returncode == 64


def test_watch_says_that_the_daemon_is_gone(place: Place) -> None:
    with serving(place) as daemon:
        watch = watching(place)
        daemon.stop()
        code, _, err = watch.end()

    assert code == 69
    assert "the daemon hung up at" in err

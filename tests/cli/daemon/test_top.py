"""top and ui at a real pseudo-terminal beside a real daemon; and `top` once, for pipes.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import psutil
import pytest

from support.commands import Place, new_place, serving
from support.screens import Terminal, terminal

pytestmark = pytest.mark.slow

LEFT, CURSOR = b"\x1b[?1049l", b"\x1b[?25h"  # the first screen is back, and the cursor is shown
DOWN = "\x1b[B"


@pytest.fixture(scope="module")
def failing() -> Iterator[Place]:
    """A daemon one of whose hooks has failed twice."""
    with new_place() as place:
        hooks = "".join(f'\n@hook("stop", id="other-{number:02}")\ndef f{number}(event): ...\n' for number in range(30))
        place.write({"more.py": f"from hooklatch import hook\n{hooks}"})
        place.config.write_text(place.config.read_text() + '\n[[source]]\npath = "more.py"\n')
        with serving(place):
            for _ in range(2):
                place.fire_tool("Crash")
            yield place


def is_put_back(seen: Terminal) -> bool:
    after = seen.written.rpartition(LEFT)[2]
    return seen.attributes == seen.before and LEFT in seen.written and CURSOR in after


def test_the_table_fits_80_columns_and_its_keys_work(failing: Place) -> None:
    with terminal(failing, "top", "--interval", "200ms") as seen:
        seen.until_seen("green", "31 hooks", "guards:judge", "crash 2", "q quit")
        above, tabs, heading = seen.lines[1:4]
        assert above == "warning  global/guards:judge failed in each of its last 2 calls (cause crash)"
        assert tabs == " 1 decisions  [2 hooks]  1-19 of 31"
        assert heading.split() == ["HOOK", "CALLS/S", "P50", "P99", "FAILURES", "BUSY", "MEM", "QUEUE", "STATEv"]
        assert (seen.colour_at("green"), seen.colour_at("crash 2")) == ("green", "red")
        assert seen.attributes != seen.before

        seen.until(lambda: re.search(r"guards:judge .* \d/\d +\d+M +0 +active", seen.text))  # the memory is known
        seen.press("?")
        seen.until_seen("sort by the next column")
        seen.press("?")
        seen.until_seen("STATEv")
        seen.press("ooo")
        seen.until_seen("P99v")
        seen.press("or")
        seen.until_seen("FAILURES^")
        seen.press("r" + DOWN)
        seen.until_seen(">guards:judge")
        seen.press("\r")
        seen.until_seen("declared", "Traceback", 'raise ValueError("a bug of the guard")')
        seen.press("1")
        seen.press("q")

        assert seen.end() == 0
        assert is_put_back(seen)


def test_ui_shows_a_decision_and_leaves_the_terminal_as_it_was(place: Place) -> None:
    with serving(place), terminal(place, "ui", NO_COLOR="1") as seen:
        seen.until_seen("[1 decisions]", "no decision is on record")
        place.fire_tool("Bash", command="rm this")
        seen.until_seen("deny     Bash rm this")
        assert seen.colour_at("deny") == "default"
        seen.press("/")
        seen.until_seen("enter: to the rows")
        seen.press("sudo\r")
        seen.until_seen("filter: sudo", "nothing matches the filter")
        children = psutil.Process(seen.process.pid).children()
        seen.press("q")

        assert seen.end() == 0
        assert is_put_back(seen)
        assert children == []
        assert b"Traceback" not in seen.written.rpartition(LEFT)[2]


def test_it_is_drawn_anew_in_another_size(failing: Place) -> None:
    with terminal(failing, "top") as seen:
        seen.until_seen("31 hooks", "STATE")
        seen.resize(140, 40)
        seen.until(lambda: len(seen.lines) == 40 and "q quit" in seen.lines[-1])
        seen.until_seen("EVENT", "pre_tool_use")  # the rows of a table may be drawn after its head
        seen.resize(44, 12)
        seen.until(lambda: seen.text.strip() == "this terminal has 44x12; it needs 60x15")
        seen.resize(80, 24)
        seen.until_seen("31 hooks", "STATE", "q quit")
        seen.press("\x03")

        assert seen.end() == 0
        assert is_put_back(seen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(failing: Place, number: signal.Signals) -> None:
    with terminal(failing, "top") as seen:
        seen.until_seen("31 hooks")
        seen.process.send_signal(number)

        assert seen.end() == -number
        assert is_put_back(seen)


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(failing: Place) -> None:
    with terminal(failing, "top") as seen:
        seen.until_seen("31 hooks")
        seen.press("\x1a")
        os.waitid(os.P_PID, seen.process.pid, os.WSTOPPED)
        seen.until(lambda: LEFT in seen.written)
        assert is_put_back(seen)
        seen.process.send_signal(signal.SIGCONT)
        seen.until(lambda: seen.written.rfind(b"\x1b[?1049h") > seen.written.find(LEFT))
        seen.until_seen("31 hooks")
        seen.press("q")

        assert seen.end() == 0
        assert is_put_back(seen)


def test_the_editor_has_the_terminal_until_it_ends(failing: Place) -> None:
    editor = failing.folder / "editor"
    editor.write_text('#!/bin/sh\necho "editing $1"\nread line\nkill -INT 0\necho "got $line"\n')
    editor.chmod(0o755)
    with terminal(failing, "ui", EDITOR=str(editor)) as seen:
        seen.until_seen("Crash", "guards:judge (crash)")
        seen.press("e")
        seen.until(lambda: f"editing {failing.config.parent}/guards.py".encode() in seen.written)
        assert is_put_back(seen)
        seen.press("a line\n")
        seen.until_seen("guards.py: a saved file is loaded at once")
        seen.press("q")

        assert seen.end() == 0
        assert is_put_back(seen)


@pytest.mark.parametrize(("editor", "text"), [("", "EDITOR names no program"), ("/no/ed", "'/no/ed' cannot be start")])
def test_without_an_editor_a_line_says_so(failing: Place, editor: str, text: str) -> None:
    with terminal(failing, "top", EDITOR=editor) as seen:
        seen.until_seen("31 hooks")
        seen.press("e")
        seen.until_seen(text)
        seen.press("q")

        assert seen.end() == 0


def test_a_terminal_that_is_closed_ends_it(failing: Place) -> None:
    with terminal(failing, "top") as seen:
        seen.until_seen("31 hooks")
        seen.hang_up()

        assert seen.process.wait(30) == -signal.SIGHUP


def test_a_daemon_that_ends_is_told_and_the_next_one_is_found(place: Place) -> None:
    with serving(place) as daemon, terminal(place, "top", "--interval", "200ms") as seen:
        seen.until_seen("green", "guards:judge")
        daemon.stop()
        seen.until_seen("gone", "no daemon: ", "below is what was known last", "guards:judge")
        with serving(place):
            place.fire_tool("Crash")
            seen.until_seen("green", "crash 1")
            seen.press("q")

            assert seen.end() == 0
            assert is_put_back(seen)


def test_a_daemon_that_is_silent_holds_up_no_key(place: Place) -> None:
    with serving(place) as daemon, terminal(place, "top", "--interval", "100ms") as seen:
        seen.until_seen("green", "guards:judge")
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            seen.press("?")
            seen.until_seen("sort by the next column")
            seen.press("q")

            assert seen.end() == 0
            assert is_put_back(seen)
        finally:
            os.kill(daemon.pid, signal.SIGCONT)


def test_what_is_wrong_stands_above_with_what_to_do(place: Place) -> None:
    place.write({"hooks.d/broken.py": "def broken(:\n"})
    with serving(place), terminal(place, "top") as seen:
        seen.until_seen("red", "wrong", "broken.py:1", "do ", "fix it; a saved file is loaded at once")
        once = place.run("top", "--once", "--interval", "10ms")

    assert once.returncode == 0
    assert once.stdout.startswith("health      red\nwrong ")


def test_once_prints_a_table_and_json_for_programs(failing: Place) -> None:
    done = failing.run("top", "--interval", "10ms", "--sort", "failures")
    while True:  # until the memory of its workers has been looked at
        data = failing.json("top", "--once", "--interval", "10ms")
        judge = next(hook for hook in data["hooks"] if hook["name"] == "global/guards:judge")
        if judge["load"]["memory_bytes"] is not None:
            break
    none = failing.run("top", "--session", "nobody")

    first = done.stdout.splitlines()[2]
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert re.match(r"global/guards:judge +pre_tool_use +2 +0\.0 .*crash 2 .*active$", first)
    assert (data["health"], judge["calls"], judge["failures"]) == ("green", 2, {"crash": 2})
    assert judge["load"]["workers"] >= 1
    assert judge["load"]["memory_bytes"] > 2**20
    assert none.returncode == 66


def test_without_a_daemon_it_says_so_at_once(place: Place) -> None:
    with terminal(place, "top") as seen:
        assert seen.end() == 69
        assert b"\x1b[?1049h" not in seen.written
        assert seen.attributes == seen.before


def test_without_textual_the_table_is_printed_once_and_ui_says_what_to_install(failing: Place) -> None:
    absent = failing.folder / "absent"
    absent.mkdir()
    (absent / "textual.py").write_text('raise ModuleNotFoundError("No module named \'textual\'", name="textual")\n')
    with terminal(failing, "top", "--interval", "10ms", columns=120, PYTHONPATH=str(absent)) as seen:
        assert seen.end() == 0
        assert b"\x1b[?1049h" not in seen.written
        assert "this was printed once; to see it live: textual is not installed; it comes with:" in seen.text
        assert b"guards:judge" in seen.written
    with terminal(failing, "ui", columns=120, PYTHONPATH=str(absent)) as seen:
        assert seen.end() == 69
        assert "textual is not installed; it comes with:" in seen.text
        assert "hooklatch[ui]" in seen.text


def test_ui_without_a_terminal_names_what_there_is_instead(failing: Place) -> None:
    done = failing.run("ui")

    assert done.returncode == 64
    assert "hooklatch watch" in done.stderr

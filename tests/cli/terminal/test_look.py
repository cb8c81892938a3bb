"""Colours, wrapped lines and short paths: at a real terminal, and at a pipe nothing of them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hooklatch.cli.terminal import look, output
from support.commands import PROGRAM, Daemon, new_place, payload, serving
from support.tables import table
from support.terminals import shown_at

CODES = re.compile(r"\x1b\[[0-9;]*m")
GUARDS = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Crash")
def crash(event):
    raise ValueError("what the guard said")

@hook("pre_tool_use", match="Bash", description="a description that is long enough to be wrapped")
def judge(event):
    return deny("\\x1b[31mred\\x1b[0m and 漢字, for a reason of so many words that no terminal has them on one line")
"""
TALE = "it happened because of this and that; to end it: hooklatch resume --all, and then look again"


class Stream:
    def __init__(self, *, is_terminal: bool) -> None:
        self.isatty = lambda: is_terminal


@table(
    "is_terminal, variables, expected",
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),  # no-color.org: "when present and not an empty string"
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_who_gets_colours(is_terminal: bool, variables: Mapping[str, str], expected: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)

        assert look.has_colour(Stream(is_terminal=is_terminal)) is expected  # type: ignore[arg-type]


def test_what_is_painted_stays_text() -> None:
    painted = look.paint_text("red", "bad")

    assert f"{painted}!" == "red!"
    assert json.dumps(painted) == '"red"'


@table("width", range(20, 120))
def test_lines_are_broken_at_words_and_commands_stay_whole(width: int) -> None:
    pieces = [TALE[start:end] for start, end in output.find_line_spans(TALE, width, "")]

    assert " ".join(pieces) == TALE
    assert any("hooklatch resume --all" in piece for piece in pieces) or width < len("hooklatch resume --all")
    assert all(len(piece) <= width or piece == "hooklatch resume --all," for piece in pieces)


@table("text", ["a b `c " * 40_000, "hooklatch a " * 30_000, " " * 300_000, "x" * 300_000, "hooklatch a, " * 30_000])
def test_a_hook_with_a_million_words_does_not_hold_up_who_looks(text: str) -> None:
    spans = output.find_line_spans(
        text, 80, "    "
    )  # what grows with the square would take minutes, and end at the limit

    assert "".join(text[start:end] for start, end in spans).replace(" ", "") == text.replace(" ", "")


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    with (
        new_place({"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}) as place,
        serving(place) as daemon,
    ):
        for _ in range(5):
            place.fire_tool("Crash")
        yield daemon


def at_terminal(daemon: Daemon, *words: str, columns: int = 80, **more: str) -> str:
    place = daemon.place
    environment = {**place.environment, **more}
    return shown_at([*PROGRAM, *words], environment=environment, folder=place.folder, columns=columns)[1]


@pytest.mark.slow
@table(
    "command",
    ["status", "status -v", "", "hooks", "events", "sessions", "hooks show guards:crash", "doctor", "log", "--help"],
)
def test_every_line_fits_eighty_columns(served: Daemon, command: str) -> None:
    """Slow: each command is a process."""
    shown = at_terminal(served, *command.split())

    shown = re.sub(r"Traceback.*?Error", "", CODES.sub("", shown), flags=re.DOTALL)  # exact, so that it can be copied
    long = [line for line in shown.splitlines() if len(line) > 80]
    assert not [line for line in long if " " in line.strip()], "only what has no blank may be longer"


@pytest.mark.slow
def test_a_terminal_gets_colours_and_short_paths_and_a_pipe_neither(served: Daemon) -> None:
    """Slow: each command is a process."""
    home = served.place.environment["HOME"]

    shown, plain = at_terminal(served, "status", "-v"), served.place.run("status", "-v").stdout
    uncoloured = at_terminal(served, "status", NO_COLOR="1")
    forced = served.place.run("status", FORCE_COLOR="1").stdout

    assert "\x1b[1;31mred\x1b[0m" in shown
    assert "~/config/hooks.toml" in shown
    assert "\x1b" not in plain
    assert f"{home}/config/hooks.toml" in plain
    assert "\x1b" not in uncoloured
    assert "\x1b[1;31mred" in forced
    assert "\x1b" not in served.place.run("status", "--json", FORCE_COLOR="1").stdout


@pytest.mark.slow
def test_the_status_shows_the_last_words_of_what_failed(served: Daemon) -> None:
    """Slow: a command is a process."""
    shown = served.place.run("status", "-v").stdout

    assert "what the guard said" in shown
    assert 'raise ValueError("what the guard said")' in shown


@pytest.mark.slow
def test_a_narrow_table_says_which_columns_it_left_out(served: Daemon) -> None:
    """Slow: each command is a process."""
    narrow = CODES.sub("", at_terminal(served, "hooks")).splitlines()
    wide = CODES.sub("", at_terminal(served, "hooks", columns=300))

    assert narrow[0].startswith("ID ")
    assert "FAILURES" in narrow[0]
    assert any(line.startswith("no room for DESCRIPTION") for line in narrow)
    assert "no room" not in wide
    assert "DESCRIPTION" in wide


@pytest.mark.slow
def test_what_the_record_says_of_itself_has_a_line_each_at_a_terminal(served: Daemon) -> None:
    shown = [line for line in CODES.sub("", at_terminal(served, "log")).splitlines() if " source: " in line]

    assert shown
    assert all(len(line) <= 80 and line.endswith("…") for line in shown)
    assert "--json has all" in served.place.run("log").stdout


def test_a_hooks_own_words_cannot_command_the_terminal(served: Daemon) -> None:
    """Slow: a command is a process."""
    (served.place.folder / "payload.json").write_text(payload("Bash", command="ls"))

    shown = at_terminal(served, "fire", "pre_tool_use", "--payload", "payload.json")

    assert "\x1b[31mred" not in shown
    assert r"\x1b[31mred" in shown
    assert "\x1b[1;31mdeny\x1b[0m" in shown


@pytest.mark.slow
def test_what_takes_over_a_second_says_so_and_then_is_gone(tmp_path: Path) -> None:
    """Slow: it waits for the second."""
    code = "import time\nfrom hooklatch.cli.terminal.look import Spinner\nwith Spinner('a long thing'):\n    {}\n"
    quick, slow = (
        shown_at([sys.executable, "-c", code.format(body)], environment={}, folder=tmp_path)[1]
        for body in ("pass", "import select; select.select([], [], [], 1.3)")
    )

    assert quick == ""
    assert "a long thing" in slow
    assert slow.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # the line is cleared, and the cursor is back

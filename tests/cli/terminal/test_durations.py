"""Every command parses durations alike."""

from __future__ import annotations

import argparse

import pytest

from hooklatch.cli.commands import build_command_line
from hooklatch.cli.terminal.parser import parse_duration
from hooklatch.core.text import format_duration
from support.tables import table

OPTIONS = {
    "fire": ["stop", "--timeout"],
    "health": ["--wait"],
    "suspend": ["x", "--reason", "r", "--for"],
    "log": ["--since"],
    "hooks": ["add", "stop", "--run", "a.py:f", "--timeout"],
}


@table(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("15 min", 900),
        ("2h", 7200),
        ("7d", 604800),
        ("10", 10),
        ("0.5", 0.5),
        ("1.5h", 5400),
    ],
)
def test_it_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@table("text", ["", "0", "0s", "-1", "1w", "m", "1h30", "inf", "nan", "1e9", "\u0661s\n", "9" * 400])
def test_it_does_not_read(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write it like 90s, 15m, 2h or 7d"):
        parse_duration(text)


@table("command", OPTIONS)
@table("text", ["90s", "15m", "2h", "7d"])
def test_every_command_takes_it(command: str, text: str) -> None:
    build_command_line().parse_args([command, *OPTIONS[command], text])


def test_what_is_shown_can_be_typed() -> None:
    for seconds in (5, 90, 600, 7200, 604800):
        assert parse_duration(format_duration(seconds)) <= seconds


@table(
    "seconds, text",
    [
        (0, "0 s"),
        (0.05, "50 ms"),
        (2.5, "2.5 s"),
        (90, "90 s"),
        (5400, "90 min"),
        (88200, "24.5 h"),
        (8553600, "99 d"),  # and not 8.5536e+06 s
    ],
)
def test_it_is_shown_in_a_unit_that_people_read(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text

"""Moments for people: local with their zone at a terminal, and as in the record elsewhere; one function for all."""

from __future__ import annotations

import re
import time

import pytest

from hooklatch.cli.terminal import look
from support.repository import ROOT
from support.tables import table

AT = "2026-01-31T12:00:00.250Z"


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, tokyo: None) -> None:
    monkeypatch.setattr(look, "is_terminal", lambda stream: True)


@pytest.mark.usefixtures("tokyo")
@table("at", [AT, 1769860800.25])
def test_in_a_pipe_a_moment_is_as_in_the_record(at: object) -> None:
    assert look.format_moment(at) == look.format_moment(at, is_brief=True) == AT


@pytest.mark.usefixtures("screen")
def test_at_a_terminal_it_is_local_with_its_zone_and_brief_without_todays_date() -> None:
    assert look.format_moment(AT) == "2026-01-31 21:00:00 JST"
    assert look.format_moment(AT, is_brief=True) == "01-31 21:00 JST"
    assert re.fullmatch(r"\d\d:\d\d:\d\d JST", look.format_moment(time.time(), is_brief=True))


@pytest.mark.usefixtures("screen")
@table("at", [None, "", "soon", "2026-01-31T12:00:00", float("nan"), 1e300])
def test_what_is_not_a_moment_stays_as_it_is(at: object) -> None:
    assert look.format_moment(at) == str(at)


def test_no_command_formats_moments_by_itself() -> None:
    own = re.compile(r"strftime|localtime|gmtime|%H:%M|fromtimestamp|\.astimezone\(")
    commands = sorted((ROOT / "supervisor/hooklatch/cli").rglob("*.py"))

    assert [path.name for path in commands if own.search(path.read_text())] == ["look.py"]

"""docs/reference/commands.md: it lists all commands and exit codes, and its examples run.

Slow: each command is a process of its own, and so is the daemon.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator

import pytest

from hooklatch.cli.commands import COMMANDS, build_command_line
from hooklatch.cli.terminal.parser import Parser
from support.commands import Daemon, new_place, serving
from support.repository import ROOT
from support.tables import table

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/reference/commands.md").read_text()
SECTIONS = {
    match[1]: match[2] for match in re.finditer(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
GENERAL = set(re.findall(r"^\| (\d+) \|", PAGE.partition("## `")[0], re.MULTILINE))
APART = (
    "serve",
    "restart",
    "dashboard",
    "stop",
    "watch",
    "listen",
    "join",
    "link",
    "replay",
    "record",
    "suggest",
)  # they begin or end a daemon, run until told to end, or need decisions that were kept: tests of their own run them


def examples() -> list[tuple[str, str]]:
    blocks = {name: re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for name, text in SECTIONS.items()}
    return [(name, line) for name, found in blocks.items() for block in found for line in block.splitlines()]


def codes_of(name: str) -> set[str]:
    """Return the codes that a command's help lists, and those of the commands below it."""
    parser = parser_of(name)
    below = [one.declared() for one in parser.commands.values()]
    return {code for one in (parser, *below) for code in re.findall(r"^  (\d+) ", one.format_help(), re.MULTILINE)}


def parser_of(name: str) -> Parser:
    return build_command_line().declared().commands[name].declared()


def test_every_command_has_its_section() -> None:
    assert set(SECTIONS) == {name for rows in COMMANDS.values() for name, _, _ in rows}


@table("name", SECTIONS)
def test_the_exit_codes_are_those_of_the_help(name: str) -> None:
    listed = SECTIONS[name].rpartition("Exit codes:")[2]

    assert set(re.findall(r"\b\d+\b", listed)) | GENERAL == codes_of(name) | GENERAL


@table("name", SECTIONS)
def test_the_example_of_the_help_is_among_those_of_the_page(name: str) -> None:
    example = re.search(r"^example: (.*)$", parser_of(name).format_help(), re.MULTILINE)

    assert example is not None
    assert name in [section for section, _ in examples()]


@pytest.fixture(scope="module")
def initialised() -> Iterator[Daemon]:
    with new_place({}) as place:
        command = place.folder / "bin" / "hooklatch"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hooklatch "$@"\n')
        command.chmod(0o755)
        place.environment["PATH"] = f"{command.parent}:{place.environment['PATH']}"
        assert place.shell("hooklatch init", place.config.parent).returncode == 0
        with serving(place) as daemon:
            yield daemon


@pytest.mark.parametrize(("name", "line"), [pair for pair in examples() if pair[0] not in (*APART, "init")])
def test_an_example_runs(initialised: Daemon, name: str, line: str) -> None:
    place = initialised.place

    done = place.shell(line, place.config.parent)

    assert done.returncode == 0, done.stderr
    assert done.stdout or " > " in line  # then a file has it

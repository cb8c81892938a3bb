"""The overloads of `@hook`, and the operations of both clients, asked of both type checkers.

Slow: each start of a checker takes seconds.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch_worker.author.events import EVENT_CLASSES
from support.hook_stub import CAPABILITIES, STUB, legal, stub
from support.repository import ROOT

SAMPLE = Path(__file__).with_name("sample.py")

HEAD = """\
from typing import Literal
from hooklatch_worker import Verdict
from hooklatch_worker.author import events as e
from hooklatch_worker import hook
"""
HOOK = """\
@hook("{event}")
def f{number}(event: e.{event_class}) -> Verdict[Literal["{capability}"]] | None: return None
"""
MARKED = """\
@hook("{event}", amends=True)
def f{number}(event: e.{event_class}) -> None: return None
"""


class Refused(NamedTuple):
    """The lines that a checker refuses, by file, and what it says of those of the sample."""

    lines: Mapping[str, set[int]]
    texts: list[tuple[int, str]]


def ask_mypy(files: list[Path]) -> Iterator[tuple[str, int, str]]:
    matrix = files[-1]  # beside it, a cache of its own: it is a database, which another mypy of these tests may lock
    flags = ["--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(matrix.parent / "cache")]
    command = [sys.executable, "-m", "mypy", *flags, *map(str, files)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for path, line, text in re.findall(r"^([^:]*):(\d+): (?:error|note): (.*)", output, re.MULTILINE):
        yield Path(path).name, int(line), text


def ask_pyright(files: list[Path]) -> Iterator[tuple[str, int, str]]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, files)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for item in json.loads(output)["generalDiagnostics"]:
        if item["severity"] == "error":
            yield Path(item["file"]).name, item["range"]["start"]["line"] + 1, item["message"]


@pytest.fixture(scope="module", params=[ask_mypy, ask_pyright])
def refused(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Refused:
    """The lines that a checker refuses in the sample and in the matrix, asked for at once."""
    matrix = tmp_path_factory.mktemp("typing") / "matrix.py"
    matrix.write_text(HEAD + "".join(hooks()))
    lines: dict[str, set[int]] = {SAMPLE.name: set(), matrix.name: set()}
    texts: list[tuple[int, str]] = []
    for name, line, text in request.param([SAMPLE, matrix]):
        lines[name].add(line)
        if name == SAMPLE.name:
            texts.append((line, text))
    return Refused(lines, texts)


def cases() -> Iterator[tuple[str, str, bool]]:
    for name, spec in Catalogue.standard().items():
        for capability in CAPABILITIES:
            yield name, capability, capability in legal(spec)
        yield name, "amends", bool(spec.patch)


def hooks() -> Iterator[str]:
    for number, (event, capability, _) in enumerate(cases()):
        hook = MARKED if capability == "amends" else HOOK
        event_class = EVENT_CLASSES[event].__name__
        yield hook.format(event=event, number=number, event_class=event_class, capability=capability)


@pytest.mark.slow
def test_a_type_checker_refuses_exactly_the_marked_lines_of_the_sample(refused: Refused) -> None:
    lines = SAMPLE.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}

    # A checker may point at the decorator, one line above the function it refuses.
    assert {line if line in marked else line + 1 for line in refused.lines["sample.py"]} == marked


@pytest.mark.slow
def test_a_wrong_option_is_told_in_a_line_or_two(refused: Refused) -> None:
    lines = SAMPLE.read_text().splitlines()
    marked = [number for number, line in enumerate(lines, 1) if line.startswith("@hook") and line.endswith("# refused")]

    assert len(marked) == 3
    for number in marked:
        told = [text for line, text in refused.texts if line == number]
        assert len(told) == 1
        assert "WrongOption" in told[0]
        assert told[0].count("\n") <= 1
        assert len(told[0]) < 300


@pytest.mark.slow
def test_a_type_checker_refuses_exactly_what_the_catalogue_does_not_allow(refused: Refused) -> None:
    numbers = {(line - 1 - HEAD.count("\n")) // 2 for line in refused.lines["matrix.py"]}

    expected = {(event, capability) for event, capability, is_legal in cases() if not is_legal}
    assert {case[:2] for number, case in enumerate(cases()) if number in numbers} == expected


def test_the_stub_says_what_the_catalogue_says() -> None:
    assert STUB.read_text() == stub(), "run: python tests/support/hook_stub.py"

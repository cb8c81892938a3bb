"""The overloads of `@hook`, and the operations of both clients, asked of both type checkers.

Slow: each start of a checker takes seconds.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

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


def ask_mypy(files: list[Path]) -> Iterator[tuple[str, int]]:
    flags = ["--strict", "--no-error-summary", "--hide-error-context"]
    command = [sys.executable, "-m", "mypy", *flags, *map(str, files)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for path, line in re.findall(r"^([^:]*):(\d+): error:", output, re.MULTILINE):
        yield Path(path).name, int(line)


def ask_pyright(files: list[Path]) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, files)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for item in json.loads(output)["generalDiagnostics"]:
        if item["severity"] == "error":
            yield Path(item["file"]).name, item["range"]["start"]["line"] + 1


@pytest.fixture(scope="module", params=[ask_mypy, ask_pyright])
def refused(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[int]]:
    """The lines that a checker refuses in the sample and in the matrix, asked for at once."""
    matrix = tmp_path_factory.mktemp("typing") / "matrix.py"
    matrix.write_text(HEAD + "".join(hooks()))
    lines: dict[str, set[int]] = {SAMPLE.name: set(), matrix.name: set()}
    for name, line in request.param([SAMPLE, matrix]):
        lines[name].add(line)
    return lines


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
def test_a_type_checker_refuses_exactly_the_marked_lines_of_the_sample(refused: Mapping[str, set[int]]) -> None:
    lines = SAMPLE.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}

    # A checker may point at the decorator, one line above the function it refuses.
    assert {line if line in marked else line + 1 for line in refused["sample.py"]} == marked


@pytest.mark.slow
def test_a_type_checker_refuses_exactly_what_the_catalogue_does_not_allow(refused: Mapping[str, set[int]]) -> None:
    numbers = {(line - 1 - HEAD.count("\n")) // 2 for line in refused["matrix.py"]}

    expected = {(event, capability) for event, capability, is_legal in cases() if not is_legal}
    assert {case[:2] for number, case in enumerate(cases()) if number in numbers} == expected


def test_the_stub_says_what_the_catalogue_says() -> None:
    assert STUB.read_text() == stub(), "run: python tests/support/hook_stub.py"

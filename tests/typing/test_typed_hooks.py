"""The overloads of `@hook`, asked of both type checkers. Slow: each start of a checker takes seconds."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hooklatch.core.hooks.catalogue import Catalogue, EventSpec
from hooklatch_worker.author.events import EVENT_CLASSES
from support.repository import ROOT

SAMPLE = Path(__file__).with_name("sample.py")
CAPABILITIES = ["allow", "deny", "ask", "halt", "claim", "amend", "inject", "append", "resume", "last"]

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

Refusals = Callable[[Path], set[int]]


def ask_mypy(file: Path) -> set[int]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        str(file),
    ]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return {int(line) for line in re.findall(rf"^[^:]*{file.name}:(\d+): error:", output, re.MULTILINE)}


def ask_pyright(file: Path) -> set[int]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = json.loads(output)["generalDiagnostics"]
    return {item["range"]["start"]["line"] + 1 for item in found if item["severity"] == "error"}


@pytest.fixture(params=[ask_mypy, ask_pyright])
def refusals(request: pytest.FixtureRequest) -> Refusals:
    checker: Refusals = request.param
    return checker


def legal(spec: EventSpec) -> set[str]:
    extras = {"amend"} if spec.patch else set[str]()
    if spec.allows_last:
        extras.add("last")
    return {*spec.verdicts, *spec.outputs, *extras}


def cases() -> Iterator[tuple[str, str, bool]]:
    for name, spec in Catalogue.standard().items():
        for capability in CAPABILITIES:
            yield name, capability, capability in legal(spec)
        yield name, "amends", bool(spec.patch)


@pytest.mark.slow
def test_a_type_checker_refuses_exactly_the_marked_lines_of_the_sample(refusals: Refusals) -> None:
    lines = SAMPLE.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}

    refused = refusals(SAMPLE)

    # A checker may point at the decorator, one line above the function it refuses.
    assert {line if line in marked else line + 1 for line in refused} == marked


@pytest.mark.slow
def test_a_type_checker_refuses_exactly_what_the_catalogue_does_not_allow(refusals: Refusals, tmp_path: Path) -> None:
    file = tmp_path / "matrix.py"
    file.write_text(
        HEAD
        + "".join(
            (MARKED if capability == "amends" else HOOK).format(
                event=event, number=number, event_class=EVENT_CLASSES[event].__name__, capability=capability
            )
            for number, (event, capability, _) in enumerate(cases())
        )
    )

    refused = {(line - 1 - HEAD.count("\n")) // 2 for line in refusals(file)}

    expected = {(event, capability) for event, capability, is_legal in cases() if not is_legal}
    assert {case[:2] for number, case in enumerate(cases()) if number in refused} == expected

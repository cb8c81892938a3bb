"""README: its picture shows what a run of today says, and its comparison what was measured."""

from __future__ import annotations

import importlib.util
import re

import pytest

from docs.picture import PICTURE, draw, play
from support.repository import ROOT

README = (ROOT / "README.md").read_text()
# A row of README, and the row of docs/reference/hosts.md that it counts.
MEASURED = {
    "the hook raised": "raises an exception",
    "its process was killed": "is killed",
    "its deadline passed": "hangs",
    "its answer is not a decision": "answers with something that is not a decision",
    "it is not there": "is not there",
}


def cells(text: str, first: str) -> list[str]:
    row = re.search(rf"^\| {re.escape(first)} \| (.*) \|$", text, re.MULTILINE)
    assert row is not None, first
    return row[1].split(" | ")


def test_the_comparison_counts_what_was_measured() -> None:
    page = (ROOT / "docs" / "reference" / "hosts.md").read_text()
    page = page[page.index("| a guard that |") :]
    title = cells(page, "a guard that")
    for ours, theirs in MEASURED.items():
        alone = [
            cell.partition(" → ")[0]
            for name, cell in zip(title, cells(page, theirs), strict=True)
            if "onFailure" not in name
        ]
        assert cells(README, ours)[0] == f"{alone.count('ran')} of {len(alone)}", ours


def test_pypi_shows_it_without_what_it_cannot_reach() -> None:
    spec = importlib.util.spec_from_file_location("pypi_readme", ROOT / "packaging" / "pypi_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    alone, linked = module.for_pypi(README, None), module.for_pypi(README, "https://forge.example/hooklatch")
    assert "refusal.svg" not in alone
    assert "(https://forge.example/hooklatch/raw/HEAD/docs/pictures/refusal.svg)" in linked
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", alone + linked) == []


@pytest.mark.slow  # it starts a daemon and plays an agent
def test_the_picture_is_that_of_a_run() -> None:
    answers = play()

    assert [answer.reason is None for answer in answers] == [False, True, False, True]
    assert PICTURE.read_text() == draw(answers), "run: python tests/docs/picture.py"


def test_readme_shows_it_in_its_first_screen() -> None:
    assert any(str(PICTURE.relative_to(ROOT)) in line for line in README.splitlines()[:12])

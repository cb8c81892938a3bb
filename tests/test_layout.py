"""The shape of the tree: what a newcomer relies on when looking for a room."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from support.repository import ROOT
from support.tables import table

TOP = {
    ".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "bench",
    "clients", "docs", "examples", "packaging", "pyproject.toml", "supervisor", "tests", "typings", "workers",
}  # fmt: skip
MAX_LINES = 500


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def modules() -> list[Path]:
    return [
        path
        for path in tracked()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("supervisor", "workers")
    ]


def test_the_top_level_holds_what_it_should_and_nothing_else() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in tracked()} == TOP


def test_the_two_source_roots_are_no_packages_themselves() -> None:
    assert not (ROOT / "supervisor" / "__init__.py").exists()
    assert not (ROOT / "workers" / "__init__.py").exists()


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    long = [path.name for path in tracked() if path.suffix == ".py" and len(path.read_text().splitlines()) > MAX_LINES]

    assert long == []


@table("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_module_opens_with_what_it_is_for(path: Path) -> None:
    tree = ast.parse(path.read_text())

    assert not tree.body or ast.get_docstring(tree), "a module says in its first lines what it knows"


def test_every_part_of_the_package_is_typed() -> None:
    assert (ROOT / "supervisor" / "hooklatch" / "py.typed").exists()
    assert (ROOT / "workers" / "hooklatch_worker" / "py.typed").exists()


def test_the_quick_tests_are_there() -> None:
    named = (ROOT / ".ci" / "quick-tests").read_text().split()

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []

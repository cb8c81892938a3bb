"""The shape of the tree: what a newcomer relies on when looking for a room."""

from __future__ import annotations

import ast
import functools
import subprocess
from pathlib import Path

import yaml

from support.repository import ROOT
from support.tables import table

TOP = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "SECURITY.md", "action.yml",  # GitHub looks for an action there
    "bench", "clients", "docs", "examples", "packaging", "pyproject.toml", "supervisor", "tests", "typings", "workers",
}  # fmt: skip
MAX_LINES = 600  # of a file; half of that is read with more ease
MAX_FOLDERS = 48
MAX_MODULES = 24  # of a folder
SMALL, MAX_SMALL = 40, 40  # lines of a module that is hardly an idea of its own, and how many such there may be


@functools.cache
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


def test_public_ci_runs_what_a_person_runs_on_both_systems() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())["jobs"]["check"]
    matrix, last = job["strategy"]["matrix"], job["steps"][-1]

    assert matrix["python"] == ["3.11", "3.13"]
    assert matrix["system"] == [row["system"] for row in matrix["include"]]
    assert [row["command"] for row in matrix["include"]] == [".ci/run", "make check"]
    assert (job["runs-on"], last["run"]) == ("${{ matrix.system }}", "${{ matrix.command }}")
    assert (ROOT / ".ci/run").read_text().endswith("exec make check\n")


def test_the_two_source_roots_are_no_packages_themselves() -> None:
    assert not (ROOT / "supervisor" / "__init__.py").exists()
    assert not (ROOT / "workers" / "__init__.py").exists()


def test_no_file_is_too_long_to_hold_in_the_head() -> None:
    assert [path.name for path in tracked() if path.suffix == ".py" and lines_of(path) > MAX_LINES] == []


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def folders() -> dict[Path, list[Path]]:
    """Return the modules of each folder of the source, in which `__init__.py` only states what the folder is for."""
    found: dict[Path, list[Path]] = {}
    for path in modules():
        found.setdefault(path.parent, []).extend([path] if path.name != "__init__.py" else [])
    return found


def test_the_folders_are_few_enough_to_know() -> None:
    assert len(folders()) <= MAX_FOLDERS


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    assert {folder.name: len(held) for folder, held in folders().items() if len(held) > MAX_MODULES} == {}


def test_few_modules_are_too_small_for_an_idea() -> None:
    small = [path for held in folders().values() for path in held if lines_of(path) < SMALL]

    assert len(small) <= MAX_SMALL, sorted(str(path.relative_to(ROOT)) for path in small)


@table("folder", folders(), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_folder_says_in_one_line_what_it_is_for(folder: Path) -> None:
    if folder.name == "gallery":  # guards that are copied, not a package
        return
    stated = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""

    assert stated.partition("\n")[0].endswith("."), "the first line of __init__.py is a whole sentence"


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

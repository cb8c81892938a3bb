"""Links lead somewhere, headings of pages included, and each page is in the navigation; `make docs` asks once more."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.repository import ROOT
from support.tables import table
from test_layout import tracked

DOCS = ROOT / "docs"
WRITTEN = [path for path in tracked() if path.suffix == ".md" and "typings" not in path.parts]
CODE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$|(`+)(?!`).+?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if not re.match(r"(https?|mailto):", target):
            yield target


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the ids that a forge gives to the headings of a page."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(anchor if anchor not in found else f"{anchor}-{found.count(anchor)}")
    return frozenset(found)


def fault(page: Path, target: str) -> str | None:
    """Return what is wrong with a link."""
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists():
        return f"{target}: there is no such file"
    if anchor and anchor not in anchors(path):
        return f"{target}: no heading has this anchor"
    return None


@table("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [wrong for target in links(page) if (wrong := fault(page, target))] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `title`, here\n[x](#a-title-here) [y](#gone) [z](gone.md) `[code](gone.md)`\n")

    assert [fault(page, target) for target in links(page)] == [
        None, "#gone: no heading has this anchor", "gone.md: there is no such file",
    ]  # fmt: skip


def test_each_page_is_in_the_navigation() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*") if path.suffix in (".md", ".rst")}
    listed = re.findall(r"^- \[.*\]\((.*)\)$", (DOCS / "index.md").read_text(), re.MULTILINE)

    decisions = {page for page in pages if page.startswith("decisions/")} - {"decisions/index.md"}  # test_decisions.py
    assert sorted(listed) == sorted(pages - decisions - {"index.md"})


def test_readme_leads_into_the_repository_from_pypi_or_nowhere() -> None:
    for_pypi = runpy.run_path(str(ROOT / "packaging/pypi_readme.py"))["for_pypi"]
    text = "[a](docs/a.md#b) [c](https://example.org) [`[d] e`](d.md)"

    assert for_pypi(text, "https://forge.example/h/") == (
        "[a](https://forge.example/h/blob/HEAD/docs/a.md#b) [c](https://example.org) [`[d] e`](https://forge.example/h/blob/HEAD/d.md)"
    )
    assert for_pypi(text, None) == "a [c](https://example.org) `[d] e`"

"""Each page begins with its reader, and all of them together stay short enough to be read."""

from __future__ import annotations

import re
from pathlib import Path

from support.repository import ROOT
from support.tables import table

DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page != DOCS / "index.md" and page.parent.name != "decisions")
MOST_WORDS = 50_000  # outside the reference, the conformance page and the pages about other systems


@table("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_each_page_begins_with_whom_it_is_for(page: Path) -> None:
    assert re.match(r"# .+\n\nFor [a-z]", page.read_text())


def test_the_pages_are_short() -> None:
    read = [
        page
        for page in DOCS.rglob("*.md")
        if page.parent.name != "reference" and not re.match("conformance|coming-from-", page.name)
    ]

    assert sum(len(page.read_text().split()) for page in read) <= MOST_WORDS

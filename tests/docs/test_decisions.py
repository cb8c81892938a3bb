"""Each decision has its form and a row in the list, and one that was reversed names its heir."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from support.repository import ROOT
from support.tables import table

DECISIONS = ROOT / "docs" / "decisions"
RECORDS = sorted(path for path in DECISIONS.glob("*.md") if path.name != "index.md")
HEADINGS = ["Context", "Choices", "Decision", "Reasons", "Consequences"]
HEAD = re.compile(r"\A# (.+)\n\n- Status: (.+)\n- Date: (\S+)\n\n## ")
REVERSED = re.compile(r"reversed by \[[^\]]+\]\(([\w-]+\.md)\)")


def head_of(record: Path) -> tuple[str, str, str]:
    """Return a record's title, status and date."""
    found = HEAD.match(record.read_text())
    assert found is not None, f"{record.name} begins with a title, '- Status: …' and '- Date: …'"
    return found[1], found[2], found[3]


@table("record", RECORDS, ids=lambda record: record.name)
def test_each_record_has_the_form(record: Path) -> None:
    _, status, day = head_of(record)
    sections = re.split(r"^## (.+)\n", record.read_text(), flags=re.MULTILINE)[1:]

    assert sections[::2] == HEADINGS
    assert all(text.strip() for text in sections[1::2])
    assert len(re.findall(r"^\d+\. ", sections[3], re.MULTILINE)) >= 2, "a decision has a choice that was not taken"
    assert date.fromisoformat(day) >= date(2026, 11, 21), "the project's first day"
    if status != "accepted":
        heir = REVERSED.fullmatch(status)
        assert heir is not None, "a status is 'accepted' or 'reversed by [title](page)'"
        assert head_of(DECISIONS / heir[1])[2] >= day


def test_the_list_has_a_row_for_each_record_by_date() -> None:
    rows = re.findall(
        r"^\| (\S+) \| \[(.+)\]\((\S+)\) \| (\w+) \|$", (DECISIONS / "index.md").read_text(), re.MULTILINE
    )
    heads = {record.name: head_of(record) for record in RECORDS}

    assert sorted(rows) == rows, "by date, then by title"
    assert set(rows) == {(day, title, name, status.partition(" ")[0]) for name, (title, status, day) in heads.items()}
    assert len(rows) >= 10

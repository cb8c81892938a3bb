"""docs/guides/troubleshooting.md has an entry for each message, cause and word, and for none that is gone."""

from __future__ import annotations

import re
from typing import get_args

from docs.messages import GAP, findings, pieces
from hooklatch.core.health import WarningInputs
from hooklatch.core.messages import Cause, FindingReason
from hooklatch.entry.refusals import WORDS
from support.repository import ROOT

PAGE = (ROOT / "docs/guides/troubleshooting.md").read_text()
SECTIONS = {
    match[1]: match[2] for match in re.finditer(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def entries(section: str) -> list[str]:
    """Return what stands in the first column of a section's table."""
    return re.findall(r"^\| `([^`]+)` \|", SECTIONS[section], re.MULTILINE)


def test_each_cause_of_a_refusal_has_an_entry() -> None:
    assert sorted(entries("A tool call is refused, and should not be")) == sorted(get_args(Cause))


def test_each_red_word_has_an_entry() -> None:
    assert sorted(entries("Red")) == sorted(get_args(FindingReason))


def test_each_yellow_word_has_an_entry() -> None:
    assert sorted(entries("Yellow")) == sorted(WarningInputs.__struct_fields__)


def test_each_refusal_of_the_entry_has_an_entry() -> None:
    shown = [what.format(it="it", its="its") for what, _ in WORDS.values()]
    assert sorted(entries("An agent says that hooklatch refused something")) == sorted(shown)


def test_each_finding_of_doctor_has_an_entry() -> None:
    found = {re.sub(r"(: …| \(…\))+$", "", text) for text in findings() if pieces(text)}
    listed = {re.sub(r"(?<=through) …$", "", text) for text in entries("`doctor` finds something")}

    assert listed == {re.sub(r"(?<=through) …$", "", text) for text in found}


def test_what_became_of_a_daemon_is_said_so() -> None:
    files = ("cli/terminal/requests.py", "errors.py")
    source = "".join((ROOT / "supervisor/hooklatch" / name).read_text() for name in files)

    said = entries("No daemon listens")
    assert said
    assert [piece for text in said for piece in text.split(GAP) if piece not in source] == []

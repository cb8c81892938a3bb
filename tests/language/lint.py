"""Check the language of the repository, for `make lint`: `python tests/language/lint.py` ends with 1 on a finding.

The rules of prose are in rules.toml, those of names in names.py, and the words in docs/explanation/glossary.md.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from language.glossary import avoided_words, kept_names
from language.names import check_names
from language.texts import Passage, read_page, read_source, source_files
from support.repository import ROOT

# A sentence ends with a mark and a blank; a row of a table is a sentence without one.
SENTENCE = re.compile(r"[.!?:](?=[\s*_)\"]|$)")
MAX_SEMICOLONS = 0.12  # a sentence, over all pages; trio's pages have 0.03
GENERATED = {"conformance.md"}  # its texts are held where they are written


class Rule(NamedTuple):
    """One rule of prose: what to look for, in which kinds of text, and what to write."""

    name: str
    pattern: re.Pattern[str]
    instead: str
    where: frozenset[str]

    def findings(self, passage: Passage) -> Iterator[str]:
        """Yield a line for each place in a text that breaks the rule."""
        if self.where & passage.kinds:
            for match in self.pattern.finditer(passage.text):
                line = passage.line + passage.text.count("\n", 0, match.start())
                yield f"{passage.path.relative_to(ROOT)}:{line}: {match[0]!r} ({self.name}): {self.instead}"


def read_rules() -> list[Rule]:
    """Return the rules of prose."""
    rows = tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))["rule"]
    return [Rule(row["name"], re.compile(row["pattern"]), row["instead"], frozenset(row["where"])) for row in rows]


def read_pages() -> list[Passage]:
    """Return the prose of all pages."""
    top = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
    paths = [*top, *sorted((ROOT / "docs").rglob("*.md"))]
    return [read_page(path) for path in paths if path.name not in GENERATED]


def check_semicolons(pages: Iterable[Passage]) -> Iterator[str]:
    """Yield a finding if the pages have too many semicolons for their sentences."""
    counts = {page.path: (page.text.count(";"), len(SENTENCE.findall(page.text))) for page in pages}
    semicolons, sentences = (sum(column) for column in zip(*counts.values(), strict=True))
    if semicolons > MAX_SEMICOLONS * sentences:
        worst = max(counts, key=lambda path: counts[path][0] - MAX_SEMICOLONS * counts[path][1])
        yield f"docs: {semicolons} semicolons in {sentences} sentences; most are in {worst.relative_to(ROOT)}"


def main() -> int:
    """Print each finding; return 1 if there is one."""
    rules, pages = read_rules(), read_pages()
    trees = {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in source_files(ROOT)}
    passages = [*pages, *(passage for path, tree in trees.items() for passage in read_source(ROOT / path, tree))]
    findings = [finding for passage in passages for rule in rules for finding in rule.findings(passage)]
    findings += [*check_semicolons(pages), *check_names(trees, avoided_words(), kept_names())]
    sys.stdout.write("".join(f"{finding}\n" for finding in findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

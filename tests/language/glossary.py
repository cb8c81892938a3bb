"""Read the glossary: its terms, and the words that it has another term for."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["avoided_words", "glossary_terms", "kept_names"]

GLOSSARY = Path(__file__).resolve().parents[2] / "docs/explanation/glossary.md"
KEPT = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)
ROW = re.compile(r"^\| \*\*(?P<term>[^|*]+)\*\* \|(?P<meaning>[^|]*)\|(?P<avoided>[^|]*)\|", re.MULTILINE)


def glossary_terms() -> dict[str, str]:
    """Return the meaning of each term; two that share a row have the same."""
    return {
        term: row["meaning"].strip()
        for row in ROW.finditer(GLOSSARY.read_text(encoding="utf-8"))
        for term in re.split(r", ", row["term"])
    }


def avoided_words() -> dict[str, str]:
    """Return the words that the glossary has another term for, each with that term."""
    return {
        word: row["term"]
        for row in ROW.finditer(GLOSSARY.read_text(encoding="utf-8"))
        for word in re.findall(r"[a-z]+", row["avoided"])
    }


def kept_names() -> set[str]:
    """Return the names that stay although the glossary has another word."""
    return {name for row in KEPT.findall(GLOSSARY.read_text(encoding="utf-8")) for name in re.findall(r"\w+", row)}

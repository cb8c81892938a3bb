"""Each command that a page names is one, with the options that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hooklatch.cli.commands import build_command_line
from support.repository import ROOT
from support.tables import table
from test_docs import PAGES

ROOT_PARSER = build_command_line().declared()
SUPERVISOR = ROOT / "supervisor" / "hooklatch"
OFFERED = re.compile(r"hooklatch ([a-z-]+(?: (?:--)?[a-z][a-z-]*)*)")
NAMED = re.compile(r"`hooklatch ([a-z][^`]*)`")


def fault(words: Sequence[str]) -> str | None:
    """Return the first word that the command line does not know; what stands for a value is in capitals."""
    parser = ROOT_PARSER
    for word in words:
        if word == "--":
            return None  # another program's words
        if word.startswith("--"):
            known = {*parser._option_string_actions, *ROOT_PARSER._option_string_actions}
            if word.partition("=")[0] not in known:
                return word
        elif word in parser.commands:
            parser = parser.commands[word].declared()
        elif parser is ROOT_PARSER:
            return word
    return None


@table("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_commands_that_there_are(page: Path) -> None:
    named = [text.split() for text in NAMED.findall(page.read_text())]

    assert [f"{' '.join(words)}: {wrong}" for words in named if (wrong := fault(words))] == []


def texts_of(path: Path) -> Iterator[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@table("path", sorted(SUPERVISOR.rglob("*.py")), ids=lambda path: path.name)
def test_a_text_of_the_product_names_commands_that_there_are(path: Path) -> None:
    named = [words.split() for text in texts_of(path) for words in OFFERED.findall(text)]
    named = [words for words in named if words[0] in ROOT_PARSER.commands]

    assert [f"{' '.join(words)}: {wrong}" for words in named if (wrong := fault(words))] == []


@table("path", sorted(SUPERVISOR.rglob("*.py")), ids=lambda path: path.name)
def test_no_text_sends_a_person_to_a_page_that_an_installation_lacks(path: Path) -> None:
    texts = [text for text in texts_of(path) if not text.startswith(text.strip()) or "\n" not in text]

    assert [text for text in texts if re.search(r"see docs/|: docs/[a-z]+/", text)] == []


def test_a_command_that_there_is_not_is_found() -> None:
    assert fault(["hooks", "show", "--jsno"]) == "--jsno"
    assert fault(["hook", "show"]) == "hook"
    assert fault(["log", "-n", "5"]) is None

"""Read the prose of the repository: pages without their code, docstrings and comments, each with its place."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Passage", "read_page", "read_source", "source_files"]

FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.DOTALL)
LINK = re.compile(r"\]\([^)\s]*\)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Passage(NamedTuple):
    """A text, the kinds of text that it is for the rules, and where it begins."""

    text: str
    kinds: frozenset[str]
    path: Path
    line: int


def source_files(root: Path) -> list[Path]:
    """Return the product's modules."""
    return sorted(path for folder in ("supervisor", "workers") for path in (root / folder).rglob("*.py"))


def read_page(path: Path) -> Passage:
    """Return the prose of a page.  Code keeps its lines, so that places are right, and loses its text."""
    text = path.read_text(encoding="utf-8")
    for pattern in (FENCE, COMMENT, CODE, LINK):
        text = pattern.sub(lambda code: "\n" * code[0].count("\n") or "x", text)
    return Passage(text, frozenset({"docs"}), path, 1)


def read_source(path: Path, tree: ast.Module) -> Iterator[Passage]:
    """Yield the docstrings and the comments of a module, from its text and its tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                line = node.body[0].lineno
                yield Passage(CODE.sub("x", text), frozenset({"docstrings"}), path, line)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield Passage(text.partition("\n")[0], frozenset({"summaries"}), path, line)
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(CODE.sub("x", token.string.lstrip("# ")), frozenset({"comments"}), path, token.start[0])

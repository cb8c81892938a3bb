"""The messages that people see, read from the source: what docs/guides/troubleshooting.md has to have an entry for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.repository import ROOT

CLI = ROOT / "supervisor/hooklatch/cli"
FINDINGS = (CLI / "daemon/doctor.py", CLI / "hosts/checking.py")
MAKERS = ("Diagnosis", "add_finding")
GAP = "…"


def findings() -> list[str]:
    """Return what `doctor` may find, with a gap for each value."""
    return sorted({text for path in FINDINGS for text in of_module(path)})


def of_module(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if name in MAKERS:
                yield from texts(first)
            case ast.Assign(targets=[ast.Name(id="what")], value=value):
                yield from texts(value)


def texts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(next(texts(part), GAP) if isinstance(part, ast.Constant) else GAP for part in parts)
        case _:
            return


def pieces(text: str) -> list[str]:
    """Return the fixed words of a message."""
    return [piece.strip(" ,:;()") for piece in text.split(GAP) if len(piece.strip(" ,:;()")) > 3]

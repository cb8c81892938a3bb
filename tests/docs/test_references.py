"""The references of hooks.toml and of events are as the classes say; that for Python has all that is exported."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from docs import references
from support.repository import ROOT
from support.tables import table

API = re.findall(r"^\.\. automodule:: (\S+)$", (ROOT / "docs/reference/api.rst").read_text(), re.MULTILINE)


@table("path", references.pages(), ids=lambda path: path.name)
def test_the_page_is_current(path: Path) -> None:
    assert path.read_text() == references.pages()[path], "run: python tests/docs/references.py"


@table("name", API)
def test_what_is_exported_says_what_it_is(name: str) -> None:
    module = importlib.import_module(name)
    silent = [
        one for one in module.__all__
        if callable(found := getattr(module, one)) and not (inspect.getdoc(found) or "").strip()
    ]  # fmt: skip

    assert silent == [], "the page has only what has a docstring"


def test_all_that_authors_and_hosts_import_from_is_there() -> None:
    assert API == ["hooklatch", "hooklatch.testing", "hooklatch.guards"]

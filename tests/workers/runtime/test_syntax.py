"""What is read from the text of a file, without running it."""

from __future__ import annotations

from hooklatch_worker.runtime.syntax import list_imports, list_named_files
from support.tables import table

IMPORTS = {
    "import lib": ["lib"],
    "import a.b, c as d": ["a.b", "c"],
    "def f():\n    from lib import x": ["lib", "lib.x"],
    "from pkg import *": ["pkg"],
    "from . import x": ["pkg", "pkg.x"],
    "from .inner import x": ["pkg.inner", "pkg.inner.x"],
    "from ..above import x": [],
    "import importlib\nimportlib.import_module('lib')": ["importlib", "lib"],
    "lambda: import_module('.inner', __package__)": ["pkg.inner"],
    "__import__('lib')": ["lib"],
    "import_module('li' + 'b'); import_module(name); import_module()": [],
    "__all__ = ['rules']": ["pkg.rules"],
    "print('import lib')": [],
    "a syntax error": [],
}


@table("text", list(IMPORTS))
def test_every_import_that_is_written_out_is_found(text: str) -> None:
    assert sorted(list_imports(text.encode(), "pkg", is_package=True)) == IMPORTS[text]


NAMES = {
    '@hook("stop", files=["a.json", "b/c.json"])\ndef f(event): ...': ["a.json", "b/c.json"],
    'guard = marks("stop", files=("a.json",))': ["a.json"],
    '@hook("stop", files=NAMES)\ndef f(event): ...': [],
    '@hook("stop", files=["a" + ".json"])\ndef f(event): ...': [],
}


@table("text", list(NAMES))
def test_the_files_that_hooks_name_are_found(text: str) -> None:
    assert list_named_files(text.encode()) == NAMES[text]

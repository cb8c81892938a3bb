"""The text about a crash: the author's own line, a remedy, and a traceback that is safe to display."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch_worker.author.failures import MAX_TRACEBACK, AuthorFrames, explain_exception, format_error

HOOK = """\
import json
import helper
from acme import parse

def library(event):
    return json.loads("{")

def sibling(event):
    return helper.half(event)

def package(event):
    return parse.strictly(event)

def nothing():
    return None

def grouped(event):
    raise BaseExceptionGroup("of one", [ValueError("in the task")])
"""


def crash(function: Callable[..., object]) -> BaseException:
    try:
        function({})
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A file of hooks with a helper beside it, and a package that was installed below it."""
    packages = tmp_path / "venv" / "site-packages"
    (packages / "acme").mkdir(parents=True)
    (packages / "acme" / "parse.py").write_text("def strictly(event):\n    return event['no']\n")
    (tmp_path / "helper.py").write_text("def half(event):\n\n    return event['half']\n")
    for folder in (packages, tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    for name in ("helper", "acme", "acme.parse"):  # those of the test before
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = types.ModuleType("guard")
    module.__file__ = str(tmp_path / "guard.py")
    exec(compile(HOOK, module.__file__, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("library", "JSONDecodeError: .* \\(guard.py:6\\)$"),
        ("sibling", "KeyError: 'half' \\(helper.py:3\\)$"),
        ("package", "KeyError: 'no' \\(guard.py:12\\)$"),
        ("nothing", "TypeError: .* takes 0 positional arguments but 1 was given \\(guard.py:14\\)$"),
        ("grouped", "ValueError: in the task \\(guard.py:18\\)$"),
    ],
)
def test_a_crash_names_the_innermost_line_that_the_author_wrote(hook: types.ModuleType, name: str, told: str) -> None:
    function = vars(hook)[name]

    text = explain_exception(crash(function), AuthorFrames(hook.__file__ or ""), function, "trio")

    assert re.match(told, text), text


@pytest.mark.parametrize(
    ("error", "runtime", "remedy"),
    [
        (RuntimeError("no running event loop"), "trio", 'runtime = "asyncio"'),
        (TypeError("trio.run received unrecognized yield message <Future>"), "trio", 'runtime = "asyncio"'),
        (RuntimeError("must be called from async context"), "asyncio", 'runtime = "trio"'),
        (RuntimeError("no running event loop"), "asyncio", ""),
        (ValueError("no running event loop"), "trio", ""),
        (SystemExit(2), "trio", 'does not end the process: return deny("why"), or None'),
        (TypeError("exceptions must derive from BaseException"), "trio", "a verdict is returned, and not raised"),
    ],
)
def test_a_mistake_that_is_known_names_its_remedy(error: BaseException, runtime: str, remedy: str) -> None:
    told = explain_exception(error, AuthorFrames("/hooks/guard.py"), None, runtime)

    assert remedy in told
    assert remedy or told == f"{type(error).__name__}: {error}"


def test_a_traceback_is_bounded_and_can_be_printed_anywhere() -> None:
    long = ValueError("\x1b[31mred \udc80\r" + "x" * 30_000 + " the end")

    whole, shown = format_error(long, AuthorFrames("/hooks/guard.py"))

    assert "\x1b" in whole
    assert len(shown) == MAX_TRACEBACK
    assert "\\x1b[31mred \\udc80\\x0d" in shown
    assert shown.endswith("the end\n")
    assert json.loads(json.dumps(shown).encode()) == shown


def test_a_traceback_begins_at_the_authors_first_line(hook: types.ModuleType) -> None:
    author = AuthorFrames(hook.__file__ or "")

    library, _ = format_error(crash(vars(hook)["library"]), author)
    not_called, _ = format_error(crash(vars(hook)["nothing"]), author)

    assert re.findall(r'File "[^"]*?([\w.]+)", line', library)[0] == "guard.py"
    assert "json/decoder.py" in library
    assert "test_failures.py" not in library
    assert "test_failures.py" in not_called


def test_a_package_beside_others_is_its_own_file_alone() -> None:
    author = AuthorFrames("/usr/lib/python3/dist-packages/guard.py")

    assert author.wrote("/usr/lib/python3/dist-packages/guard.py")
    assert not author.wrote("/usr/lib/python3/dist-packages/requests/api.py")
    assert not AuthorFrames("acme").wrote("/usr/lib/python3/json/decoder.py")

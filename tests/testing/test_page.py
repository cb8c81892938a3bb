"""docs/guides/authoring.md and the plugin: in a pytest of its own its hooks pass its tests, and mypy accepts them.

Slow: pytest and mypy are processes of their own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "guides" / "authoring.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    for name, text in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return folder


MORE = """
import guards
from hooklatch.testing import assert_denies, event

TASK = event("pre_tool_use", tool_name="Task")

def test_a_worker_forgets(hooklatch_worker):
    assert [hooklatch_worker(guards).run(TASK).verdict for _ in range(3)] == ["pass", "pass", "deny"]

def test_and_begins_anew(hooklatch_worker):
    assert hooklatch_worker("guards.py").run(TASK).verdict == "pass"

def test_that_fails():
    assert_denies(guards.no_force_push, event("pre_tool_use", tool_input={"command": "ls"}))

def test_whose_hook_crashes(hooks):
    hooks.assert_denies(guards.no_force_push, event("pre_tool_use", tool_input={}))
"""


def test_the_tests_of_the_page_pass_and_others_fail_readably(folder: Path) -> None:
    (folder / "test_more.py").write_text(MORE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]

    with nobody_survives():
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert "2 failed, 6 passed" in done.stdout, done.stdout
    assert "AssertionError: no_force_push does not deny\n" in done.stdout
    assert "event    pre_tool_use: tool_name='Bash', tool_input={'command': 'ls'}" in done.stdout
    assert "KeyError: 'command' (guards.py:7)" in done.stdout
    assert "/hooklatch" not in done.stdout, "only the author's own lines are of use"


def test_the_hooks_of_the_page_are_typed(folder: Path) -> None:
    # With a cache of its own: it is a database, which another mypy of these tests may have locked.
    command = [
        sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), str(folder / "guards.py"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
